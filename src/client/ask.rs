//! How a client gets an answer: a place in the pool, a connection, an exchange, and perhaps all of these again.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use super::connect::connect;
use super::cookie_exchange::CookieExchange;
use super::exchange::{ExchangeSpec, Progress};
use super::pool::PooledConn;
use super::pool::{CheckoutMiss, Pool, PoolPermit};
use super::redirect::{self, RedirectTaint};
use super::{Call, Client, ClientCause, ClientError, ClientPhase, ClientUpgraded, ResponseReader};
use crate::exchange::Expectation;
use crate::memory::Reset;
use crate::message::{
    BodyLength, FieldName, Headers, InvalidRequest, InvalidTarget, Method, Request, Response, Status,
    Timings, members,
};
use crate::runtime::{self, Instant, boxed};
use crate::wire::OutgoingFraming;

impl Client {
    /// Sends `request`, follows redirects, and receives the head of the last answer. `pool` is the pool of the first
    /// request's origin, if it is known.
    pub(super) async fn exchange(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<PooledConn, ClientError> {
        let deadline = self.deadline();
        let answered = self
            .attempt(pool, (request, RedirectTaint::SameOrigin), ExpectField::Keep, response, deadline)
            .await;
        let mut pooled = answered.map_err(|error| self.describe(error, request, deadline))?;
        if self.redirects.concern(response.status) {
            // The server that redirected has received the request, and perhaps acted on it.
            let followed = boxed(|| self.follow_redirects(pooled, request, response)).await;
            pooled = followed.map_err(|error| error.sent_before(true))?;
        }
        pooled.decode(response).map_err(|error| error.with_url(request.target().as_str()))?;
        Ok(pooled)
    }

    /// As [`Client::exchange`], and receives the body of the answer.
    pub(super) async fn exchange_whole(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<(), ClientError> {
        let pooled = self.exchange(pool, request, response).await?;
        pooled.receive_body(response).await.map_err(|error| error.with_url(final_target(request, response)))
    }

    /// As [`Client::exchange`], for a caller that reads the body piece by piece.
    pub(super) async fn exchange_head(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<ResponseReader, ClientError> {
        let mut pooled = self.exchange(pool, request, response).await?;
        pooled.note_target(final_target(request, response));
        Ok(ResponseReader::new(pooled))
    }

    /// Adds to `error` what `request` was for, and the time limit that was exceeded.
    #[cold]
    pub(super) fn describe(
        &self,
        error: ClientError,
        request: &Request,
        deadline: Option<Instant>,
    ) -> ClientError {
        let error = error.with_url(request.target().as_str());
        match deadline.is_some_and(|deadline| deadline <= runtime::now()) {
            true => error.with_total_limit(self.total),
            false => error.with_phase_limit(|phase| self.inner.settings.timeouts.of_phase(phase)),
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
            let deadline = pooled.exchange.spec.deadline;
            pooled.discard().await;
            let answered = self.attempt(None, (&request, taint), ExpectField::Keep, response, deadline).await;
            pooled = answered.map_err(|error| self.describe(error, &request, deadline))?;
        }
        Err(ClientError::new(ClientPhase::Redirect, ClientCause::TooManyRedirects))
    }

    /// Sends one request, and receives one final answer. A connection that turns out to be stale is replaced by a new
    /// one, and an expectation that is refused is dropped.
    async fn attempt(
        &self,
        pool: Option<Arc<Pool>>,
        (request, taint): (&Request, RedirectTaint),
        expect: ExpectField,
        response: &mut Response,
        deadline: Option<Instant>,
    ) -> Result<PooledConn, ClientError> {
        response.reset();
        if request.body.is_source_taken() {
            return Err(ClientError::new(ClientPhase::Prepare, ClientCause::Spent));
        }
        let content = request.body.declared_length();
        check(request.method(), content)?;
        let pool = self.pool_for(pool, request)?;
        let framing = match (expect, pool.outgoing_framing(request, content)?) {
            (ExpectField::Keep, framing) => framing,
            (ExpectField::Drop, framing) => framing.without_expectation(),
        };
        let mut pooled = match PooledConn::checkout(pool, runtime::now()) {
            Ok(pooled) => pooled,
            Err(miss) => boxed(|| self.wait_for_conn(miss, deadline)).await?,
        };
        let cookies = CookieExchange::begin(&pooled.permit.pool, (request, taint));
        pooled.begin((request, taint), framing, cookies.cookie(), deadline);
        pooled.exchange.spec.total = self.total;
        if let Err(error) = poll_fn(|cx| pooled.poll_answer(cx, Some(request), response)).await {
            let retry = || self.retry(pooled, error, (request, taint), framing, response, cookies.cookie());
            pooled = boxed(retry).await?;
        }
        cookies.end(response);
        if response.status == Status::EXPECTATION_FAILED && may_drop_expectation(request, framing) {
            return boxed(|| self.resend_without_expectation(pooled, (request, taint), response)).await;
        }
        *response.timings_mut() = pooled.exchange.progress.timings;
        Ok(pooled)
    }

    /// Sends a request once more, without the expectation that the server at `pooled` has refused (RFC 9110 §10.1.1). The
    /// refusal says nothing else about the request.
    async fn resend_without_expectation(
        &self,
        pooled: PooledConn,
        (request, taint): (&Request, RedirectTaint),
        response: &mut Response,
    ) -> Result<PooledConn, ClientError> {
        let (pool, deadline) = (pooled.permit.pool.clone(), pooled.exchange.spec.deadline);
        pooled.discard().await;
        let asked = self.attempt(Some(pool), (request, taint), ExpectField::Drop, response, deadline).await;
        asked.map_err(|error| error.sent_before(true))
    }

    /// Sends a request that failed with `error` once more, over a new connection, if the one it failed on was stale.
    async fn retry(
        &self,
        mut stale: PooledConn,
        error: ClientError,
        (request, taint): (&Request, RedirectTaint),
        framing: OutgoingFraming,
        response: &mut Response,
        cookie: Option<&[u8]>,
    ) -> Result<PooledConn, ClientError> {
        if !stale.may_retry(request, &error) {
            return Err(error);
        }
        // Its place is for the new one.
        stale.close();
        let ExchangeSpec { deadline, .. } = stale.exchange.spec;
        let Progress { timings, wants_interim, .. } = stale.exchange.progress;
        let renewed = async {
            let mut pooled = self.open_conn(stale.permit, timings.queue, deadline).await?;
            pooled.begin((request, taint), framing, cookie, deadline);
            pooled.exchange.spec.total = self.total;
            pooled.exchange.progress.wants_interim = wants_interim;
            poll_fn(|cx| pooled.poll_answer(cx, Some(request), response)).await?;
            Ok(pooled)
        };
        renewed.await.map_err(|failed: ClientError| failed.sent_before(error.is_sent()))
    }

    /// Sends the head of `request` only. If it has no body, also receives the head of the first answer, so that it can be
    /// sent once more if its connection turns out to be stale.
    pub(super) async fn call(&self, pool: Option<Arc<Pool>>, request: &Request) -> Result<Call, ClientError> {
        let deadline = self.deadline();
        let opened = self.begin_call(pool, request, deadline).await;
        opened.map_err(|error| self.describe(error, request, deadline))
    }

    async fn begin_call(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        deadline: Option<Instant>,
    ) -> Result<Call, ClientError> {
        let content = streamed_length(request);
        check(request.method(), content)?;
        let is_whole = matches!(content, BodyLength::NoContent | BodyLength::Known(0))
            && request.body.is_empty()
            && request.trailers.is_empty();
        let pool = self.pool_for(pool, request)?;
        let framing = pool.outgoing_framing(request, content)?;
        let mut pooled = match PooledConn::checkout(pool, runtime::now()) {
            Ok(pooled) => pooled,
            Err(miss) => boxed(|| self.wait_for_conn(miss, deadline)).await?,
        };
        let cookies = CookieExchange::begin(&pooled.permit.pool, (request, RedirectTaint::SameOrigin));
        pooled.begin((request, RedirectTaint::SameOrigin), framing, cookies.cookie(), deadline);
        pooled.exchange.spec.total = self.total;
        pooled.note_target(request.target().as_str());
        let mut early = pooled.exchange.early.take().unwrap_or_default();
        if !is_whole {
            poll_fn(|cx| pooled.poll_flush(cx)).await?;
            return Ok(Call::new(pooled, early, request.trailers.clone(), cookies.into_owned()));
        }
        pooled.exchange.progress.wants_interim = true;
        if let Err(error) = poll_fn(|cx| pooled.poll_answer(cx, Some(request), &mut early)).await {
            let retry = || {
                self.retry(
                    pooled,
                    error,
                    (request, RedirectTaint::SameOrigin),
                    framing,
                    &mut early,
                    cookies.cookie(),
                )
            };
            pooled = boxed(retry).await?;
            pooled.note_target(request.target().as_str());
        }
        Ok(Call::new(pooled, early, Headers::new(), cookies.into_owned()))
    }

    /// Sends `request`, which asks for an upgrade. An answer that refuses it is received whole, since it says why.
    pub(super) async fn send_upgrade(
        &self,
        pool: Option<Arc<Pool>>,
        request: &Request,
        response: &mut Response,
    ) -> Result<ClientUpgraded, ClientError> {
        let deadline = self.deadline();
        let answered = self
            .attempt(pool, (request, RedirectTaint::SameOrigin), ExpectField::Keep, response, deadline)
            .await;
        let mut pooled = answered.map_err(|error| self.describe(error, request, deadline))?;
        if response.status == Status::SWITCHING_PROTOCOLS
            && is_requested_upgrade(&response.headers, &request.headers)
        {
            return Ok(ClientUpgraded::new(pooled));
        }
        let refused =
            pooled.error(ClientPhase::Wait, ClientCause::Upgrade).with_url(request.target().as_str());
        let refused = refused.with_detail(format!("it answered {}", response.status));
        let received = match pooled.decode(response) {
            Ok(()) => pooled.receive_body(response).await,
            failed => failed,
        };
        if received.is_err() {
            // A part would pass for the whole. That the upgrade was refused matters more than why its body did not
            // arrive.
            response.body.clear();
        }
        Err(refused)
    }

    /// The pool of the request's origin: the known one, or else one that is looked up.
    fn pool_for(&self, known: Option<Arc<Pool>>, request: &Request) -> Result<Arc<Pool>, ClientError> {
        known.map_or_else(|| self.pool_of(request.target()), Ok)
    }

    /// A connection over a new connection, or over one that became idle while waiting for a place.
    pub(super) async fn wait_for_conn(
        &self,
        miss: CheckoutMiss,
        deadline: Option<Instant>,
    ) -> Result<PooledConn, ClientError> {
        let (pool, since) = match miss {
            CheckoutMiss::NoIdle(permit) => {
                return boxed(|| self.open_conn(permit, Duration::ZERO, deadline)).await;
            }
            CheckoutMiss::NoPermit(pool, since) => (pool, since),
        };
        let permit = pool.acquire(since, deadline).await?;
        let now = runtime::now();
        let queue = now.saturating_duration_since(since);
        // A request may wait in one runtime, and go on in another.
        let checked_out = match permit.pool.is_here() {
            true => PooledConn::from_idle(permit, queue, now),
            false => Err(permit),
        };
        match checked_out {
            Ok(pooled) => Ok(pooled),
            Err(permit) => boxed(|| self.open_conn(permit, queue, deadline)).await,
        }
    }

    /// A connection over a new connection. It is not used again if its runtime may be another than that of its pool.
    async fn open_conn(
        &self,
        permit: PoolPermit,
        queue: Duration,
        deadline: Option<Instant>,
    ) -> Result<PooledConn, ClientError> {
        let mut timings = Timings { queue, ..Timings::default() };
        let settings = &self.inner.settings;
        let Pool { origin, proxy, .. } = &*permit.pool;
        let was_here = permit.pool.is_here();
        let conn = connect(settings, origin, proxy.as_ref(), deadline, &mut timings).await?;
        let is_its_own = was_here && permit.pool.is_here();
        let mut pooled = PooledConn::new(conn, permit, timings);
        pooled.exchange.persistence.persists = is_its_own;
        Ok(pooled)
    }

    /// When an exchange that begins now must be over.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.total.map(|total| runtime::later(runtime::now(), total))
    }
}

/// The target of the request that `response` answers, which is the last one of a chain of redirects.
fn final_target<'a>(request: &'a Request, response: &'a Response) -> &'a str {
    response.url.as_deref().unwrap_or(request.target().as_str())
}

/// Which attempt to send a request this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectField {
    /// The request is sent as it is.
    Keep,
    /// The server has refused the expectation, so the request is sent again without it.
    Drop,
}

/// Whether a request that was announced so, and refused with 417, may be sent without its expectation. A body that is a
/// stream has not been touched if the server has answered instead of 100.
fn may_drop_expectation(request: &Request, framing: OutgoingFraming) -> bool {
    framing.expects()
        && Expectation::from_headers(&request.headers) == Ok(Expectation::Continue)
        && !request.body.is_source_taken()
}

/// Checks that a request with this method and content may be sent.
///
/// # Errors
///
/// Fails for a CONNECT, and for a TRACE with content.
pub(super) fn check(method: Method, content: BodyLength) -> Result<(), InvalidRequest> {
    match (method, content) {
        // It asks for a tunnel, and its target is not a URL (RFC 9112 §3.2.3).
        (Method::Connect, _) => Err(InvalidTarget::Form.into()),
        // It would be sent back (RFC 9110 §9.3.8).
        (Method::Trace, BodyLength::Known(1..) | BodyLength::Unknown) => Err(InvalidRequest::Content),
        _ => Ok(()),
    }
}

/// Whether `answer` names the protocols that it switches to, and `request` asks for all of them (RFC 9110 §7.8).
fn is_requested_upgrade(answer: &Headers, request: &Headers) -> bool {
    let mut protocols = answer.named(FieldName::UPGRADE).flat_map(members).peekable();
    let is_asked = |name| str::from_utf8(name).is_ok_and(|name| request.contains_token("upgrade", name));
    protocols.peek().is_some() && protocols.all(is_asked)
}

/// The length of the body that will be written after the head.
fn streamed_length(request: &Request) -> BodyLength {
    match request.headers.content_length() {
        Some(length) => BodyLength::Known(length),
        None if request.method().suggests_content() || request.headers.contains("transfer-encoding") => {
            BodyLength::Unknown
        }
        None => BodyLength::NoContent,
    }
}
