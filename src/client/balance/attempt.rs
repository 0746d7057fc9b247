//! [`Attempt`]: a request that one of several hosts is asked.

use std::sync::Arc;

use super::member::Member;
use crate::client::Host;
use crate::client::pending::Pending;

/// A request, and the host that it is for. It counts as one that the host has to answer.
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

    /// Another host was asked before.
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

    /// What is to be kept until the body of the answer is read.
    pub(super) fn into_pending(self) -> Pending {
        self.pending
    }
}
