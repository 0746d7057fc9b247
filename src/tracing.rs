//! Spans of exchanges, and traces through several programs (W3C Trace Context).

pub use crate::trace::{TraceContext, TracePropagator, Tracing};
