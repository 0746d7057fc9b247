//! [`Stopwatch`]: how long one connection may wait that no core watches.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::Lane;
use super::alarm::{Alarm, Expiries, Expiry, millis};
use super::home::Timer;

/// Times the waits of one connection with one timer, which stays with it from message to message.
pub(crate) struct Stopwatch {
    epoch: Instant,
    expiries: Expiries,
    alarm: Alarm,
}

impl Stopwatch {
    pub(crate) fn new() -> Stopwatch {
        Stopwatch { epoch: Instant::now(), expiries: Expiries::default(), alarm: Alarm::default() }
    }
}

impl Timer for Stopwatch {
    fn poll_expired(&mut self, cx: &mut Context<'_>, lane: Lane, limit: Duration) -> Poll<()> {
        let now = self.now();
        if self.expiries.arm(lane, || Expiry(now.saturating_add(millis(limit)))) <= Expiry(now) {
            return Poll::Ready(());
        }
        self.alarm.set(cx, self.epoch, self.expiries.earliest());
        Poll::Pending
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

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_lane_has_its_time_and_the_earliest_rings() {
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
