//! [`layer`]: layers of tower around a handler.

use std::any::Any;
use std::error::Error as StdError;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Poll, ready};

use http::Uri;
use http::request::Parts;
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::handler_service::{CallGuard, HandlerCall, HandlerService, RequestBody};
use super::head_gate::{HeadGate, replace_fields};
use super::tower::{returned_status, send_response, service_error, to_service_request};
use super::tower_body::{BodyPump, TowerBody};
use super::wrapped_body::replace_body;
use crate::http_types::{HttpBody, downcast, take_http_response, to_http_response};
use crate::message::{Headers, Method, Response, Target};
use crate::runtime::{boxed, select};
use crate::server::{Context, Error, Handler, Middleware, Result, take_panic};

/// Makes [middleware](crate::middleware) of a layer of tower, such as those of tower-http: for a closure, `Files`, a
/// [`Tower`](super::Tower), or any other handler. Several layers at once are a `tower::ServiceBuilder`.
///
/// ```
/// use std::time::Duration;
/// use corehttp::middleware::wrap;
/// use corehttp::{Context, Server};
/// use corehttp::tower::layer;
/// use tower::ServiceBuilder;
/// use tower_http::cors::CorsLayer;
/// use tower_http::request_id::{MakeRequestUuid, SetRequestIdLayer};
/// use tower_http::timeout::TimeoutLayer;
/// # use http::StatusCode;
///
/// let app = |ctx: &mut Context| ctx.response.set_text("Hello, World!");
/// let layers = ServiceBuilder::new()
///     .layer(CorsLayer::permissive())
///     .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, Duration::from_secs(10)));
/// # let service = Server::new().service(wrap(layer(layers.clone()), app));
/// # let response = corehttp::block_on(service.respond(corehttp::Request::get("/")?))?;
/// # assert_eq!(response.headers.get("access-control-allow-origin"), Some("*"));
/// # let _ = || -> corehttp::Result {
/// Server::bind("127.0.0.1:8080").run(wrap(layer(layers), app))
/// # };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Requests
///
/// The layers see the head of the request in the types of the crate `http`, and a [`TowerBody`] for the body of the context.
/// Among the extensions is the [`PeerAddr`](crate::PeerAddr). The handler finds changes of the method, the URI and fields in
/// `ctx.request`. The extensions that the layers add are in `ctx.extensions`, as one `http::Extensions`.
///
/// The plan for the body is the handler's. The layers also see the response to a request refused beneath them, by its head or
/// because its body cannot be buffered. A layer may wrap the body, in order to decode or to limit it. The wrapped body is then
/// received into memory before the handler is called, up to [`Limits::body_max`](crate::Limits::body_max) and within
/// [`Limits::memory_max`](crate::Limits::memory_max). So a handler that streams uploads is better off with the limits and
/// [decoders](crate::BodyReader::decoded_up_to) of this crate.
///
/// # Responses
///
/// The layers see and may change the head of the response before it is sent. This holds for a response in `ctx.response`, for
/// one that the handler streams with [`Context::body_writer`], and for an upgrade. If the layers answer in place of the
/// handler, as after a time limit, the handler is cancelled.
///
/// Content that no layer wraps is sent as without layers: a file by the operating system, a stream piece by piece. The layers
/// for fields, request ids, authorization and timeouts wrap nothing. Layers for traces, panics and compression do. So does any
/// layer that boxes the body. Then the content passes through their body, piece by piece. Content in memory is not copied.
///
/// A handler fails as it does without layers. The layers see a response with the status of its error and without content. If
/// they leave it unchanged, the error goes on to the server. The server makes the content and calls
/// [`Server::on_error`](crate::Server::on_error). A panic reaches the layers, one of which may catch it. If none does, their
/// changes of the response are lost. The middleware around them gets the error.
///
/// # What is not supported
///
/// - A body that waits for anything but the content, for example to limit the rate. Around a handler that streams with
///   [`Context::body_writer`], the stream fails at its end. Around a response in `ctx.response` it works.
/// - Layers that need axum's body or a `Send` service. They do not compile. Examples are `axum::middleware::from_fn` and
///   `tower::buffer::BufferLayer`. Write a function with [`Next`](crate::middleware::Next) in place of the first. Or leave them
///   around an app of axum. [`Tower`](super::Tower) makes that a handler.
/// - Layers that call the handler more than once for a request, such as retries. The second call is answered with 500.
/// - An error of a layer, such as that of `tower::timeout`, is no response that other layers see. It is answered like one of a
///   handler: with 500, or with the status that it chooses. The layers of tower-http answer themselves. A body beyond the limit
///   of a layer is answered with 413, and a failed body with its own status, such as 408.
/// - Interim responses and trailers that a handler streams do not pass through the layers.
///
/// # Errors
///
/// A request that the crate `http` cannot hold is answered with 400, as by a [`Tower`](super::Tower).
///
/// # Examples
///
/// `tower_governor` limits requests by a key, which is the address of the peer here. Its own responses have the body of axum.
/// So a layer inside of it converts that of the handler:
///
/// ```
/// use std::net::IpAddr;
///
/// use corehttp::middleware::wrap;
/// use corehttp::{Context, PeerAddr, Server, Status};
/// use corehttp::tower::layer;
/// use tower::ServiceBuilder;
/// use tower_governor::governor::GovernorConfigBuilder;
/// use tower_governor::key_extractor::KeyExtractor;
/// use tower_governor::{GovernorError, GovernorLayer};
/// use tower_http::map_response_body::MapResponseBodyLayer;
///
/// #[derive(Clone)]
/// struct Peer;
///
/// impl KeyExtractor for Peer {
///     type Key = IpAddr;
///
///     fn extract<B>(&self, request: &http::Request<B>) -> Result<IpAddr, GovernorError> {
///         match request.extensions().get() {
///             Some(PeerAddr::Tcp(address)) => Ok(address.ip()),
///             _ => Err(GovernorError::UnableToExtractKey),
///         }
///     }
/// }
///
/// let config = GovernorConfigBuilder::default().key_extractor(Peer).per_second(60).burst_size(1).finish().unwrap();
/// let layers = ServiceBuilder::new()
///     .layer(GovernorLayer::new(config))
///     .layer(MapResponseBodyLayer::new(axum::body::Body::new));
/// let limited = wrap(layer(layers), |ctx: &mut Context| ctx.response.set_text("Hello"));
/// let service = Server::new().service(limited);
/// let peer = std::net::SocketAddr::from(([192, 0, 2, 1], 50_000)).into();
/// let get = || service.respond_from(peer, corehttp::Request::get("/").unwrap());
/// # corehttp::block_on(async {
/// assert_eq!(get().await.status, Status::OK);
/// assert_eq!(get().await.status, Status::TOO_MANY_REQUESTS);
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias("middleware", "tower-http", "cors"))]
pub fn layer<L, B>(layer: L) -> impl Middleware + Clone
where
    L: Layer<HandlerService>,
    L::Service: Service<http::Request<TowerBody>, Response = http::Response<B>> + Clone + 'static,
    <L::Service as Service<http::Request<TowerBody>>>::Error: Into<Box<dyn StdError + Send + Sync>>,
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>> + 'static,
{
    Layered { service: layer.layer(HandlerService::new()) }
}

/// Layers of tower as middleware.
#[derive(Clone)]
struct Layered<S> {
    service: S,
}

impl<S, B> Middleware for Layered<S>
where
    S: Service<http::Request<TowerBody>, Response = http::Response<B>> + Clone + 'static,
    S::Error: Into<Box<dyn StdError + Send + Sync>>,
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>> + 'static,
{
    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        let call = HandlerCall::default();
        let _guard = CallGuard(&call);
        // Nothing is received for a request that is refused.
        let (pump, body) = if next.is_refusing() { BodyPump::empty() } else { BodyPump::new(ctx) };
        let request = to_layers(ctx, &call, body)?;
        let mut service = self.service.clone();
        let mut answering = pin!(async {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(Error::other)?;
            service.call(request).await.map_err(|error| pump.explain(service_error(error)))
        });
        // The fields that middleware around the layers has set.
        let fields = (!ctx.response.headers.is_empty()).then(|| ctx.response.headers.clone());
        // The layers call the handler, or answer without it.
        let calling = poll_fn(|cx| call.poll_request(cx).map(ControlFlow::Continue).map(Ok));
        let called = select(async { answering.as_mut().await.map(ControlFlow::Break) }, calling);
        let called = pump.run_beside(&mut pump.reader(ctx.body_reader()), called).await?;
        let (head, body) = match called {
            ControlFlow::Break(response) => return send_response(ctx, &pump, response).await,
            ControlFlow::Continue(request) => request,
        };
        let is_replaced = matches!(body, RequestBody::Other(_)) && !next.is_refusing();
        if let RequestBody::Other(body) = body
            && is_replaced
            && let Some(response) = boxed(|| replace_body(ctx, &pump, answering.as_mut(), body)).await?
        {
            return send_response(ctx, &pump, response).await;
        }
        apply_head(ctx, head, is_replaced)?;
        let gated = Gated { gate: HeadGate::put(ctx, &call), ctx };
        let outcome = run_handler(next, gated.ctx, answering.as_mut(), &gated.gate).await;
        let has_begun = gated.ctx.has_responded() || !gated.gate.is_open();
        drop(gated);
        match outcome {
            Outcome::Failed(error) => Err(error),
            Outcome::Returned(Ok(())) if has_begun && !ctx.has_responded() => {
                Err(Error::other("the handler has given up a response that it had begun"))
            }
            Outcome::Returned(result) if has_begun => result,
            Outcome::Returned(Ok(())) => finish(ctx, &call, &pump, answering).await,
            Outcome::Returned(Err(error)) if error.is_connection_lost() => Err(error),
            Outcome::Returned(Err(error)) => {
                fail(ctx, &call, &pump, answering, error.before_response()).await
            }
            Outcome::Panicked(panic) if has_begun => resume_unwind(panic),
            Outcome::Panicked(panic) => {
                call.hand_over(Err(panic)).await;
                let response = answering.await?;
                replace(ctx, &pump, fields, response).await
            }
            Outcome::Overtaken(response) => replace(ctx, &pump, fields, response).await,
        }
    }
}

/// A context behind a gate, for as long as its handler is called.
struct Gated<'c, B> {
    gate: Rc<HeadGate<B>>,
    ctx: &'c mut Context,
}

impl<B> Drop for Gated<'_, B> {
    fn drop(&mut self) {
        let Gated { gate, ctx } = self;
        gate.restore(ctx);
    }
}

/// Converts the request for the layers, through which `call` goes.
fn to_layers(ctx: &Context, call: &HandlerCall, body: TowerBody) -> Result<http::Request<TowerBody>> {
    let mut request = to_service_request(ctx, body)?;
    request.extensions_mut().insert(call.clone());
    Ok(request)
}

/// Applies the head of the layers' request to that of the context, where they differ.
fn apply_head(ctx: &mut Context, head: Parts, is_replaced: bool) -> Result {
    let request = &mut ctx.request;
    // A router that has planned for the request matches it anew, if its target or its method is another one.
    if !is_same_target(&head.uri, request.target()) {
        let target = Target::try_from(&head.uri)?;
        request.replace_target(|own| *own = target);
    }
    if head.method.as_str() != request.method().as_str() {
        request.set_method(Method::try_from(&head.method)?);
    }
    replace_fields(&mut request.headers, &head.headers)?;
    if is_replaced {
        request.announce_length();
    }
    // The address of the peer is one of them.
    if head.extensions.len() > 1 {
        ctx.extensions.insert(head.extensions);
    }
    Ok(())
}

fn is_same_target(uri: &Uri, target: &Target) -> bool {
    match (uri.authority(), uri.path_and_query()) {
        (None, Some(resource)) if resource.as_str() == target.as_str() => true,
        (_, _) => Uri::try_from(target).is_ok_and(|target| target == *uri),
    }
}

/// How the handler ended, while its layers wait for it.
enum Outcome<B> {
    Returned(Result),
    Panicked(Box<dyn Any + Send>),
    /// The layers have answered in place of the handler.
    Overtaken(http::Response<B>),
    /// The layers have failed.
    Failed(Error),
}

impl<B> From<Result> for Outcome<B> {
    fn from(result: Result) -> Outcome<B> {
        // The layers may catch it, as they would catch a panic of a service.
        let panic = result.as_ref().err().and_then(take_panic);
        panic.map_or_else(|| Outcome::Returned(result), Outcome::Panicked)
    }
}

/// Runs the handler beside the future of its layers, which may have a time limit.
async fn run_handler<H: Handler, B>(
    handler: &H,
    ctx: &mut Context,
    mut answering: Pin<&mut impl Future<Output = Result<http::Response<B>>>>,
    gate: &HeadGate<B>,
) -> Outcome<B> {
    let mut handling = pin!(async { handler.handle(ctx).await });
    let mut is_answered = false;
    poll_fn(|cx| {
        loop {
            match catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))) {
                Err(panic) => return Poll::Ready(Outcome::Panicked(panic)),
                Ok(Poll::Ready(result)) => return Poll::Ready(Outcome::from(result)),
                Ok(Poll::Pending) => {}
            }
            if let Some(response) = gate.take_replaced() {
                return Poll::Ready(Outcome::Overtaken(response));
            }
            if is_answered {
                return Poll::Pending;
            }
            let answered = ready!(answering.as_mut().poll(cx)).map_err(Outcome::Failed);
            // A handler that waits for its head goes on at once.
            match answered.and_then(|response| gate.pass(response).map_err(Outcome::Overtaken)) {
                Ok(()) => is_answered = true,
                Err(outcome) => return Poll::Ready(outcome),
            }
        }
    })
    .await
}

/// Passes the response that the handler has left through the layers.
async fn finish<B>(
    ctx: &mut Context,
    call: &HandlerCall,
    pump: &BodyPump,
    answering: Pin<&mut impl Future<Output = Result<http::Response<B>>>>,
) -> Result
where
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>> + 'static,
{
    call.hand_over(Ok(take_http_response(&mut ctx.response)?)).await;
    let response = answering.await?;
    match downcast::<http::Response<B>, http::Response<HttpBody>>(response) {
        Ok(own) => apply_response(&mut ctx.response, own),
        Err(other) => replace(ctx, pump, None, other).await,
    }
}

/// Applies the response of the layers, whose body none of them has wrapped.
fn apply_response(response: &mut Response, own: http::Response<HttpBody>) -> Result {
    let (head, body) = own.into_parts();
    response.status = returned_status(head.status, response.status)?;
    replace_fields(&mut response.headers, &head.headers)?;
    let (content, trailers) = body.into_parts();
    response.body = content;
    response.trailers.clear();
    trailers.map_or(Ok(()), |trailers| replace_fields(&mut response.trailers, &trailers))?;
    Ok(())
}

/// Passes the status of the handler's error through the layers. Unless they change it, the error goes on to the server.
async fn fail<B>(
    ctx: &mut Context,
    call: &HandlerCall,
    pump: &BodyPump,
    answering: Pin<&mut impl Future<Output = Result<http::Response<B>>>>,
    error: Error,
) -> Result
where
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>> + 'static,
{
    ctx.response.remove_content();
    let mut response = to_http_response(&ctx.response, HttpBody::default())?;
    *response.status_mut() = error.status().into();
    call.hand_over(Ok(response)).await;
    let response = answering.await?;
    let has_content = !response.body().is_end_stream() && response.body().size_hint().exact() != Some(0);
    if has_content || response.status() != error.status().as_u16() {
        return replace(ctx, pump, None, response).await;
    }
    replace_fields(&mut ctx.response.headers, response.headers())?;
    Err(error)
}

/// Sends the response of the layers in place of the handler's. The `fields` that were there before the handler stay.
async fn replace<B>(
    ctx: &mut Context,
    pump: &BodyPump,
    fields: Option<Headers>,
    response: http::Response<B>,
) -> Result
where
    B: Body<Error: Into<Box<dyn StdError + Send + Sync>>>,
{
    let status = ctx.response.status;
    ctx.response.clear();
    ctx.response.status = status;
    if let Some(fields) = fields {
        ctx.response.headers = fields;
    }
    send_response(ctx, pump, response).await
}
