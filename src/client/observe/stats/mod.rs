//! The counts of a client: each pool counts for itself, the registry keeps the counts by host, and sums them up.

mod client_stats;
mod host_registry;
mod pool_counters;

pub use client_stats::{ClientCounts, ClientStats, PhaseCounts};
pub(crate) use host_registry::{HostRegistry, OpenConns};
pub(super) use pool_counters::PoolCounters;
