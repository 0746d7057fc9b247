//! [`Latency`]: how long answers took at a fixed load, from the moment each request was due.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// In microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// Requests per second that were due.
    pub(crate) offered: u32,
    /// Answers per second that came.
    pub(crate) achieved: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Latency {
    /// Did the server keep up? If not, its latency is that of a queue that grows.
    pub(crate) fn is_met(&self) -> bool {
        self.achieved >= 0.98 * f64::from(self.offered)
    }
}

/// Latencies in nanoseconds, to three digits.
pub(crate) struct Recorder(Histogram<u32>);

impl Recorder {
    pub(crate) fn new() -> Recorder {
        Recorder(Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("the bounds are those of the crate"))
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(latency.as_nanos().min(u128::from(LATENCY_MAX)) as u64);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn summary(&self, offered: u32, achieved: f64) -> Latency {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        Latency {
            offered,
            achieved,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: self.0.max() as f64 / 1e3,
        }
    }
}

/// Until one who is too slow for what is offered is given up.
pub(crate) const OVERTIME: Duration = Duration::from_millis(300);

/// A minute.
const LATENCY_MAX: u64 = 60_000_000_000;
