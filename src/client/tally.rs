//! [`Tally`]: what a balancer notes of a request whose body is written as it comes.

use std::task::Poll;

use super::ClientError;
use super::pending::Pending;
use crate::message::Response;

/// What a balancer notes of a request: that it is to be answered, and once how that went. Without a balancer it is
/// nothing.
#[derive(Default)]
pub(super) struct Tally(Option<Open>);

struct Open {
    /// None once it was told.
    note: Option<Box<Note>>,
    pending: Pending,
}

/// Hears the head of the answer, or why there is none.
type Note = dyn FnOnce(Result<&Response, &ClientError>) + Send + Sync;

impl Tally {
    pub(super) fn new(
        pending: Pending,
        note: impl FnOnce(Result<&Response, &ClientError>) + Send + Sync + 'static,
    ) -> Tally {
        Tally(Some(Open { note: Some(Box::new(note)), pending }))
    }

    /// Notes how it went; the first time counts.
    pub(super) fn note(&mut self, outcome: Result<&Response, &ClientError>) {
        if let Some(note) = self.0.as_mut().and_then(|open| open.note.take()) {
            note(outcome);
        }
    }

    /// Notes a failure, if `polled` is one.
    pub(super) fn noting<T>(&mut self, polled: Poll<Result<T, ClientError>>) -> Poll<Result<T, ClientError>> {
        if let Poll::Ready(Err(error)) = &polled {
            self.note(Err(error));
        }
        polled
    }

    /// What is to be kept until the body of the answer is read.
    pub(super) fn into_pending(self) -> Option<Pending> {
        self.0.map(|open| open.pending)
    }

    /// The body of the answer is read.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }
}
