//! [`Pending`]: counts a request until it has been answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One of the requests that `count` counts, until it is dropped.
pub(super) struct Pending {
    count: Arc<AtomicUsize>,
}

impl Pending {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Pending {
        count.fetch_add(1, Ordering::Relaxed);
        Pending { count: count.clone() }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
