//! [`RequestSender`]: sends a request over a pooled connection, and again after a redirect, a stale connection or a
//! 417.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::redirect::{self, Redirects};
use crate::client::call::{Call, CallExchange, ClientUpgraded, ResponseReader};
use crate::client::cookies::RequestCookies;
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::exchange::{ExpectField, OutgoingRequest, Progress, RedirectTaint, check};
use crate::client::observe::{ClientCounts, ClientSpan, ExchangeEnd};
use crate::client::pool::{ClientPools, Pool, PooledConn, open_conn, wait_for_conn};
use crate::client::settings::{ClientSettings, ClientTimeouts, PhaseLimits, RequestLimits};
use crate::exchange::Expectation;
use crate::memory::Reset;
use crate::message::{BodyLength, Request, Response, Status};
use crate::runtime::{self, boxed};
use crate::wire::OutgoingFraming;

/// Sends requests over pooled connections: the part of a client that its hosts, balancers and pipelines hold, too.
#[derive(Clone)]
pub(in crate::client) struct RequestSender {
    pub(in crate::client) pools: Arc<ClientPools>,
    /// The time limit for a whole exchange.
    total: Option<Duration>,
    /// The limits of the phases, if they are not those of the settings.
    phases: Option<Arc<PhaseLimits>>,
    redirects: Redirects,
}

impl RequestSender {
    pub(in crate::client) fn new(
        settings: ClientSettings,
        total: Option<Duration>,
        redirects: Redirects,
    ) -> RequestSender {
        RequestSender { pools: Arc::new(ClientPools::new(settings)), total, phases: None, redirects }
    }

    /// Returns this sender, with another time limit for whole exchanges.
    pub(in crate::client) fn with_total(&self, total: Option<Duration>) -> RequestSender {
        RequestSender { total, ..self.clone() }
    }

    /// Returns this sender, with other limits of the phases.
    pub(in crate::client) fn with_timeouts(&self, timeouts: ClientTimeouts) -> RequestSender {
        let phases = Arc::new(PhaseLimits::new(timeouts, &self.settings().bounds));
        RequestSender { phases: Some(phases), ..self.clone() }
    }

    /// Returns this sender, with another policy for redirects.
    pub(in crate::client) fn with_redirects(&self, redirects: Redirects) -> RequestSender {
        RequestSender { redirects, ..self.clone() }
    }

    /// Returns this sender, with connections of its own that have these settings.
    #[allow(dead_code, reason = "unused without the feature `proxy-protocol`")]
    pub(in crate::client) fn with_settings(&self, settings: ClientSettings) -> RequestSender {
        RequestSender { pools: Arc::new(ClientPools::new(settings)), ..self.clone() }
    }

    /// The pool of the origin with this key, in this runtime.
    pub(in crate::client) fn pool(&self, key: &str) -> Result<Arc<Pool>, ClientError> {
        self.pools.pool(key)
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

    /// Sends `request`, follows redirects, and receives the head of the last response. `pool` is the pool of the first
    /// request's origin, if the caller has it.
    pub(in crate::client) async fn send_following_redirects(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<PooledConn, ClientError> {
        let limits = self.limits();
        let answered = self.send_one(pool, OutgoingRequest::new(request), response, &limits).await;
        let mut pooled = answered.map_err(|error| self.describe(error, request, &limits))?;
        if self.redirects.applies_to(response.status) {
            // The server that redirected has received the request, and perhaps acted on it.
            let followed = boxed(|| self.follow_redirects(pooled, request, response)).await;
            pooled = followed.map_err(|error| error.sent_before(true))?;
        }
        pooled.decode(response).map_err(|error| error.with_url(request.target().as_str()))?;
        Ok(pooled)
    }

    /// As [`RequestSender::send_following_redirects`], and receives the body of the response.
    pub(in crate::client) async fn send_whole(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<(), ClientError> {
        let pooled = self.send_following_redirects(pool, request, response).await?;
        pooled.receive_body(response).await.map_err(|error| error.with_url(final_target(request, response)))
    }

    /// As [`RequestSender::send_following_redirects`], for a caller that reads the body chunk by chunk.
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

    /// Adds to `error` the target of `request`, and the time limit that was exceeded.
    #[cold]
    pub(in crate::client) fn describe(
        &self,
        error: ClientError,
        request: &Request,
        limits: &RequestLimits,
    ) -> ClientError {
        let error = error.with_url(request.target().as_str());
        match limits.deadline.is_some_and(|deadline| deadline <= runtime::now()) {
            true => error.with_total_limit(limits.total),
            false => error.with_phase_limit(|phase| limits.timeouts(self.settings()).phase_limit(phase)),
        }
    }

    /// Follows the redirect that `response` may be, and those after it.
    async fn follow_redirects(
        &self,
        mut pooled: PooledConn,
        request: &Request,
        response: &mut Response,
    ) -> Result<PooledConn, ClientError> {
        let (mut request, mut taint) = (Cow::Borrowed(request), RedirectTaint::SameOrigin);
        for followed in 0.. {
            let next =
                redirect::next(self.redirects, followed, &request, &pooled.permit.pool.origin, response);
            match next.map_err(|error| {
                error.on_connection(pooled.is_reused(), true).with_url(request.target().as_str())
            })? {
                None if followed == 0 => return Ok(pooled),
                None => {
                    response.url = Some(request.target().as_str().into());
                    return Ok(pooled);
                }
                Some((next, RedirectTaint::SameOrigin)) => request = Cow::Owned(next),
                Some((next, RedirectTaint::CrossOrigin)) => {
                    (request, taint) = (Cow::Owned(next), RedirectTaint::CrossOrigin)
                }
            }
            let limits = pooled.exchange.spec.limits.clone();
            pooled.discard().await;
            let outgoing = OutgoingRequest { taint, ..OutgoingRequest::new(&request) };
            let answered = self.send_one(None, outgoing, response, &limits).await;
            pooled = answered.map_err(|error| self.describe(error, &request, &limits))?;
        }
        Err(ClientError::new(ClientPhase::Redirect, ClientCause::TooManyRedirects))
    }

    /// Sends one request, and receives one final response. A connection that turns out to be stale is replaced by a new
    /// one, and an expectation that is refused is dropped.
    async fn send_one(
        &self,
        pool: Option<Arc<Pool>>,
        outgoing: OutgoingRequest<'_>,
        response: &mut Response,
        limits: &RequestLimits,
    ) -> Result<PooledConn, ClientError> {
        response.reset();
        let OutgoingRequest { request, .. } = outgoing;
        if request.body.is_source_taken() {
            return Err(ClientError::new(ClientPhase::Prepare, ClientCause::BodyConsumed));
        }
        let (pool, framing) = self.prepare(pool, outgoing, request.body.declared_length())?;
        let span = ClientSpan::begin(&self.pools.settings.spans, request, &pool.origin);
        let mut pooled = match PooledConn::checkout(pool, runtime::now()) {
            Ok(pooled) => pooled,
            Err(miss) => {
                boxed(|| wait_for_conn(miss, limits)).await.inspect_err(|error| span.end(Err(error)))?
            }
        };
        let outgoing = outgoing.with_trace(span.fields());
        let cookies = self.begin(&mut pooled, outgoing, framing, limits);
        if let Err(error) = poll_fn(|cx| pooled.poll_response(cx, Some(request), response)).await {
            let retry = || self.retry(pooled, error, (outgoing, framing), response, cookies.cookie());
            pooled = boxed(retry).await.inspect_err(|error| span.end(Err(error)))?;
        }
        cookies.end(response);
        pooled.set_client_info(response);
        span.end(Ok(response));
        if response.status == Status::EXPECTATION_FAILED && may_drop_expectation(request, framing) {
            let outgoing = outgoing.without_expectation();
            return boxed(|| self.resend(pooled, outgoing, response)).await;
        }
        Ok(pooled)
    }

    /// Checks a request, whose body has this length, and returns its pool and its framing. `pool` is that of its
    /// origin, if the caller has it.
    #[inline]
    fn prepare(
        &self,
        pool: Option<Arc<Pool>>,
        outgoing: OutgoingRequest<'_>,
        length: BodyLength,
    ) -> Result<(Arc<Pool>, OutgoingFraming), ClientError> {
        let OutgoingRequest { request, expect, .. } = outgoing;
        check(request.method(), length)?;
        let pool = match pool {
            Some(pool) => pool,
            None => self.pools.pool_of(request.target())?,
        };
        // The field is for the next hop, and a proxy that reads the request would be that (RFC 9110 §7.8, RFC 6455
        // §4.1).
        let pool = match pool.is_forwarded() && request.headers.contains("upgrade") {
            true => self.pools.tunnels_to(&pool.origin)?,
            false => pool,
        };
        let framing = pool.outgoing_framing(request, length)?;
        match expect {
            ExpectField::Keep => Ok((pool, framing)),
            ExpectField::Drop => Ok((pool, framing.without_expectation())),
        }
    }

    /// Writes the head of a request to a connection, and returns the exchange of its cookies.
    #[inline]
    fn begin<'r>(
        &self,
        pooled: &mut PooledConn,
        outgoing: OutgoingRequest<'r>,
        framing: OutgoingFraming,
        limits: &RequestLimits,
    ) -> RequestCookies<'r> {
        let cookies = pooled.permit.pool.cookies(outgoing);
        pooled.begin(outgoing, framing, cookies.cookie(), limits);
        cookies
    }

    /// Sends a request once more, without the expectation that the server at `pooled` has refused (RFC 9110 §10.1.1). A
    /// 417 is about the expectation only, not about the request.
    async fn resend(
        &self,
        pooled: PooledConn,
        outgoing: OutgoingRequest<'_>,
        response: &mut Response,
    ) -> Result<PooledConn, ClientError> {
        let (pool, limits) = (pooled.permit.pool.clone(), pooled.exchange.spec.limits.clone());
        pooled.discard().await;
        let answered = self.send_one(Some(pool), outgoing, response, &limits).await;
        answered.map_err(|error| error.sent_before(true))
    }

    /// Sends a request that failed with `error` once more, over a new connection, if the one it failed on was stale.
    async fn retry(
        &self,
        mut stale: PooledConn,
        error: ClientError,
        (outgoing, framing): (OutgoingRequest<'_>, OutgoingFraming),
        response: &mut Response,
        cookie: Option<&[u8]>,
    ) -> Result<PooledConn, ClientError> {
        if !stale.may_retry(outgoing.request, &error) {
            return Err(error);
        }
        stale.exchange.progress.end = Some(ExchangeEnd::Retried);
        // The permit is for the new connection.
        stale.close();
        let limits = stale.exchange.spec.limits.clone();
        let Progress { timings, wants_interim, .. } = stale.exchange.progress;
        let renewed = async {
            let mut pooled = open_conn(stale.permit, timings.queue, &limits).await?;
            pooled.begin(outgoing, framing, cookie, &limits);
            pooled.exchange.progress.wants_interim = wants_interim;
            poll_fn(|cx| pooled.poll_response(cx, Some(outgoing.request), response)).await?;
            Ok(pooled)
        };
        renewed.await.map_err(|failed: ClientError| failed.sent_before(error.is_sent()))
    }

    /// Sends the head of `request` only. If it has no body, also receives the head of the first response, so that it
    /// can be sent once more if its connection turns out to be stale.
    pub(in crate::client) async fn open_call(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
    ) -> Result<Call, ClientError> {
        let limits = self.limits();
        let opened = self.attempt_call(pool, request, &limits).await;
        opened.map_err(|error| self.describe(error, request, &limits))
    }

    async fn attempt_call(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        limits: &RequestLimits,
    ) -> Result<Call, ClientError> {
        let length = written_length(request);
        let is_whole = matches!(length, BodyLength::NoContent | BodyLength::Known(0))
            && request.body.is_empty()
            && request.trailers.is_empty();
        let outgoing = OutgoingRequest::new(request);
        let (pool, framing) = self.prepare(pool, outgoing, length)?;
        let span = ClientSpan::begin(&self.pools.settings.spans, request, &pool.origin);
        let mut pooled = match PooledConn::checkout(pool, runtime::now()) {
            Ok(pooled) => pooled,
            Err(miss) => {
                boxed(|| wait_for_conn(miss, limits)).await.inspect_err(|error| span.end(Err(error)))?
            }
        };
        let outgoing = outgoing.with_trace(span.fields());
        let cookies = self.begin(&mut pooled, outgoing, framing, limits);
        pooled.note_target(request.target().as_str());
        let mut early = pooled.exchange.early.take().unwrap_or_default();
        if !is_whole {
            // The response that refuses the body may be here before the head has left, or why the server has closed.
            let flushed =
                poll_fn(|cx| pooled.poll_unless_refused(cx, &mut early, (), PooledConn::poll_flush)).await;
            flushed.inspect_err(|error| span.end(Err(error)))?;
            let trailers = (!request.trailers.is_empty()).then(|| Box::new(request.trailers.clone()));
            let cookies = cookies.into_owned();
            let mut exchange = CallExchange::new(pooled, early, trailers, cookies, span);
            if length == BodyLength::Unknown {
                exchange.note_fields(&request.headers);
            }
            return Ok(Call::new(exchange));
        }
        pooled.exchange.progress.wants_interim = true;
        if let Err(error) = poll_fn(|cx| pooled.poll_response(cx, Some(request), &mut early)).await {
            let retry = || self.retry(pooled, error, (outgoing, framing), &mut early, cookies.cookie());
            pooled = boxed(retry).await.inspect_err(|error| span.end(Err(error)))?;
            pooled.note_target(request.target().as_str());
        }
        let cookies = cookies.into_owned();
        Ok(Call::new(CallExchange::new(pooled, early, None, cookies, span)))
    }

    /// Sends `request`, which has an `upgrade` field, and hands the connection over.
    pub(in crate::client) async fn send_upgrade(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<ClientUpgraded, ClientError> {
        self.switch(pool, request, response).await.map(ClientUpgraded::new)
    }

    /// Sends `request`, which has an `upgrade` field. A response that refuses the upgrade is received whole, for the
    /// reason in its body.
    pub(in crate::client) async fn switch(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<PooledConn, ClientError> {
        let limits = self.limits();
        let answered = self.send_one(pool, OutgoingRequest::new(request), response, &limits).await;
        let mut pooled = answered.map_err(|error| self.describe(error, request, &limits))?;
        if response.status == Status::SWITCHING_PROTOCOLS {
            return Ok(pooled);
        }
        let refused =
            pooled.error(ClientPhase::Wait, ClientCause::Upgrade).with_url(request.target().as_str());
        let refused = refused.with_detail(format!("it answered {}", response.status));
        let received = match pooled.decode(response) {
            Ok(()) => pooled.receive_body(response).await,
            failed => failed,
        };
        if received.is_err() {
            // A part of the body would pass for all of it. The refusal of the upgrade matters more than the error of
            // its body.
            response.body.clear();
        }
        Err(refused)
    }

    /// The time limits of an exchange that begins now.
    pub(in crate::client) fn limits(&self) -> RequestLimits {
        let deadline = self.total.map(|total| runtime::later(runtime::now(), total));
        RequestLimits { deadline, total: self.total, phases: self.phases.clone() }
    }
}

/// The target of the request that `response` answers, which is the last one of a chain of redirects.
fn final_target<'a>(request: &'a Request, response: &'a Response) -> &'a str {
    response.url.as_deref().unwrap_or(request.target().as_str())
}

/// Whether a request with this framing, which was refused with 417, may be sent without its expectation. A body that is
/// a stream has not been touched if the server has answered instead of 100.
fn may_drop_expectation(request: &Request, framing: OutgoingFraming) -> bool {
    framing.expects()
        && Expectation::from_headers(&request.headers) == Ok(Expectation::Continue)
        && !request.body.is_source_taken()
}

/// The length of the body that will be written after the head.
fn written_length(request: &Request) -> BodyLength {
    match request.headers.content_length() {
        Some(length) => BodyLength::Known(length),
        None if request.method().suggests_content() || request.headers.contains("transfer-encoding") => {
            BodyLength::Unknown
        }
        None => BodyLength::NoContent,
    }
}
