//! [`Alarm`]: a timer that is rarely reset.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep};

use super::expiries::{Expiry, millis};

/// A timer that wakes a task at a deadline, or a little earlier. If the deadline moves to a later time, the timer is
/// left as it is until it fires: a busy connection moves its deadline with each message, usually before the timer would
/// have fired.
#[derive(Default)]
pub(super) struct Alarm {
    timer: Option<Pin<Box<Sleep>>>,
    /// When the timer fires, or less than a millisecond before. The timer knows this too, but is elsewhere in memory.
    rings: Expiry,
}

impl Alarm {
    /// Whether it will fire by `expiry`, for the task that set it last.
    pub(super) fn is_set(&self, expiry: Expiry) -> bool {
        self.rings <= expiry && self.timer.as_ref().is_some_and(|timer| !timer.is_elapsed())
    }

    /// Wakes the task at `next`, on a clock that was zero at `epoch`.
    pub(super) fn set(&mut self, cx: &mut Context<'_>, epoch: Instant, next: Expiry) {
        let Some(rings) = next.on(epoch) else {
            // If it still fires for an earlier wait, it wakes this task from now on.
            if let Some(timer) = &mut self.timer {
                let _ = poll(timer, cx);
            }
            return;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(rings)));
        if self.rings > next || timer.is_elapsed() {
            timer.as_mut().reset(rings);
            self.rings = next;
        }
        while poll(timer, cx).is_ready() {
            // The caller has seen that the deadline is not reached, but clocks are read in whole milliseconds.
            let later = rings.max(Instant::now() + Duration::from_millis(1));
            timer.as_mut().reset(later);
            self.rings = Expiry(millis(later.saturating_duration_since(epoch)));
        }
    }
}

/// Polls a timer even if the task has used up its budget: one that is set but not polled wakes no task.
fn poll(timer: &mut Pin<Box<Sleep>>, cx: &mut Context<'_>) -> Poll<()> {
    Pin::new(&mut unconstrained(timer.as_mut())).poll(cx)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Waker;

    use tokio::task::coop::{consume_budget, has_budget_remaining};
    use tokio::time::timeout;

    use super::*;
    use crate::net::{Lane, Peer, Stopwatch, Timer, Timetable};

    /// A task that waits after another one is woken in time, whatever each of them had waited for before.
    async fn check(mut timer: impl Timer, first: Duration, second: Duration) {
        let (start, limit) = (Instant::now(), Duration::from_secs(5));
        let mut another = Context::from_waker(Waker::noop());
        assert!(timer.poll_expired(&mut another, Lane::Read, first).is_pending());
        timer.disarm(Lane::Read);
        assert!(poll_fn(|cx| Poll::Ready(timer.poll_expired(cx, Lane::Write, second))).await.is_pending());
        timer.disarm(Lane::Write);
        let waits = poll_fn(|cx| timer.poll_expired(cx, Lane::Read, limit));
        let waited = timeout(2 * limit, waits).await.map(|()| start.elapsed());
        let soon = limit..limit + Duration::from_millis(5);
        assert!(
            waited.as_ref().is_ok_and(|waited| soon.contains(waited)),
            "{first:?} {second:?}: {waited:?}"
        );
    }

    /// A handler that gives up a read and then writes was once woken a thousand times a second.
    async fn check_given_up(mut timer: impl Timer) {
        let (second, mut polls) = (Duration::from_secs(1), 0);
        poll_fn(|cx| {
            polls += 1;
            if polls == 1 {
                assert!(timer.poll_expired(cx, Lane::Read, second).is_pending());
            }
            timer.poll_expired(cx, Lane::Write, 3 * second)
        })
        .await;
        assert!(polls <= 4, "{polls} polls");
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_that_nobody_waits_for_rings_only_once() {
        check_given_up(Stopwatch::new()).await;
        check_given_up(Timetable::with_alarms().deadline(Peer::default())).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_begins_to_wait_without_budget_is_woken() {
        let (mut timer, limit) = (Stopwatch::new(), Duration::from_secs(5));
        let waits = poll_fn(|cx| {
            while has_budget_remaining() {
                let _ = pin!(consume_budget()).poll(cx);
            }
            timer.poll_expired(cx, Lane::Read, limit)
        });
        assert_eq!(timeout(2 * limit, waits).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_that_waits_now_is_woken_whichever_set_the_alarm() {
        let limits = [1, 4, 5, 6].map(Duration::from_secs);
        for first in limits.into_iter().chain([Duration::MAX]) {
            for second in limits.into_iter().chain([Duration::MAX]) {
                check(Stopwatch::new(), first, second).await;
                check(Timetable::with_alarms().deadline(Peer::default()), first, second).await;
            }
        }
    }
}
