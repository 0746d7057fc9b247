//! [`Budget`]: how much work a task does before it yields to the others.

use std::pin::pin;
use std::task::{Context, Poll};

use super::yield_now;

/// How much a task has done since it last yielded, for tasks that may never be kept waiting by what they poll: a source
/// that is always ready, and a peer that reads as fast, would keep the core to themselves.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    done: usize,
}

impl Budget {
    /// Ready, unless the turn is over. Then all other tasks run first, including those that the operating system has
    /// news for.
    ///
    /// A task that merely woke itself would run again at once if it is alone in the queue, and a runtime asks the
    /// system for news only once in many turns; new connections would wait for all of these. `yield_now` makes it ask.
    pub(crate) fn poll_proceed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.done < DONE_MAX {
            return Poll::Ready(());
        }
        self.done = 0;
        let _ = pin!(yield_now()).poll(cx);
        Poll::Pending
    }

    /// Notes that `bytes` were processed.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.done += bytes;
    }
}

/// How many bytes are processed in one turn.
const DONE_MAX: usize = 256 << 10;
