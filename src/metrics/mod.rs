//! Floor 5: what a server does, counted on each core without locks, and shown to programs and people.

mod core_metrics;
mod histogram;
mod metrics;
mod route_metrics;

pub use histogram::{Histogram, HistogramCounts};
pub use metrics::{Metrics, MetricsSettings};
pub use route_metrics::{ClassCounts, RouteCounts};
