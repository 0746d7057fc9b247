//! [`join_first`]: awaits one future while another one runs.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Awaits `first`, and polls `second` meanwhile. Fails if either does. The end of `second` is not awaited.
pub(crate) async fn join_first<T, E>(
    first: impl Future<Output = Result<T, E>>,
    second: impl Future<Output = Result<(), E>>,
) -> Result<T, E> {
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
