//! Reports of dials and exchanges, for observers, counters and spans.

mod observer;
mod span;
mod stats;

pub(super) use observer::Observers;
pub use observer::{
    ClientCounters, ClientExchangeReport, ClientObserver, DialReport, ExchangeEnd, HostEvents, QueueReport,
};
#[cfg(feature = "tracing")]
pub(crate) use span::{BeginSpan, RequestSpan};
pub(super) use span::{ClientSpan, Spans};
pub use stats::{ClientCounts, ClientStats, PhaseCounts};
pub(super) use stats::{HostRegistry, OpenConns};
