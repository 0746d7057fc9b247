//! [`hedge`]: makes an attempt at a request, and a second one if the first takes long. The first response wins.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::client::error::ClientError;
use crate::client::retry::Latencies;
use crate::runtime::{self, timeout};

/// The end of an attempt that may have had another one beside it.
pub(in crate::client) struct Hedged<T> {
    /// The attempt of which `outcome` is. If both have failed, the first.
    pub(in crate::client) winner: Winner,
    pub(in crate::client) outcome: Result<T, ClientError>,
    /// The error of the other attempt, unless there was none or it was canceled.
    pub(in crate::client) loser_error: Option<ClientError>,
}

/// One of two attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Winner {
    First,
    Second,
}

/// Makes the attempt `first`. If it takes longer than `percent` of the `latencies`, `second` gets the time that has passed, and
/// makes another attempt or declines. The first response cancels the other attempt, and adds to the latencies
/// the time since the first attempt began.
pub(in crate::client) async fn hedge<T, S: Future<Output = Result<T, ClientError>>>(
    latencies: &Latencies,
    percent: u8,
    first: impl Future<Output = Result<T, ClientError>>,
    second: impl FnOnce(Duration) -> Option<Pin<Box<S>>>,
) -> Hedged<T> {
    let began = runtime::now();
    let mut first = pin!(first);
    let in_time = match latencies.percentile(percent) {
        Some(delay) => timeout(delay, first.as_mut()).await.ok(),
        None => Some(first.as_mut().await),
    };
    let passed = || runtime::now().saturating_duration_since(began);
    let hedged = match in_time {
        Some(outcome) => Hedged::alone(outcome),
        None => match second(passed()) {
            Some(second) => race(first, second).await,
            None => Hedged::alone(first.await),
        },
    };
    if hedged.outcome.is_ok() {
        latencies.record(passed());
    }
    hedged
}

impl<T> Hedged<T> {
    /// The end of an attempt without another one.
    fn alone(outcome: Result<T, ClientError>) -> Hedged<T> {
        Hedged { winner: Winner::First, outcome, loser_error: None }
    }
}

/// Waits for the first response to one of two attempts. If one fails, the other one decides; the error is that of the
/// first one.
async fn race<T>(
    mut first: Pin<&mut impl Future<Output = Result<T, ClientError>>>,
    mut second: Pin<Box<impl Future<Output = Result<T, ClientError>>>>,
) -> Hedged<T> {
    let mut first_error = None;
    let mut second_error = None;
    poll_fn(|cx| {
        if let Poll::Ready(answer) = poll_answer(first.as_mut(), &mut first_error, cx) {
            let loser_error = second_error.take();
            return Poll::Ready(Hedged { winner: Winner::First, outcome: Ok(answer), loser_error });
        }
        if let Poll::Ready(answer) = poll_answer(second.as_mut(), &mut second_error, cx) {
            let loser_error = first_error.take();
            return Poll::Ready(Hedged { winner: Winner::Second, outcome: Ok(answer), loser_error });
        }
        match first_error.take_if(|_| second_error.is_some()) {
            Some(error) => {
                let loser_error = second_error.take();
                Poll::Ready(Hedged { winner: Winner::First, outcome: Err(error), loser_error })
            }
            None => Poll::Pending,
        }
    })
    .await
}

/// Polls an attempt, unless it has failed before, and keeps its error.
fn poll_answer<T>(
    attempt: Pin<&mut impl Future<Output = Result<T, ClientError>>>,
    kept: &mut Option<ClientError>,
    cx: &mut Context<'_>,
) -> Poll<T> {
    if kept.is_some() {
        return Poll::Pending;
    }
    match ready!(attempt.poll(cx)) {
        Ok(answer) => Poll::Ready(answer),
        Err(error) => {
            *kept = Some(error);
            Poll::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::error::{ClientCause, ClientPhase};
    use crate::runtime::sleep;

    /// Answers with `answer` after so many seconds, or fails in this phase.
    async fn attempt(seconds: u64, answer: Result<u8, ClientPhase>) -> Result<u8, ClientError> {
        sleep(Duration::from_secs(seconds)).await;
        answer.map_err(|phase| ClientError::new(phase, ClientCause::Closed))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_wins_and_an_error_waits_for_the_other() {
        use ClientPhase::{Connect, Wait};
        use Winner::{First, Second};
        for (first, second, winner, expected, seconds) in [
            ((1, Ok(1)), (2, Ok(2)), First, (Ok(1), None), 1),
            ((2, Ok(1)), (1, Ok(2)), Second, (Ok(2), None), 1),
            ((1, Ok(1)), (1, Ok(2)), First, (Ok(1), None), 1),
            ((1, Err(Wait)), (3, Ok(2)), Second, (Ok(2), Some(Wait)), 3),
            ((3, Ok(1)), (1, Err(Connect)), First, (Ok(1), Some(Connect)), 3),
            ((1, Err(Wait)), (2, Err(Connect)), First, (Err(Wait), Some(Connect)), 2),
            ((2, Err(Wait)), (1, Err(Connect)), First, (Err(Wait), Some(Connect)), 2),
        ] {
            let start = runtime::now();
            let one = pin!(attempt(first.0, first.1));
            let hedged = race(one, Box::pin(attempt(second.0, second.1))).await;
            let phase = |error: ClientError| error.phase();
            assert_eq!((hedged.outcome.map_err(phase), hedged.loser_error.map(phase)), expected);
            assert_eq!((hedged.winner, start.elapsed().as_secs()), (winner, seconds));
        }
    }

    /// The second attempt begins after the time within which most responses came, and none before there are enough.
    #[tokio::test(start_paused = true)]
    async fn a_second_attempt_is_made_if_the_first_one_takes_long() {
        let latencies = Latencies::default();
        for (first, is_wanted, expected) in
            [(9, true, None), (1, true, None), (9, false, Some(1)), (9, true, Some(1)), (1, true, None)]
        {
            let mut waited = None;
            let hedged = hedge(&latencies, 100, attempt(first, Ok(1)), |passed| {
                waited = Some(passed.as_secs());
                is_wanted.then(|| Box::pin(attempt(2, Ok(2))))
            });
            let answer = hedged.await.outcome.unwrap();
            let is_second = expected.is_some() && is_wanted;
            assert_eq!((answer, waited), (if is_second { 2 } else { 1 }, expected));
            (0..128).for_each(|_| latencies.record(Duration::from_secs(1)));
        }
        // The time of both attempts is that of the request.
        let second = |_| Some(Box::pin(attempt(2, Ok(2))));
        hedge(&latencies, 99, attempt(9, Ok(1)), second).await.outcome.unwrap();
        assert_eq!(latencies.percentile(100), Some(Duration::from_secs(3)));
    }
}
