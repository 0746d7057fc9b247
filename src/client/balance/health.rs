//! [`HealthPolicy`]: which outcomes are failures of a host, and what follows from them; [`PanicThreshold`]: with too few fit
//! hosts, all get requests. [`HostReport`] and [`PanicReport`] tell of changes.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::check::{CheckFailure, HealthCheck};
use super::ejection::{Ejection, EjectionCause};
use crate::client::error::ClientError;
use crate::client::host::Host;
use crate::message::{Response, Status};
use crate::runtime::Hooks;

/// A change of one host of a [`Balancer`](super::Balancer).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostReport<'a> {
    /// Scheme, host and port, such as `http://one:8080`.
    pub origin: &'a str,
    /// The address, if the host is [one of several of that name](super::BalancerBuilder::each_address_of).
    pub address: Option<IpAddr>,
    /// The new state, and its cause.
    pub change: HostChange,
}

/// The new state of a host of a [`Balancer`](super::Balancer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostChange {
    /// It has failed its checks, the last one so.
    Down(CheckFailure),
    /// It has passed its checks again.
    Up,
    /// It gets no requests for this time, because of its failures.
    Ejected(EjectionCause, Duration),
    /// It was ejected, and gets requests one by one as trials.
    OnTrial,
    /// A trial has succeeded.
    Returned,
    /// It was found by the look-up of a name or a service.
    Found,
    /// It was no longer found. Pending requests are still answered.
    Gone,
    /// The look-up of the name or service has failed, for the first time since it last succeeded. The hosts that it has found
    /// before stay.
    Unresolved,
}

/// Which outcomes are failures of a host, and what follows from them.
pub(super) struct HealthPolicy {
    /// How long one failure counts.
    pub(super) penalty: Duration,
    /// How many count at the same time.
    pub(super) penalty_max: usize,
    pub(super) is_healthy: Box<IsHealthy>,
    pub(super) ejection: Option<Ejection>,
    pub(super) slow_start: Duration,
    pub(super) check: Option<HealthCheck>,
    pub(super) on_change: Hooks<dyn Fn(&HostReport<'_>) + Send + Sync>,
}

/// Whether an outcome is one of a healthy host.
type IsHealthy = dyn Fn(Result<&Response, &ClientError>) -> bool + Send + Sync;

impl HealthPolicy {
    /// Reports that `host` has changed.
    pub(super) fn report(&self, host: &Host, change: HostChange) {
        let report = HostReport { origin: host.origin(), address: host.address(), change };
        self.on_change.call(|on_change| on_change(&report));
    }
}

/// Whether a status is an error of the server, and not of the request alone (RFC 9110 §15.6.2, §15.6.6), or its refusal of
/// more requests (RFC 6585 §4). It need not mean that the host fails, but one that answers so at once must not attract
/// requests.
pub(super) fn adds_penalty(status: Status) -> bool {
    let is_of_request = [Status::NOT_IMPLEMENTED, Status::HTTP_VERSION_NOT_SUPPORTED].contains(&status);
    status == Status::TOO_MANY_REQUESTS || (status.is_server_error() && !is_of_request)
}

impl fmt::Debug for HealthPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthPolicy")
            .field("penalty", &self.penalty)
            .field("penalty_max", &self.penalty_max)
            .field("ejection", &self.ejection)
            .field("slow_start", &self.slow_start)
            .field("check", &self.check)
            .finish_non_exhaustive()
    }
}

/// A [`Balancer`](super::Balancer) starts or stops sending requests to hosts that are not fit for use.
///
/// These get requests while the percentage of fit hosts is below
/// [`BalancerBuilder::panic_below`](super::BalancerBuilder::panic_below). They also do while not even a backup is fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PanicReport {
    /// Whether it starts or stops.
    pub change: PanicChange,
    /// How many hosts are fit for use. Neither backups nor hosts of weight 0 are counted here.
    pub fit: usize,
    /// How many hosts there are, counted likewise.
    pub hosts: usize,
}

/// The beginning or the end of requests to hosts that are not fit for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PanicChange {
    /// Hosts that are not fit get requests as well, from now on.
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
