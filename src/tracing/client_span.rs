//! [`ClientBuilder::tracing`]; [`SpanState`], the span of one request of a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Empty, display};
use tracing::{Span, info_span};

use super::propagator::{Tracing, method_name, record_error, version_number};
use crate::client::builder::ClientBuilder;
use crate::client::error::ClientError;
use crate::client::{BeginSpan, ClientPhase, Origin, RequestSpan};
use crate::message::{Headers, Request, Response};

impl ClientBuilder {
    /// Makes a span for each exchange, and sends the context of the current trace on. Default: no spans, and no fields of a
    /// trace in requests.
    pub fn tracing(mut self, tracing: &Tracing) -> Self {
        self.settings.spans = Some(Arc::new(tracing.clone()));
        self
    }
}

impl BeginSpan for Tracing {
    fn begin(&self, request: &Request, origin: &Origin, resends: u32) -> Box<dyn RequestSpan> {
        let state = SpanState::begin(self, request, origin);
        if resends > 0 {
            state.span.record("http.request.resend_count", resends);
        }
        state
    }
}

/// The span of one request. One that is dropped before its end is recorded as canceled.
struct SpanState {
    span: Span,
    fields: Option<Headers>,
    is_over: AtomicBool,
}

impl SpanState {
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
            http.request.resend_count = Empty,
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
}

impl RequestSpan for SpanState {
    fn fields(&self) -> Option<&Headers> {
        self.fields.as_ref()
    }

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
            span.record("network.peer.address", display(peer.ip().to_canonical()));
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
