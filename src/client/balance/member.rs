//! [`Member`]: one host of a balancer, its load and its health, and how one is chosen.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::client::call::InFlightGuard;
use crate::client::error::{ClientError, ClientPhase, RetryReport};
use crate::client::host::Host;
use crate::client::retry::BudgetShare;
use crate::memory::lock;
use crate::message::{Request, Response};
use crate::runtime::{self, Handle, Instant, select, sleep_until};

/// One host of a balancer.
pub(super) struct Member {
    pub(super) host: Host,
    /// How many retries it gets.
    budget: BudgetShare,
    pending: Arc<AtomicUsize>,
    served: AtomicU64,
    failed: AtomicU64,
    /// Responses by the class of their status, from 1xx on.
    classes: [AtomicU64; 5],
    /// The number of the last request that was assigned to it; 0 if there was none.
    last_assigned: AtomicU64,
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
pub struct BalancerCounts {
    /// Scheme, host and port, such as `http://one:8080`.
    pub origin: String,
    /// Requests that it has not answered yet, including bodies that are still being read.
    pub pending: usize,
    /// Requests that it has answered, except those that count as failed.
    pub served: u64,
    /// Requests that failed.
    pub failed: u64,
    /// The responses with a status of 1xx, 2xx and so on, those that count as failed included. One that ends a check is none.
    pub classes: [u64; 5],
    /// How many of its failures count as pending requests at the moment.
    pub penalties: usize,
    /// Whether it passed its last check; true if there was none.
    pub is_up: bool,
}

/// Which outcomes are failures of a host, and how long they count.
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
    pub(super) fn new(host: Host) -> Member {
        Member {
            budget: host.budget(),
            host,
            pending: Arc::default(),
            served: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            classes: Default::default(),
            last_assigned: AtomicU64::new(0),
            penalties: Mutex::default(),
            is_up: AtomicBool::new(true),
            check_task: Mutex::default(),
        }
    }

    /// Counts the request with this number, of all that the balancer assigns, as pending.
    pub(super) fn begin_request(&self, number: u64) -> InFlightGuard {
        self.last_assigned.store(number, Ordering::Relaxed);
        InFlightGuard::new(&self.pending)
    }

    /// Adds the share of one request to the budget for retries.
    pub(super) fn deposit(&self) {
        if let Some(budget) = &self.budget {
            budget.deposit();
        }
    }

    /// Takes a retry from the budget of the host. Returns whether there was one.
    pub(super) fn withdraw(&self, now: Instant) -> bool {
        let is_granted = self.budget.as_ref().is_none_or(|budget| budget.withdraw(now));
        if !is_granted && let Ok(pool) = self.host.current_pool() {
            pool.events.count_refused_retry();
        }
        is_granted
    }

    /// Counts and reports a retry, of a request that the host has failed.
    pub(super) fn count_retry(&self, report: &RetryReport) {
        if let Ok(pool) = self.host.current_pool() {
            pool.events.count_retry(report);
        }
    }

    /// The load of the host, including its penalties.
    pub(super) fn load(&self) -> usize {
        self.pending.load(Ordering::Relaxed) + self.penalty_count()
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    pub(super) fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Relaxed);
    }

    /// Records the outcome of a request.
    pub(super) fn record(&self, health: &HealthPolicy, outcome: Result<&Response, &ClientError>) {
        if let Ok(response) = outcome
            && let Some(class) = self.classes.get(usize::from(response.status.as_u16() / 100).wrapping_sub(1))
        {
            class.fetch_add(1, Ordering::Relaxed);
        }
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

    pub(super) fn counts(&self) -> BalancerCounts {
        BalancerCounts {
            origin: self.host.origin().to_owned(),
            pending: self.pending.load(Ordering::Relaxed),
            served: self.served.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            classes: self.classes.each_ref().map(|count| count.load(Ordering::Relaxed)),
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

/// How a [`Balancer`](super::Balancer) chooses the next host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BalancerChoice {
    /// The host with the fewest pending requests; among equals, the one whose last request is the longest ago, so that
    /// they take turns. The requests that a host missed while it was down, slow or not there are not made up for.
    #[default]
    LeastPending,
    /// Of two hosts chosen at random, the one with fewer pending requests; between equals, as above. With this choice,
    /// several independent balancers do not all rush to the same idle host.
    TwoRandom,
}

impl BalancerChoice {
    /// Chooses one of `candidates`, unless there is none.
    pub(super) fn choose<'a>(
        self,
        candidates: impl Iterator<Item = &'a Arc<Member>> + Clone,
        random_pairs: &RandomPairs,
    ) -> Option<&'a Arc<Member>> {
        // A count of all requests so far would send each one to a host that is back, until it has caught up.
        let load = |member: &&Arc<Member>| (member.load(), member.last_assigned.load(Ordering::Relaxed));
        let count = candidates.clone().count();
        match self {
            BalancerChoice::TwoRandom if count > 2 => {
                let (one, other) = random_pairs.two_below(count);
                let two = candidates.enumerate().filter(|(at, _)| [one, other].contains(at));
                two.map(|(_, member)| member).min_by_key(load)
            }
            BalancerChoice::LeastPending | BalancerChoice::TwoRandom => candidates.min_by_key(load),
        }
    }
}

/// Draws pairs of different numbers at random.
#[derive(Default)]
pub(super) struct RandomPairs {
    random: RandomState,
    drawn: AtomicU64,
}

impl RandomPairs {
    /// Two different numbers below `count`, which is at least 2.
    fn two_below(&self, count: usize) -> (usize, usize) {
        debug_assert!(count >= 2, "there are two different numbers");
        let bits = self.random.hash_one(self.drawn.fetch_add(1, Ordering::Relaxed));
        let below = |bits: u64, most: usize| (bits % most as u64) as usize;
        let one = below(bits >> 32, count);
        let other = below(bits & u64::from(u32::MAX), count - 1);
        (one, if other < one { other } else { other + 1 })
    }
}

/// The request of an active check. A response of 2xx within the interval means that the host is up.
#[derive(Debug)]
pub(super) struct HealthCheck {
    pub(super) request: Request,
    pub(super) interval: Duration,
}

impl Member {
    /// Starts the task that checks the host, unless it is running. Without a runtime, none can be started.
    pub(super) fn start_checks(self: &Arc<Member>, check: &Arc<HealthCheck>) {
        let mut check_task = lock(&self.check_task);
        if check_task.as_ref().is_some_and(|check_task| !check_task.is_closed()) {
            return;
        }
        let Some(handle) = Handle::current() else { return };
        let (sender, gone) = oneshot::channel();
        *check_task = Some(sender);
        let host = self.host.with_timeout(check.interval);
        handle.spawn(check_until(Arc::downgrade(self), host, gone, check.clone()));
    }

    /// Ends the task that checks the host.
    pub(super) fn stop_checks(&self) {
        *lock(&self.check_task) = None;
    }
}

/// Checks `member` until it is `gone`, even if that is in the middle of a check.
async fn check_until(
    member: Weak<Member>,
    host: Host,
    gone: oneshot::Receiver<Infallible>,
    check: Arc<HealthCheck>,
) {
    let gone = async {
        // Nothing is ever sent; this is the end of the sender.
        let Err(_) = gone.await;
    };
    select(gone, keep_checking(member, host, check)).await;
}

/// Checks `member`, which is at `host`, for as long as it is there.
async fn keep_checking(member: Weak<Member>, host: Host, check: Arc<HealthCheck>) {
    let mut response = Response::new();
    loop {
        let next = runtime::later(runtime::now(), check.interval);
        // The member is not held meanwhile, or it would not be gone before the response has come.
        let is_up = match host.send(&check.request, &mut response).await {
            Ok(()) => Some(response.status.is_success()),
            // The check was not sent: all connections to the host are in use.
            Err(error) if error.phase() == ClientPhase::Queue => None,
            Err(_) => Some(false),
        };
        let Some(member) = member.upgrade() else { return };
        if let Some(is_up) = is_up {
            member.set_up(is_up);
        }
        drop(member);
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_hosts_is_equally_likely() {
        const THROWS: usize = 6_000;
        let random_pairs = RandomPairs::default();
        let mut thrown = [[0; 4]; 4];
        for _ in 0..THROWS {
            let (one, other) = random_pairs.two_below(4);
            thrown[one][other] += 1;
        }
        for (one, row) in thrown.iter().enumerate() {
            for (other, count) in row.iter().enumerate() {
                let expected = if one == other { 0..=0 } else { 350..=650 };
                assert!(expected.contains(count), "{one} and {other}: {count} of {THROWS}");
            }
        }
    }
}
