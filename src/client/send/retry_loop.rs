//! [`RetryLoop`]: the attempts at one request, as many as its policy for retries makes.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::hedge::{Winner, hedge};
use super::sent_request::{SentRequest, Until};
use super::surrounded::Surrounded;
use crate::client::error::{ClientError, RetryReport};
use crate::client::exchange::OutgoingRequest;
use crate::client::pool::{ClientPools, Pool};
use crate::client::retry::{NextHost, Retry, Tries};
use crate::client::settings::RequestTimeouts;
use crate::message::Response;
use crate::runtime::{self, Instant, boxed, later, sleep_until};

/// The attempts at one request. The first one is like one without a policy, and costs no more memory.
pub(super) struct RetryLoop<'a, 'r> {
    policy: &'a Retry,
    pools: &'a ClientPools,
    pool: Arc<Pool>,
    outgoing: &'a OutgoingRequest<'r>,
    timeouts: &'a RequestTimeouts,
}

impl<'a, 'r: 'a> RetryLoop<'a, 'r> {
    /// Prepares attempts at a request. `pool` is that of its origin, if the caller has it.
    ///
    /// # Errors
    ///
    /// Fails if the request has no origin, or if there is no runtime.
    pub(super) fn begin(
        policy: &'a Retry,
        pools: &'a ClientPools,
        pool: Option<Arc<Pool>>,
        outgoing: &'a OutgoingRequest<'r>,
        timeouts: &'a RequestTimeouts,
    ) -> Result<RetryLoop<'a, 'r>, ClientError> {
        let request = outgoing.request;
        let pool = match pool {
            Some(pool) => pool,
            None => pools
                .pool_of(request.target())
                .map_err(|error| timeouts.describe(error, request, &pools.settings))?,
        };
        Ok(RetryLoop { policy, pools, pool, outgoing, timeouts })
    }

    /// Makes the attempts, each as far as `until` says.
    pub(super) async fn run(self, mut until: Until<'_>) -> Result<SentRequest<'r>, ClientError> {
        if let Some(budget) = &self.pool.retries.budget {
            budget.deposit();
        }
        let request = self.outgoing.request;
        let mut tries = Tries::new(self.policy, request, until.sent_body(request), self.timeouts.deadline);
        let mut attempted = match (tries.hedge_percentile(), until.reborrow()) {
            (None, until) | (_, until @ Until::HeadSent(_)) => self.attempt(0, until).await,
            (Some(percent), until) => self.hedge(percent, &mut tries, until).await,
        };
        let Some(retry) = self.next(&mut tries, &mut attempted, &mut until) else {
            return self.finish(attempted, tries);
        };
        boxed(|| self.retry(retry, tries, attempted, until)).await
    }

    /// Makes the first attempt, and another one beside if it takes longer than `percent` of the host's responses.
    async fn hedge(
        &self,
        percent: u8,
        tries: &mut Tries<'_>,
        mut until: Until<'_>,
    ) -> Result<SentRequest<'r>, ClientError> {
        let mut other = Response::new();
        let beside = until.beside(&mut other);
        let first = self.attempt(0, until.reborrow());
        let hedged = hedge(&self.pool.retries.latencies, percent, first, |waited| {
            self.may_hedge(tries, waited).then(|| boxed(|| self.attempt(1, beside)))
        });
        let hedged = hedged.await;
        if let (Winner::Second, Until::Answered(response)) = (hedged.winner, until) {
            mem::swap(response, &mut other);
        }
        hedged.outcome
    }

    /// Decides whether a request that has `waited` for so long is hedged, and reports it.
    fn may_hedge(&self, tries: &mut Tries<'_>, waited: Duration) -> bool {
        let retry = tries.hedge(waited, || self.withdraw(runtime::now()));
        if let Some(retry) = &retry {
            self.pool.events.count_retry(retry);
        }
        retry.is_some()
    }

    /// Takes a retry from the budget of the host. Returns whether there was one.
    fn withdraw(&self, now: Instant) -> bool {
        let is_granted = self.pool.retries.budget.as_ref().is_none_or(|budget| budget.withdraw(now));
        if !is_granted {
            self.pool.events.count_refused_retry();
        }
        is_granted
    }

    /// Makes the attempts after the first one, which was `attempted`.
    async fn retry(
        &self,
        mut retry: RetryReport,
        mut tries: Tries<'_>,
        mut attempted: Result<SentRequest<'r>, ClientError>,
        mut until: Until<'_>,
    ) -> Result<SentRequest<'r>, ClientError> {
        loop {
            let due = later(runtime::now(), retry.wait);
            if let Ok(unwanted) = attempted {
                unwanted.discard(until.reborrow()).await;
            }
            sleep_until(due).await;
            attempted = self.attempt(tries.failed(), until.reborrow()).await;
            match self.next(&mut tries, &mut attempted, &mut until) {
                Some(next) => retry = next,
                None => return self.finish(attempted, tries),
            }
        }
    }

    /// Makes one attempt, after so many others.
    fn attempt<'b>(
        &'b self,
        failed: u32,
        until: Until<'b>,
    ) -> impl Future<Output = Result<SentRequest<'r>, ClientError>> + Send + use<'a, 'b, 'r> {
        let RetryLoop { pools, outgoing, timeouts, .. } = *self;
        let pool = self.pool.clone();
        async move {
            let outgoing = outgoing.with_resends(failed);
            match pools.settings.middleware.is_empty() {
                true => SentRequest::run(pools, Some(pool), &outgoing, until, timeouts).await,
                false => boxed(|| Surrounded::run(pools, Some(pool), &outgoing, until, timeouts)).await,
            }
        }
    }

    /// Decides whether there is another attempt after this one, and reports it.
    fn next(
        &self,
        tries: &mut Tries<'_>,
        attempted: &mut Result<SentRequest<'r>, ClientError>,
        until: &mut Until<'_>,
    ) -> Option<RetryReport> {
        let outcome = match attempted {
            Ok(attempt) => Ok(attempt.store_client_info(until)?),
            Err(error) => Err(&*error),
        };
        let now = runtime::now();
        let retry = tries.next(outcome, NextHost::Same, now, || self.withdraw(now))?;
        self.pool.events.count_retry(&retry);
        Some(retry)
    }

    /// The outcome of the last attempt, with those before it.
    fn finish(
        &self,
        attempted: Result<SentRequest<'r>, ClientError>,
        tries: Tries<'_>,
    ) -> Result<SentRequest<'r>, ClientError> {
        match attempted {
            Ok(attempt) => {
                let resends = self.outgoing.resends.saturating_add(tries.failed());
                Ok(attempt.with_resends(resends).with_retry_log(tries.into_log()))
            }
            Err(error) => Err(tries.describe(error)),
        }
    }
}
