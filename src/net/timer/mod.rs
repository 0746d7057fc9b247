//! The time limits of connections, kept by the table of their core's connections, or each by a tokio timer of its own; and who
//! has idle connections, which close before their time where there is no descriptor left.

mod timer;

mod ticker;

mod conn_table;

mod idle_owner;

pub(crate) use conn_table::{ConnEntry, ConnTable};
#[cfg(any(feature = "fs", feature = "multipart"))]
pub(crate) use idle_owner::with_descriptors;
pub(crate) use idle_owner::{CLOSED, CLOSING_TIME, IdleOwner, RETRIES_MAX, close_idle, register_idle_owner};
pub(crate) use ticker::Ticker;
pub(crate) use timer::{Timer, TimerSlot, TokioTimer, millis};
