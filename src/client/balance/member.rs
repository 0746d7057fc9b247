//! [`Member`]: one host of a balancer, its load and its health.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::check::CheckFailure;
use super::ejection::{Ejection, EjectionCause, Ejector, WindowCounts};
use super::health::{HealthPolicy, HostChange, adds_penalty};
use super::owned_task::OwnedTask;
use crate::client::call::InFlightGuard;
use crate::client::error::{ClientError, RetryReport};
use crate::client::host::Host;
use crate::client::retry::BudgetShare;
use crate::memory::lock;
use crate::message::Response;
use crate::runtime::{self, Instant};

/// One host of a balancer.
pub(super) struct Member {
    pub(super) host: Host,
    /// Its origin, with its address if its name has several.
    id: Box<str>,
    /// Hosts of a higher tier get requests only while none of a lower one can.
    tier: AtomicU16,
    share: HostShare,
    /// How many retries it gets.
    budget: BudgetShare,
    pending: Arc<AtomicUsize>,
    counts: Counts,
    turn: HostTurn,
    penalties: Penalties,
    pub(super) checks: MemberChecks,
    ejection: MemberEjection,
    /// The origin of the name or the service whose look-up has found it: of several, one.
    name: Mutex<Option<Box<str>>>,
}

/// The outcomes of a host's requests.
#[derive(Default)]
struct Counts {
    served: AtomicU64,
    failed: AtomicU64,
    /// How many requests in a row have failed.
    failed_in_a_row: AtomicU32,
    /// How many of its hedged requests in a row another host has answered first.
    lost_hedges_in_a_row: AtomicU32,
    /// Responses by the class of their status, from 1xx on.
    classes: [AtomicU64; 5],
    /// The counts at the beginning of the window in which hosts are compared.
    window_start: Mutex<WindowCounts>,
}

/// Pending requests that a host has for its failures alone.
#[derive(Default)]
struct Penalties {
    /// Whether there ever was one. Most hosts have none, and read no more than this.
    has_any: AtomicBool,
    /// When each is over. They all last equally long, so they end in the order in which they began.
    ends: Mutex<VecDeque<Instant>>,
}

impl Penalties {
    fn add(&self, health: &HealthPolicy) {
        let now = runtime::now();
        let mut ends = self.current(now);
        if ends.len() < health.penalty_max {
            ends.push_back(runtime::later(now, health.penalty));
            self.has_any.store(true, Ordering::Relaxed);
        }
    }

    fn count(&self) -> usize {
        match self.has_any.load(Ordering::Relaxed) {
            true => self.current(runtime::now()).len(),
            false => 0,
        }
    }

    /// The ones that are not over.
    fn current(&self, now: Instant) -> MutexGuard<'_, VecDeque<Instant>> {
        let mut ends = lock(&self.ends);
        while ends.front().is_some_and(|end| *end <= now) {
            ends.pop_front();
        }
        ends
    }
}

/// The place of a host in the [`Turns`] of its balancer.
#[derive(Default)]
struct HostTurn {
    /// When the last one began.
    began: AtomicU64,
    /// The number of the last request that was assigned to the host; 0 if there was none.
    last_assigned: AtomicU64,
}

/// The task that checks a host, and the result of its last checks.
#[derive(Default)]
pub(super) struct MemberChecks {
    pub(super) task: OwnedTask,
    is_down: AtomicBool,
    failure: Mutex<Option<CheckFailure>>,
}

#[derive(Default)]
struct MemberEjection {
    /// Whether the host is ejected or on trial. Most never are, and read no more than this.
    is_out: AtomicBool,
    count: AtomicU64,
    ejector: Mutex<Ejector>,
}

/// The share of the requests that a host gets: all of it, or a part that grows after the host has come back.
#[derive(Default)]
struct HostShare {
    weight: AtomicU32,
    is_growing: AtomicBool,
    /// When it began to grow, and for how long it does.
    growth: Mutex<Option<(Instant, Duration)>>,
}

/// The counts of one host of a [`Balancer`](super::Balancer).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BalancerCounts {
    /// Scheme, host and port, such as `http://one:8080`.
    pub origin: String,
    /// The address, if it is [one of several of that name](crate::client::BalancerBuilder::each_address_of).
    pub address: Option<IpAddr>,
    /// The tier. A host gets requests only while none of a lower tier can be used. 0 by default, 1 for a
    /// [backup](crate::client::BalancerBuilder::backup). Targets of a service count up from 0, in the order of their
    /// priorities.
    pub tier: u16,
    /// Its share of the requests in proportion to the others. With 0 it gets none.
    pub weight: u32,
    /// Requests without an answer yet, including bodies that are still being read.
    pub pending: usize,
    /// Answered requests, except those that count as failed by the heads of their responses.
    pub served: u64,
    /// Failed requests, including failures in the body of a response opened by
    /// [`Balancer::open_response`](super::Balancer::open_response) or [`Balancer::open_call`](super::Balancer::open_call).
    pub failed: u64,
    /// Responses by class, from 1xx to 5xx, including those that count as failed. Responses to checks are not counted.
    pub classes: [u64; 5],
    /// How many of its failures count as pending requests at the moment.
    pub penalties: usize,
    /// Why it is down, by its last checks. `None` if it is up or unchecked.
    pub down: Option<CheckFailure>,
    /// Why it is ejected or on trial, if it is. See [`Ejection`](crate::client::Ejection).
    pub ejected: Option<EjectionCause>,
    /// How often it was ejected.
    pub ejections: u64,
}

impl Member {
    pub(super) fn new(host: Host, weight: u32) -> Member {
        let id = match host.address() {
            None => host.origin().into(),
            Some(address) => format!("{} at {address}", host.origin()).into(),
        };
        Member {
            budget: host.budget(),
            host,
            id,
            tier: AtomicU16::new(0),
            share: HostShare::new(weight),
            pending: Arc::default(),
            counts: Counts::default(),
            turn: HostTurn::default(),
            penalties: Penalties::default(),
            checks: MemberChecks::default(),
            ejection: MemberEjection::default(),
            name: Mutex::default(),
        }
    }

    /// Returns the host as one that the look-up of `name` has found.
    pub(super) fn found_by(self, name: &Host) -> Member {
        self.set_found_by(name);
        self
    }

    /// Notes that the look-up of `name` leads to the host, in place of any other.
    pub(super) fn set_found_by(&self, name: &Host) {
        *lock(&self.name) = Some(name.origin().into());
    }

    /// Whether the look-up of the name or service with this key has found it.
    pub(super) fn is_found_by(&self, key: &str) -> bool {
        lock(&self.name).as_deref() == Some(key)
    }

    /// Returns the host as one of this tier.
    pub(super) fn in_tier(self, tier: u16) -> Member {
        Member { tier: AtomicU16::new(tier), ..self }
    }

    /// Its origin, with its address if its name has several. No two hosts of a balancer have the same.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Counts a request as pending, and takes the host's turn.
    pub(super) fn begin_request(&self, turns: &Turns) -> InFlightGuard {
        // The turns that a host has missed are not made up for.
        let begin = self.turn().0.max(turns.time.load(Ordering::Relaxed));
        turns.time.fetch_max(begin, Ordering::Relaxed);
        self.turn.began.store(begin, Ordering::Relaxed);
        let number = turns.assigned.fetch_add(1, Ordering::Relaxed) + 1;
        self.turn.last_assigned.store(number, Ordering::Relaxed);
        InFlightGuard::new(&self.pending)
    }

    /// Notes that a request is assigned, and returns whether it is a trial of a host that was ejected.
    pub(super) fn begin_trial(&self, health: &HealthPolicy) -> bool {
        if !self.is_out() {
            return false;
        }
        let mut ejector = lock(&self.ejection.ejector);
        let is_first = !ejector.is_half_open();
        let is_trial = ejector.begin_trial(runtime::now());
        drop(ejector);
        if is_trial && is_first {
            health.report(&self.host, HostChange::OnTrial);
        }
        is_trial
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

    pub(super) fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// The load of the host, including its penalties, in proportion to its share.
    pub(super) fn load(&self) -> u64 {
        let requests = (self.pending() + self.penalties.count()) as u64;
        requests.saturating_mul(TURN) / self.share().max(1)
    }

    /// When it is the host's turn. Among equals, it is that of the one whose last request is the longest ago.
    pub(super) fn turn(&self) -> (u64, u64) {
        match self.turn.last_assigned.load(Ordering::Relaxed) {
            0 => (0, 0),
            // The share counts that the host has now, and not that of its last request.
            last => (self.turn.began.load(Ordering::Relaxed) + TURN / self.share().max(1), last),
        }
    }

    pub(super) fn tier(&self) -> u16 {
        self.tier.load(Ordering::Relaxed)
    }

    pub(super) fn set_tier(&self, tier: u16) {
        self.tier.store(tier, Ordering::Relaxed);
    }

    pub(super) fn weight(&self) -> u32 {
        self.share.weight.load(Ordering::Relaxed)
    }

    pub(super) fn set_weight(&self, weight: u32) {
        self.share.weight.store(weight.min(WEIGHT_MAX), Ordering::Relaxed);
    }

    /// The weight in hundredths, of which a host that is just back has a part.
    pub(super) fn share(&self) -> u64 {
        let whole = u64::from(self.weight()) * 100;
        if !self.share.is_growing.load(Ordering::Relaxed) {
            whole
        } else {
            whole * self.share.percent() / 100
        }
    }

    pub(super) fn is_up(&self) -> bool {
        !self.checks.is_down.load(Ordering::Relaxed)
    }

    /// Notes the result of the last checks: the failure of the last one, or that the host is up.
    pub(super) fn set_up(&self, health: &HealthPolicy, failure: Option<CheckFailure>) {
        *lock(&self.checks.failure) = failure;
        let is_down = failure.is_some();
        if self.checks.is_down.swap(is_down, Ordering::Relaxed) == is_down {
            return;
        }
        let change = match failure {
            None => {
                self.share.grow(health.slow_start);
                HostChange::Up
            }
            Some(failure) => HostChange::Down(failure),
        };
        health.report(&self.host, change);
    }

    /// Whether the host is ejected or on trial.
    pub(super) fn is_out(&self) -> bool {
        self.ejection.is_out.load(Ordering::Relaxed)
    }

    /// Whether the host is not ejected at `now`, or may get a trial.
    pub(super) fn admits(&self, now: Instant) -> bool {
        !self.is_out() || lock(&self.ejection.ejector).admits(now)
    }

    /// Records the outcome of a request. Returns whether it is one of a healthy host.
    pub(super) fn record(&self, health: &HealthPolicy, outcome: Result<&Response, &ClientError>) -> bool {
        if let Ok(response) = outcome
            && let Some(class) =
                self.counts.classes.get(usize::from(response.status.as_u16() / 100).wrapping_sub(1))
        {
            class.fetch_add(1, Ordering::Relaxed);
        }
        self.counts.lost_hedges_in_a_row.store(0, Ordering::Relaxed);
        let is_healthy = (health.is_healthy)(outcome);
        if is_healthy {
            self.counts.served.fetch_add(1, Ordering::Relaxed);
            self.counts.failed_in_a_row.store(0, Ordering::Relaxed);
        } else {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            self.counts.failed_in_a_row.fetch_add(1, Ordering::Relaxed);
        }
        if !is_healthy || outcome.is_ok_and(|response| adds_penalty(response.status)) {
            self.penalties.add(health);
        }
        is_healthy
    }

    /// How many of the last requests of the host have failed.
    pub(super) fn failures_in_a_row(&self) -> u32 {
        self.counts.failed_in_a_row.load(Ordering::Relaxed)
    }

    /// Goes on from so many failures in a row, since the response that ended them breaks off.
    pub(super) fn resume_failures(&self, failures: u32) {
        self.counts.failed_in_a_row.fetch_max(failures, Ordering::Relaxed);
    }

    /// Records that another host has answered a hedged request first. Returns whether that has happened too often in a row. The
    /// outcomes of a host that hangs show nothing of that: its requests are canceled before they fail. While the host is out, a
    /// lost hedge ejects it no more than a trial whose caller leaves.
    pub(super) fn record_lost_hedge(&self, policy: &Ejection) -> bool {
        let lost = self.counts.lost_hedges_in_a_row.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        policy.failures > 0 && lost >= policy.failures && !self.is_out()
    }

    /// Brings the host back after a trial that has succeeded.
    pub(super) fn end_trial(&self, health: &HealthPolicy) {
        if !lock(&self.ejection.ejector).succeed(runtime::now()) {
            return;
        }
        self.ejection.is_out.store(false, Ordering::Relaxed);
        // The failures for which it was ejected must not eject it once more, when it is compared with the others.
        self.end_window();
        self.share.grow(health.slow_start);
        health.report(&self.host, HostChange::Returned);
    }

    /// Why a host that has failed is to be ejected, if it is. While it is out, only trials count.
    pub(super) fn ejection_cause(&self, policy: &Ejection, is_trial: bool) -> Option<EjectionCause> {
        if self.is_out() {
            return is_trial.then_some(EjectionCause::Trial);
        }
        (policy.failures > 0 && self.failures_in_a_row() >= policy.failures)
            .then_some(EjectionCause::Failures)
    }

    /// Ejects the host, unless it is ejected already.
    pub(super) fn eject(&self, health: &HealthPolicy, policy: &Ejection, cause: EjectionCause, now: Instant) {
        let Some(time) = lock(&self.ejection.ejector).eject(policy, cause, now) else { return };
        self.ejection.is_out.store(true, Ordering::Relaxed);
        self.ejection.count.fetch_add(1, Ordering::Relaxed);
        self.counts.failed_in_a_row.store(0, Ordering::Relaxed);
        self.counts.lost_hedges_in_a_row.store(0, Ordering::Relaxed);
        health.report(&self.host, HostChange::Ejected(cause, time));
    }

    /// Begins another window of time in which hosts are compared. Returns the counts of the one that ends.
    pub(super) fn end_window(&self) -> WindowCounts {
        let mut window_start = lock(&self.counts.window_start);
        let all = WindowCounts {
            served: self.counts.served.load(Ordering::Relaxed),
            failed: self.counts.failed.load(Ordering::Relaxed),
        };
        let start = std::mem::replace(&mut *window_start, all);
        let served = all.served.saturating_sub(start.served);
        WindowCounts { served, failed: all.failed.saturating_sub(start.failed) }
    }

    pub(super) fn counts(&self) -> BalancerCounts {
        BalancerCounts {
            origin: self.host.origin().to_owned(),
            address: self.host.address(),
            tier: self.tier(),
            weight: self.weight(),
            pending: self.pending(),
            served: self.counts.served.load(Ordering::Relaxed),
            failed: self.counts.failed.load(Ordering::Relaxed),
            classes: self.counts.classes.each_ref().map(|count| count.load(Ordering::Relaxed)),
            penalties: self.penalties.count(),
            down: *lock(&self.checks.failure),
            ejected: lock(&self.ejection.ejector).cause(),
            ejections: self.ejection.count.load(Ordering::Relaxed),
        }
    }
}

/// The turns of a balancer's hosts, in a time that passes with requests: the smaller the share of a host, the longer until
/// its next turn (start-time fair queueing, Goyal and others).
#[derive(Default)]
pub(super) struct Turns {
    time: AtomicU64,
    assigned: AtomicU64,
}

/// So that each turn takes some time: see [`TURN`].
const WEIGHT_MAX: u32 = 1_000;

/// The time that passes with a request to a host whose share is 1.
const TURN: u64 = 1 << 20;

impl HostShare {
    fn new(weight: u32) -> HostShare {
        HostShare { weight: AtomicU32::new(weight.min(WEIGHT_MAX)), ..HostShare::default() }
    }

    /// Has it grow from a small part to the whole in this time.
    fn grow(&self, time: Duration) {
        if time > Duration::ZERO {
            *lock(&self.growth) = Some((runtime::now(), time));
            self.is_growing.store(true, Ordering::Relaxed);
        }
    }

    /// How much of the whole the host has.
    fn percent(&self) -> u64 {
        let mut growth = lock(&self.growth);
        let Some((since, time)) = *growth else { return 100 };
        let part = runtime::now().saturating_duration_since(since).as_secs_f64() / time.as_secs_f64();
        if part >= 1.0 {
            *growth = None;
            self.is_growing.store(false, Ordering::Relaxed);
        }
        ((part * 100.0) as u64).clamp(PERCENT_MIN, 100)
    }
}

/// With less, a host would hardly get any request from which it warms up.
const PERCENT_MIN: u64 = 10;
