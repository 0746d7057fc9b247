//! The time limits of connections, kept by their core's deadline table, or each by a tokio timer of its own.

mod deadlines;
mod tokio_timer;

mod ticker;

mod deadline_table;

pub(crate) use deadline_table::{DeadlineTable, TableTimer};
pub(crate) use deadlines::{Timer, TimerSlot, millis};
pub(crate) use ticker::Ticker;
pub(crate) use tokio_timer::TokioTimer;
