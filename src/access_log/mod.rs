//! Access logs: a line for each exchange, in the combined format, as JSON or as you write it, by a thread of its own.
//!
//! ```no_run
//! use corehttp::access_log::{AccessLog, Format};
//! use corehttp::{Context, Server, TrustedProxies};
//!
//! fn main() -> corehttp::Result {
//!     let log = AccessLog::open("/var/log/service/access.log", Format::Combined)?;
//!     Server::bind("[::]:8080")
//!         .trusted_proxies(TrustedProxies::new(["10.0.0.0/8"])?) // the log has the client behind them
//!         .observe(log)
//!         .run(|ctx: &mut Context| ctx.response.set_text("Hello"))
//! }
//! ```
//!
//! [`Format::Json`] makes each line a JSON object. An observer is no middleware, and has no place in its order. It sees each
//! exchange, also one that reaches no handler.
//!
//! [`AccessLog::from_writer`] writes elsewhere, such as to `std::io::stdout()` in a container.

// Floor 5: access logs, a line for each exchange, written by a thread of its own.

mod access_log;
mod format;

pub use access_log::AccessLog;
pub use format::Format;
