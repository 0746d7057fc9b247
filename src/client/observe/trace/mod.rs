//! The spans of a client's exchanges, with one interface whether or not the feature `tracing` is on.

#[cfg(not(feature = "tracing"))]
mod disabled;
#[cfg(feature = "tracing")]
mod enabled;

#[cfg(not(feature = "tracing"))]
pub(crate) use disabled::{ClientSpan, ClientTracing, TraceFields};
#[cfg(feature = "tracing")]
pub(crate) use enabled::{ClientSpan, ClientTracing, TraceFields};
