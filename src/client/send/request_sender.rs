//! [`RequestSender`]: sends a request, and each that a redirect leads to.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::redirect_chain::RedirectChain;
use super::retry_loop::RetryLoop;
use super::sent_request::{SentRequest, Until, written_length};
use super::surrounded::Surrounded;
use crate::client::call::{Call, ResponseReader};
use crate::client::error::ClientError;
use crate::client::exchange::OutgoingRequest;
use crate::client::observe::ClientCounts;
use crate::client::pool::{ClientPools, Pool, PooledConn};
use crate::client::redirects::Redirects;
use crate::client::retry::{EarlierAttempts, Retry};
use crate::client::settings::{ClientSettings, ClientTimeouts, PhaseTimeouts, RequestTimeouts};
use crate::memory::Reset;
use crate::message::{Request, Response};
use crate::runtime::{self, boxed};

/// Sends requests over pooled connections: the part of a client that its hosts, balancers and pipelines hold, too.
///
/// Each way to send is made of attempts, and makes them in [`RequestSender::attempt`].
#[derive(Clone)]
pub(in crate::client) struct RequestSender {
    pub(in crate::client) pools: Arc<ClientPools>,
    /// The time limit for a whole exchange.
    total: Option<Duration>,
    /// The timeouts of the phases, if they are not those of the settings.
    phases: Option<Arc<PhaseTimeouts>>,
    redirects: Redirects,
    /// The policy for retries, if there is one.
    retry: Option<Arc<Retry>>,
    /// The attempts that a balancer has made for this request at other hosts.
    earlier: EarlierAttempts,
}

/// [`RequestSender::attempt`] within the future of its caller: a future of its own would cost each request time.
macro_rules! attempt {
    ($sender:expr, $pool:expr, $outgoing:expr, $until:expr, $timeouts:expr) => {
        match $sender.retry.as_deref() {
            None if $sender.settings().middleware.is_empty() => {
                SentRequest::run(&$sender.pools, $pool, $outgoing, $until, $timeouts).await
            }
            None => boxed(|| Surrounded::run(&$sender.pools, $pool, $outgoing, $until, $timeouts)).await,
            Some(policy) => $sender.attempt_by(policy, $pool, $outgoing, $until, $timeouts).await,
        }
    };
}

impl RequestSender {
    pub(in crate::client) fn new(
        settings: ClientSettings,
        total: Option<Duration>,
        redirects: Redirects,
        retry: Option<Arc<Retry>>,
    ) -> RequestSender {
        let pools = Arc::new(ClientPools::new(settings));
        RequestSender { pools, total, phases: None, redirects, retry, earlier: EarlierAttempts::default() }
    }

    pub(in crate::client) fn with_total(&self, total: Option<Duration>) -> RequestSender {
        RequestSender { total, ..self.clone() }
    }

    pub(in crate::client) fn with_timeouts(&self, timeouts: ClientTimeouts) -> RequestSender {
        let phases = PhaseTimeouts::new(timeouts, self.timeouts().bounds(self.settings()));
        RequestSender { phases: Some(Arc::new(phases)), ..self.clone() }
    }

    pub(in crate::client) fn with_body_max(&self, most: usize) -> RequestSender {
        let (timeouts, settings) = (self.timeouts(), self.settings());
        let mut bounds = timeouts.bounds(settings).clone();
        bounds.limits.body_max = most;
        let phases = PhaseTimeouts::new(*timeouts.of_phases(settings), &bounds);
        RequestSender { phases: Some(Arc::new(phases)), ..self.clone() }
    }

    pub(in crate::client) fn with_redirects(&self, redirects: Redirects) -> RequestSender {
        RequestSender { redirects, ..self.clone() }
    }

    pub(in crate::client) fn with_retry(&self, retry: Option<Arc<Retry>>) -> RequestSender {
        RequestSender { retry, ..self.clone() }
    }

    /// Returns this sender, for a request after these attempts.
    pub(in crate::client) fn with_earlier(&self, earlier: EarlierAttempts) -> RequestSender {
        RequestSender { earlier, ..self.clone() }
    }

    /// A request as the caller has made it.
    pub(super) fn outgoing<'r>(&self, request: &'r Request) -> OutgoingRequest<'r> {
        OutgoingRequest::new(request).with_resends(self.earlier.failed)
    }

    /// Returns this sender, with connections of its own that have these settings.
    #[allow(dead_code, reason = "unused without the feature `proxy-protocol`")]
    pub(in crate::client) fn with_settings(&self, settings: ClientSettings) -> RequestSender {
        RequestSender { pools: Arc::new(ClientPools::new(settings)), ..self.clone() }
    }

    /// The pool of the origin with this key, in this runtime: at one of its addresses, or wherever it is reached.
    pub(in crate::client) fn pool(
        &self,
        key: &str,
        address: Option<IpAddr>,
    ) -> Result<Arc<Pool>, ClientError> {
        self.pools.pool(key, address)
    }

    pub(in crate::client) fn each_pool(&self, then: impl FnMut(&Pool)) {
        self.pools.each(then);
    }

    pub(in crate::client) fn counts(&self) -> ClientCounts {
        self.pools.counts()
    }

    pub(in crate::client) fn settings(&self) -> &ClientSettings {
        &self.pools.settings
    }

    /// Sends `request`, follows redirects, and receives the last response with its body. `pool` is the pool of the
    /// request's origin, if the caller has it.
    pub(in crate::client) async fn send_whole(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<(), ClientError> {
        let pooled = self.send_following_redirects(pool, request, response).await?;
        pooled.receive_body(response).await.map_err(|error| error.with_url(final_target(request, response)))
    }

    /// As [`RequestSender::send_whole`], for a caller that reads the body piece by piece.
    pub(in crate::client) async fn open_response(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<ResponseReader, ClientError> {
        let mut pooled = self.send_following_redirects(pool, request, response).await?;
        pooled.note_target(final_target(request, response));
        Ok(ResponseReader::new(pooled))
    }

    /// Sends the head of `request` only, for a caller that writes the body.
    pub(in crate::client) async fn open_call(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
    ) -> Result<Call, ClientError> {
        let timeouts = self.timeouts();
        let outgoing = self.outgoing(request);
        let length = written_length(request);
        let attempt = attempt!(self, pool, &outgoing, Until::call_of(request, length), &timeouts)?;
        Ok(attempt.into_call())
    }

    /// Sends `request`, follows redirects, and receives the head of the last response.
    async fn send_following_redirects(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<PooledConn, ClientError> {
        let timeouts = self.timeouts();
        let outgoing = self.outgoing(request);
        let attempt = attempt!(self, pool, &outgoing, Until::Answered(response), &timeouts)?;
        let sent = attempt.resends().saturating_add(1);
        let mut pooled = attempt.into_answered(response);
        if self.redirects.applies_to(response.status) {
            // The server that redirected has received the request, and perhaps acted on it.
            let followed = boxed(|| self.follow_redirects(pooled, sent, request, response, &timeouts)).await;
            pooled = followed.map_err(|error| error.sent_before(true))?;
        }
        pooled.decode(response).map_err(|error| error.with_url(request.target().as_str()))?;
        Ok(pooled)
    }

    /// Follows the redirect that `response` may be, and those after it. So many requests were `sent` before.
    async fn follow_redirects(
        &self,
        mut pooled: PooledConn,
        mut sent: u32,
        request: &Request,
        response: &mut Response,
        timeouts: &RequestTimeouts,
    ) -> Result<PooledConn, ClientError> {
        let mut chain = RedirectChain::new(self.redirects, self.settings().redirect_check.as_ref(), request);
        while let Some(next) = chain.follow(&pooled, response, sent)? {
            pooled.discard().await;
            let attempt = self.attempt(None, &next, Until::Answered(response), timeouts).await?;
            sent = attempt.resends().saturating_add(1);
            pooled = attempt.into_answered(response);
        }
        Ok(pooled)
    }

    /// Makes an attempt at a request, and more if there is a policy for retries. All requests that do not share their
    /// connection come through here.
    pub(super) async fn attempt<'a, 'r: 'a>(
        &'a self,
        pool: Option<Arc<Pool>>,
        outgoing: &'a OutgoingRequest<'r>,
        until: Until<'a>,
        timeouts: &'a RequestTimeouts,
    ) -> Result<SentRequest<'r>, ClientError> {
        attempt!(self, pool, outgoing, until, timeouts)
    }

    /// Makes attempts as `policy` says.
    async fn attempt_by<'a, 'r: 'a>(
        &'a self,
        policy: &'a Retry,
        pool: Option<Arc<Pool>>,
        outgoing: &'a OutgoingRequest<'r>,
        mut until: Until<'a>,
        timeouts: &'a RequestTimeouts,
    ) -> Result<SentRequest<'r>, ClientError> {
        if let Until::Answered(response) = &mut until {
            response.reset();
        }
        RetryLoop::begin(policy, &self.pools, pool, outgoing, timeouts)?.run(until).await
    }

    /// The policy for retries, if there is one.
    pub(in crate::client) fn retry(&self) -> Option<&Arc<Retry>> {
        self.retry.as_ref()
    }

    /// The timeouts of an exchange that begins now.
    pub(in crate::client) fn timeouts(&self) -> RequestTimeouts {
        let ends = || self.total.map(|total| runtime::later(runtime::now(), total));
        let deadline = self.earlier.deadline.or_else(ends);
        RequestTimeouts { deadline, total: self.total, phases: self.phases.clone() }
    }
}

/// The target of the request that `response` answers, which is the last one of a chain of redirects.
fn final_target<'a>(request: &'a Request, response: &'a Response) -> &'a str {
    response.url.as_deref().unwrap_or(request.target().as_str())
}
