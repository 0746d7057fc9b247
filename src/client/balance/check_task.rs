//! [`start_checks`]: the task that checks one host of a balancer.

use std::convert::Infallible;
use std::sync::{Arc, Weak};

use tokio::sync::oneshot;

use super::check::Doubt;
use super::health::HealthPolicy;
use super::member::Member;
use crate::client::host::Host;
use crate::message::Response;
use crate::runtime::{self, Handle, select, sleep_until};

/// Starts the task that checks a host, unless it is running. Without a runtime, none can be started.
pub(super) fn start_checks(member: &Arc<Member>, health: &Arc<HealthPolicy>) {
    let Some(check) = &health.check else { return };
    let mut check_task = member.check_task();
    if check_task.as_ref().is_some_and(|check_task| !check_task.is_closed()) {
        return;
    }
    let Some(handle) = Handle::current() else { return };
    let (sender, gone) = oneshot::channel();
    *check_task = Some(sender);
    let host = member.host.with_timeout(check.interval);
    handle.spawn(check_until(Arc::downgrade(member), host, gone, health.clone()));
}

/// Checks `member` until it is `gone`, even if that is in the middle of a check.
async fn check_until(
    member: Weak<Member>,
    host: Host,
    gone: oneshot::Receiver<Infallible>,
    health: Arc<HealthPolicy>,
) {
    let gone = async {
        // Nothing is ever sent; this is the end of the sender.
        let Err(_) = gone.await;
    };
    select(gone, keep_checking(member, host, &health)).await;
}

/// Checks `member`, which is at `host`, for as long as it is there.
async fn keep_checking(member: Weak<Member>, host: Host, health: &HealthPolicy) {
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
            member.set_up(health, outcome.err());
        }
        drop(member);
        sleep_until(runtime::later(began, check.pause(doubt.is_any()))).await;
    }
}
