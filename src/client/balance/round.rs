//! [`Round`]: one request of a balancer, from host to host; [`Assignment`]: the request at one of them.

use std::sync::Arc;

use super::member::Member;
use crate::client::call::InFlightGuard;
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::host::Host;
use crate::client::retry::{EarlierAttempts, Tries};
use crate::client::send::RequestSender;
use crate::message::{Request, Response};
use crate::runtime::Instant;

/// One request of a caller, which is assigned to one host after another.
pub(super) struct Round<'a> {
    pub(super) request: &'a Request,
    pub(super) assignment: Assignment,
    /// No attempts, and the deadline from the beginning on, which no other host puts off.
    pub(super) at_begin: EarlierAttempts,
    /// The attempts so far, if there is a policy for retries.
    pub(super) tries: Option<Tries<'a>>,
    /// The wait for the next attempt, if there is one.
    pub(super) wait: Option<RetryWait>,
}

/// The wait before an attempt.
pub(super) struct RetryWait {
    pub(super) due: Instant,
    /// The host that has failed the attempt before.
    pub(super) failed: Arc<Member>,
}

impl Round<'_> {
    pub(super) fn host(&self) -> &Host {
        self.assignment.host()
    }

    /// The percentile of the latencies after which the next attempt is hedged; `None` if it is not.
    pub(super) fn hedge_percentile(&self) -> Option<u8> {
        self.tries.as_ref().and_then(Tries::hedge_percentile)
    }

    /// Returns the error of the last attempt, with the attempts before it.
    pub(super) fn describe(&mut self, error: ClientError) -> ClientError {
        match self.tries.take() {
            Some(tries) => tries.describe(error),
            None => error,
        }
    }

    /// Ends with this response, which gets the attempts before it. The request is pending for as long as the assignment that is
    /// returned is kept.
    pub(super) fn end(mut self, response: &mut Response) -> Assignment {
        if let Some(retries) = self.tries.take().and_then(Tries::into_log) {
            response.set_client_retries(&retries);
        }
        self.assignment
    }
}

/// A request that was assigned to a host.
pub(super) struct Assignment {
    pub(super) member: Arc<Member>,
    /// The same host over connections of another sender than the balancer's, or after other attempts.
    host: Option<Host>,
    /// Counts the request for that host.
    pub(super) in_flight: InFlightGuard,
    /// Whether another host failed before.
    pub(super) is_second: bool,
    /// Whether it decides what becomes of a host that was ejected.
    pub(super) is_trial: bool,
    /// The record of the head of its response, once there is one.
    pub(super) head: Option<HeadRecord>,
}

impl Assignment {
    /// A first attempt, which `in_flight` counts, and which is no trial.
    pub(super) fn new(member: Arc<Member>, in_flight: InFlightGuard) -> Assignment {
        Assignment { member, host: None, in_flight, is_second: false, is_trial: false, head: None }
    }

    /// Uses the connections of `sender`, if there is one.
    pub(super) fn through(mut self, sender: Option<&RequestSender>) -> Assignment {
        if let Some(sender) = sender {
            self.host = Some(self.member.host.with_sender(sender.clone()));
        }
        self
    }

    /// The second attempt of a balancer without a policy.
    pub(super) fn second(self) -> Assignment {
        Assignment { is_second: true, ..self }
    }

    /// Assigns the request after these attempts.
    pub(super) fn with_earlier(self, earlier: EarlierAttempts) -> Assignment {
        let host = Some(self.host().with_earlier(earlier));
        Assignment { host, ..self }
    }

    pub(super) fn host(&self) -> &Host {
        self.host.as_ref().unwrap_or(&self.member.host)
    }
}

/// The record of the head of a response, whose body may still break off.
#[derive(Clone, Copy, Default)]
pub(super) struct HeadRecord {
    /// Whether no error of the body counts any more: the request has failed before, or by its caller's fault.
    pub(super) is_over: bool,
    /// The row of failures that the head has ended, and when.
    pub(super) ended_row: Option<(u32, Instant)>,
}

/// The error of a request for which there is no host.
pub(super) fn not_assigned(request: &Request, cause: ClientCause) -> ClientError {
    ClientError::new(ClientPhase::Prepare, cause).with_url(request.target().as_str())
}
