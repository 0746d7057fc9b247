//! Middleware of a client: [`ClientMiddleware`] surrounds each [`Attempt`] at a request.
//!
//! Connections are left to the modules that implement [`Transmit`].

mod attempt;
mod middleware;

pub use attempt::Attempt;
pub(super) use attempt::{AttemptDetails, SendFuture, Transmit};
pub use middleware::{ClientMiddleware, ClientNext};
pub(super) use middleware::{Middlewares, surround};
