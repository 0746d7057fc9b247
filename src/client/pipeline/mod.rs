//! Many requests in flight on a few connections (RFC 9112 §9.3.2).
//!
//! A caller posts its request on the queue of a task with a connection and waits there for
//! the response.

mod pipeline;
mod queue;
mod task;

pub use pipeline::{Pipeline, PipelineBuilder};
