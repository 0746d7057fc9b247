//! [`Tries`]: the attempts at one request so far, and whether there is another.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::backoff::retry_after;
use super::retry::Retry;
use crate::client::error::{ClientError, RetryCause, RetryLog, RetryReport, RetryStop};
use crate::message::{Body, Request, Response};
use crate::runtime::{Instant, later};

/// The outcome of an attempt, as a policy sees it.
pub(in crate::client) type Outcome<'a> = Result<&'a Response, &'a ClientError>;

/// The host of the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum NextHost {
    Same,
    /// Another one, for which the `retry-after` of this one does not count.
    Other,
}

/// The attempts that a balancer has made at a request before, on other hosts.
#[derive(Clone, Copy, Default)]
pub(in crate::client) struct EarlierAttempts {
    pub(in crate::client) failed: u32,
    /// When the whole exchange must be complete, which began with the first of them.
    pub(in crate::client) deadline: Option<Instant>,
}

/// The attempts at one request that have failed so far.
pub(in crate::client) struct Tries<'a> {
    policy: &'a Retry,
    request: &'a Request,
    /// The body that is sent with the request, unless the caller writes it.
    body: Option<&'a Body>,
    /// When the whole exchange must be complete.
    deadline: Option<Instant>,
    /// Whether one of them has sent any of the request.
    was_sent: bool,
    log: RetryLog,
}

impl<'a> Tries<'a> {
    pub(in crate::client) fn new(
        policy: &'a Retry,
        request: &'a Request,
        body: Option<&'a Body>,
        deadline: Option<Instant>,
    ) -> Tries<'a> {
        Tries { policy, request, body, deadline, was_sent: false, log: RetryLog::default() }
    }

    /// How many attempts have failed.
    pub(in crate::client) fn failed(&self) -> u32 {
        u32::try_from(self.log.retries.len()).unwrap_or(u32::MAX)
    }

    /// The attempts so far, as the next one has to know of them.
    pub(in crate::client) fn earlier(&self) -> EarlierAttempts {
        EarlierAttempts { failed: self.failed(), deadline: self.deadline }
    }

    /// Decides whether the request, whose attempt had this outcome, is sent again, and after which wait. If so, the
    /// body is rewound. `withdraw` takes the retry from a budget, if there is one left.
    pub(in crate::client) fn next(
        &mut self,
        outcome: Outcome<'_>,
        next_host: NextHost,
        now: Instant,
        withdraw: impl FnOnce() -> bool,
    ) -> Option<RetryReport> {
        if !self.policy.may_help(outcome) {
            return None;
        }
        match self.wait(outcome, next_host, now) {
            Ok(_) if !withdraw() => self.log.stop = Some(RetryStop::Budget),
            Ok(wait) => {
                let cause = match outcome {
                    Ok(response) => RetryCause::Status(response.status),
                    Err(error) => RetryCause::Failed(error.phase(), error.kind()),
                };
                let report = RetryReport { attempt: self.failed() + 1, cause, wait };
                self.log.retries.push(report);
                self.was_sent |= is_sent(outcome);
                return Some(report);
            }
            Err(stop) => self.log.stop = Some(stop),
        }
        None
    }

    /// The percentile of the latencies after which the next attempt is hedged; `None` if it is not.
    pub(in crate::client) fn hedge_percentile(&self) -> Option<u8> {
        self.policy.hedge_percentile().filter(|_| self.log.retries.is_empty())
    }

    /// Decides whether a request that has not been answered for so long is sent once more beside. `withdraw` takes a retry
    /// from a budget, if there is one left. A request for another protocol would open two connections that speak it.
    pub(in crate::client) fn hedge(
        &mut self,
        waited: Duration,
        withdraw: impl FnOnce() -> bool,
    ) -> Option<RetryReport> {
        let attempt = self.failed() + 1;
        let may_repeat = self.request.method().is_safe()
            && !self.request.headers.contains("upgrade")
            && self.body.is_none_or(Body::rewind);
        if attempt >= self.policy.attempts_max || !may_repeat || !withdraw() {
            return None;
        }
        let report = RetryReport { attempt, cause: RetryCause::Slow, wait: waited };
        self.log.retries.push(report);
        self.was_sent = true;
        Some(report)
    }

    /// Returns the error of the last attempt as that of all of them.
    pub(in crate::client) fn describe(self, error: ClientError) -> ClientError {
        error.sent_before(self.was_sent).with_retries(self.into_log())
    }

    /// The retries so far, to be shared, and why there is no other.
    pub(in crate::client) fn into_log(self) -> Option<Arc<RetryLog>> {
        self.log.into_shared()
    }

    /// The wait before the next attempt.
    ///
    /// # Errors
    ///
    /// Fails if there must be no other attempt.
    fn wait(&self, outcome: Outcome<'_>, next_host: NextHost, now: Instant) -> Result<Duration, RetryStop> {
        let failed = self.failed() + 1;
        if failed >= self.policy.attempts_max {
            return Err(RetryStop::AttemptsMax);
        }
        if is_sent(outcome) && !self.policy.is_idempotent(self.request) {
            return Err(RetryStop::NotIdempotent);
        }
        if self.body.is_some_and(|body| !body.rewind()) {
            return Err(RetryStop::BodyConsumed);
        }
        let asked = match (outcome, next_host) {
            (Ok(response), NextHost::Same) => retry_after(&response.headers, SystemTime::now),
            (Ok(_), NextHost::Other) | (Err(_), _) => None,
        };
        let asked = asked.unwrap_or_default();
        if asked > self.policy.retry_after_max {
            return Err(RetryStop::RetryAfter);
        }
        // Clients that were told the same time would otherwise all come back in the same moment.
        let wait = asked.saturating_add(self.policy.backoff.jittered(failed));
        match self.deadline.is_some_and(|deadline| later(now, wait) >= deadline) {
            true => Err(RetryStop::Deadline),
            false => Ok(wait),
        }
    }
}

/// Whether the server may have acted on a request with this outcome.
fn is_sent(outcome: Outcome<'_>) -> bool {
    outcome.map_or_else(ClientError::is_sent, |_| true)
}
