//! One client for several equivalent hosts.

mod balancer;
mod member;
mod round;

pub use balancer::{Balancer, BalancerBuilder};
pub use member::{BalancerChoice, BalancerCounts};
