//! The rules of retries, pure but for the clock of dates and the randomness of waits.
//!
//! The loop that sends is in `send`. A balancer has one of its own.

mod backoff;
mod budget;
mod latencies;
mod retry;
mod tries;

pub(crate) use backoff::Backoff;
pub(crate) use backoff::random_share;
#[cfg(feature = "acme")]
pub(crate) use backoff::retry_after;
pub use budget::RetryBudget;
pub(super) use budget::{BudgetShare, HostBudgets, HostRetries};
pub(super) use latencies::Latencies;
pub use retry::Retry;
pub(super) use tries::{EarlierAttempts, NextHost, Outcome, Tries};
