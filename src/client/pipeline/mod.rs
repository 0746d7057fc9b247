//! Many requests in flight on a few connections (RFC 9112 §9.3.2).
//!
//! A caller leaves its request in the queue of a task with a connection, and finds the response there.

mod pipeline;
mod queue;
mod task;

pub use pipeline::{Pipeline, PipelineBuilder};
