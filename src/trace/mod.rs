//! Floor 2: traces across programs (W3C Trace Context), for the spans of servers and of clients.

mod propagator;
mod trace_context;

pub use propagator::{TracePropagator, Tracing};
pub(crate) use propagator::{method_name, record_error, version_number};
pub use trace_context::TraceContext;
pub(crate) use trace_context::with_current;
