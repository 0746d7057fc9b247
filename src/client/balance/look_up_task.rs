//! [`look_up_names`]: the hosts of a balancer whose addresses are to be found.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::health::{HealthPolicy, HostChange};
use super::host_list::HostList;
use super::name::BalancedName;
use crate::runtime::{Handle, Instant, select, sleep, timeout_at};

/// Starts the tasks that look names up, unless they are running. A name that was never looked up is waited for, until
/// `deadline`: otherwise there would be no host. A request does not wait for the task of a name, which may be in a runtime that
/// nobody polls any more.
pub(super) async fn look_up_names(
    hosts: &Arc<HostList>,
    health: &Arc<HealthPolicy>,
    deadline: Option<Instant>,
) {
    if Handle::current().is_none() {
        return;
    }
    let names = hosts.names().clone();
    for name in &names {
        start_look_ups(name, hosts, health);
        if name.is_looked_up() {
            continue;
        }
        let first = look_up(name, hosts, health);
        match deadline {
            Some(deadline) => drop(timeout_at(deadline, first).await),
            None => drop(first.await),
        }
    }
}

/// Starts the task that looks a name up, unless it is running. Without a runtime, none can be started.
fn start_look_ups(name: &Arc<BalancedName>, hosts: &Arc<HostList>, health: &Arc<HealthPolicy>) {
    let mut task = name.task();
    if task.as_ref().is_some_and(|task| !task.is_closed()) {
        return;
    }
    let Some(handle) = Handle::current() else { return };
    let (sender, gone) = oneshot::channel();
    *task = Some(sender);
    handle.spawn(look_up_until(Arc::downgrade(name), Arc::downgrade(hosts), gone, health.clone()));
}

/// Looks a name up until it is `gone`, even if that is in the middle of a look-up.
async fn look_up_until(
    name: Weak<BalancedName>,
    hosts: Weak<HostList>,
    gone: oneshot::Receiver<Infallible>,
    health: Arc<HealthPolicy>,
) {
    let gone = async {
        // Nothing is ever sent; this is the end of the sender.
        let Err(_) = gone.await;
    };
    select(gone, keep_looking_up(name, hosts, &health)).await;
}

/// Looks a name up as often as its addresses expire, for as long as it is there.
async fn keep_looking_up(name: Weak<BalancedName>, hosts: Weak<HostList>, health: &HealthPolicy) {
    loop {
        // Neither is held during a look-up, or it would not be gone before that has ended.
        let Some(host) = name.upgrade().map(|name| name.host.clone()) else { return };
        let found = host.look_up().await;
        let Some((name, hosts)) = name.upgrade().zip(hosts.upgrade()) else { return };
        let pause = take(found, &name, &hosts, health);
        drop((name, hosts));
        sleep(pause).await;
    }
}

/// Looks a name up once.
async fn look_up(name: &Arc<BalancedName>, hosts: &HostList, health: &HealthPolicy) -> Duration {
    take(name.host.look_up().await, name, hosts, health)
}

/// Makes the addresses that were found hosts, and keeps the last ones if there are none. Returns the time until the next
/// look-up.
fn take(
    found: io::Result<(Arc<[IpAddr]>, Duration)>,
    name: &Arc<BalancedName>,
    hosts: &HostList,
    health: &HealthPolicy,
) -> Duration {
    if let Ok((addresses, _)) = &found {
        hosts.set_addresses(name, addresses, health);
    }
    if name.note_look_up(found.is_err()) {
        health.report(&name.host, HostChange::Unresolved);
    }
    found.map_or(PAUSE_AFTER_FAILURE, |(_, ttl)| ttl.max(PAUSE_MIN))
}

/// The least time between two look-ups of a name, even if its addresses are valid for less.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The time until a name is looked up again that could not be resolved.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);
