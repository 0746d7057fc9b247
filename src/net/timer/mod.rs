//! The time limits of connections, kept by their core's deadline table, or each by a tokio timer of its own.

mod timer;

mod ticker;

mod deadline_table;

pub(crate) use deadline_table::{DeadlineTable, TableTimer};
pub(crate) use ticker::Ticker;
pub(crate) use timer::{Timer, TimerSlot, TokioTimer, millis};
