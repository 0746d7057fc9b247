//! Floor 5: what a server does, counted on each core without locks, and shown to programs and people.

mod metrics;

mod cache_metrics;
mod client_metrics;
mod core_metrics;
mod histogram;
mod latest_errors;
mod route_metrics;
mod slow_exchanges;
mod timeline;

mod exposition;
mod metrics_text;
mod metrics_writer;
mod process;

mod page;

#[cfg(feature = "fs")]
pub(crate) use cache_metrics::{CacheCounts, CountedCache};
pub use histogram::{Histogram, HistogramCounts};
pub use metrics::{Metrics, Settings};
pub use metrics_text::Text;
pub use metrics_writer::{Format, Samples, Writer};
pub use page::Page;
pub use route_metrics::{ClassCounts, RouteCounts};
