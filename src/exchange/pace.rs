//! [`Pace`]: how fast a body arrives.

use std::time::Duration;

use super::{Bounds, ExchangeError, Phase};
use crate::error::TimeLimit;

/// How fast a body arrives: a peer that sends a byte now and then would never exceed a timeout.
#[derive(Default)]
pub(super) struct Pace {
    received: u64,
    /// For how many milliseconds the body was waited for, and for how many of them since its last byte.
    waited: u64,
    silent: u64,
    waiting_since: Option<u64>,
}

impl Pace {
    pub(super) fn wait(&mut self, now: u64) {
        self.waiting_since.get_or_insert(now);
    }

    /// Ends a wait that was given up: what the peer sends from here on need not come at once.
    pub(super) fn pause(&mut self, now: u64) {
        let since = self.waiting_since.take();
        let time = since.map_or(0, |since| now.saturating_sub(since));
        self.waited += time;
        self.silent += time;
    }

    /// How long the next byte may still be waited for.
    pub(super) fn patience(&self, bounds: &Bounds) -> Duration {
        bounds.timeouts.body.saturating_sub(Duration::from_millis(self.silent))
    }

    pub(super) fn advance(&mut self, count: usize, now: u64, bounds: &Bounds) -> Result<(), ExchangeError> {
        self.received += count as u64;
        let was_awaited = self.waiting_since.is_some();
        self.pause(now);
        self.silent = 0;
        if !was_awaited {
            return Ok(());
        }
        let is_due = u128::from(self.waited) > bounds.timeouts.body_grace.as_millis();
        let expected = u128::from(bounds.timeouts.body_rate_min) * u128::from(self.waited) / 1000;
        match is_due && u128::from(self.received) < expected {
            true => Err(ExchangeError::TimedOut(
                Phase::Body,
                TimeLimit::bytes_per_second(bounds.timeouts.body_rate_min),
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::exchange::Timeouts;

    /// Whether a body that comes in these pieces is fast enough, if 100 bytes a second are demanded after a grace of 2
    /// seconds. A piece is the milliseconds in which nobody waits, those in which the handler waits, and the bytes that
    /// come then.
    #[track_caller]
    fn check(pieces: &[(u64, u64, usize)], expected: bool) {
        let timeouts =
            Timeouts { body_grace: Duration::from_secs(2), body_rate_min: 100, ..Timeouts::default() };
        let (bounds, mut pace, mut now) = (Bounds { timeouts, ..Bounds::default() }, Pace::default(), 0);
        let is_fast = pieces.iter().all(|(unwanted, waited, count)| {
            now += unwanted;
            pace.wait(now);
            now += waited;
            // To ask again meanwhile does not begin another wait.
            pace.wait(now);
            pace.advance(*count, now, &bounds).is_ok()
        });
        assert_eq!(is_fast, expected, "{pieces:?}");
    }

    #[test]
    fn after_the_grace_a_body_is_timed_only_while_it_is_waited_for() {
        check(&[(0, 2000, 1)], true);
        check(&[(0, 1000, 1), (0, 1000, 1)], true);
        check(&[(0, 3000, 300)], true);
        check(&[(60_000, 1000, 1), (60_000, 1000, 1)], true);
        check(&[(0, 0, 1_000), (0, 9_000, 1)], true);
        check(&[(0, 2010, 1)], false);
        check(&[(0, 3000, 299)], false);
        check(&[(0, 1000, 1), (0, 1000, 1), (0, 1000, 1)], false);
        check(&[(0, 0, 1_000), (0, 20_000, 1)], false);
    }
}
