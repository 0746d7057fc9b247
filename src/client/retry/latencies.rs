//! [`Latencies`]: how long the last responses of a host took to come, for hedges.

use std::sync::Mutex;
use std::time::Duration;

use crate::memory::lock;

/// How long the heads of the last responses of a host took to come. Takes no memory before the first one.
#[derive(Debug, Default)]
pub(in crate::client) struct Latencies(Mutex<Recent>);

/// The last latencies, in microseconds, in a ring.
#[derive(Debug, Default)]
struct Recent {
    micros: Vec<u32>,
    /// The place of the next one.
    next: usize,
}

impl Latencies {
    /// Adds the latency of a response.
    pub(in crate::client) fn record(&self, latency: Duration) {
        let micros = u32::try_from(latency.as_micros()).unwrap_or(u32::MAX);
        let mut recent = lock(&self.0);
        let next = recent.next;
        match recent.micros.get_mut(next) {
            Some(oldest) => *oldest = micros,
            None => recent.micros.push(micros),
        }
        recent.next = (next + 1) % KEPT;
    }

    /// Returns the time within which `percent` of the last responses came. `None` while there are few.
    pub(in crate::client) fn percentile(&self, percent: u8) -> Option<Duration> {
        let recent = lock(&self.0);
        if recent.micros.len() < LEAST {
            return None;
        }
        let mut sorted = [0; KEPT];
        let sorted = &mut sorted[..recent.micros.len()];
        sorted.copy_from_slice(&recent.micros);
        drop(recent);
        let last = sorted.len() - 1;
        let rank = (sorted.len() * usize::from(percent)).div_ceil(100).saturating_sub(1).min(last);
        let micros = *sorted.select_nth_unstable(rank).1;
        Some(Duration::from_micros(micros.into()))
    }
}

/// How many latencies are kept.
const KEPT: usize = 128;

/// How many must be known before a percentile means anything.
const LEAST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_last_responses() {
        let latencies = Latencies::default();
        let millis = Duration::from_millis;
        for latency in 1..=31 {
            latencies.record(millis(latency));
            assert_eq!(latencies.percentile(95), None);
        }
        (32..=100).for_each(|latency| latencies.record(millis(latency)));
        for (percent, expected) in [(0, 1), (1, 1), (50, 50), (95, 95), (99, 99), (100, 100), (255, 100)] {
            assert_eq!(latencies.percentile(percent), Some(millis(expected)), "{percent}");
        }
        (0..KEPT).for_each(|_| latencies.record(millis(7)));
        assert_eq!([1, 100].map(|percent| latencies.percentile(percent)), [Some(millis(7)); 2]);
        (0..KEPT).for_each(|_| latencies.record(Duration::MAX));
        assert_eq!(latencies.percentile(50), Some(Duration::from_micros(u32::MAX.into())));
    }
}
