//! Spans of the crate `tracing` for exchanges, with the names of OpenTelemetry, and traces through several programs (W3C
//! Trace Context).
//!
//! [`Tracing`] is middleware for servers and a setting of clients. It makes a span for each exchange. `traceparent` and
//! `tracestate` of a request continue in the requests of its handler:
//!
//! ```no_run
//! use corehttp::middleware::wrap;
//! use corehttp::tracing::Tracing;
//! use corehttp::{Client, Context, Server};
//!
//! fn main() -> corehttp::Result {
//!     let tracing = Tracing::new();
//!     let client = Client::builder().tracing(&tracing).build();
//!     let gateway = async move |ctx: &mut Context| -> corehttp::Result {
//!         ctx.forward(client.open_call(&ctx.request.forwarded_to("http://127.0.0.1:9000")?)).await
//!     };
//!     Server::bind("[::]:8080").run(wrap(tracing, gateway))
//! }
//! ```
//!
//! It goes around all other middleware but [`RequestId`](crate::middleware::RequestId): see [the usual
//! order](crate::middleware#where-it-goes). Lines in a log need no spans: for these there is
//! [`Server::observe`](crate::Server::observe).
//!
//! A [`TracePropagator`] reads and writes other fields, such as those of B3.

// Floor 5: spans of exchanges, by the crate `tracing`, and traces across programs (W3C Trace Context).
//
// In reading order: the setting; the place of an exchange in a trace; and the spans of both sides.

mod propagator;

mod trace_context;

mod client_span;
mod server_span;

pub use propagator::{TracePropagator, Tracing};
pub use trace_context::TraceContext;
