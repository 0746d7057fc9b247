//! [`PanicThreshold`]: with too few fit hosts, a balancer sends requests to all; [`PanicReport`] is about when.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::runtime::Hooks;

/// A [`Balancer`](super::Balancer) begins or ends to send requests to all hosts, since too few of them are fit for use:
/// fewer than [`BalancerBuilder::panic_below`](super::BalancerBuilder::panic_below) says, or none, backups included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PanicReport {
    /// Whether it begins or ends.
    pub change: PanicChange,
    /// How many hosts are fit for use. Neither backups nor hosts of weight 0 are counted here.
    pub fit: usize,
    /// How many hosts there are, of which the same are not counted.
    pub hosts: usize,
}

/// Whether a balancer begins or ends to send requests to all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PanicChange {
    /// All hosts get requests from now on.
    Began,
    /// Only hosts that are fit for use get requests again.
    Ended,
}

/// With how few fit hosts all get requests, and whether they do.
#[derive(Default)]
pub(super) struct PanicThreshold {
    /// With fewer fit hosts, all are used.
    pub(super) percent: u8,
    pub(super) on_panic: Hooks<dyn Fn(&PanicReport) + Send + Sync>,
    is_on: AtomicBool,
    count: AtomicU64,
}

impl PanicThreshold {
    /// Whether so many fit hosts are too few. `fit` and `hosts` count them.
    pub(super) fn is_below(&self, fit: impl Fn() -> usize, hosts: impl Fn() -> usize) -> bool {
        self.percent > 0 && fit() * 100 < hosts() * usize::from(self.percent)
    }

    /// Notes whether all hosts are used. Returns what is to be reported, without a lock, if that has changed.
    pub(super) fn note(
        &self,
        is_on: bool,
        fit: impl Fn() -> usize,
        hosts: impl Fn() -> usize,
    ) -> Option<PanicReport> {
        // Cores share the memory without writing to it while nothing changes.
        if self.is_on() == is_on || self.is_on.swap(is_on, Ordering::Relaxed) == is_on {
            return None;
        }
        self.count.fetch_add(u64::from(is_on), Ordering::Relaxed);
        let change = if is_on { PanicChange::Began } else { PanicChange::Ended };
        Some(PanicReport { change, fit: fit(), hosts: hosts() })
    }

    pub(super) fn report(&self, report: &PanicReport) {
        self.on_panic.call(|on_panic| on_panic(report));
    }

    pub(super) fn counts(&self) -> PanicCounts {
        PanicCounts { is_on: self.is_on(), count: self.count.load(Ordering::Relaxed) }
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }
}

/// Whether all hosts are used, and how often they began to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(dead_code, reason = "unused without the feature `metrics`")]
pub(crate) struct PanicCounts {
    pub(crate) is_on: bool,
    pub(crate) count: u64,
}

impl fmt::Debug for PanicThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PanicThreshold").field("percent", &self.percent).field("is_on", &self.is_on).finish()
    }
}
