//! [`watch`]: asks one host now and then whether it is up.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::member::Member;
use crate::message::{Request, Response};
use crate::runtime::{self, timeout_at};

/// What hosts are asked to see if they are up: an answer of 2xx within the interval says so.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) request: Request,
    pub(super) interval: Duration,
}

/// Checks `member` until it is `gone`.
pub(super) async fn watch(member: Weak<Member>, mut gone: oneshot::Receiver<Infallible>, check: Arc<Check>) {
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
