//! One client for several equivalent hosts.

mod balancer;
mod builder;
mod choice;
mod round;

mod host_list;
mod member;
mod owned_task;
mod service;
mod tasks;

mod check;
mod ejection;
mod health;
mod panic;

pub use balancer::Balancer;
#[cfg(feature = "metrics")]
pub(crate) use balancer::BalancerCounters;
pub use builder::BalancerBuilder;
pub use check::{CheckFailure, HealthCheck};
pub use choice::BalancerChoice;
pub use ejection::{Ejection, EjectionCause};
pub use health::{HostChange, HostReport};
pub use member::BalancerCounts;
#[cfg(feature = "metrics")]
pub(crate) use panic::PanicCounts;
pub use panic::{PanicChange, PanicReport};
