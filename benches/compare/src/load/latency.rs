//! [`Latency`]: how long answers took at a fixed load, from the moment each request was due.

use std::mem;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// In microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// Requests per second that were due.
    pub(crate) offered: u32,
    /// Answers per second that came.
    pub(crate) achieved: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    /// The slowest of a thousand in a row, as it usually is: the median over the thousands. Where somebody else's work
    /// takes the cores away for more than a thousandth of the time, p99.9 is how long that lasts, and this is not.
    pub(crate) of_thousand: f64,
    pub(crate) max: f64,
}

impl Latency {
    /// Did the server keep up? If not, its latency is that of a queue that grows.
    pub(crate) fn is_met(&self) -> bool {
        self.achieved >= 0.98 * f64::from(self.offered)
    }
}

/// Latencies in nanoseconds, to three digits.
pub(crate) struct Recorder {
    all: Histogram<u32>,
    /// Of those since the last whole thousand.
    slowest: u64,
    /// The slowest of each thousand.
    thousands: Vec<u64>,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        let all = Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("the bounds are those of the crate");
        Recorder { all, slowest: 0, thousands: Vec::new() }
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = latency.as_nanos().min(u128::from(LATENCY_MAX)) as u64;
        self.all.saturating_record(nanos);
        self.slowest = self.slowest.max(nanos);
        if self.all.len().is_multiple_of(1_000) {
            self.thousands.push(mem::take(&mut self.slowest));
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.all.len()
    }

    pub(crate) fn summary(mut self, offered: u32, achieved: f64) -> Latency {
        let at = |quantile| self.all.value_at_quantile(quantile) as f64 / 1e3;
        let max = self.all.max() as f64 / 1e3;
        self.thousands.sort_unstable();
        let middle = self.thousands.get(self.thousands.len() / 2);
        Latency {
            offered,
            achieved,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            of_thousand: middle.map_or(max, |nanos| *nanos as f64 / 1e3),
            max,
        }
    }
}

/// Until one who is too slow for what is offered is given up.
pub(crate) const OVERTIME: Duration = Duration::from_millis(300);

/// A minute.
const LATENCY_MAX: u64 = 60_000_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Recorder;

    /// So many thousands, some of which a stall of a second hits.
    #[track_caller]
    fn check(requests: u64, stalls: &[u64], [p999, of_thousand, max]: [f64; 3]) {
        let mut recorder = Recorder::new();
        for request in 0..requests {
            let is_late = stalls.iter().any(|stall| (*stall..stall + 10).contains(&request));
            recorder.record(Duration::from_micros(if is_late { 1_000_000 } else { 10 }));
        }
        let latency = recorder.summary(1, 1.0);
        let close = |one: f64, other: f64| (one / other - 1.0).abs() < 0.01;
        assert!(close(latency.p999, p999), "{latency:?}");
        assert!(close(latency.of_thousand, of_thousand), "{latency:?}");
        assert!(close(latency.max, max), "{latency:?}");
    }

    #[test]
    fn one_stall_is_in_one_thousand() {
        check(5_000, &[], [10.0, 10.0, 10.0]);
        check(5_000, &[1_500], [1e6, 10.0, 1e6]);
        check(5_000, &[500, 1_500, 4_500], [1e6, 1e6, 1e6]);
        check(999, &[500], [1e6, 1e6, 1e6]);
    }
}
