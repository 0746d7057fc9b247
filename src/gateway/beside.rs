//! [`beside`]: awaits one future while another one runs; [`unless`]: awaits one until the peer has left.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;

use crate::exchange::ExchangeError;
use crate::server::{Error, Result};

/// Awaits `first`, and polls `second` meanwhile. Fails if either does. The end of `second` is not awaited.
pub(super) async fn beside<T>(
    first: impl Future<Output = Result<T>>,
    second: impl Future<Output = Result>,
) -> Result<T> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let mut is_over = false;
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = first.as_mut().poll(cx) {
            return Poll::Ready(outcome);
        }
        if !is_over && let Poll::Ready(outcome) = second.as_mut().poll(cx) {
            is_over = true;
            outcome?;
        }
        Poll::Pending
    })
    .await
}

/// Awaits `work`, unless `closed` tells before that the peer has closed. Then nobody waits for the work.
pub(super) async fn unless<T>(
    closed: impl Future<Output = ()>,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    beside(work, async { Err(left(closed).await) }).await
}

/// Waits until `closed` tells that the peer has closed, and returns the error for that.
pub(super) async fn left(closed: impl Future<Output = ()>) -> Error {
    closed.await;
    io::Error::from(ExchangeError::PeerClosed).into()
}
