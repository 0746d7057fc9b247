//! [`Tally`]: what a balancer records of a request whose body is written piece by piece.

use std::task::Poll;

use super::ClientError;
use super::pending::Pending;
use crate::message::Response;

/// What a balancer records of a request: that it is pending, and, once, its outcome. Without a balancer, nothing.
#[derive(Default)]
pub(super) struct Tally(Option<Open>);

struct Open {
    /// `None` once it was called.
    note: Option<Box<Note>>,
    pending: Pending,
}

/// Records the head of the answer, or the error instead.
type Note = dyn FnOnce(Result<&Response, &ClientError>) + Send + Sync;

impl Tally {
    pub(super) fn new(
        pending: Pending,
        note: impl FnOnce(Result<&Response, &ClientError>) + Send + Sync + 'static,
    ) -> Tally {
        Tally(Some(Open { note: Some(Box::new(note)), pending }))
    }

    /// Records the outcome. Only the first one counts.
    pub(super) fn note(&mut self, outcome: Result<&Response, &ClientError>) {
        if let Some(note) = self.0.as_mut().and_then(|open| open.note.take()) {
            note(outcome);
        }
    }

    /// Records a failure, if `outcome` is one.
    pub(super) fn noting<T>(&mut self, outcome: Result<T, ClientError>) -> Result<T, ClientError> {
        outcome.inspect_err(|error| self.note(Err(error)))
    }

    /// Records a failure, if `polled` is one.
    pub(super) fn noting_poll<T>(
        &mut self,
        polled: Poll<Result<T, ClientError>>,
    ) -> Poll<Result<T, ClientError>> {
        polled.map(|outcome| self.noting(outcome))
    }

    /// The part that is kept until the body of the answer has been read.
    pub(super) fn into_pending(self) -> Option<Pending> {
        self.0.map(|open| open.pending)
    }

    /// Notes that the body of the answer has been read.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }
}
