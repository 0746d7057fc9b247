//! Liveness and readiness probes of load balancers and orchestrators.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use corehttp::health::Health;
//! use corehttp::{Context, Server, routes};
//!
//! # async fn ping() -> std::io::Result<()> { Ok(()) }
//! fn main() -> corehttp::Result {
//!     let health = Health::new().check("database", async || ping().await);
//!     // Readiness fails for 5 s before a stop, so that load balancers send requests elsewhere.
//!     Server::bind("[::]:8080").stop_delay(Duration::from_secs(5)).run(routes! {
//!         GET "/livez" => health.live(),
//!         GET "/readyz" => health.ready(),
//!         GET "/" => |ctx: &mut Context| ctx.response.set_text("Hello"),
//!     })
//! }
//! ```

// Floor 5: health for load balancers and orchestrators: whether the server lives, and whether it is ready.

mod check;
mod health;

pub use health::Health;
