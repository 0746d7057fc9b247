//! [`Tracing`] as middleware; [`ServerSpan`], the span of one exchange.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{self, Poll, ready};

use tracing::field::{Empty, display};
use tracing::{Span, info_span};

use super::propagator::{Tracing, method_name, record_error, version_number};
use super::trace_context::{TraceContext, with_current};
use crate::message::{port_number, split_port};
use crate::net::PeerAddr;
use crate::server::{Context, ExchangeReport, Handler, Middleware, Result, is_panic};

impl Middleware for Tracing {
    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        let span = ServerSpan::begin(self, ctx);
        let future = pin!(Some(async { next.handle(ctx).await }));
        let mut handling = Handling { span, future };
        let outcome = poll_fn(|cx| handling.poll(cx)).await;
        handling.span.note_panic(&outcome);
        outcome
    }
}

/// A handler that is polled within its span, and dropped there as well, if its exchange is cut.
struct Handling<'a, F> {
    span: ServerSpan,
    /// `None` once it is over.
    future: Pin<&'a mut Option<F>>,
}

impl<F: Future> Handling<'_, F> {
    /// Polls the handler, which is not over.
    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<F::Output> {
        let Handling { span, future } = self;
        span.within(|| {
            let handler = future.as_mut().as_pin_mut().expect("it is polled until it is over");
            let outcome = ready!(handler.poll(cx));
            future.set(None);
            Poll::Ready(outcome)
        })
    }
}

impl<F> Drop for Handling<'_, F> {
    fn drop(&mut self) {
        if self.future.is_some() {
            self.span.within(|| self.future.set(None));
        }
    }
}

/// The span of one exchange of a server, as its handler has it. The span ends with the exchange.
struct ServerSpan {
    span: Span,
    context: Option<TraceContext>,
    /// Set by a panic of the handler, if the span is recorded.
    has_panicked: Option<Rc<Cell<bool>>>,
}

impl ServerSpan {
    /// Begins the span of the exchange of `ctx`.
    fn begin(tracing: &Tracing, ctx: &mut Context) -> ServerSpan {
        let request = &ctx.request;
        let method = request.method();
        let route = request.matched_pattern();
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
            user_agent.original = request.headers.get("user-agent"),
            request_id = request.headers.get("x-request-id"),
            error.type = Empty,
            trace_id = Empty,
            span_id = Empty,
            parent_id = Empty,
        );
        let context = tracing.extract(&span, &request.headers);
        let has_route = route.is_some();
        let mut has_panicked = None;
        if !span.is_disabled() {
            record_addresses(&span, ctx);
            let end = SpanEnd { span: span.clone(), has_route, has_panicked: Rc::default() };
            has_panicked = Some(end.has_panicked.clone());
            ctx.on_exchange_end(move |report| end.record(report));
        }
        ServerSpan { span, context, has_panicked }
    }

    /// Polls the handler within the span.
    fn within<T>(&mut self, poll: impl FnOnce() -> T) -> T {
        let ServerSpan { span, context, .. } = self;
        let _entered = span.enter();
        with_current(context, poll)
    }

    /// Notes a panic of the handler, which is an error for middleware.
    fn note_panic(&self, outcome: &Result) {
        if let (Err(error), Some(has_panicked)) = (outcome, &self.has_panicked) {
            has_panicked.set(is_panic(error));
        }
    }
}

/// The span of an exchange, to be closed when that is over.
struct SpanEnd {
    span: Span,
    /// Whether the route was known by the head. A router behind other handlers may find it later.
    has_route: bool,
    has_panicked: Rc<Cell<bool>>,
}

impl SpanEnd {
    /// Records what came of the exchange.
    fn record(self, report: &ExchangeReport<'_>) {
        let SpanEnd { span, has_route, has_panicked } = &self;
        if let (false, Some(route), Some(method)) = (has_route, report.matched_pattern(), report.method) {
            span.record("http.route", route);
            span.record("otel.name", display(SpanName { method: method_name(&method), route: Some(route) }));
        }
        if let Some(status) = report.status {
            span.record("http.response.status_code", status.as_u16());
        }
        match (report.cut, report.status) {
            _ if has_panicked.get() => record_error(span, "panic"),
            (Some(cut), _) => record_error(span, cut.as_str()),
            (None, Some(status)) if status.is_server_error() => record_error(span, display(status.as_u16())),
            (None, _) => {}
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

/// Records the port that the request names, and the addresses of the client and of the peer, which may be a proxy.
fn record_addresses(span: &Span, ctx: &Context) {
    let port = ctx.request.authority().and_then(|authority| split_port(authority).1);
    if let Some(Some(port)) = port.and_then(|port| port_number(port.as_bytes())) {
        span.record("server.port", port);
    }
    if let Some(client) = ctx.client_ip() {
        span.record("client.address", display(client));
    }
    if let PeerAddr::Tcp(peer) = ctx.peer_addr() {
        span.record("network.peer.address", display(peer.ip().to_canonical()));
        span.record("network.peer.port", peer.port());
    }
}
