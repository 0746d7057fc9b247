//! One client for several equivalent hosts.

mod balancer;
mod member;
mod round;

#[cfg(feature = "metrics")]
pub(crate) use balancer::BalancerCounters;
pub use balancer::{Balancer, BalancerBuilder};
pub use member::{BalancerChoice, BalancerCounts};
