//! [`HealthCheck`]: asks hosts regularly whether they are up.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::member::Member;
use crate::client::{ClientPhase, Host};
use crate::memory::lock;
use crate::message::{Request, Response};
use crate::runtime::{self, Handle, select, sleep_until};

/// The request of an active check. An answer of 2xx within the interval means that the host is up.
#[derive(Debug)]
pub(super) struct HealthCheck {
    pub(super) request: Request,
    pub(super) interval: Duration,
}

impl Member {
    /// Starts the task that checks the host, unless it is running. Without a runtime, none can be started.
    pub(super) fn start_checks(self: &Arc<Member>, check: &Arc<HealthCheck>) {
        let mut check_task = lock(&self.check_task);
        if check_task.as_ref().is_some_and(|check_task| !check_task.is_closed()) {
            return;
        }
        let Some(handle) = Handle::current() else { return };
        let (sender, gone) = oneshot::channel();
        *check_task = Some(sender);
        let host = self.host.with_timeout(check.interval);
        handle.spawn(check_until(Arc::downgrade(self), host, gone, check.clone()));
    }

    /// Ends the task that checks the host.
    pub(super) fn stop_checks(&self) {
        *lock(&self.check_task) = None;
    }
}

/// Checks `member` until it is `gone`, even if that is in the middle of a check.
async fn check_until(
    member: Weak<Member>,
    host: Host,
    gone: oneshot::Receiver<Infallible>,
    check: Arc<HealthCheck>,
) {
    let gone = async {
        // Nothing is ever sent; this is the end of the sender.
        let Err(_) = gone.await;
    };
    select(gone, keep_checking(member, host, check)).await;
}

/// Checks `member`, which is at `host`, for as long as it is there.
async fn keep_checking(member: Weak<Member>, host: Host, check: Arc<HealthCheck>) {
    let mut response = Response::new();
    loop {
        let next = runtime::later(runtime::now(), check.interval);
        // The member is not held meanwhile, or it would not be gone before the answer has come.
        let is_up = match host.send(&check.request, &mut response).await {
            Ok(()) => Some(response.status.is_success()),
            // It was not asked: all connections to it are in use.
            Err(error) if error.phase() == ClientPhase::Queue => None,
            Err(_) => Some(false),
        };
        let Some(member) = member.upgrade() else { return };
        is_up.into_iter().for_each(|is_up| member.set_up(is_up));
        drop(member);
        sleep_until(next).await;
    }
}
