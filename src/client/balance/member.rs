//! [`Member`]: one host of a balancer, its load and its health.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::client::in_flight_guard::InFlightGuard;
use crate::client::{ClientError, Host};
use crate::memory::lock;
use crate::message::Response;
use crate::runtime::{self, Instant};

/// One host of a balancer.
pub(super) struct Member {
    pub(super) host: Host,
    pending: Arc<AtomicUsize>,
    served: AtomicU64,
    failed: AtomicU64,
    /// How often it was asked. A host that was added later starts with the least count of the others.
    assigned: AtomicU64,
    /// When each penalty is over.
    penalties: Mutex<VecDeque<Instant>>,
    /// The result of the last check; true if there was none.
    is_up: AtomicBool,
    /// Dropped with the member, which ends the task that checks it.
    pub(super) check_task: Mutex<Option<oneshot::Sender<Infallible>>>,
}

/// The counts of one host of a [`Balancer`](super::Balancer).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostCounts {
    /// Scheme, host and port, such as `http://one:8080`.
    pub origin: String,
    /// Requests that it has not answered yet, including bodies that are still being read.
    pub pending: usize,
    /// Requests that it has answered, except those that count as failed.
    pub served: u64,
    /// Requests that failed.
    pub failed: u64,
    /// How many of its failures count as pending requests at the moment.
    pub penalties: usize,
    /// Whether it passed its last check; true if there was none.
    pub is_up: bool,
}

/// What counts as a failure of a host, and for how long.
pub(super) struct HealthPolicy {
    /// How long one failure counts.
    pub(super) penalty: Duration,
    /// How many count at the same time.
    pub(super) penalty_max: usize,
    pub(super) is_healthy: Box<IsHealthy>,
}

/// Whether an outcome is one of a healthy host.
type IsHealthy = dyn Fn(Result<&Response, &ClientError>) -> bool + Send + Sync;

impl Member {
    pub(super) fn new(host: Host, assigned: u64) -> Member {
        Member {
            host,
            pending: Arc::default(),
            served: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            assigned: AtomicU64::new(assigned),
            penalties: Mutex::default(),
            is_up: AtomicBool::new(true),
            check_task: Mutex::default(),
        }
    }

    /// Counts a request as pending.
    pub(super) fn begin_request(&self) -> InFlightGuard {
        self.assigned.fetch_add(1, Ordering::Relaxed);
        InFlightGuard::new(&self.pending)
    }

    /// The load of the host, including its penalties.
    pub(super) fn load(&self) -> usize {
        self.pending.load(Ordering::Relaxed) + self.penalty_count()
    }

    pub(super) fn assigned(&self) -> u64 {
        self.assigned.load(Ordering::Relaxed)
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    pub(super) fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Relaxed);
    }

    /// Records the outcome of a request.
    pub(super) fn record(&self, health: &HealthPolicy, outcome: Result<&Response, &ClientError>) {
        if (health.is_healthy)(outcome) {
            self.served.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        let now = runtime::now();
        let mut penalties = self.penalties(now);
        if penalties.len() < health.penalty_max {
            penalties.push_back(runtime::later(now, health.penalty));
        }
    }

    pub(super) fn counts(&self) -> HostCounts {
        HostCounts {
            origin: self.host.origin().to_owned(),
            pending: self.pending.load(Ordering::Relaxed),
            served: self.served.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            penalties: self.penalty_count(),
            is_up: self.is_up(),
        }
    }

    fn penalty_count(&self) -> usize {
        match self.failed.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.penalties(runtime::now()).len(),
        }
    }

    /// The penalties that are not over. They all last equally long, so they end in the order in which they began.
    fn penalties(&self, now: Instant) -> MutexGuard<'_, VecDeque<Instant>> {
        let mut penalties = lock(&self.penalties);
        while penalties.front().is_some_and(|end| *end <= now) {
            penalties.pop_front();
        }
        penalties
    }
}

impl fmt::Debug for HealthPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthPolicy")
            .field("penalty", &self.penalty)
            .field("penalty_max", &self.penalty_max)
            .finish_non_exhaustive()
    }
}
