//! Reports of exchanges and connections (those of errors are in `server/error`), and the [`Observer`] that receives them.

mod connection_report;
mod error_log;
mod exchange_report;
mod observer;
mod report_limiter;

pub use connection_report::{ConnectionEnd, ConnectionReport, Unopened};
pub use error_log::ErrorLog;
#[cfg(feature = "websocket")]
pub(crate) use exchange_report::WebSocketCounts;
pub use exchange_report::{CutBy, ExchangeReport, ForwardReport, WebSocketReport};
pub(crate) use exchange_report::{ExchangeEndFn, HeadState, Observation};
pub use observer::{CoreCounters, CoreEvents, Observer, PollReport};
