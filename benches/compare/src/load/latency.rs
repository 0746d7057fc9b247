//! [`Latency`]: how long responses took at a fixed load, from the moment each request was due.

use std::mem;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::spread::Spread;

/// In microseconds. Of fewer than a hundred requests there is no p99, and of fewer than a thousand no p99.9: it would
/// be the maximum by another name.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// Requests per second that were due.
    pub(crate) offered: u32,
    /// How many that were in all; what is pipelined counts as one.
    pub(crate) requests: u64,
    /// Responses per second that came.
    pub(crate) achieved: f64,
    pub(crate) p50: f64,
    pub(crate) p99: Option<f64>,
    pub(crate) p999: Option<f64>,
    /// The slowest of a thousand in a row, as it usually is: the median over the thousands. Where somebody else's work
    /// takes the cores away for more than a thousandth of the time, p99.9 is how long that lasts, and this is not.
    pub(crate) of_thousand: Option<f64>,
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

    pub(crate) fn summary(self, offered: u32, achieved: f64) -> Latency {
        let requests = self.count();
        let at = |quantile| self.all.value_at_quantile(quantile) as f64 / 1e3;
        let among = |least: u64, quantile| (requests >= least).then(|| at(quantile));
        let thousands = Spread::from_values(self.thousands.iter().map(|nanos| *nanos as f64 / 1e3));
        Latency {
            offered,
            requests,
            achieved,
            p50: at(0.5),
            p99: among(100, 0.99),
            p999: among(1_000, 0.999),
            of_thousand: thousands.map(|spread| spread.median),
            max: self.all.max() as f64 / 1e3,
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

    /// So many requests, some of which a stall of a second hits, for ten of them each.
    #[track_caller]
    fn check(requests: u64, stalls: &[u64], tail: [Option<f64>; 3], max: f64) {
        let mut recorder = Recorder::new();
        for request in 0..requests {
            let is_late = stalls.iter().any(|stall| (*stall..stall + 10).contains(&request));
            recorder.record(Duration::from_micros(if is_late { 1_000_000 } else { 10 }));
        }
        let latency = recorder.summary(1, 1.0);
        assert_eq!(latency.requests, requests);
        let round = |micros: f64| {
            let power = 10f64.powf(micros.log10().floor());
            (micros / power).round() * power
        };
        let found = [latency.p99, latency.p999, latency.of_thousand].map(|micros| micros.map(round));
        assert_eq!((found, round(latency.max)), (tail, max), "{requests}, {stalls:?}");
    }

    #[test]
    fn one_stall_is_in_one_thousand() {
        const STALL: f64 = 1e6;
        check(5_000, &[], [Some(10.0); 3], 10.0);
        check(5_000, &[1_500], [Some(10.0), Some(STALL), Some(10.0)], STALL);
        check(5_000, &[500, 1_500, 4_500], [Some(10.0), Some(STALL), Some(STALL)], STALL);
        check(1_999, &[500], [Some(10.0), Some(STALL), Some(STALL)], STALL);
        check(1_999, &[1_500], [Some(10.0), Some(STALL), Some(10.0)], STALL);
    }

    #[test]
    fn what_too_few_requests_cannot_tell_is_not_told() {
        check(1_000, &[500], [Some(10.0), Some(1e6), Some(1e6)], 1e6);
        check(999, &[500], [Some(1e6), None, None], 1e6);
        check(100, &[], [Some(10.0), None, None], 10.0);
        check(99, &[50], [None; 3], 1e6);
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let mut recorder = Recorder::new();
        (1..=1_000).for_each(|millis| recorder.record(Duration::from_millis(millis)));
        let latency = recorder.summary(1, 1.0);
        let millis = |micros: f64| (micros / 1e3).round();
        assert_eq!(millis(latency.p50), 500.0);
        assert_eq!(latency.p99.map(millis), Some(990.0));
        assert_eq!(latency.p999.map(millis), Some(999.0));
        assert_eq!(millis(latency.max), 1_000.0);
    }
}
