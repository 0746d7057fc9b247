//! Floor 3: one message across one connection. This is the only place where the pure core meets the sockets.

mod bounds;
mod error;
mod timeouts;

mod clock;

mod body_decoder;
mod expectation;
mod incoming;
mod message_head;
mod min_rate;

mod file;
mod outgoing;

pub(crate) use bounds::{Bounds, HalfClose};
pub(crate) use clock::Clock;
pub use error::{ExchangeError, Phase};
pub(crate) use expectation::Expectation;
pub(crate) use incoming::Incoming;
pub(crate) use message_head::{HeadOutcome, IncomingResponse};
pub(crate) use outgoing::{Outgoing, poll_flush};
pub use timeouts::Timeouts;
