//! [`InFlightGuard`]: counts a request until it has been answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One of the requests that `count` counts, until it is dropped.
pub(super) struct InFlightGuard {
    count: Arc<AtomicUsize>,
}

impl InFlightGuard {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> InFlightGuard {
        count.fetch_add(1, Ordering::Relaxed);
        InFlightGuard { count: count.clone() }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
