//! [`Pipeline`]: many requests in flight on a few connections (RFC 9112 §9.3.2).

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::queue::{EntryMeta, PendingResponse, Queue};
use super::task::PipelineTask;
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::exchange::OutgoingRequest;
use crate::client::middleware::{AttemptDetails, SendFuture, Transmit, surround};
use crate::client::observe::ClientSpan;
use crate::client::pool::Pool;
use crate::client::route::origin;
use crate::client::send::RequestSender;
use crate::client::settings::RequestTimeouts;
use crate::memory::Reset;
use crate::message::{MessageError, Method, Request, Response};
use crate::runtime::{self, Handle, boxed, select, sleep_until, timeout_at};
use crate::wire::{ConnectionOption, OutgoingFraming};

/// Sends requests to one origin over a few connections, without waiting for responses in between (RFC 9112 §9.3.2).
///
/// Requests that are made at the same moment leave in one write. Responses come in the order of the requests, so a slow one
/// holds up the next ones. Use a pipeline for many small, quick responses.
///
/// A new connection first carries a single request. Its response shows whether others may follow. At the end of a connection,
/// unwritten requests are sent on the next one. So are those after a response with `connection: close`, which the server does
/// not process. The server may have processed the other ones. These are sent again if a repetition does no harm (RFC 9110
/// §9.2.2), the first in line only once. Otherwise they fail, with an error for which [`ClientError::is_sent`] is true.
///
/// Made by [`Client::pipeline`](crate::Client::pipeline). Clones are the same pipeline, and may be used in any runtime. Each
/// connection lives in the runtime of its first caller. Callers in other runtimes wait while the first runtime does not run.
/// After its end they fail with [`ClientCause::NoRuntime`]. So the cores of a server, which end one by one, should have a
/// pipeline each.
///
/// The connections belong to the client. With nothing in flight they are idle in its pool, where other requests may use them.
/// Redirects are not followed.
///
/// The future of [`Pipeline::send`] may be dropped at any time. The response is then received and discarded.
///
/// # Examples
///
/// ```
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// use corehttp::{Client, Request, Response};
///
/// # let listener = MemoryListener::new();
/// # let client = Client::builder().connect_to(&listener).build();
/// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
/// #     let path = ctx.request.path().to_owned();
/// #     ctx.response.set_text(path);
/// # })?;
/// # corehttp::block_on(async {
/// let pipeline = client.pipeline("http://cache:8080")?.build();
/// let ask = async |path: &str| {
///     let mut response = Response::new();
///     pipeline.send(&Request::get(path)?, &mut response).await?;
///     Ok::<_, Box<dyn std::error::Error>>(response)
/// };
/// let (one, two) = tokio::join!(ask("/one"), ask("/two"));
/// assert_eq!((one?.body.bytes(), two?.body.bytes()), (&b"/one"[..], &b"/two"[..]));
/// assert_eq!((client.idle_connections(), client.busy_connections()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "PipelineClient")]
#[derive(Clone)]
pub struct Pipeline(Arc<CloseOnDrop>);

/// Closes the queues when the last clone of a pipeline is dropped. Tasks hold the queues, but not this value.
struct CloseOnDrop(Arc<PipelineInner>);

/// The state that the callers of a pipeline share.
struct PipelineInner {
    sender: RequestSender,
    /// The [`origin::key`].
    key: Arc<str>,
    /// The pool of the first runtime, used only to write heads, which the pools of all runtimes write alike.
    pool: OnceLock<Arc<Pool>>,
    in_flight_max: usize,
    /// A permit for each further request that may be in flight. The semaphore is fair, so callers are served in turn.
    permits: Arc<Semaphore>,
    allowed: AllowedMethods,
    /// One for each connection.
    queues: Box<[Arc<Queue>]>,
}

/// Which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AllowedMethods {
    /// Requests that change nothing (RFC 9110 §9.2.1).
    Safe,
    Any,
}

impl Pipeline {
    /// Sends `request`, and receives the response into `response`, including its body.
    ///
    /// # Errors
    ///
    /// As [`Host::send`](crate::client::Host::send). Fails with [`ClientCause::NotPipelinable`] for an unsafe method without
    /// [`PipelineBuilder::allow_unsafe_methods`], and for a request that cannot share a connection. Such are streams as bodies,
    /// trailers, CONNECT, and the fields `expect`, `upgrade` and `connection: close`.
    pub async fn send(&self, request: &Request, response: &mut Response) -> Result<(), ClientError> {
        let shared = &self.0.0;
        response.reset();
        let timeouts = shared.sender.timeouts();
        let sent = match shared.sender.settings().middleware.is_empty() {
            true => self.send_within(&timeouts, request, response).await,
            false => boxed(|| self.send_surrounded(&timeouts, request, response)).await,
        };
        sent.map_err(|error| {
            timeouts.describe(error, request, shared.sender.settings()).with_origin(&shared.key)
        })
    }

    /// Sends a request through the middleware of the client.
    async fn send_surrounded(
        &self,
        timeouts: &RequestTimeouts,
        request: &Request,
        response: &mut Response,
    ) -> Result<(), ClientError> {
        let shared = &self.0.0;
        let details = AttemptDetails { origin: &shared.key, resends: 0, is_cross_origin: false };
        let mut pipelined = PipelinedRequest { pipeline: self, timeouts, response, is_answered: false };
        let middleware = &shared.sender.settings().middleware;
        surround(middleware, request, details, &mut pipelined, timeouts.deadline).await
    }

    async fn send_within(
        &self,
        timeouts: &RequestTimeouts,
        request: &Request,
        response: &mut Response,
    ) -> Result<(), ClientError> {
        let shared = &self.0.0;
        shared.check(request)?;
        let permit = shared.enter(timeouts).await?;
        let pool = shared.pool()?;
        let span = ClientSpan::begin(&shared.sender.settings().spans, request, &pool.origin, 0);
        let outgoing = OutgoingRequest::new(request);
        let cookies = pool.cookies(&outgoing);
        let outgoing = outgoing.with_trace(span.fields()).with_cookie(cookies.cookie());
        let mut pending = shared.push(outgoing, pool, permit)?;
        let received = async { poll_fn(|cx| pending.poll(cx, response)).await.map(Some) };
        let answered = match timeouts.deadline {
            None => received.await,
            // Its end is looked at first: a caller who polls late finds that the exchange is over.
            Some(deadline) => {
                let over = async {
                    sleep_until(deadline).await;
                    Ok(None)
                };
                select(over, received).await
            }
        };
        let answered = answered.inspect_err(|error| span.end(Err(error)))?;
        if answered.is_none() {
            return Err(pending.error(ClientCause::TimedOut)).inspect_err(|error| span.end(Err(error)));
        }
        cookies.end(response);
        span.end(Ok(response));
        Ok(())
    }

    /// Returns how many requests are in flight, or about to be. An abandoned request counts until it is answered.
    pub fn in_flight(&self) -> usize {
        let shared = &self.0.0;
        shared.in_flight_max - shared.permits.available_permits()
    }
}

/// A request beneath the middleware of its client, which sends it, perhaps more than once.
struct PipelinedRequest<'a> {
    pipeline: &'a Pipeline,
    timeouts: &'a RequestTimeouts,
    response: &'a mut Response,
    is_answered: bool,
}

impl Transmit for PipelinedRequest<'_> {
    fn transmit<'x>(&'x mut self, request: &'x Request) -> SendFuture<'x> {
        Box::pin(async move {
            self.is_answered = false;
            self.response.reset();
            self.pipeline.send_within(self.timeouts, request, self.response).await?;
            self.is_answered = true;
            Ok(())
        })
    }

    fn is_sent(&self) -> bool {
        self.is_answered
    }

    fn response(&self) -> Option<&Response> {
        self.is_answered.then_some(&*self.response)
    }
}

impl PipelineInner {
    /// Writes the whole `request` as it is sent.
    fn write(wire: &mut Vec<u8>, outgoing: OutgoingRequest<'_>, pool: &Pool) {
        let OutgoingRequest { request, .. } = outgoing;
        let framing = OutgoingFraming::from_request(request.method(), request.body.declared_length(), false);
        pool.write_head(wire, &outgoing, framing);
        wire.extend_from_slice(request.body.bytes());
    }

    /// Checks that `request` may be sent over this pipeline.
    ///
    /// # Errors
    ///
    /// Fails if the request is for another origin, or cannot be pipelined.
    fn check(&self, request: &Request) -> Result<(), ClientError> {
        origin::check(request.target(), &self.key)?;
        let (method, headers) = (request.method(), &request.headers);
        let obstacle = match () {
            () if method == Method::Connect || !(self.allowed == AllowedMethods::Any || method.is_safe()) => {
                Some(method.as_str())
            }
            () if request.body.is_stream() => Some("a body that is a stream"),
            () if !request.trailers.is_empty() => Some("trailers"),
            () if headers.contains("expect") => Some("the field expect"),
            () if headers.contains("upgrade") => Some("the field upgrade"),
            () if ConnectionOption::from_headers(headers) == ConnectionOption::Close => {
                Some("connection: close")
            }
            () => None,
        };
        match obstacle {
            None => Ok(OutgoingRequest::new(request).check(request.body.declared_length())?),
            Some(obstacle) => {
                let error = ClientError::new(ClientPhase::Prepare, ClientCause::NotPipelinable);
                Err(error.with_detail(obstacle.to_owned()))
            }
        }
    }

    fn pool(&self) -> Result<&Arc<Pool>, ClientError> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let pool = self.sender.pool(&self.key, None)?;
        Ok(self.pool.get_or_init(|| pool))
    }

    /// Waits until one more request may be in flight.
    async fn enter(&self, timeouts: &RequestTimeouts) -> Result<OwnedSemaphorePermit, ClientError> {
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let until = timeouts.queue_until(runtime::now(), self.sender.settings());
        match timeout_at(until, self.permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => {
                let error = ClientError::new(ClientPhase::Queue, ClientCause::TimedOut);
                Err(error.with_subject(format!("one of the {} places in flight", self.in_flight_max)))
            }
        }
    }

    /// Pushes `request` to the queue with the fewest unanswered requests, among those that have a connection or soon get
    /// one.
    fn push(
        self: &Arc<PipelineInner>,
        outgoing: OutgoingRequest<'_>,
        pool: &Pool,
        permit: OwnedSemaphorePermit,
    ) -> Result<PendingResponse<'_>, ClientError> {
        let Some(handle) = Handle::current() else {
            return Err(ClientError::new(ClientPhase::Prepare, ClientCause::NoRuntime));
        };
        let queue = match &*self.queues {
            [only] => only,
            queues => {
                let now = runtime::now();
                queues.iter().min_by_key(|queue| queue.load(now)).unwrap_or(&queues[0])
            }
        };
        let (pending, needs_task) = queue.push(EntryMeta::new(outgoing.request, permit), |wire| {
            PipelineInner::write(wire, outgoing, pool)
        });
        if needs_task {
            handle.spawn(PipelineTask::new(self.sender.clone(), self.key.clone(), queue.clone()).run());
        }
        Ok(pending)
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.queues.iter().for_each(|queue| queue.close());
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("origin", &self.0.0.key)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

/// Configures a [`Pipeline`]. Made by [`Client::pipeline`](crate::Client::pipeline). Timeouts and limits are those of the
/// client.
///
/// # Examples
///
/// ```
/// use corehttp::Client;
///
/// let pipeline = Client::new().pipeline("http://cache:8080")?.connections(2).in_flight_max(256).build();
/// assert_eq!(pipeline.in_flight(), 0);
/// # Ok::<(), corehttp::error::MessageError>(())
/// ```
#[must_use]
pub struct PipelineBuilder {
    sender: RequestSender,
    key: Arc<str>,
    connections: usize,
    in_flight_max: usize,
    allowed: AllowedMethods,
}

impl PipelineBuilder {
    pub(in crate::client) fn new(sender: RequestSender, url: &str) -> Result<PipelineBuilder, MessageError> {
        let key = origin::key_of_url(url)?.into();
        Ok(PipelineBuilder {
            sender,
            key,
            connections: 1,
            in_flight_max: 1024,
            allowed: AllowedMethods::Safe,
        })
    }

    /// Sets how many connections are used at most. Another one is opened when all others are busy. Default: 1. Values
    /// are clamped to between 1 and 1,024.
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count.clamp(1, CONNECTIONS_MAX);
        self
    }

    /// Sets how many requests may be in flight, over all connections together. Default: 1,024; the least is 1.
    ///
    /// Further callers wait in line, for at most [`ClientTimeouts::queue`](crate::client::ClientTimeouts::queue).
    pub fn in_flight_max(mut self, most: usize) -> Self {
        self.in_flight_max = most.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Sets whether unsafe methods are allowed. Default: no, only safe methods are sent.
    ///
    /// If a connection ends with such requests in flight, the server may have acted on them. Without an idempotent method (RFC
    /// 9112 §9.3.2), they fail with an error for which [`ClientError::is_sent`] is true.
    ///
    /// [`ClientError::is_sent`]: crate::ClientError::is_sent
    pub fn allow_unsafe_methods(mut self, allow: bool) -> Self {
        self.allowed = if allow { AllowedMethods::Any } else { AllowedMethods::Safe };
        self
    }

    /// Builds the pipeline. Nothing is dialed before the first request.
    pub fn build(self) -> Pipeline {
        let PipelineBuilder { sender, key, connections, in_flight_max, allowed } = self;
        let shared = PipelineInner {
            sender,
            key,
            pool: OnceLock::new(),
            in_flight_max,
            permits: Arc::new(Semaphore::new(in_flight_max)),
            allowed,
            queues: std::iter::repeat_with(Arc::<Queue>::default).take(connections).collect(),
        };
        Pipeline(Arc::new(CloseOnDrop(Arc::new(shared))))
    }
}

/// Each connection has a queue, and each request looks at all of them.
const CONNECTIONS_MAX: usize = 1024;

impl fmt::Debug for PipelineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineBuilder")
            .field("origin", &self.key)
            .field("connections", &self.connections)
            .field("in_flight_max", &self.in_flight_max)
            .finish_non_exhaustive()
    }
}
