//! [`Timer`]: the time limits of a connection, kept by its core's timetable, or by an alarm of its own.

mod alarm;
mod expiries;
mod stopwatch;
mod ticker;
mod timetable;

use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(crate) use expiries::{Lane, millis};
pub(crate) use stopwatch::Stopwatch;
pub(crate) use ticker::Ticker;
pub(crate) use timetable::{Deadline, Timetable};

/// The time limits of one connection.
pub(crate) trait Timer {
    /// Ready when the wait in this lane, which began with the first call since [`Timer::disarm`], has taken longer than
    /// `limit`. The task is woken then.
    fn poll_expired(&mut self, cx: &mut Context<'_>, lane: Lane, limit: Duration) -> Poll<()>;

    /// The waker of whoever waited last, if it is another one.
    fn waker_but(&self, waker: &Waker) -> Option<Waker>;

    /// Ends the wait in this lane.
    fn disarm(&mut self, lane: Lane);

    /// Milliseconds since some fixed moment.
    fn now(&self) -> u64;
}
