//! Middleware of a client: [`ClientMiddleware`] surrounds each [`Attempt`] at a request.
//!
//! It knows nothing of connections: the modules that send implement [`Transmit`].

mod attempt;
mod middleware;

pub use attempt::Attempt;
pub(super) use attempt::{AttemptDetails, SendFuture, Transmit};
pub use middleware::{ClientMiddleware, ClientNext};
pub(super) use middleware::{Middlewares, surround};
