//! [`race`]: two attempts at one request, of which the first one to be answered wins.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use crate::client::error::ClientError;

/// The attempt that has won.
pub(super) enum Winner<T> {
    First(T),
    Second(T),
}

/// Waits for the first response to one of two attempts. If one fails, the other one decides; the error is that of the
/// first one.
pub(super) async fn race<T>(
    mut first: Pin<&mut impl Future<Output = Result<T, ClientError>>>,
    mut second: Pin<Box<impl Future<Output = Result<T, ClientError>>>>,
) -> Result<Winner<T>, ClientError> {
    let mut first_error = None;
    let mut has_second_failed = false;
    poll_fn(|cx| {
        if first_error.is_none()
            && let Poll::Ready(answered) = first.as_mut().poll(cx)
        {
            match answered {
                Ok(answered) => return Poll::Ready(Ok(Winner::First(answered))),
                Err(error) => first_error = Some(error),
            }
        }
        if !has_second_failed && let Poll::Ready(answered) = second.as_mut().poll(cx) {
            match answered {
                Ok(answered) => return Poll::Ready(Ok(Winner::Second(answered))),
                Err(_) => has_second_failed = true,
            }
        }
        match first_error.take() {
            Some(error) if has_second_failed => Poll::Ready(Err(error)),
            pending => {
                first_error = pending;
                Poll::Pending
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use super::*;
    use crate::client::error::{ClientCause, ClientPhase};
    use crate::runtime::{self, sleep};

    /// Answers with `answer` after so many seconds, or fails in this phase.
    async fn attempt(seconds: u64, answer: Result<u8, ClientPhase>) -> Result<u8, ClientError> {
        sleep(Duration::from_secs(seconds)).await;
        answer.map_err(|phase| ClientError::new(phase, ClientCause::Closed))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_wins_and_an_error_waits_for_the_other() {
        use ClientPhase::{Connect, Wait};
        for (first, second, expected, seconds) in [
            ((1, Ok(1)), (2, Ok(2)), Ok(1), 1),
            ((2, Ok(1)), (1, Ok(2)), Ok(2), 1),
            ((1, Ok(1)), (1, Ok(2)), Ok(1), 1),
            ((1, Err(Wait)), (3, Ok(2)), Ok(2), 3),
            ((3, Ok(1)), (1, Err(Connect)), Ok(1), 3),
            ((1, Err(Wait)), (2, Err(Connect)), Err(Wait), 2),
            ((2, Err(Wait)), (1, Err(Connect)), Err(Wait), 2),
        ] {
            let start = runtime::now();
            let one = pin!(attempt(first.0, first.1));
            let won = race(one, Box::pin(attempt(second.0, second.1))).await;
            let won = won.map(|(Winner::First(answer) | Winner::Second(answer))| answer);
            assert_eq!(won.map_err(|error| error.phase()), expected);
            assert_eq!(start.elapsed().as_secs(), seconds);
        }
    }
}
