//! [`OutcomeRecorder`]: records how a request ended, also for its balancer; [`InFlightGuard`] counts it until it is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use crate::client::error::ClientError;
use crate::client::observe::ClientSpan;
use crate::message::Response;

/// Records the outcome of a request for its balancer and in its span. Empty without a balancer and without a span.
#[derive(Default)]
pub(crate) struct OutcomeRecorder {
    balanced: Option<BalancedOutcome>,
    span: ClientSpan,
}

/// The outcome of a request of a balancer, which counts as pending until this is dropped.
pub(crate) struct BalancedOutcome(Box<RecordFn>);

/// Records the head of the response or the error instead, and then an error of the body.
type RecordFn = dyn FnMut(Result<&Response, &ClientError>) + Send + Sync;

impl BalancedOutcome {
    /// An outcome that `record` records. It may be called after the first error, too.
    pub(crate) fn new(
        record: impl FnMut(Result<&Response, &ClientError>) + Send + Sync + 'static,
    ) -> BalancedOutcome {
        BalancedOutcome(Box::new(record))
    }

    /// Records the head of the response, or an error.
    pub(super) fn record(&mut self, outcome: Result<&Response, &ClientError>) {
        (self.0)(outcome);
    }
}

impl OutcomeRecorder {
    /// A recorder without a balancer.
    pub(super) fn from_span(span: ClientSpan) -> OutcomeRecorder {
        OutcomeRecorder { balanced: None, span }
    }

    /// Records for a balancer as well.
    pub(super) fn set_balanced(&mut self, balanced: BalancedOutcome) {
        self.balanced = Some(balanced);
    }

    /// Records the head of the response, or an error, of which the first one counts.
    pub(super) fn record(&mut self, outcome: Result<&Response, &ClientError>) {
        self.span.end(outcome);
        if let Some(balanced) = &mut self.balanced {
            balanced.record(outcome);
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
    pub(super) fn into_balanced(self) -> Option<BalancedOutcome> {
        self.balanced
    }

    /// Ends the count, once the body of the response has been read.
    pub(super) fn end(&mut self) {
        self.balanced = None;
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
