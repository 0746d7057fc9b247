//! [`Timer`]: how long a connection may wait, which a core's watch looks after, or an alarm of its own.

mod alarm;

mod deadline;
mod stopwatch;

use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) use alarm::Lane;
pub(crate) use deadline::{Deadline, Watch};
pub(crate) use stopwatch::Stopwatch;

/// How long one connection may wait.
pub(crate) trait Timer {
    /// Ready when the wait in this lane, which began with the first call since [`Timer::disarm`], has taken longer
    /// than `limit`. Until then the task is woken for that.
    fn poll_expired(&mut self, cx: &mut Context<'_>, lane: Lane, limit: Duration) -> Poll<()>;

    /// Ends the wait in this lane.
    fn disarm(&mut self, lane: Lane);

    /// Milliseconds since some moment.
    fn now(&self) -> u64;
}
