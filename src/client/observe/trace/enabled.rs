//! Spans by the crate `tracing`: [`ClientSpan`], the span of one exchange, and whether a client makes any.

use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Empty, display};
use tracing::{Span, info_span};

use crate::client::error::{ClientError, ClientPhase};
use crate::client::route::Origin;
use crate::message::{Headers, Request, Response};
use crate::trace::{Tracing, method_name, record_error, version_number};

/// Whether a client makes spans, and how.
#[derive(Clone, Default)]
pub(in crate::client) struct ClientTracing(Option<Tracing>);

/// The span of an exchange, if the client makes any. A span that is dropped before its end is recorded as canceled.
#[derive(Default)]
pub(in crate::client) struct ClientSpan(Option<Box<SpanState>>);

/// Boxed, since every exchange has room for this state, and few clients make spans.
struct SpanState {
    span: Span,
    fields: Option<Headers>,
    is_over: AtomicBool,
}

/// The fields that make a request part of a trace.
#[derive(Clone, Copy, Default)]
pub(in crate::client) struct TraceFields<'a>(Option<&'a Headers>);

impl ClientTracing {
    pub(in crate::client) fn new(tracing: &Tracing) -> ClientTracing {
        ClientTracing(Some(tracing.clone()))
    }

    /// Begins the span of an exchange with `origin`.
    #[inline]
    pub(in crate::client) fn begin(&self, request: &Request, origin: &Origin) -> ClientSpan {
        ClientSpan(self.0.as_ref().map(|tracing| SpanState::begin(tracing, request, origin)))
    }
}

impl ClientSpan {
    /// The fields to be sent with the request.
    #[inline]
    pub(in crate::client) fn fields(&self) -> TraceFields<'_> {
        TraceFields(self.0.as_ref().and_then(|state| state.fields.as_ref()))
    }

    /// Records the head of the response, or the error. Only the first outcome counts.
    #[inline]
    pub(in crate::client) fn end(&self, outcome: Result<&Response, &ClientError>) {
        if let Some(state) = &self.0 {
            state.end(outcome);
        }
    }
}

impl<'a> TraceFields<'a> {
    pub(in crate::client) fn headers(self) -> Option<&'a Headers> {
        self.0
    }
}

impl SpanState {
    #[cold]
    fn begin(tracing: &Tracing, request: &Request, origin: &Origin) -> Box<SpanState> {
        let method = request.method();
        let method = method_name(&method);
        let span = info_span!(
            target: "corehttp",
            "http.client",
            otel.kind = "client",
            otel.name = method,
            otel.status_code = Empty,
            http.request.method = method,
            http.response.status_code = Empty,
            url.scheme = origin.scheme.as_str(),
            server.address = origin.host(),
            server.port = origin.port,
            network.peer.address = Empty,
            network.peer.port = Empty,
            network.protocol.name = "http",
            network.protocol.version = Empty,
            error.type = Empty,
            trace_id = Empty,
            span_id = Empty,
            parent_id = Empty,
        );
        let fields = tracing.inject(&span, &request.headers);
        Box::new(SpanState { span, fields, is_over: AtomicBool::new(false) })
    }

    #[cold]
    fn end(&self, outcome: Result<&Response, &ClientError>) {
        let span = &self.span;
        if self.is_over.swap(true, Ordering::Relaxed) || span.is_disabled() {
            return;
        }
        let response = match outcome {
            Ok(response) => response,
            Err(error) if error.is_timeout() => return record_error(span, "timeout"),
            Err(error) => return record_error(span, phase_name(error.phase())),
        };
        span.record("http.response.status_code", response.status.as_u16());
        span.record("network.protocol.version", version_number(response.version()));
        if let Some(peer) = response.connection().and_then(|connection| connection.peer_addr()) {
            span.record("network.peer.address", display(peer.ip()));
            span.record("network.peer.port", peer.port());
        }
        if response.status.is_client_error() || response.status.is_server_error() {
            record_error(span, display(response.status.as_u16()));
        }
    }
}

impl Drop for SpanState {
    fn drop(&mut self) {
        if !*self.is_over.get_mut() {
            record_error(&self.span, "canceled");
        }
    }
}

/// The phase as one word.
fn phase_name(phase: ClientPhase) -> &'static str {
    match phase {
        ClientPhase::Prepare => "prepare",
        ClientPhase::Queue => "queue",
        ClientPhase::Resolve => "resolve",
        ClientPhase::Connect => "connect",
        ClientPhase::Tls => "tls",
        ClientPhase::Send => "send",
        ClientPhase::Wait => "wait",
        ClientPhase::Receive => "receive",
        ClientPhase::Redirect => "redirect",
    }
}
