//! [`Attempt`]: one request over one connection, up to the head of its response (RFC 9112 §9.3).

use std::future::poll_fn;
use std::sync::Arc;

use crate::client::call::{Call, CallExchange};
use crate::client::cookies::RequestCookies;
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::exchange::{ExpectField, OutgoingRequest};
use crate::client::observe::ClientSpan;
use crate::client::pool::{ClientPools, Pool, PooledConn, replace_stale, take_conn};
use crate::client::settings::RequestLimits;
use crate::exchange::Expectation;
use crate::memory::Reset;
use crate::message::{BodyLength, Request, Response, Status};
use crate::runtime::boxed;
use crate::wire::OutgoingFraming;

/// One request that has gone over one connection, as far as its [`Until`] says.
///
/// A connection that its server has closed while it was idle is replaced within the attempt.
pub(super) struct Attempt<'r> {
    request: &'r Request,
    framing: OutgoingFraming,
    span: ClientSpan,
    cookies: RequestCookies<'r>,
    pooled: PooledConn,
}

/// How far an attempt goes, before its caller goes on with the connection.
pub(super) enum Until<'a> {
    /// The whole request has been sent, and the head of its final response is here.
    Answered(&'a mut Response),
    /// The head of the request has been sent, and its caller writes the body. If there is none to write, the head of
    /// the first response has come as well, so that a stale connection has shown itself.
    Opened,
}

impl<'r> Attempt<'r> {
    /// Makes an attempt at a request. `pool` is that of its origin, if the caller has it.
    pub(super) async fn run(
        pools: &ClientPools,
        pool: Option<Arc<Pool>>,
        outgoing: OutgoingRequest<'r>,
        mut until: Until<'_>,
        limits: &RequestLimits,
    ) -> Result<Attempt<'r>, ClientError> {
        let OutgoingRequest { request, .. } = outgoing;
        if let Until::Answered(response) = &mut until {
            response.reset();
        }
        let (pool, framing) = prepare(pools, pool, outgoing, until.body_length(request)?)?;
        let span = ClientSpan::begin(&pools.settings.spans, request, &pool.origin);
        let exchanged = async {
            let mut pooled = take_conn(pool, limits).await?;
            let cookies = pooled.permit.pool.cookies(outgoing);
            let outgoing = outgoing.with_trace(span.fields()).with_cookie(cookies.cookie());
            let dispatch = Dispatch { outgoing, framing, limits };
            dispatch.begin(&mut pooled);
            let pooled = match until {
                Until::Answered(response) => dispatch.receive_head(pooled, response).await?,
                Until::Opened => dispatch.open(pooled).await?,
            };
            Ok((pooled, cookies))
        };
        match exchanged.await {
            Ok((pooled, cookies)) => Ok(Attempt { request, framing, span, cookies, pooled }),
            Err(error) => {
                span.end(Err(&error));
                Err(error)
            }
        }
    }

    /// Whether `response` refuses the expectation of the request, which may then be sent without it (RFC 9110 §10.1.1).
    /// A body that is a stream has not been touched if the server has answered instead of 100.
    pub(super) fn is_expectation_refused(&self, response: &Response) -> bool {
        response.status == Status::EXPECTATION_FAILED
            && self.framing.expects()
            && Expectation::from_headers(&self.request.headers) == Ok(Expectation::Continue)
            && !self.request.body.is_source_taken()
    }

    /// Ends the attempt with the head of the final response. The connection still has its body.
    pub(super) fn into_answered(self, response: &mut Response) -> PooledConn {
        self.cookies.end(response);
        self.pooled.set_client_info(response);
        self.span.end(Ok(response));
        self.pooled
    }

    /// Leaves the exchange to a call, which ends the attempt.
    pub(super) fn into_call(self) -> Call {
        let Attempt { request, span, cookies, pooled, .. } = self;
        let trailers = (!request.trailers.is_empty()).then(|| Box::new(request.trailers.clone()));
        let mut exchange = CallExchange::new(pooled, trailers, cookies.into_owned(), span);
        if written_length(request) == BodyLength::Unknown {
            exchange.note_fields(&request.headers);
        }
        Call::new(exchange)
    }
}

impl Until<'_> {
    /// The length of the body that follows the head of `request`.
    #[inline]
    fn body_length(&self, request: &Request) -> Result<BodyLength, ClientError> {
        match self {
            Until::Answered(_) if request.body.is_source_taken() => {
                Err(ClientError::new(ClientPhase::Prepare, ClientCause::BodyConsumed))
            }
            Until::Answered(_) => Ok(request.body.declared_length()),
            Until::Opened => Ok(written_length(request)),
        }
    }
}

/// The request of an attempt, as it is sent over its connection, and once more if that was stale.
#[derive(Clone, Copy)]
struct Dispatch<'a> {
    outgoing: OutgoingRequest<'a>,
    framing: OutgoingFraming,
    limits: &'a RequestLimits,
}

impl Dispatch<'_> {
    /// Writes the head of the request to a connection.
    #[inline]
    fn begin(self, pooled: &mut PooledConn) {
        pooled.begin(self.outgoing, self.framing, self.limits);
    }

    /// Sends the body of the request, and receives the head of the response.
    async fn receive_head(
        self,
        mut pooled: PooledConn,
        response: &mut Response,
    ) -> Result<PooledConn, ClientError> {
        match poll_fn(|cx| pooled.poll_response(cx, Some(self.outgoing.request), response)).await {
            Ok(()) => Ok(pooled),
            Err(error) => boxed(|| self.retry(pooled, error, response)).await,
        }
    }

    /// Sends the request, which has failed with `error`, over a new connection, if the one that it failed on was stale.
    async fn retry(
        self,
        stale: PooledConn,
        error: ClientError,
        response: &mut Response,
    ) -> Result<PooledConn, ClientError> {
        if !stale.may_retry(self.outgoing.request, &error) {
            return Err(error);
        }
        let renewed = async {
            let mut pooled = replace_stale(stale, self.limits).await?;
            self.begin(&mut pooled);
            poll_fn(|cx| pooled.poll_response(cx, Some(self.outgoing.request), response)).await?;
            Ok(pooled)
        };
        renewed.await.map_err(|failed: ClientError| failed.sent_before(error.is_sent()))
    }

    /// Sends the head of the request for a call, whose responses are received into the memory of the exchange.
    async fn open(self, mut pooled: PooledConn) -> Result<PooledConn, ClientError> {
        let OutgoingRequest { request, .. } = self.outgoing;
        pooled.note_target(request.target().as_str());
        let mut early = pooled.exchange.early.take().unwrap_or_default();
        if has_body(request) {
            // The response that refuses the body may be here before the head has left, or why the server has closed.
            poll_fn(|cx| pooled.poll_unless_refused(cx, &mut early, (), PooledConn::poll_flush)).await?;
        } else {
            pooled.exchange.progress.wants_interim = true;
            pooled = self.receive_head(pooled, &mut early).await?;
        }
        pooled.exchange.early = Some(early);
        Ok(pooled)
    }
}

/// Checks a request, whose body has this length, and returns its pool and its framing. `pool` is that of its origin, if
/// the caller has it.
#[inline]
fn prepare(
    pools: &ClientPools,
    pool: Option<Arc<Pool>>,
    outgoing: OutgoingRequest<'_>,
    length: BodyLength,
) -> Result<(Arc<Pool>, OutgoingFraming), ClientError> {
    outgoing.check(length)?;
    let OutgoingRequest { request, expect, .. } = outgoing;
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

/// Whether the caller of a call writes anything after the head.
fn has_body(request: &Request) -> bool {
    let is_announced = !matches!(written_length(request), BodyLength::NoContent | BodyLength::Known(0));
    is_announced || !request.body.is_empty() || !request.trailers.is_empty()
}

/// The length of the body that the caller of a call writes.
fn written_length(request: &Request) -> BodyLength {
    match request.headers.content_length() {
        Some(length) => BodyLength::Known(length),
        None if request.method().suggests_content() || request.headers.contains("transfer-encoding") => {
            BodyLength::Unknown
        }
        None => BodyLength::NoContent,
    }
}
