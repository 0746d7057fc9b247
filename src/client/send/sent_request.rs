//! [`SentRequest`]: one request over one connection, up to the head of its response (RFC 9112 §9.3).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::client::call::{Call, CallExchange, CallHead};
use crate::client::cookies::RequestCookies;
use crate::client::error::{ClientCause, ClientError, ClientPhase, RetryLog};
use crate::client::exchange::{ExpectField, Interim, OutgoingRequest};
use crate::client::observe::ClientSpan;
use crate::client::pool::{ClientPools, Pool, PooledConn, replace_stale, wait_for_conn};
use crate::client::settings::RequestTimeouts;
use crate::exchange::Expectation;
use crate::memory::Reset;
use crate::message::{Body, BodyLength, Request, Response, Status};
use crate::runtime::{self, boxed};
use crate::wire::OutgoingFraming;

/// One request that has gone over one connection, as far as its [`Until`] says.
///
/// A connection that its server has closed while it was idle is replaced within the attempt, and an expectation that the
/// server refuses is dropped.
pub(super) struct SentRequest<'r> {
    head: Option<Box<CallHead>>,
    span: ClientSpan,
    cookies: RequestCookies<'r>,
    pooled: PooledConn,
    /// How many requests were sent before for the same caller's request.
    resends: u32,
}

/// How far an attempt goes, before its caller goes on with the connection.
pub(super) enum Until<'a> {
    /// The whole request has been sent, and the head of its final response is here.
    Answered(&'a mut Response),
    /// The head of the first response is in the memory of the exchange. For a call without a body, of this length, whose stale
    /// connection can still be replaced.
    FirstHead(BodyLength),
    /// The head of the request has been sent, and its caller writes a body of this length.
    HeadSent(BodyLength),
}

impl<'r> SentRequest<'r> {
    /// Makes an attempt at a request. `pool` is that of its origin, if the caller has it.
    pub(super) async fn run(
        pools: &ClientPools,
        pool: Option<Arc<Pool>>,
        outgoing: &OutgoingRequest<'r>,
        mut until: Until<'_>,
        timeouts: &RequestTimeouts,
    ) -> Result<SentRequest<'r>, ClientError> {
        let request = outgoing.request;
        if let Until::Answered(response) = &mut until {
            response.reset();
        }
        let prepared = prepare(pools, pool, outgoing, &until);
        let (pool, framing) = prepared.map_err(|error| timeouts.describe(error, request, &pools.settings))?;
        let span = ClientSpan::begin(&pools.settings.spans, request, &pool.origin, outgoing.resends);
        let mut pooled = match PooledConn::checkout(pool, runtime::now()) {
            Ok(pooled) => pooled,
            Err(miss) => {
                let waited = boxed(|| wait_for_conn(miss, timeouts)).await;
                waited.map_err(|error| timeouts.describe(span.fail(error), request, &pools.settings))?
            }
        };
        while !until.may_send_again(request) && pooled.is_closed_in_kernel() {
            let replaced = boxed(|| replace_stale(pooled, timeouts)).await;
            pooled =
                replaced.map_err(|error| timeouts.describe(span.fail(error), request, &pools.settings))?;
        }
        let cookies = pooled.permit.pool.cookies(outgoing);
        let prepared = PreparedRequest {
            outgoing: outgoing.with_trace(span.fields()).with_cookie(cookies.cookie()),
            framing,
            timeouts,
        };
        prepared.begin(&mut pooled, &until);
        if let Err(error) = poll_fn(|cx| prepared.poll(cx, &mut pooled, &mut until)).await {
            let retried = boxed(|| prepared.retry(pooled, error, &mut until)).await;
            pooled =
                retried.map_err(|error| timeouts.describe(span.fail(error), request, &pools.settings))?;
        }
        let head = until.call_head(request);
        let attempt = SentRequest { head, span, cookies, pooled, resends: outgoing.resends };
        match until {
            Until::Answered(response) if may_drop_expectation(request, framing, response) => {
                boxed(|| attempt.run_without_expectation(pools, outgoing, response, timeouts)).await
            }
            Until::Answered(_) | Until::FirstHead(_) | Until::HeadSent(_) => Ok(attempt),
        }
    }

    /// Sends the request once more, without the expectation that the server has refused with `response`. A 417 is about
    /// the expectation only, not about the request (RFC 9110 §10.1.1).
    async fn run_without_expectation(
        self,
        pools: &ClientPools,
        outgoing: &OutgoingRequest<'r>,
        response: &mut Response,
        timeouts: &RequestTimeouts,
    ) -> Result<SentRequest<'r>, ClientError> {
        let refused = self.into_answered(response);
        let pool = refused.permit.pool.clone();
        refused.discard().await;
        let outgoing = &outgoing.without_expectation();
        let answered =
            SentRequest::run(pools, Some(pool), outgoing, Until::Answered(response), timeouts).await;
        answered.map_err(|error| error.sent_before(true))
    }

    /// Returns this attempt with the log of those before it, which its response and its errors show.
    pub(super) fn with_retry_log(mut self, retries: Option<Arc<RetryLog>>) -> SentRequest<'r> {
        self.pooled.exchange.spec.retries = retries;
        self
    }

    /// Returns this attempt after at least so many other requests. A hedge that has lost is one of them.
    pub(super) fn with_resends(mut self, least: u32) -> SentRequest<'r> {
        self.resends = self.resends.max(least);
        self
    }

    /// How many requests were sent before for the same caller's request.
    pub(super) fn resends(&self) -> u32 {
        self.resends
    }

    /// Stores in the response how it was received, as [`PooledConn::set_client_info`] does. Returns the response, unless it
    /// is not there yet.
    pub(super) fn store_client_info<'x>(&'x mut self, until: &'x mut Until<'_>) -> Option<&'x Response> {
        match until {
            Until::Answered(response) => {
                self.pooled.set_client_info(response);
            }
            Until::FirstHead(_) if self.pooled.exchange.progress.has_response() => {
                with_call_response(&mut self.pooled, |pooled, response| pooled.set_client_info(response));
            }
            Until::FirstHead(_) | Until::HeadSent(_) => {}
        }
        self.response(until)
    }

    /// Ends the attempt, whose response is not wanted.
    pub(super) async fn discard(mut self, until: Until<'_>) {
        let pooled = match until {
            Until::Answered(response) => self.into_answered(response),
            Until::FirstHead(_) | Until::HeadSent(_) => {
                let mut response = self.pooled.exchange.call_response.take().unwrap_or_default();
                let mut pooled = self.into_answered(&mut response);
                pooled.exchange.call_response = Some(response);
                pooled
            }
        };
        pooled.discard().await;
    }

    /// Ends the attempt with the head of the final response. The connection still has its body.
    pub(super) fn into_answered(self, response: &mut Response) -> PooledConn {
        self.cookies.end(response);
        self.pooled.set_client_info(response);
        self.span.end(Ok(response));
        self.pooled
    }

    /// Leaves the exchange to a call, whose caller writes the body, and which ends the attempt.
    pub(super) fn into_call(self) -> Call {
        let SentRequest { head, span, cookies, pooled, resends: _ } = self;
        Call::new(CallExchange::new(pooled, head, cookies.into_owned(), span))
    }

    /// Returns the same without what it borrows of the request.
    pub(super) fn into_owned(self) -> SentRequest<'static> {
        let SentRequest { head, span, cookies, pooled, resends } = self;
        SentRequest { head, span, cookies: cookies.into_owned(), pooled, resends }
    }

    /// The response that is here, if the attempt goes on until there is one.
    pub(super) fn response<'x>(&'x self, until: &'x Until<'_>) -> Option<&'x Response> {
        match until {
            Until::Answered(response) => Some(response),
            Until::FirstHead(_) if self.pooled.exchange.progress.has_response() => {
                self.pooled.exchange.call_response.as_deref()
            }
            Until::FirstHead(_) | Until::HeadSent(_) => None,
        }
    }
}

impl Until<'_> {
    /// The same, lent to another attempt.
    pub(super) fn reborrow(&mut self) -> Until<'_> {
        match self {
            Until::Answered(response) => Until::Answered(response),
            Until::FirstHead(length) => Until::FirstHead(*length),
            Until::HeadSent(length) => Until::HeadSent(*length),
        }
    }

    /// The same for an attempt beside, which receives its response into `other`.
    pub(super) fn beside<'o>(&self, other: &'o mut Response) -> Until<'o> {
        match self {
            Until::Answered(_) => Until::Answered(other),
            Until::FirstHead(length) => Until::FirstHead(*length),
            Until::HeadSent(length) => Until::HeadSent(*length),
        }
    }

    /// The body that is sent with `request`, unless the caller writes it.
    pub(super) fn sent_body<'r>(&self, request: &'r Request) -> Option<&'r Body> {
        match self {
            Until::Answered(_) => Some(&request.body),
            Until::FirstHead(_) | Until::HeadSent(_) => None,
        }
    }

    /// How far an attempt at this request goes, for a call whose body has this length.
    pub(super) fn call_of(request: &Request, length: BodyLength) -> Until<'static> {
        let is_announced = !matches!(length, BodyLength::NoContent | BodyLength::Known(0));
        match is_announced || !request.body.is_empty() || !request.trailers.is_empty() {
            true => Until::HeadSent(length),
            false => Until::FirstHead(length),
        }
    }

    /// The parts of the head of `request` that a call keeps.
    #[inline]
    fn call_head(&self, request: &Request) -> Option<Box<CallHead>> {
        match self {
            Until::Answered(_) => None,
            Until::FirstHead(length) | Until::HeadSent(length) => CallHead::new(request, *length),
        }
    }

    /// Whether the request can be sent again over another connection, if the first one turns out to be stale. One that cannot
    /// would be lost with a connection that is closed.
    fn may_send_again(&self, request: &Request) -> bool {
        request.method().is_idempotent() && !request.body.is_stream() && !matches!(self, Until::HeadSent(_))
    }

    /// The length of the body that follows the head of `request`.
    #[inline]
    fn body_length(&self, request: &Request) -> Result<BodyLength, ClientError> {
        match self {
            Until::Answered(_) if !request.body.rewind() => {
                Err(ClientError::new(ClientPhase::Prepare, ClientCause::BodyConsumed))
            }
            Until::Answered(_) => Ok(request.body.declared_length()),
            Until::FirstHead(length) | Until::HeadSent(length) => Ok(*length),
        }
    }
}

/// The request of an attempt, as it is sent over its connection, and once more if that was stale.
struct PreparedRequest<'a> {
    outgoing: OutgoingRequest<'a>,
    framing: OutgoingFraming,
    timeouts: &'a RequestTimeouts,
}

impl PreparedRequest<'_> {
    /// Writes the head of the request to a connection.
    #[inline]
    fn begin(&self, pooled: &mut PooledConn, until: &Until<'_>) {
        pooled.begin(&self.outgoing, self.framing, self.timeouts);
        match until {
            Until::Answered(_) => {}
            Until::FirstHead(_) => {
                pooled.note_target(self.outgoing.request.target().as_str());
                pooled.exchange.progress.interim = Interim::Taken;
            }
            Until::HeadSent(_) => pooled.note_target(self.outgoing.request.target().as_str()),
        }
    }

    /// Sends the request, and receives the head of the response, as far as `until` says.
    #[inline]
    fn poll(
        &self,
        cx: &mut Context<'_>,
        pooled: &mut PooledConn,
        until: &mut Until<'_>,
    ) -> Poll<Result<(), ClientError>> {
        let request = self.outgoing.request;
        match until {
            Until::Answered(response) => pooled.poll_response(cx, Some(request), response),
            Until::FirstHead(_) => poll_first_head(cx, pooled, request),
            Until::HeadSent(_) => poll_head_sent(cx, pooled),
        }
    }

    /// Sends the request, which has failed with `error`, over another connection, if the one that it failed on was stale. The
    /// other one may be stale as well, if no new one could be opened soon.
    async fn retry(
        &self,
        mut pooled: PooledConn,
        mut error: ClientError,
        until: &mut Until<'_>,
    ) -> Result<PooledConn, ClientError> {
        while !matches!(until, Until::HeadSent(_)) && pooled.may_retry(self.outgoing.request, &error) {
            let is_sent = error.is_sent();
            let replaced = replace_stale(pooled, self.timeouts).await;
            pooled = replaced.map_err(|failed| failed.sent_before(is_sent))?;
            self.begin(&mut pooled, until);
            match poll_fn(|cx| self.poll(cx, &mut pooled, until)).await {
                Ok(()) => return Ok(pooled),
                Err(failed) => error = failed.sent_before(is_sent),
            }
        }
        Err(error)
    }
}

/// Sends the request of a call that has no body, and receives the head of its first response.
fn poll_first_head(
    cx: &mut Context<'_>,
    pooled: &mut PooledConn,
    request: &Request,
) -> Poll<Result<(), ClientError>> {
    with_call_response(pooled, |pooled, response| pooled.poll_response(cx, Some(request), response))
}

/// Sends the head of the request of a call. Before it has left, the response that refuses the body may be here, or the
/// reason why the server has closed.
fn poll_head_sent(cx: &mut Context<'_>, pooled: &mut PooledConn) -> Poll<Result<(), ClientError>> {
    with_call_response(pooled, |pooled, response| {
        pooled.poll_unless_refused(cx, response, (), PooledConn::poll_flush)
    })
}

/// Lends the memory that an exchange has for the response of a call.
fn with_call_response<T>(
    pooled: &mut PooledConn,
    then: impl FnOnce(&mut PooledConn, &mut Response) -> T,
) -> T {
    let mut response = pooled.exchange.call_response.take().unwrap_or_default();
    let done = then(pooled, &mut response);
    pooled.exchange.call_response = Some(response);
    done
}

/// Checks a request, and returns its pool and its framing. `pool` is that of its origin, if the caller has it.
#[inline]
fn prepare(
    pools: &ClientPools,
    pool: Option<Arc<Pool>>,
    outgoing: &OutgoingRequest<'_>,
    until: &Until<'_>,
) -> Result<(Arc<Pool>, OutgoingFraming), ClientError> {
    let OutgoingRequest { request, expect, .. } = *outgoing;
    let length = until.body_length(request)?;
    outgoing.check(length)?;
    let pool = match pool {
        Some(pool) => pool,
        None => pools.pool_of(request.target())?,
    };
    // The field is for the next hop, and a proxy that reads the request would be that (RFC 9110 §7.8, RFC 6455 §4.1).
    let pool = match pool.is_forwarded() && request.headers.contains("upgrade") {
        true => pools.tunnels_to(&pool.origin)?,
        false => pool,
    };
    let framing = pool.outgoing_framing(request, length)?;
    match expect {
        ExpectField::Keep => Ok((pool, framing)),
        ExpectField::Drop => Ok((pool, framing.without_expectation())),
    }
}

/// Whether a request with this framing, which `response` answers, was refused for its expectation and may be sent without
/// it. A body that is a stream has not been touched if the server has answered instead of 100, and a file is read anew.
#[inline]
fn may_drop_expectation(request: &Request, framing: OutgoingFraming, response: &Response) -> bool {
    response.status == Status::EXPECTATION_FAILED
        && framing.expects()
        && Expectation::from_headers(&request.headers) == Ok(Expectation::Continue)
        && request.body.rewind()
}

/// Whether the caller of a call with this request writes a body.
pub(in crate::client) fn has_call_body(request: &Request) -> bool {
    matches!(Until::call_of(request, written_length(request)), Until::HeadSent(_))
}

/// The length of the body that the caller of a call writes.
pub(super) fn written_length(request: &Request) -> BodyLength {
    match request.headers.content_length() {
        Some(length) => BodyLength::Known(length),
        None if request.method().suggests_content() || request.headers.contains("transfer-encoding") => {
            BodyLength::Unknown
        }
        None => BodyLength::NoContent,
    }
}
