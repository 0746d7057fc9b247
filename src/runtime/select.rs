//! [`select`]: awaits two futures, until one of them is ready.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Waits for the first of two. If both are ready, that is `one`.
pub(crate) async fn select<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(done),
        Poll::Pending => other.as_mut().poll(cx),
    })
    .await
}
