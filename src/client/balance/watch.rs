//! [`Check`]: asks one host now and then whether it is up.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::member::Member;
use crate::memory::lock;
use crate::message::{Request, Response};
use crate::runtime::{self, Here, timeout_at};

/// What hosts are asked to see if they are up: an answer of 2xx within the interval says so.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) request: Request,
    pub(super) interval: Duration,
}

impl Member {
    /// Has the host checked, if nobody does. Without a runtime nobody can.
    pub(super) fn watch(self: &Arc<Member>, check: &Arc<Check>) {
        let mut watched = lock(&self.watched);
        if watched.as_ref().is_some_and(|watched| !watched.is_closed()) {
            return;
        }
        let Some(here) = Here::get() else { return };
        let (sender, gone) = oneshot::channel();
        *watched = Some(sender);
        here.spawn(watch(Arc::downgrade(self), gone, check.clone()));
    }

    /// Nobody needs to know any more whether it is up.
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
