//! [`LazySleep`]: a timer that is rarely reset.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep};

use super::deadlines::{Deadline, millis};

/// A timer that wakes a task at a deadline, or a little earlier. If the deadline moves to a later time, the timer is
/// left as it is until it fires: a busy connection moves its deadline with each message, usually before the timer would
/// have fired.
#[derive(Default)]
pub(super) struct LazySleep {
    sleep: Option<Pin<Box<Sleep>>>,
    /// When the timer fires, or less than a millisecond before. The timer knows this too, but is elsewhere in memory.
    fires_at: Deadline,
}

impl LazySleep {
    /// Whether it will fire by `deadline`, for the task that set it last.
    pub(super) fn is_set(&self, deadline: Deadline) -> bool {
        self.fires_at <= deadline && self.sleep.as_ref().is_some_and(|sleep| !sleep.is_elapsed())
    }

    /// Wakes the task at `next`, on a clock that was zero at `epoch`.
    pub(super) fn set(&mut self, cx: &mut Context<'_>, epoch: Instant, next: Deadline) {
        let Some(fires_at) = next.on(epoch) else {
            // If it still fires for an earlier wait, it wakes this task from now on.
            if let Some(sleep) = &mut self.sleep {
                let _ = poll(sleep, cx);
            }
            return;
        };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(fires_at)));
        if self.fires_at > next || sleep.is_elapsed() {
            sleep.as_mut().reset(fires_at);
            self.fires_at = next;
        }
        while poll(sleep, cx).is_ready() {
            // The caller has seen that the deadline is not reached, but clocks are read in whole milliseconds.
            let later = fires_at.max(Instant::now() + Duration::from_millis(1));
            sleep.as_mut().reset(later);
            self.fires_at = Deadline(millis(later.saturating_duration_since(epoch)));
        }
    }
}

/// Polls a timer even if the task has used up its budget: one that is set but not polled wakes no task.
fn poll(sleep: &mut Pin<Box<Sleep>>, cx: &mut Context<'_>) -> Poll<()> {
    Pin::new(&mut unconstrained(sleep.as_mut())).poll(cx)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Waker;

    use tokio::task::coop::{consume_budget, has_budget_remaining};
    use tokio::time::timeout;

    use super::*;
    use crate::net::{DeadlineTable, Peer, Timer, TimerSlot, TokioTimer};

    /// A task that waits after another one is woken in time, whatever each of them had waited for before.
    async fn check(mut timer: impl Timer, first: Duration, second: Duration) {
        let (start, limit) = (Instant::now(), Duration::from_secs(5));
        let mut another = Context::from_waker(Waker::noop());
        assert!(timer.poll_expired(&mut another, TimerSlot::Read, first).is_pending());
        timer.disarm(TimerSlot::Read);
        assert!(
            poll_fn(|cx| Poll::Ready(timer.poll_expired(cx, TimerSlot::Write, second))).await.is_pending()
        );
        timer.disarm(TimerSlot::Write);
        let waits = poll_fn(|cx| timer.poll_expired(cx, TimerSlot::Read, limit));
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
                assert!(timer.poll_expired(cx, TimerSlot::Read, second).is_pending());
            }
            timer.poll_expired(cx, TimerSlot::Write, 3 * second)
        })
        .await;
        assert!(polls <= 4, "{polls} polls");
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_that_no_task_waits_for_fires_only_once() {
        check_given_up(TokioTimer::new()).await;
        check_given_up(DeadlineTable::with_sleeps().timer(Peer::default())).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_begins_to_wait_without_budget_is_woken() {
        let (mut timer, limit) = (TokioTimer::new(), Duration::from_secs(5));
        let waits = poll_fn(|cx| {
            while has_budget_remaining() {
                let _ = pin!(consume_budget()).poll(cx);
            }
            timer.poll_expired(cx, TimerSlot::Read, limit)
        });
        assert_eq!(timeout(2 * limit, waits).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_that_waits_now_is_woken_whichever_set_the_sleep() {
        let limits = [1, 4, 5, 6].map(Duration::from_secs);
        for first in limits.into_iter().chain([Duration::MAX]) {
            for second in limits.into_iter().chain([Duration::MAX]) {
                check(TokioTimer::new(), first, second).await;
                check(DeadlineTable::with_sleeps().timer(Peer::default()), first, second).await;
            }
        }
    }
}
