//! [`HealthPolicy`]: which outcomes are failures of a host, and what follows from them; [`HostReport`] is that of one host.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::check::{CheckFailure, HealthCheck};
use super::ejection::{Ejection, EjectionCause};
use crate::client::error::ClientError;
use crate::client::host::Host;
use crate::message::Response;
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
