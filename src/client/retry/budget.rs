//! [`RetryBudget`]: how many requests more than were asked for a host may get; [`HostBudget`], that of one host.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::latencies::Latencies;
use crate::memory::lock;
use crate::runtime::Instant;

/// How many retries a client makes in proportion to its requests. A failing host would otherwise get several times its load,
/// just when it is least able to bear it.
///
/// Each host has a budget, which all runtimes, clones and balancers of the client share. Beyond 4,096 hosts, the others have
/// one together. Each request that may be retried adds [`RetryBudget::percent`] of a retry. Each retry takes one. So a host
/// that answers nothing gets 1.1 times its requests by default, and a few more. A retry for which nothing is left is not made.
///
/// All fields are public and stay so. As a later release may add some, end literals in `..RetryBudget::default()`, and patterns
/// in `..`.
///
/// # Examples
///
/// ```
/// use corehttp::Client;
/// use corehttp::client::{Retry, RetryBudget};
///
/// let budget = RetryBudget { percent: 20, ..RetryBudget::default() };
/// let client = Client::builder().retry(Retry::new()).retry_budget(budget).build();
/// # drop(client);
/// ```
#[doc(alias("TpsBudget", "retryThrottling", "max_extra_load"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// Retries for each hundred requests. Default: 10. Up to a hundred that are not made are kept for later.
    pub percent: u32,
    /// Retries per second even without requests, for clients that make few. Default: 1. The retries of up to ten seconds are
    /// kept for later, and as many are there from the start.
    pub per_second: u32,
}

impl Default for RetryBudget {
    fn default() -> RetryBudget {
        RetryBudget { percent: 10, per_second: 1 }
    }
}

/// The budget of one host: two token buckets, one that requests fill and one that time fills.
#[derive(Debug)]
pub(in crate::client) struct HostBudget {
    settings: RetryBudget,
    /// The retries that requests have added, in hundredths.
    earned: AtomicU64,
    timed: Mutex<TimedBucket>,
}

/// The retries that time adds.
#[derive(Debug)]
struct TimedBucket {
    /// In billionths.
    left: u64,
    /// The time up to which retries were added; none were, before the first one was taken.
    added_until: Option<Instant>,
}

impl HostBudget {
    fn new(settings: RetryBudget) -> HostBudget {
        let timed = TimedBucket { left: TimedBucket::most(settings), added_until: None };
        HostBudget { settings, earned: AtomicU64::new(0), timed: Mutex::new(timed) }
    }

    /// Adds the share of one request.
    pub(in crate::client) fn deposit(&self) {
        let share = u64::from(self.settings.percent);
        // While nothing fails, the bucket is full, and the cores share the memory without writing to it.
        if self.earned.load(Ordering::Relaxed) < EARNED_MAX {
            let add = |earned: u64| Some(earned.saturating_add(share).min(EARNED_MAX));
            let _ = self.earned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        }
    }

    /// Takes one retry. Returns whether there was one.
    pub(in crate::client) fn withdraw(&self, now: Instant) -> bool {
        let take = |earned: u64| earned.checked_sub(EARNED_RETRY);
        self.earned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
            || lock(&self.timed).withdraw(self.settings, now)
    }
}

impl TimedBucket {
    /// How much time adds at most.
    fn most(settings: RetryBudget) -> u64 {
        u64::from(settings.per_second).saturating_mul(TIMED_SECONDS * TIMED_RETRY)
    }

    fn withdraw(&mut self, settings: RetryBudget, now: Instant) -> bool {
        let since = self.added_until.replace(now).unwrap_or(now);
        let passed = now.saturating_duration_since(since).as_nanos();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let added = passed.saturating_mul(settings.per_second.into());
        self.left = self.left.saturating_add(added).min(TimedBucket::most(settings));
        let left = self.left.checked_sub(TIMED_RETRY);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

/// One retry, among those that requests add.
const EARNED_RETRY: u64 = 100;

/// How much requests add at most: a hundred retries.
const EARNED_MAX: u64 = 100 * EARNED_RETRY;

/// One retry, among those that time adds.
const TIMED_RETRY: u64 = 1_000_000_000;

/// How many seconds' worth time adds at most.
const TIMED_SECONDS: u64 = 10;

/// The budget of a host, if the client has one.
pub(in crate::client) type BudgetShare = Option<Arc<HostBudget>>;

/// The part of a pool that policies for retries need.
#[derive(Debug)]
pub(in crate::client) struct HostRetries {
    /// How many retries the host gets, from all runtimes.
    pub(in crate::client) budget: BudgetShare,
    /// How long its responses take in this runtime.
    pub(in crate::client) latencies: Latencies,
}

impl HostRetries {
    pub(in crate::client) fn new(budget: BudgetShare) -> HostRetries {
        HostRetries { budget, latencies: Latencies::default() }
    }
}

/// The budgets of a client, by the keys of the hosts.
#[derive(Debug)]
pub(in crate::client) struct HostBudgets {
    settings: Option<RetryBudget>,
    by_key: Mutex<HashMap<Box<str>, Arc<HostBudget>>>,
    /// The one budget of all hosts for which there was no room.
    others: Arc<HostBudget>,
}

impl HostBudgets {
    /// Budgets with these settings; without any, retries are not bounded.
    pub(in crate::client) fn new(settings: Option<RetryBudget>) -> HostBudgets {
        let others = Arc::new(HostBudget::new(settings.unwrap_or_default()));
        HostBudgets { settings, by_key: Mutex::default(), others }
    }

    /// Budgets with the same settings, for another client.
    pub(in crate::client) fn renewed(&self) -> HostBudgets {
        HostBudgets::new(self.settings)
    }

    /// A budget for one of the hosts with a common key.
    pub(in crate::client) fn unshared(&self) -> BudgetShare {
        Some(Arc::new(HostBudget::new(self.settings?)))
    }

    /// The budget of the host with this key.
    pub(in crate::client) fn of(&self, key: &str) -> BudgetShare {
        let settings = self.settings?;
        let mut by_key = lock(&self.by_key);
        if let Some(budget) = by_key.get(key) {
            return Some(budget.clone());
        }
        if by_key.len() >= HOSTS_MAX {
            return Some(self.others.clone());
        }
        let budget = Arc::new(HostBudget::new(settings));
        by_key.insert(key.into(), budget.clone());
        Some(budget)
    }
}

/// How many hosts have a budget of their own. Budgets are never dropped before the client, or a host could be forgotten and
/// begin anew. All of them take less than a megabyte.
const HOSTS_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime;

    /// How many retries are there at once.
    fn withdraw_all(budget: &HostBudget, now: Instant) -> usize {
        (0..10_000).take_while(|_| budget.withdraw(now)).count()
    }

    #[test]
    fn requests_and_time_add_retries() {
        let now = runtime::now();
        // The settings, then the requests and the milliseconds that pass, and the retries after these.
        for (percent, per_second, steps) in [
            (
                10,
                1,
                &[(0, 0, 10), (9, 0, 0), (1, 0, 1), (1000, 0, 100), (5000, 0, 100), (0, 999, 0), (0, 1, 1)][..],
            ),
            (10, 1, &[(0, 0, 10), (0, 3500, 3), (0, 500, 1), (0, 60_000, 10), (10, 2000, 3)]),
            (10, 0, &[(0, 0, 0), (100, 0, 10), (0, 60_000, 0)]),
            (0, 2, &[(1000, 0, 20), (1000, 500, 1)]),
            (100, 0, &[(3, 0, 3), (1000, 0, 100)]),
            (250, 0, &[(3, 0, 7), (1, 0, 3)]),
            (0, 0, &[(1000, 60_000, 0)]),
            (u32::MAX, 0, &[(1, 0, 100)]),
        ] {
            let budget = HostBudget::new(RetryBudget { percent, per_second });
            let mut now = now;
            for (at, (requests, millis, expected)) in steps.iter().enumerate() {
                (0..*requests).for_each(|_| budget.deposit());
                now += Duration::from_millis(*millis);
                assert_eq!(withdraw_all(&budget, now), *expected, "{percent} {per_second}, step {at}");
            }
        }
    }

    /// Retries that each come after less time than a token takes still get what that time adds up to.
    #[test]
    fn short_waits_add_up() {
        let budget = HostBudget::new(RetryBudget { percent: 0, per_second: 1 });
        let start = runtime::now();
        withdraw_all(&budget, start);
        let made =
            (1..=20_000).filter(|millis| budget.withdraw(start + Duration::from_millis(*millis))).count();
        assert_eq!(made, 20);
    }

    #[test]
    fn each_host_has_one_budget_and_the_last_ones_share() {
        let budgets = HostBudgets::new(Some(RetryBudget::default()));
        let one = budgets.of("http://a").unwrap();
        assert!(Arc::ptr_eq(&one, &budgets.of("http://a").unwrap()));
        assert!(!Arc::ptr_eq(&one, &budgets.of("http://b").unwrap()));
        assert!(!Arc::ptr_eq(&one, &budgets.renewed().of("http://a").unwrap()));
        let hosts = (0..HOSTS_MAX + 2).map(|host| budgets.of(&format!("http://{host}")).unwrap());
        let many = Vec::from_iter(hosts);
        assert!(Arc::ptr_eq(&many[HOSTS_MAX], &many[HOSTS_MAX + 1]) && !Arc::ptr_eq(&many[0], &many[1]));
        assert!(Arc::ptr_eq(&one, &budgets.of("http://a").unwrap()));
        assert!(HostBudgets::new(None).of("http://a").is_none());
    }
}
