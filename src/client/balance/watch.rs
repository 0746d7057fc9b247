//! [`Check`]: asks hosts regularly whether they are up.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::member::Member;
use crate::memory::lock;
use crate::message::{Request, Response};
use crate::runtime::{self, Handle, timeout_at};

/// The request of an active check. An answer of 2xx within the interval means that the host is up.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) request: Request,
    pub(super) interval: Duration,
}

impl Member {
    /// Starts the task that checks the host, unless it is running. Without a runtime, none can be started.
    pub(super) fn watch(self: &Arc<Member>, check: &Arc<Check>) {
        let mut watched = lock(&self.watched);
        if watched.as_ref().is_some_and(|watched| !watched.is_closed()) {
            return;
        }
        let Some(handle) = Handle::current() else { return };
        let (sender, gone) = oneshot::channel();
        *watched = Some(sender);
        handle.spawn(watch(Arc::downgrade(self), gone, check.clone()));
    }

    /// Ends the task that checks the host.
    pub(super) fn unwatch(&self) {
        *lock(&self.watched) = None;
    }
}

/// Checks `member` until it is `gone`.
async fn watch(member: Weak<Member>, mut gone: oneshot::Receiver<Infallible>, check: Arc<Check>) {
    let mut response = Response::new();
    loop {
        let next = runtime::later(runtime::now(), check.interval);
        let Some(watched) = member.upgrade() else { return };
        let asking = watched.host.send(&check.request, &mut response);
        let is_up = match timeout_at(next, asking).await {
            Ok(answered) => answered.is_ok() && response.status.is_success(),
            Err(_) => false,
        };
        watched.set_up(is_up);
        drop(watched);
        if timeout_at(next, &mut gone).await.is_ok() {
            return;
        }
    }
}
