//! One client for several equivalent hosts.

mod balancer;
mod builder;
mod choice;
mod inner;
mod round;

mod host_list;
mod member;
mod owned_task;
mod service;
mod tasks;

mod check;
mod ejection;
mod health;

pub use balancer::Balancer;
#[cfg(feature = "metrics")]
pub(crate) use balancer::BalancerCounters;
pub use builder::BalancerBuilder;
pub use check::{CheckFailure, HealthCheck};
pub use choice::BalancerChoice;
pub use ejection::{Ejection, EjectionCause};
#[cfg(feature = "metrics")]
pub(crate) use health::PanicCounts;
pub use health::{HostChange, HostReport, PanicChange, PanicReport};
pub use member::BalancerCounts;
