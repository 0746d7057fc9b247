//! [`RetryReport`]: one retry of a request; [`RetryLog`]: all of them, and why there was no other.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::cause::ClientPhase;
use crate::message::Status;

/// One retry of a request, with the failed attempt and the wait before the next one.
///
/// In [`Response::retries`](crate::Response::retries), in
/// [`ClientError::retries`](crate::ClientError::retries), and reported to observers by
/// [`HostEvents::on_retry`](crate::client::HostEvents::on_retry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryReport {
    /// The number of the attempt that has failed, from 1.
    pub attempt: u32,
    /// Why it is retried.
    pub cause: RetryCause,
    /// The wait before the next attempt. For a hedge, the time after which it was sent.
    pub wait: Duration,
}

/// Why a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryCause {
    /// The attempt failed in this phase, with an error of this kind.
    Failed(ClientPhase, io::ErrorKind),
    /// The server answered with this status.
    Status(Status),
    /// The response took longer than most, so a hedge was sent (see
    /// [`Retry::hedge_after_percentile`](crate::client::Retry::hedge_after_percentile)).
    Slow,
}

impl fmt::Display for RetryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RetryReport { attempt, cause, wait } = self;
        write!(f, "attempt {attempt}: {cause}; the next one after {wait:?}")
    }
}

impl fmt::Display for RetryCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RetryCause::Failed(phase, kind) => write!(f, "{phase} failed: {kind}"),
            RetryCause::Status(status) => write!(f, "the server responded {status}"),
            RetryCause::Slow => f.write_str("the response takes long"),
        }
    }
}

/// Why a request that a policy would retry was not sent again.
///
/// In [`Response::retry_stop`](crate::Response::retry_stop) and [`ClientError::retry_stop`](crate::ClientError::retry_stop).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RetryStop {
    /// There were as many attempts as the policy allows.
    AttemptsMax,
    /// The server may have acted on the request, and the request is not idempotent (RFC 9110 §9.2.2).
    NotIdempotent,
    /// The body was a stream, which can be sent only once. [`Body::set_stream_with`](crate::Body::set_stream_with) makes one
    /// that can be sent again.
    BodyConsumed,
    /// The server wants the client to wait for longer than the policy allows.
    RetryAfter,
    /// The time limit of the whole exchange would be over before the next attempt.
    Deadline,
    /// The budget of the host is used up.
    Budget,
}

impl fmt::Display for RetryStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RetryStop::AttemptsMax => "there were as many attempts as are allowed",
            RetryStop::NotIdempotent => "the server may have acted on the request, which is not idempotent",
            RetryStop::BodyConsumed => "its body was a stream, which can be sent only once",
            RetryStop::RetryAfter => "the server asks for a longer wait than is allowed",
            RetryStop::Deadline => "the time for the whole exchange would be over",
            RetryStop::Budget => "the budget for retries is used up",
        })
    }
}

/// The retries of one request, and why there was no other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::client) struct RetryLog {
    pub(in crate::client) retries: Vec<RetryReport>,
    pub(in crate::client) stop: Option<RetryStop>,
}

impl RetryLog {
    /// This log, to be shared, if there is anything in it.
    pub(in crate::client) fn into_shared(self) -> Option<Arc<RetryLog>> {
        (!self.retries.is_empty() || self.stop.is_some()).then(|| Arc::new(self))
    }
}
