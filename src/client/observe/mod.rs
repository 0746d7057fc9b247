//! Reports of dials and exchanges, for observers, counters and spans.

mod counts;
mod observer;
mod trace;

pub use counts::{ClientCounts, HostCounts, PhaseCounts};
pub(super) use counts::{HostRegistry, OpenConns};
pub(super) use observer::Observers;
pub use observer::{
    ClientCounters, ClientExchangeReport, ClientObserver, DialReport, ExchangeEnd, HostEvents, QueueReport,
};
pub(super) use trace::{ClientSpan, ClientTracing, TraceFields};
