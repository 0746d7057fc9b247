//! [`Stopwatch`]: the time limits of a connection that is not tied to a core.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::time::Instant;

use super::alarm::Alarm;
use super::expiries::{Expiries, Expiry, millis};
use super::{Lane, Timer};

/// Times the waits of one connection with a single timer, which stays with it from message to message.
pub(crate) struct Stopwatch {
    epoch: Instant,
    expiries: Expiries,
    alarm: Alarm,
    /// The task that the alarm wakes.
    waker: Option<Waker>,
    /// The runtime of the alarm. Once that has ended, the alarm cannot even be polled.
    runtime: Option<Id>,
}

impl Stopwatch {
    pub(crate) fn new() -> Stopwatch {
        let (expiries, alarm) = Default::default();
        Stopwatch { epoch: Instant::now(), expiries, alarm, waker: None, runtime: None }
    }

    /// Begins a wait in this lane that expires at `until`, unless one has begun.
    pub(crate) fn arm(&mut self, lane: Lane, until: Instant) {
        let Stopwatch { epoch, expiries, .. } = self;
        expiries.arm(lane, || Expiry(millis(until.saturating_duration_since(*epoch))));
    }

    /// Ready once `expiry` has come. While an alarm for it is set, the clock need not be read.
    fn poll(&mut self, cx: &mut Context<'_>, expiry: Expiry) -> Poll<()> {
        let is_known = self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if is_known && self.alarm.is_set(expiry) {
            return Poll::Pending;
        }
        let now = Expiry(self.now());
        if expiry <= now {
            return Poll::Ready(());
        }
        if !is_known {
            self.waker = Some(cx.waker().clone());
        }
        let here = Handle::try_current().ok().map(|here| here.id());
        if self.runtime != here {
            (self.runtime, self.alarm) = (here, Alarm::default());
        }
        self.alarm.set(cx, self.epoch, self.expiries.next(now));
        Poll::Pending
    }
}

impl Timer for Stopwatch {
    fn poll_expired(&mut self, cx: &mut Context<'_>, lane: Lane, limit: Duration) -> Poll<()> {
        let Stopwatch { epoch, expiries, .. } = self;
        let expiry = expiries.arm(lane, || Expiry(millis(epoch.elapsed()).saturating_add(millis(limit))));
        self.poll(cx, expiry)
    }

    /// The halves of a call wake each other, and one task after the other may use a client's connection.
    #[inline]
    fn waker_but(&self, _: &Waker) -> Option<Waker> {
        None
    }

    #[inline]
    fn disarm(&mut self, lane: Lane) {
        self.expiries.disarm(lane);
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
    fn a_stopwatch_goes_on_in_another_runtime() {
        let (mut watch, hour) = (Stopwatch::new(), Duration::from_secs(3600));
        for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
            for _ in 0..3 {
                let runtime = builder.worker_threads(1).enable_time().build().unwrap();
                let limit = Duration::from_millis(20);
                runtime.block_on(async {
                    let start = Instant::now();
                    assert!(
                        poll_fn(|cx| Poll::Ready(watch.poll_expired(cx, Lane::Whole, hour)))
                            .await
                            .is_pending()
                    );
                    poll_fn(|cx| watch.poll_expired(cx, Lane::Read, limit)).await;
                    assert!((limit..hour).contains(&start.elapsed()));
                });
                watch.disarm(Lane::Read);
                watch.disarm(Lane::Whole);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_lane_has_its_time_and_the_earliest_expires() {
        let (mut watch, start) = (Stopwatch::new(), Instant::now());
        let second = Duration::from_secs(1);
        for whole in [5, 3] {
            poll_fn(|cx| {
                assert!(watch.poll_expired(cx, Lane::Whole, whole * second).is_pending());
                watch.poll_expired(cx, Lane::Read, second)
            })
            .await;
            watch.disarm(Lane::Read);
        }
        poll_fn(|cx| watch.poll_expired(cx, Lane::Whole, second)).await;
        let waited = start.elapsed();
        assert!(waited >= 5 * second && waited < 5 * second + Duration::from_millis(5), "{waited:?}");
        assert!(
            poll_fn(|cx| Poll::Ready(watch.poll_expired(cx, Lane::Read, Duration::MAX))).await.is_pending()
        );
    }
}
