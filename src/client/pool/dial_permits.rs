//! [`DialPermits`]: how many connections of a pool are dialed at once, and whether a dial goes on whose request is gone.
//!
//! The bound is for the time after an outage, when no connection is idle and all requests would dial.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::client::settings::ClientLimits;

/// The dials of one pool, or of all that lead to one proxy.
pub(super) struct DialPermits {
    /// A permit for each dial that may still begin. The semaphore is fair, so requests dial in turn. `None`: as many dials
    /// as there may be connections.
    permits: Option<Arc<Semaphore>>,
    /// Whether a dial goes on without the request that began it.
    has_lone: AtomicBool,
}

/// The right to dial. Dropping it passes the right to the next request in line.
pub(super) struct DialPermit(
    #[expect(dead_code, reason = "it counts for as long as it is there")] Option<OwnedSemaphorePermit>,
);

/// A dial that goes on without the request that began it.
pub(super) struct LoneDial(Arc<DialPermits>);

impl DialPermits {
    pub(super) fn new(limits: &ClientLimits) -> Arc<DialPermits> {
        let permits = limits.dials_per_host_max.map(|most| Arc::new(Semaphore::new(most)));
        Arc::new(DialPermits { permits, has_lone: AtomicBool::new(false) })
    }

    /// Returns a permit, if one is free and no request waits for it.
    pub(super) fn try_take(&self) -> Option<DialPermit> {
        let Some(permits) = &self.permits else { return Some(DialPermit(None)) };
        permits.clone().try_acquire_owned().ok().map(|permit| DialPermit(Some(permit)))
    }

    /// Waits for a permit.
    pub(super) async fn take(&self) -> DialPermit {
        match &self.permits {
            // The semaphore is never closed.
            Some(permits) => DialPermit(permits.clone().acquire_owned().await.ok()),
            None => DialPermit(None),
        }
    }

    /// Allows a dial to go on without its request, until the guard is dropped. `None` if another one does already.
    pub(super) fn begin_lone(self: &Arc<DialPermits>) -> Option<LoneDial> {
        let was_free = !self.has_lone.swap(true, Ordering::Relaxed);
        was_free.then(|| LoneDial(self.clone()))
    }
}

impl Drop for LoneDial {
    fn drop(&mut self) {
        self.0.has_lone.store(false, Ordering::Relaxed);
    }
}
