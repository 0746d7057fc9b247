//! Floor 3: one message across one connection. The only place where the pure core meets the sockets.

mod clock;
mod error;
mod file;
mod head;
mod pace;
mod receive;
mod remaining;
mod send;
mod timeouts;

pub(crate) use clock::Clock;
pub use error::{ExchangeError, Phase};
pub(crate) use head::{Head, Reply};
pub(crate) use receive::{Expectation, Incoming};
pub(crate) use send::{Outgoing, poll_flush};
pub use timeouts::Timeouts;

use crate::wire::Limits;

/// Every bound of an exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
}
