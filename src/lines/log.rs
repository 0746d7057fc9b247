//! [`Log`]: the logs of the crate, and how many lines of each the process has dropped.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Which log lines belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// A line for each exchange.
    #[allow(dead_code, reason = "unused without the feature `access-log`")]
    Access,
    /// A line for each fault.
    Error,
}

impl Log {
    /// The name, for notices on standard error.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Log::Access => "access log",
            Log::Error => "error log",
        }
    }

    /// Counts lines that were dropped.
    pub(crate) fn count_dropped(self, lines: u64) {
        self.counter().fetch_add(lines, Relaxed);
    }

    /// How many lines all logs of this kind have dropped, those that have ended included.
    #[allow(dead_code, reason = "unused without the feature `metrics`")]
    pub(crate) fn dropped(self) -> u64 {
        self.counter().load(Relaxed)
    }

    /// The counter of all logs of this kind. Metrics do not know the logs, which may have ended, so the counters are the
    /// process's, as the descriptors are.
    fn counter(self) -> &'static AtomicU64 {
        static ACCESS: AtomicU64 = AtomicU64::new(0);
        static ERROR: AtomicU64 = AtomicU64::new(0);
        match self {
            Log::Access => &ACCESS,
            Log::Error => &ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of the process may drop lines meanwhile.
    #[test]
    fn each_log_counts_for_itself() {
        let access = Log::Access.dropped();
        let error = Log::Error.dropped();
        Log::Access.count_dropped(1 << 40);
        assert!(Log::Access.dropped() >= access + (1 << 40));
        assert!(Log::Error.dropped() < error + (1 << 40));
    }
}
