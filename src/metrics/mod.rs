//! Metrics: histograms of times and sizes by route and status, as text for Prometheus and as a page for people.
//!
//! ```no_run
//! use corehttp::metrics::{self, Metrics};
//! use corehttp::{Context, Server, routes};
//!
//! fn main() -> corehttp::Result {
//!     let metrics = Metrics::new();
//!     // A server of its own, reachable from this machine alone, shows them, at any path.
//!     Server::bind("127.0.0.1:9090").cores(1).start(metrics::Text::new(&metrics))?;
//!     let app = routes! { GET "/" => |ctx: &mut Context| ctx.response.set_text("Hello") };
//!     Server::bind("[::]:8080").observe(metrics).run(app)
//! }
//! ```
//!
//! The program ends with the server that it runs. A signal to stop belongs there.
//!
//! [`Metrics::add_collector`] adds metrics of the application, [`ClientBuilder::observe`](crate::ClientBuilder::observe) those
//! of a client, and [`Metrics::add_balancer`] the hosts of a balancer.

// Floor 6: what a server does, counted on each core without locks, and shown to programs and people.

mod metrics;

mod client_metrics;
mod core_metrics;
mod histogram;
mod latest_errors;
mod named;
mod route_metrics;
mod slow_exchanges;
mod timeline;

mod exposition;
mod metrics_text;
mod metrics_writer;
mod process;

mod page;

pub use histogram::{Histogram, HistogramCounts};
pub use metrics::{Metrics, Options};
pub use metrics_text::Text;
pub use metrics_writer::{Format, Samples, Writer};
#[cfg(feature = "fs")]
pub(crate) use named::{CacheCounts, CountedCache};
pub use page::Page;
pub use route_metrics::{ClassCounts, RouteCounts};
