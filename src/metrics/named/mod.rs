//! Counts of caches and balancers, by names of the application.

mod balancer_metrics;
mod cache_metrics;

pub(super) use balancer_metrics::BalancerTable;
pub(super) use cache_metrics::CacheTable;
pub(crate) use cache_metrics::{CacheCounts, CountedCache};
