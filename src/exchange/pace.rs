//! [`Pace`]: how fast a body comes.

use super::{Bounds, ExchangeError, Phase};

/// How fast a body comes: a peer that sends a byte now and then never lets a timeout pass.
#[derive(Default)]
pub(super) struct Pace {
    received: u64,
    /// Milliseconds in which somebody waited for more.
    waited: u64,
    waiting_since: Option<u64>,
}

impl Pace {
    pub(super) fn wait(&mut self, now: u64) {
        self.waiting_since.get_or_insert(now);
    }

    pub(super) fn advance(&mut self, count: usize, now: u64, bounds: &Bounds) -> Result<(), ExchangeError> {
        self.received += count as u64;
        let Some(since) = self.waiting_since.take() else { return Ok(()) };
        self.waited += now.saturating_sub(since);
        let is_due = u128::from(self.waited) > bounds.timeouts.body_grace.as_millis();
        let expected = u128::from(bounds.timeouts.body_rate_min) * u128::from(self.waited) / 1000;
        match is_due && u128::from(self.received) < expected {
            true => Err(ExchangeError::TimedOut(Phase::Body)),
            false => Ok(()),
        }
    }
}
