//! [`Timer`]: the time limits of a connection, kept by its core's deadline table, or by a timer of its own.

mod deadline_table;
mod deadlines;
mod lazy_sleep;
mod ticker;
mod tokio_timer;

use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(crate) use deadline_table::{DeadlineTable, TableTimer};
pub(crate) use deadlines::{TimerSlot, millis};
pub(crate) use ticker::Ticker;
pub(crate) use tokio_timer::TokioTimer;

/// The time limits of one connection.
pub(crate) trait Timer {
    /// Ready when the wait in this slot, which began with the first call since [`Timer::disarm`], has taken longer than
    /// `limit`. The task is woken then.
    fn poll_expired(&mut self, cx: &mut Context<'_>, slot: TimerSlot, limit: Duration) -> Poll<()>;

    /// The waker of whoever waited last, if it is another one.
    fn other_waker(&self, waker: &Waker) -> Option<Waker>;

    /// Ends the wait in this slot.
    fn disarm(&mut self, slot: TimerSlot);

    /// Milliseconds since some fixed moment.
    fn now(&self) -> u64;
}
