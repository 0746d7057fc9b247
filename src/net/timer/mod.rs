//! The time limits of connections, kept by the table of their core's connections, or each by a tokio timer of its own.

mod timer;

mod ticker;

mod conn_table;

pub(crate) use conn_table::{ConnEntry, ConnTable, TICK};
pub(crate) use ticker::Ticker;
pub(crate) use timer::{Timer, TimerSlot, TokioTimer, millis};
