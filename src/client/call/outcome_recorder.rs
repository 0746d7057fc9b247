//! [`OutcomeRecorder`]: records how a balanced request ended; [`InFlightGuard`] counts it until it is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use crate::client::error::ClientError;
use crate::client::observe::ClientSpan;
use crate::message::Response;

/// Counts a request of a balancer as pending, and records its outcome once, also in its span. Empty without a balancer
/// and without a span.
#[derive(Default)]
pub(crate) struct OutcomeRecorder {
    recording: Option<Recording>,
    span: ClientSpan,
}

struct Recording {
    /// `None` once it has been called.
    record: Option<Box<RecordFn>>,
    in_flight: InFlightGuard,
}

/// Records the head of the response, or the error instead.
type RecordFn = dyn FnOnce(Result<&Response, &ClientError>) + Send + Sync;

impl OutcomeRecorder {
    pub(crate) fn new(
        in_flight: InFlightGuard,
        record: impl FnOnce(Result<&Response, &ClientError>) + Send + Sync + 'static,
    ) -> OutcomeRecorder {
        let recording = Recording { record: Some(Box::new(record)), in_flight };
        OutcomeRecorder { recording: Some(recording), span: ClientSpan::default() }
    }

    /// A recorder without a balancer.
    pub(super) fn from_span(span: ClientSpan) -> OutcomeRecorder {
        OutcomeRecorder { recording: None, span }
    }

    /// Records for the balancer of `other` as well.
    pub(super) fn set_balancer(&mut self, other: OutcomeRecorder) {
        self.recording = other.recording;
    }

    /// Records the outcome. Only the first one counts.
    pub(super) fn record(&mut self, outcome: Result<&Response, &ClientError>) {
        self.span.end(outcome);
        if let Some(record) = self.recording.as_mut().and_then(|recording| recording.record.take()) {
            record(outcome);
        }
    }

    /// Records a failure, if `outcome` is one.
    pub(super) fn record_failure<T>(&mut self, outcome: Result<T, ClientError>) -> Result<T, ClientError> {
        outcome.inspect_err(|error| self.record(Err(error)))
    }

    /// Records a failure, if `polled` is one.
    pub(super) fn record_poll_failure<T>(
        &mut self,
        polled: Poll<Result<T, ClientError>>,
    ) -> Poll<Result<T, ClientError>> {
        polled.map(|outcome| self.record_failure(outcome))
    }

    /// The part that is kept until the body of the response has been read.
    pub(super) fn into_guard(self) -> Option<InFlightGuard> {
        self.recording.map(|recording| recording.in_flight)
    }

    /// Ends the count, once the body of the response has been read.
    pub(super) fn end(&mut self) {
        self.recording = None;
    }
}

/// Counts one request in `count`, until it is dropped.
pub(crate) struct InFlightGuard {
    count: Arc<AtomicUsize>,
}

impl InFlightGuard {
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> InFlightGuard {
        count.fetch_add(1, Ordering::Relaxed);
        InFlightGuard { count: count.clone() }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let before = self.count.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "each request is counted once");
    }
}
