//! Floor 5: health for load balancers and orchestrators: whether the server lives, and whether it is ready.

mod check;
mod health;

pub use health::Health;
