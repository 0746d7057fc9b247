//! [`Tower`]: a service of tower as a handler: its request, and its response.

use std::error::Error as StdError;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::{Buf, Bytes};
use http_body::{Body, Frame};
use http_body_util::LengthLimitError;
use tower_service::Service;

use super::tower_body::{BodyPump, TowerBody};
use crate::exchange::ExchangeError;
use crate::http_types::{append_header_map, to_http_request};
use crate::message::{Headers, Response, SINGLE_FIELDS, Status};
use crate::runtime::join_first;
use crate::server::{BodyPlan, BodyWriter, Context, Error, Handler, RespondError, Result};

/// A service of tower as a [`Handler`]: a `Router` of axum, for instance, with its routing, extractors and JSON, and
/// with the middleware of tower-http, such as CORS and tracing.
///
/// ```no_run
/// use corehttp::Server;
/// use corehttp::tower::Tower;
///
/// fn main() -> corehttp::Result {
///     let app = axum::Router::new().route("/", axum::routing::get(async || "Hello, World!"));
///     Server::bind("127.0.0.1:8080").run(Tower::new(app))
/// }
/// ```
///
/// The service is cloned for each request. The clone is called once it is ready. If the service cannot be shared between
/// threads, each core makes its own, by [`Server::run_per_core`](crate::Server::run_per_core). Neither its futures nor the
/// bodies of its responses need be `Send`.
///
/// # Requests
///
/// The target is as it came. User agents do not escape the octets ``"<>` ``, which the crate `http` refuses. A target with one
/// of them is escaped. The body is streamed: see [`TowerBody`]. The extensions hold the address of the peer, as a
/// [`PeerAddr`](crate::PeerAddr), for axum's `Extension`. On a secure connection they also hold its session, as an
/// `Arc<tls::Session>` that all requests of the connection share.
///
/// A request that the crate `http` cannot hold is answered with 400, without a call of the service. This concerns a target of
/// more than 65,534 bytes, and a field name of more than 65,535. The [`Limits`](crate::Limits) are lower, unless they were
/// raised.
///
/// # Responses
///
/// A body that is whole at once, like most, is sent with its length and not copied. Any other is sent as it comes, with its
/// length if known, and else in chunks. It is flushed whenever it pauses. Both bodies may flow at the same time. Trailers are
/// sent after chunks. So a response of known length must announce trailers in its field `trailer`. Fields that are already set
/// in `ctx.response` are added to those of the response.
///
/// Service and body are dropped if a write to the peer fails. The same goes for a reset of the connection, while the service
/// works or in a pause of its body. A peer that closes its sending half is still answered. With
/// [`Server::half_close(false)`](crate::Server::half_close) it counts as gone.
///
/// # Errors
///
/// An error of the service is answered with 500, or with the status that it chooses like any other [`Error`](crate::Error). So
/// is an error of a body before its first byte is sent. A later one aborts the connection.
///
/// # What is not supported
///
/// Upgrades, and so the WebSockets of axum, are not supported. Their `WebSocketUpgrade` needs a type that only hyper can make.
/// A service gets the request for an upgrade like any other. Route it to a handler with `Context::websocket` before the
/// service, as in the module `coming_from`. A CONNECT is answered with 501.
///
/// # Examples
///
/// axum's `ConnectInfo`, for extractors that need it:
///
/// ```
/// use std::net::SocketAddr;
///
/// use axum::Router;
/// use axum::extract::{ConnectInfo, Request};
/// use axum::middleware::map_request;
/// use axum::routing::get;
/// use corehttp::{PeerAddr, Server};
/// use corehttp::tower::Tower;
///
/// async fn connect_info(mut request: Request) -> Request {
///     if let Some(PeerAddr::Tcp(address)) = request.extensions().get().copied() {
///         request.extensions_mut().insert(ConnectInfo(address));
///     }
///     request
/// }
///
/// async fn greet(ConnectInfo(address): ConnectInfo<SocketAddr>) -> String {
///     format!("Hello, {address}!")
/// }
///
/// let app = Router::new().route("/", get(greet)).layer(map_request(connect_info));
/// let running = Server::bind("127.0.0.1:0").cores(1).start(Tower::new(app))?;
/// # let url = format!("http://{}/", running.local_addr());
/// # let response = corehttp::block_on(corehttp::Client::new().get(&url))??;
/// # assert!(response.body.text()?.starts_with("Hello, 127.0.0.1:"), "{:?}", response.body.text());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("axum", "hyper", "Router", "middleware"))]
#[derive(Clone, Copy)]
pub struct Tower<S> {
    service: S,
}

impl<S> Tower<S> {
    /// Makes a handler of `service`.
    pub fn new(service: S) -> Tower<S> {
        Tower { service }
    }
}

impl<S, B> Handler for Tower<S>
where
    S: Service<http::Request<TowerBody>, Response = http::Response<B>> + Clone + 'static,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>>,
{
    fn on_head(&self, _: &mut Context) -> BodyPlan {
        BodyPlan::Stream
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        if ctx.body_reader().has_begun() {
            // The service would take the rest of the body for the whole of it.
            return Err(Error::new(Status::INTERNAL_SERVER_ERROR, "a part of the body was read before"));
        }
        let (pump, body) = BodyPump::new(ctx);
        let request = to_service_request(ctx, body)?;
        let mut service = self.service.clone();
        let answering = async {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(Error::other)?;
            service.call(request).await.map_err(|error| pump.explain(service_error(error)))
        };
        let response = pump.run_beside(&mut pump.reader(ctx.body_reader()), answering).await?;
        send_response(ctx, &pump, response).await.map_err(|error| pump.explain(error))
    }
}

impl<S> fmt::Debug for Tower<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tower").finish_non_exhaustive()
    }
}

/// The error of a service. If it has found the body of the request longer than a layer allows, it is answered with 413.
pub(super) fn service_error(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    let error = error.into();
    match is_of_length_limit(&*error) {
        true => Error::new(Status::CONTENT_TOO_LARGE, error),
        false => Error::other(error),
    }
}

/// Whether the limit of a layer was exceeded, whatever has wrapped its error.
fn is_of_length_limit(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return true;
        }
        cause = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

/// Converts the request for a service: with the values that layers around it have left, the address of the peer, and
/// the session of a secure connection.
pub(super) fn to_service_request(ctx: &Context, body: TowerBody) -> Result<http::Request<TowerBody>> {
    let converted = to_http_request(&ctx.request, body);
    let mut request = converted.map_err(|error| Error::new(Status::BAD_REQUEST, error))?;
    if let Some(extensions) = ctx.extensions.get::<http::Extensions>() {
        request.extensions_mut().extend(extensions.clone());
    }
    request.extensions_mut().insert(ctx.peer_addr());
    if let Some(session) = ctx.tls_session() {
        request.extensions_mut().insert(session);
    }
    Ok(request)
}

/// The status of a response that a service has `returned`. One beyond 599 is that of the context, which a client has received
/// and layers have left as it was.
pub(super) fn returned_status(
    returned: http::StatusCode,
    of_context: Status,
) -> Result<Status, RespondError> {
    match returned.as_u16() {
        status if status == of_context.as_u16() => Ok(of_context),
        status => Status::new(status).ok_or(RespondError::Status(status)),
    }
}

/// Sends the `response` of a service, whose body may still read that of the request.
pub(super) async fn send_response<B>(
    ctx: &mut Context,
    pump: &BodyPump,
    response: http::Response<B>,
) -> Result
where
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>>,
{
    let (head, body) = response.into_parts();
    let mut body = pin!(body);
    let is_head_request = ctx.is_head_request();
    let response = &mut ctx.response;
    response.status = returned_status(head.status, response.status)?;
    for name in SINGLE_FIELDS.iter().filter(|name| head.headers.contains_key(**name)) {
        response.headers.remove(name);
    }
    append_header_map(&mut response.headers, &head.headers)?;
    let exact = body.size_hint().exact();
    if is_head_request || has_no_content(response.status) {
        // A service that handles HEAD states the length that the content of a GET would have, and sends none (RFC 9110
        // §9.3.2).
        let is_stated = is_head_request && !response.headers.contains("trailer");
        return set_length(response, exact.filter(|length| is_stated && *length > 0));
    }
    let length = exact.or(response.headers.content_length());
    let mut first_frame = match poll_fn(|cx| Poll::Ready(body.as_mut().poll_frame(cx))).await {
        Poll::Ready(None) => return set_whole(response, length, Bytes::new()),
        Poll::Ready(Some(frame)) => Some(frame.map_err(Error::other)?),
        Poll::Pending => None,
    };
    if let Some(data) = first_frame.as_mut().and_then(Frame::data_mut)
        && body.is_end_stream()
    {
        return set_whole(response, length, data.copy_to_bytes(data.remaining()));
    }
    // Trailers can only follow chunks (RFC 9112 §7.1.2).
    match response.headers.contains("trailer") {
        true => _ = response.headers.remove("content-length"),
        false => set_length(response, exact)?,
    }
    if !pump.is_body_wanted() {
        return relay(body, first_frame, ctx.body_writer().await?).await;
    }
    let (reader, out) = ctx.duplex().await?;
    pump.run_beside(&mut pump.reader(reader), relay(body, first_frame, out)).await
}

/// Whether nothing of the content is sent (RFC 9110 §15.3.5, §15.3.6, §15.4.5).
fn has_no_content(status: Status) -> bool {
    [Status::NO_CONTENT, Status::RESET_CONTENT, Status::NOT_MODIFIED].contains(&status)
}

fn set_length(response: &mut Response, length: Option<u64>) -> Result {
    Ok(length.map_or(Ok(()), |length| response.headers.set("content-length", length))?)
}

/// Makes `data` the content, if it has the `length` that was announced.
fn set_whole(response: &mut Response, length: Option<u64>, data: Bytes) -> Result {
    if length.is_some_and(|length| length != data.len() as u64) {
        return Err(ExchangeError::Length.into());
    }
    response.body.set_shared_bytes(data);
    Ok(())
}

/// Sends `first_frame`, and then the other frames of `body`.
async fn relay<B>(
    mut body: Pin<&mut B>,
    mut first_frame: Option<Frame<B::Data>>,
    mut out: BodyWriter<'_>,
) -> Result
where
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>>,
{
    loop {
        let frame = match first_frame.take() {
            Some(frame) => frame,
            None => match next(body.as_mut(), &mut out).await? {
                Some(frame) => frame,
                None => return Ok(out.finish().await?),
            },
        };
        match frame.into_data() {
            Ok(data) => write(&mut out, data).await?,
            Err(frame) => {
                let mut trailers = Headers::new();
                frame.into_trailers().map_or(Ok(()), |map| append_header_map(&mut trailers, &map))?;
                return Ok(out.finish_with_trailers(&trailers).await?);
            }
        }
    }
}

/// Returns the next frame of `body`. While the body pauses, all earlier frames are flushed.
async fn next<B>(mut body: Pin<&mut B>, out: &mut BodyWriter<'_>) -> Result<Option<Frame<B::Data>>>
where
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>>,
{
    let frame = poll_fn(|cx| body.as_mut().poll_frame(cx));
    join_first(async { frame.await.transpose().map_err(Error::other) }, async { Ok(out.flush().await?) })
        .await
}

async fn write(out: &mut BodyWriter<'_>, mut data: impl Buf) -> Result {
    while data.has_remaining() {
        let count = data.chunk().len();
        out.write_all(data.chunk()).await?;
        data.advance(count);
    }
    Ok(())
}
