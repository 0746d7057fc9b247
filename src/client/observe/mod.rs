//! [`ClientObserver`] and the events that it attaches to, the counts of each host, and spans.

mod counts;
mod observer;
mod span;

pub use counts::{ClientCounts, HostCounts, PhaseCounts};
pub(crate) use counts::{HostRegistry, OpenConns};
pub(crate) use observer::Observers;
pub use observer::{
    ClientCounters, ClientExchangeReport, ClientObserver, DialReport, ExchangeEnd, HostEvents, QueueReport,
};
#[cfg(feature = "tracing")]
pub(crate) use span::{BeginSpan, RequestSpan};
pub(super) use span::{ClientSpan, Spans};
