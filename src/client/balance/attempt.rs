//! [`Attempt`]: a request that was assigned to one of several hosts.

use std::sync::Arc;

use super::member::Member;
use crate::client::pending::Pending;

/// A request that was assigned to a host.
pub(super) struct Attempt {
    pub(super) member: Arc<Member>,
    /// Counts the request for that host.
    pub(super) pending: Pending,
    /// Whether another host failed before.
    pub(super) is_second: bool,
}

impl Attempt {
    pub(super) fn new(member: Arc<Member>) -> Attempt {
        let pending = member.ask();
        Attempt { member, pending, is_second: false }
    }
}
