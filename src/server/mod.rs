//! Floor 4: the server. A connection is one short loop, and a handler is given a [`Context`] and nothing else.
//!
//! In reading order: the server and what its cores share; one core; one connection; one exchange, as its handler sees
//! it; handlers; and errors.

mod setup;

mod launch;
mod running;
mod service;
mod settings;
mod shared;
mod stats;

mod inlet;
mod worker;

mod connection;

mod context;
#[cfg(feature = "tls")]
mod tls;

mod handler;

mod error;

pub use context::{Context, Course, Extensions, Reader, Transform, Upgraded, Writer};
pub use error::{Error, InvalidAnswer, Refusal, RefusalCause, Result};
pub use handler::{
    AsyncHandler, BodyPlan, BoxHandler, Handler, IntoHandler, Outcome, PlainHandler, WithPlan, with_plan,
};
pub use launch::ServerCore;
pub use running::Running;
pub use service::Service;
pub use setup::Server;
pub use stats::{ErrorCounts, ServerCounts, ServerStats};
