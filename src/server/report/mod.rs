//! Reports of exchanges and connections, and the [`Observer`] that receives them.

mod connection_report;
mod exchange_report;
mod observer;
mod report_limiter;

pub use connection_report::{ConnectionEnd, ConnectionReport};
#[cfg(feature = "websocket")]
pub(super) use exchange_report::SocketCounts;
pub use exchange_report::{CutBy, ExchangeReport};
pub(super) use exchange_report::{ExchangeWatcher, HeadState, Observation};
pub use observer::{CoreCounters, CoreEvents, Observer, PollReport};
pub(super) use report_limiter::ReportLimiter;
