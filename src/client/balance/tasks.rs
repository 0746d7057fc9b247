//! [`start_checks`] and [`start_look_ups`]: the tasks of a balancer, which check hosts and look names up.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use super::check::Doubt;
use super::health::{HealthPolicy, HostChange};
use super::host_list::{BalancedName, HostList};
use super::member::Member;
use super::service::FoundHost;
use crate::client::host::Host;
use crate::descriptors::is_out_of_descriptors;
use crate::message::Response;
use crate::runtime::{self, Handle, Instant, sleep, sleep_until, timeout_at};

/// Starts the task that checks a host, unless it is running. Without a runtime, none can be started.
pub(super) fn start_checks(member: &Arc<Member>, health: &Arc<HealthPolicy>) {
    let Some(check) = &health.check else { return };
    member.checks.task.start(|| {
        let host = member.host.with_timeout(check.interval);
        keep_checking(Arc::downgrade(member), host, health.clone())
    });
}

/// Checks `member`, which is at `host`, for as long as it is there.
async fn keep_checking(member: Weak<Member>, host: Host, health: Arc<HealthPolicy>) {
    let Some(check) = &health.check else { return };
    let mut response = Response::new();
    let mut doubt = Doubt::default();
    loop {
        let began = runtime::now();
        // The member is not held meanwhile, or it would not be gone before the response has come.
        let outcome = check.run(&host, &mut response).await;
        let Some(member) = member.upgrade() else { return };
        if let Some(outcome) = outcome
            && doubt.note(check, member.is_up(), outcome.is_ok()).is_some()
        {
            member.set_up(&health, outcome.err());
        }
        drop(member);
        sleep_until(runtime::later(began, check.pause(doubt.is_any()))).await;
    }
}

/// Starts the tasks that look names up, unless they are running. Returns whether [`first_look_ups`] have to be waited for: there
/// is no host, and a name was never looked up.
pub(super) fn start_look_ups(hosts: &Arc<HostList>, health: &Arc<HealthPolicy>) -> bool {
    let names = hosts.names();
    for name in &*names {
        let look_up = || keep_looking_up(Arc::downgrade(name), Arc::downgrade(hosts), health.clone());
        name.look_up_task.start(look_up);
    }
    names.iter().any(|name| !name.is_looked_up()) && hosts.members().is_empty()
}

/// Looks up the names that never were, until there is a host, or until `deadline`. A request does not wait for the task of a
/// name, which may be in a runtime that nobody polls any more.
pub(super) async fn first_look_ups(hosts: &HostList, health: &HealthPolicy, deadline: Option<Instant>) {
    if Handle::current().is_none() {
        return;
    }
    let names = hosts.names().clone();
    let look_up = |name: &Arc<BalancedName>| {
        let name = name.clone();
        Box::pin(async move { apply(name.look_up().await, &name, hosts, health) })
    };
    let mut look_ups: Vec<_> = names.iter().filter(|name| !name.is_looked_up()).map(look_up).collect();
    let first_host = poll_fn(|cx| {
        look_ups.retain_mut(|look_up| look_up.as_mut().poll(cx).is_pending());
        let has_host = || !hosts.members().is_empty();
        if look_ups.is_empty() || has_host() { Poll::Ready(()) } else { Poll::Pending }
    });
    match deadline {
        Some(deadline) => drop(timeout_at(deadline, first_host).await),
        None => first_host.await,
    }
}

/// Looks a name up as often as its addresses or targets expire, for as long as it is there.
async fn keep_looking_up(name: Weak<BalancedName>, hosts: Weak<HostList>, health: Arc<HealthPolicy>) {
    loop {
        // Neither is held during a look-up, or it would not be gone before that has ended.
        let Some(look_up) = name.upgrade().map(|name| name.look_up()) else { return };
        let found = look_up.await;
        let Some((name, hosts)) = name.upgrade().zip(hosts.upgrade()) else { return };
        let pause = apply(found, &name, &hosts, &health);
        drop((name, hosts));
        sleep(pause).await;
    }
}

/// Replaces the hosts of `name` by those that were found, and keeps the last ones if there are none. Returns the time until the
/// next look-up.
fn apply(
    found: io::Result<(Vec<FoundHost>, Duration)>,
    name: &Arc<BalancedName>,
    hosts: &HostList,
    health: &HealthPolicy,
) -> Duration {
    let (pause, failure) = match found {
        Ok((found, ttl)) => {
            hosts.set_found(name, found, health);
            (ttl.max(PAUSE_MIN), None)
        }
        // The name has not failed.
        Err(error) if is_out_of_descriptors(&error) => (PAUSE_WITHOUT_DESCRIPTORS, Some(error)),
        Err(error) => (PAUSE_AFTER_FAILURE, Some(error)),
    };
    if name.note_look_up(failure) {
        health.report(&name.host, HostChange::Unresolved);
    }
    pause
}

/// The least time between two look-ups of a name, even if its answer is valid for less.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The time until a name is looked up again that could not be resolved.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The same for lack of descriptors.
const PAUSE_WITHOUT_DESCRIPTORS: Duration = Duration::from_millis(100);
