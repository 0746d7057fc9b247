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
pub use metrics::{Metrics, MetricsSettings};
pub use metrics_text::MetricsText;
pub use metrics_writer::{MetricSamples, MetricsFormat, MetricsWriter};
pub use page::MetricsPage;
pub use route_metrics::{ClassCounts, RouteCounts};
