//! [`Turn`]: how much a task does until all others have had theirs.

use std::pin::pin;
use std::task::{Context, Poll};

use super::yield_now;

/// What a task has done since others had their turn, where nothing that it polls keeps it waiting: a source that never
/// waits, and a peer that reads it as fast, would have the core for themselves.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    done: usize,
}

impl Turn {
    /// Ready, unless the turn is over. Then all others have theirs first, and those too that the system has news for.
    ///
    /// A task that only woke itself would be the next one in the queue as soon as it is alone there, and a runtime asks
    /// for news once in so many turns: whoever knocks would wait for all of these.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.done < DONE_MAX {
            return Poll::Ready(());
        }
        self.done = 0;
        let _ = pin!(yield_now()).poll(cx);
        Poll::Pending
    }

    /// Notes that so many bytes were worked at.
    pub(crate) fn note(&mut self, bytes: usize) {
        self.done += bytes;
    }
}

/// How many bytes are worked at in one turn.
const DONE_MAX: usize = 256 << 10;
