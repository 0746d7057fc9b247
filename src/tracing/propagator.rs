//! [`Tracing`]: how the exchanges of a server or of a client become spans of the crate `tracing`; [`TracePropagator`]:
//! another way to pass traces on.

use std::fmt;
use std::sync::Arc;

use tracing::Span;
use tracing::field::{Value, display};

use super::trace_context::TraceContext;
use crate::message::{Headers, Method, Version};

/// Makes a span of the crate `tracing` for each exchange of a server or a client. Names follow OpenTelemetry's semantic
/// conventions for HTTP. The context of a trace is sent on (W3C Trace Context).
///
/// For a server it is [middleware](crate::middleware), and in a client
/// [`ClientBuilder::tracing`](crate::ClientBuilder::tracing) sets it. The request of a traced client within a traced handler
/// belongs to the trace of the handler, also through [`Context::forward`](crate::Context::forward) and a
/// [`Pipeline`](crate::client::Pipeline). Within other tasks there is no current trace.
///
/// The spans are `http.server` and `http.client`, of the level INFO and the target `corehttp`. `tracing_subscriber::fmt` writes
/// a line for each when it has `.with_span_events(FmtSpan::CLOSE)`. As the outermost middleware, `Tracing` has all the others
/// in its span. A span has the kind of an error. The text is for [`Server::on_error`](crate::Server::on_error).
///
/// | field | server | client |
/// |---|---|---|
/// | `http.request.method` | the method, or `_OTHER` | the same |
/// | `http.request.resend_count` | | how many requests of a chain of redirects or retries came before, if any did |
/// | `url.scheme`, `url.path` | of the request, without the query, which may hold secrets | `url.path` is left out |
/// | `http.route` | [`Request::matched_pattern`](crate::Request::matched_pattern) | |
/// | `http.response.status_code` | of the response, or of the handler's error | of the response |
/// | `server.address`, `server.port` | of the request | of the origin |
/// | `client.address` | of the [client](crate::Context::client_ip) | |
/// | `network.peer.address` | of the peer | of the server or its proxy |
/// | `network.peer.port` | of the peer | of the server or its proxy |
/// | `network.protocol.name` | `http` | the same |
/// | `network.protocol.version` | of the request | of the response |
/// | `user_agent.original` | of the request | |
/// | `request_id` | of a [`RequestId`](crate::middleware::RequestId) further out | |
/// | `error.type` | `panic`, the cause of a cut, a 5xx status | a 4xx or 5xx status, `timeout`, the phase, `canceled` |
/// | `otel.kind`, `otel.name`, `otel.status_code` | as `tracing-opentelemetry` reads them | the same |
/// | `trace_id`, `span_id`, `parent_id` | of the [`TraceContext`], unless there is a [`TracePropagator`] | the same |
///
/// A span begins with the call of the handler, or of the client. A body that a server receives whole has arrived before. A body
/// that is read as a stream ([`BodyPlan`](crate::BodyPlan)) arrives within the span. The span of a server ends with its
/// exchange, after the response was sent or cut. The span of a cut exchange has the cause in `error.type`: `peer`, `timeout`,
/// `memory`, `stop` or `handler`. A request whose handler exceeds its time limit is answered with 503. Only the work of the
/// handler is within the span. While spans are recorded, responses to pipelined requests leave one by one, as with
/// [`Server::on_exchange`](crate::Server::on_exchange).
///
/// The span of a client ends with the head of the response, or with a request that fails or is dropped before. The span of a
/// [split](crate::client::Call::split) call is closed only when both halves are dropped.
///
/// # Examples
///
/// ```
/// use corehttp::middleware::wrap;
/// use corehttp::{Client, Context, Server};
/// use corehttp::tracing::Tracing;
///
/// let tracing = Tracing::new();
/// let client = Client::builder().tracing(&tracing).build();
/// let app = async move |ctx: &mut Context| -> corehttp::Result {
///     tracing::info!("within the span of the exchange");
///     ctx.forward(client.open_call(&ctx.request.forwarded_to("http://127.0.0.1:9000")?)).await
/// };
/// let server = Server::bind("127.0.0.1:8080");
/// # let _ = || -> corehttp::Result {
/// server.run(wrap(tracing, app))
/// # };
/// ```
#[doc(alias("opentelemetry", "traceparent", "spans", "TraceLayer"))]
#[derive(Clone, Default)]
#[must_use]
pub struct Tracing {
    propagator: Option<Arc<dyn TracePropagator>>,
}

/// Reads the context of a trace from received requests, and writes it to sent ones, in place of [`TraceContext`]. For
/// OpenTelemetry, whose layer for `tracing` keeps contexts of its own. The example `tracing` has one.
pub trait TracePropagator: Send + Sync + 'static {
    /// Makes the new `span` a part of the trace that the fields of the request name.
    fn extract(&self, span: &Span, headers: &Headers);

    /// Adds the fields that make the request of `span` part of its trace.
    fn inject(&self, span: &Span, headers: &mut Headers);
}

impl Tracing {
    /// Creates a setting that uses the fields `traceparent` and `tracestate`, by [`TraceContext`].
    pub fn new() -> Tracing {
        Tracing::default()
    }

    /// Sets another propagation of traces. Default: `traceparent` and `tracestate`, by [`TraceContext`].
    pub fn propagator(mut self, propagator: impl TracePropagator) -> Tracing {
        self.propagator = Some(Arc::new(propagator));
        self
    }

    /// The context of a server's exchange, whose span has begun. A server that records nothing passes on what it got.
    pub(super) fn extract(&self, span: &Span, headers: &Headers) -> Option<TraceContext> {
        if let Some(propagator) = &self.propagator {
            propagator.extract(span, headers);
            return None;
        }
        note(span, TraceContext::from_headers(headers))
    }

    /// The fields of a client's request, whose span has begun. `headers` are those that the request has itself. `None` if
    /// there is nothing to add.
    pub(super) fn inject(&self, span: &Span, headers: &Headers) -> Option<Headers> {
        let mut fields = Headers::new();
        if let Some(propagator) = &self.propagator {
            propagator.inject(span, &mut fields);
            return Some(fields).filter(|fields| !fields.is_empty());
        }
        let parent = TraceContext::current().or_else(|| TraceContext::from_headers(headers));
        note(span, parent)?.set_fields(&mut fields);
        Some(fields)
    }
}

/// Returns the context of `span` in the trace of `parent`, or in a new one, and records it. A span that nothing records
/// has the place of `parent`.
fn note(span: &Span, parent: Option<TraceContext>) -> Option<TraceContext> {
    if span.is_disabled() {
        return parent;
    }
    let context = parent.as_ref().map_or_else(TraceContext::begin, TraceContext::child);
    span.record("trace_id", display(format_args!("{:032x}", context.trace_id())));
    span.record("span_id", display(format_args!("{:016x}", context.span_id())));
    if let Some(parent) = parent {
        span.record("parent_id", display(format_args!("{:016x}", parent.span_id())));
    }
    Some(context)
}

/// The method as spans name it: of those that are not known, there could be any number.
pub(super) fn method_name(method: &Method) -> &str {
    match method {
        Method::Extension(_) => "_OTHER",
        known => known.as_str(),
    }
}

/// The version as spans name it.
pub(super) fn version_number(version: Version) -> &'static str {
    match version {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
    }
}

/// Records that the exchange of `span` has failed, and why.
pub(super) fn record_error(span: &Span, kind: impl Value) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", kind);
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing").field("has_propagator", &self.propagator.is_some()).finish()
    }
}
