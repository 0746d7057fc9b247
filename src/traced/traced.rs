//! [`Traced`]: a handler whose exchanges are spans; [`ServerSpan`], one of these.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::thread;

use tracing::field::{Empty, display};
use tracing::{Span, info_span};

use crate::message::{Status, port_number, split_port};
use crate::net::PeerAddr;
use crate::server::{BodyPlan, Context, Handler, IntoHandler, Result};
use crate::trace::{TraceContext, Tracing, method_name, record_error, version_number, with_current};

/// A handler whose exchanges are spans, made by [`Tracing::around`].
#[derive(Clone, Debug)]
pub struct Traced<H> {
    tracing: Tracing,
    handler: H,
}

impl<H: Handler> Handler for Traced<H> {
    #[inline]
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        self.handler.on_head(ctx)
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        let mut span = ServerSpan::begin(&self.tracing, ctx);
        let outcome = {
            let mut handling = pin!(async { self.handler.handle(ctx).await });
            poll_fn(|cx| span.within(|| handling.as_mut().poll(cx))).await
        };
        span.end(ctx, &outcome);
        outcome
    }
}

impl Tracing {
    /// Puts a span around each call of `handler`. A body that is received whole has arrived before the span begins; a
    /// body that `handler` reads as a stream ([`BodyPlan`](crate::BodyPlan)) arrives within the span.
    pub fn around<Kind, H: IntoHandler<Kind>>(&self, handler: H) -> Traced<H::Handler> {
        Traced { tracing: self.clone(), handler: handler.into_handler() }
    }
}

/// The span of one exchange of a server, which is recorded as canceled if it is dropped before its end.
struct ServerSpan {
    span: Span,
    context: Option<TraceContext>,
    /// Whether the route was known by the head. A router behind other handlers may find it later.
    has_route: bool,
    is_over: bool,
}

impl ServerSpan {
    /// Begins the span of the exchange of `ctx`.
    fn begin(tracing: &Tracing, ctx: &Context) -> ServerSpan {
        let request = &ctx.request;
        let (method, route) = (request.method(), request.matched_pattern());
        let method = method_name(&method);
        let span = info_span!(
            target: "corehttp",
            "http.server",
            otel.kind = "server",
            otel.name = display(SpanName { method, route }),
            otel.status_code = Empty,
            http.request.method = method,
            http.route = route,
            http.response.status_code = Empty,
            url.scheme = if ctx.is_secure() { "https" } else { "http" },
            url.path = request.path(),
            server.address = request.host(),
            server.port = Empty,
            client.address = Empty,
            network.peer.address = Empty,
            network.peer.port = Empty,
            network.protocol.name = "http",
            network.protocol.version = version_number(request.version()),
            user_agent.original = request.headers.text("user-agent"),
            error.type = Empty,
            trace_id = Empty,
            span_id = Empty,
            parent_id = Empty,
        );
        if !span.is_disabled() {
            record_addresses(&span, ctx);
        }
        let context = tracing.extract(&span, &request.headers);
        ServerSpan { span, context, has_route: route.is_some(), is_over: false }
    }

    /// Polls the handler within the span.
    #[inline]
    fn within<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        let ServerSpan { span, context, is_over, .. } = self;
        let _panic = PanicGuard { span, is_over };
        let _entered = span.enter();
        with_current(context, poll)
    }

    /// Ends the span with the outcome of the handler.
    fn end(mut self, ctx: &Context, outcome: &Result) {
        self.is_over = true;
        if self.span.is_disabled() {
            return;
        }
        let span = &self.span;
        if let (false, Some(route)) = (self.has_route, ctx.request.matched_pattern()) {
            span.record("http.route", route);
            let method = ctx.request.method();
            let name = SpanName { method: method_name(&method), route: Some(route) };
            span.record("otel.name", display(name));
        }
        match outcome {
            Ok(()) => record_status(span, ctx.response.status),
            // The status has been sent, and the rest of the response is cut off.
            Err(_) if ctx.has_responded() => {
                span.record("http.response.status_code", ctx.response.status.as_u16());
                record_error(span, "cut");
            }
            Err(error) => record_status(span, error.status()),
        }
    }
}

impl Drop for ServerSpan {
    fn drop(&mut self) {
        if !self.is_over {
            record_error(&self.span, "canceled");
        }
    }
}

/// The name of a span: the method, and the route if it is known.
struct SpanName<'a> {
    method: &'a str,
    route: Option<&'a str>,
}

impl fmt::Display for SpanName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method)?;
        self.route.map_or(Ok(()), |route| write!(f, " {route}"))
    }
}

/// Records a panic of the handler, which is dropped only after it has been caught.
struct PanicGuard<'a> {
    span: &'a Span,
    is_over: &'a mut bool,
}

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            *self.is_over = true;
            self.span.record("http.response.status_code", Status::INTERNAL_SERVER_ERROR.as_u16());
            record_error(self.span, "panic");
        }
    }
}

/// Records the port that the request names, and the address of the peer.
fn record_addresses(span: &Span, ctx: &Context) {
    let port = ctx.request.authority().and_then(|authority| split_port(authority).1);
    if let Some(Some(port)) = port.and_then(|port| port_number(port.as_bytes())) {
        span.record("server.port", port);
    }
    if let PeerAddr::Tcp(peer) = ctx.peer_addr() {
        let address = peer.ip();
        span.record("client.address", display(address));
        span.record("network.peer.address", display(address));
        span.record("network.peer.port", peer.port());
    }
}

fn record_status(span: &Span, status: Status) {
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        record_error(span, itoa::Buffer::new().format(status.as_u16()));
    }
}
