//! [`Attempt`]: a request that was assigned to one of several hosts.

use std::sync::Arc;

use super::member::Member;
use crate::client::Host;
use crate::client::pending::Pending;

/// A request that was assigned to a host, where it counts as pending.
pub(super) struct Attempt {
    member: Arc<Member>,
    pending: Pending,
    is_second: bool,
}

impl Attempt {
    pub(super) fn new(member: Arc<Member>) -> Attempt {
        let pending = member.ask();
        Attempt { member, pending, is_second: false }
    }

    /// Marks it as the second attempt, after another host failed.
    pub(super) fn second(mut self) -> Attempt {
        self.is_second = true;
        self
    }

    pub(super) fn is_second(&self) -> bool {
        self.is_second
    }

    pub(super) fn member(&self) -> &Arc<Member> {
        &self.member
    }

    pub(super) fn host(&self) -> &Host {
        &self.member.host
    }

    /// The part that is kept until the body of the answer has been read.
    pub(super) fn into_pending(self) -> Pending {
        self.pending
    }
}
