//! Floor 3: one message across one connection. This is the only place where the pure core meets the sockets.

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

pub(crate) use clock::Clock;
pub use error::{ExchangeError, Phase};
pub(crate) use expectation::Expectation;
pub(crate) use heading::{Head, Reply};
pub(crate) use incoming::Incoming;
pub(crate) use outgoing::{Outgoing, poll_flush};
pub use timeouts::Timeouts;

use crate::wire::Limits;

/// All bounds of an exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) half_close: HalfClose,
}

/// What is made of a peer that has closed its sending half after a whole request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HalfClose {
    /// It waits for its answer (RFC 9112 §9.6).
    #[default]
    Waits,
    /// It is gone.
    Gone,
}
