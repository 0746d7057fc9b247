//! Floor 3: one message across one connection. This is the only place where the pure core meets the sockets.

mod bounds;
mod error;
mod timeouts;

mod clock;

mod expectation;
mod heading;
mod incoming;
mod pace;
mod remaining;

mod file;
mod outgoing;

pub(crate) use bounds::{Bounds, HalfClose};
pub(crate) use clock::Clock;
pub use error::{ExchangeError, Phase};
pub(crate) use expectation::Expectation;
pub(crate) use heading::{Head, Reply};
pub(crate) use incoming::Incoming;
pub(crate) use outgoing::{Outgoing, poll_flush};
pub use timeouts::Timeouts;
