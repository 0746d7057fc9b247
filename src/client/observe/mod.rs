//! Reports of dials and exchanges, for observers, counters and spans.

mod observer;
mod stats;
mod trace;

pub(super) use observer::Observers;
pub use observer::{
    ClientCounters, ClientExchangeReport, ClientObserver, DialReport, ExchangeEnd, HostEvents, QueueReport,
};
pub use stats::{ClientCounts, ClientStats, PhaseCounts};
pub(super) use stats::{HostRegistry, OpenConns};
pub(super) use trace::{ClientSpan, ClientTracing, TraceFields};
