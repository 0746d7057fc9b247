//! One client for several equivalent hosts.

mod balancer;
mod builder;
mod choice;
mod round;

mod member;

mod check;
mod check_task;
mod ejection;
mod health;

pub use balancer::Balancer;
#[cfg(feature = "metrics")]
pub(crate) use balancer::BalancerCounters;
pub use builder::BalancerBuilder;
pub use check::HealthCheck;
pub use choice::BalancerChoice;
pub use ejection::{Ejection, EjectionCause};
pub use health::{HostChange, HostReport};
pub use member::BalancerCounts;
