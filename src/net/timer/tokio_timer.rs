//! [`TokioTimer`]: the time limits of a connection that is not tied to a core.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use super::deadlines::{Deadline, Deadlines, millis};
use super::lazy_sleep::LazySleep;
use super::{Timer, TimerSlot};

/// Times the waits of one connection with a single timer, which stays with it from message to message.
pub(crate) struct TokioTimer {
    epoch: Instant,
    deadlines: Deadlines,
    sleep: LazySleep,
    /// The task that the timer wakes.
    waker: Option<Waker>,
    /// The runtime of the timer. Once that has ended, the timer cannot even be polled.
    runtime: Option<Id>,
}

impl TokioTimer {
    pub(crate) fn new() -> TokioTimer {
        let (deadlines, sleep) = Default::default();
        TokioTimer { epoch: Instant::now(), deadlines, sleep, waker: None, runtime: None }
    }

    /// Begins a wait in this slot that expires at `until`, unless one has begun.
    pub(crate) fn arm(&mut self, slot: TimerSlot, until: Instant) {
        let TokioTimer { epoch, deadlines, .. } = self;
        deadlines.arm(slot, || Deadline(millis(until.saturating_duration_since(*epoch))));
    }

    /// Ready once `deadline` has come. While a timer for it is set, the clock need not be read.
    fn poll(&mut self, cx: &mut Context<'_>, deadline: Deadline) -> Poll<()> {
        let is_known = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if is_known && self.sleep.is_set(deadline) {
            return Poll::Pending;
        }
        let now = Deadline(self.now());
        if deadline <= now {
            return Poll::Ready(());
        }
        if !is_known {
            self.waker = Some(cx.waker().clone());
        }
        let here = Handle::try_current().ok().map(|here| here.id());
        if self.runtime != here {
            (self.runtime, self.sleep) = (here, LazySleep::default());
        }
        self.sleep.set(cx, self.epoch, self.deadlines.next(now));
        Poll::Pending
    }
}

impl Timer for TokioTimer {
    fn poll_expired(&mut self, cx: &mut Context<'_>, slot: TimerSlot, limit: Duration) -> Poll<()> {
        let TokioTimer { epoch, deadlines, .. } = self;
        let deadline =
            deadlines.arm(slot, || Deadline(millis(epoch.elapsed()).saturating_add(millis(limit))));
        self.poll(cx, deadline)
    }

    /// The halves of a call wake each other, and one task after the other may use a client's connection.
    #[inline]
    fn other_waker(&self, _: &Waker) -> Option<Waker> {
        None
    }

    #[inline]
    fn disarm(&mut self, slot: TimerSlot) {
        self.deadlines.disarm(slot);
    }

    fn now(&self) -> u64 {
        millis(self.epoch.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::runtime::Builder;

    use super::*;

    /// A timer that belongs to a runtime panics in another one when the first has ended.
    #[test]
    fn a_timer_goes_on_in_another_runtime() {
        let (mut timer, hour) = (TokioTimer::new(), Duration::from_secs(3600));
        for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
            for _ in 0..3 {
                let runtime = builder.worker_threads(1).enable_time().build().unwrap();
                let limit = Duration::from_millis(20);
                runtime.block_on(async {
                    let start = Instant::now();
                    assert!(
                        poll_fn(|cx| Poll::Ready(timer.poll_expired(cx, TimerSlot::Total, hour)))
                            .await
                            .is_pending()
                    );
                    poll_fn(|cx| timer.poll_expired(cx, TimerSlot::Read, limit)).await;
                    assert!((limit..hour).contains(&start.elapsed()));
                });
                timer.disarm(TimerSlot::Read);
                timer.disarm(TimerSlot::Total);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_slot_has_its_time_and_the_earliest_expires() {
        let (mut timer, start) = (TokioTimer::new(), Instant::now());
        let second = Duration::from_secs(1);
        for whole in [5, 3] {
            poll_fn(|cx| {
                assert!(timer.poll_expired(cx, TimerSlot::Total, whole * second).is_pending());
                timer.poll_expired(cx, TimerSlot::Read, second)
            })
            .await;
            timer.disarm(TimerSlot::Read);
        }
        poll_fn(|cx| timer.poll_expired(cx, TimerSlot::Total, second)).await;
        let waited = start.elapsed();
        assert!(waited >= 5 * second && waited < 5 * second + Duration::from_millis(5), "{waited:?}");
        assert!(
            poll_fn(|cx| Poll::Ready(timer.poll_expired(cx, TimerSlot::Read, Duration::MAX)))
                .await
                .is_pending()
        );
    }
}
