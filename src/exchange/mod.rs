//! Sends and receives one HTTP message over one connection, for server and client alike.

mod bounds;
mod error;

mod clock;

mod incoming;
mod incoming_body;
mod message_head;

mod outgoing;

pub use bounds::Timeouts;
pub(crate) use bounds::{Bounds, Cancel};
pub(crate) use clock::Clock;
pub use error::{ExchangeError, Phase};
pub(crate) use incoming::Incoming;
pub(crate) use message_head::{Expectation, HeadOutcome, IncomingResponse, MessageHead};
pub(crate) use outgoing::{Outgoing, poll_flush};
