//! [`HostAttempt`]: a request that was assigned to one of several hosts.

use std::sync::Arc;

use super::member::Member;
use crate::client::in_flight_guard::InFlightGuard;

/// A request that was assigned to a host.
pub(super) struct HostAttempt {
    pub(super) member: Arc<Member>,
    /// Counts the request for that host.
    pub(super) in_flight: InFlightGuard,
    /// Whether another host failed before.
    pub(super) is_second: bool,
}

impl HostAttempt {
    pub(super) fn new(member: Arc<Member>) -> HostAttempt {
        let in_flight = member.begin_request();
        HostAttempt { member, in_flight, is_second: false }
    }
}
