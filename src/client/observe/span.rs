//! [`ClientSpan`]: follows one request of a caller, from before it is sent until its response is there.

use std::sync::Arc;

use crate::client::error::ClientError;
use crate::client::route::Origin;
use crate::message::{Headers, Request, Response};

/// Begins the spans of a client: the seam at which traces attach.
pub(crate) trait BeginSpan: Send + Sync {
    /// Begins the span of a request that will be sent to `origin`, after `resends` others for the same caller's request.
    fn begin(&self, request: &Request, origin: &Origin, resends: u32) -> Box<dyn RequestSpan>;
}

/// Follows one request. A span that is dropped before its end belongs to a request that was canceled.
pub(crate) trait RequestSpan: Send + Sync {
    /// The fields to be sent with the request.
    fn fields(&self) -> Option<&Headers>;

    /// Records the head of the response, or the error. Only the first outcome counts.
    fn end(&self, outcome: Result<&Response, &ClientError>);
}

/// Whether a client begins spans, and how.
pub(crate) type Spans = Option<Arc<dyn BeginSpan>>;

/// The span of a request, if the client begins any.
#[derive(Default)]
pub(crate) struct ClientSpan(Option<Box<dyn RequestSpan>>);

impl ClientSpan {
    /// Begins the span of a request to `origin`, after `resends` others for the same caller's request.
    pub(in crate::client) fn begin(
        spans: &Spans,
        request: &Request,
        origin: &Origin,
        resends: u32,
    ) -> ClientSpan {
        ClientSpan(spans.as_ref().map(|spans| spans.begin(request, origin, resends)))
    }

    /// The fields to be sent with the request.
    pub(in crate::client) fn fields(&self) -> Option<&Headers> {
        self.0.as_ref().and_then(|span| span.fields())
    }

    /// Records an error, and returns it.
    pub(in crate::client) fn fail(&self, error: ClientError) -> ClientError {
        self.end(Err(&error));
        error
    }

    /// Records the head of the response, or the error.
    pub(in crate::client) fn end(&self, outcome: Result<&Response, &ClientError>) {
        if let Some(span) = &self.0 {
            span.end(outcome);
        }
    }
}
