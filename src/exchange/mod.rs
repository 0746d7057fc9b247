//! The two sides of an exchange, for server and client alike: [`Incoming`] receives one message over a connection, and
//! [`Outgoing`] sends one. The exchange itself is `server::exchange::Exchange` or `client::exchange::ClientExchange`.

mod bounds;
mod error;

mod clock;

mod body_failure;
mod incoming;
mod incoming_body;
mod message_head;

mod discard;

mod outgoing;

pub use bounds::Timeouts;
pub(crate) use bounds::{Bounds, Cancel};
pub(crate) use clock::Clock;
pub(crate) use discard::{poll_discard, poll_drain};
pub(crate) use error::cut_as_end;
pub use error::{ExchangeError, Phase};
pub(crate) use incoming::Incoming;
pub(crate) use message_head::{Expectation, HeadOutcome, IncomingResponse, MessageHead};
pub(crate) use outgoing::{Outgoing, poll_flush};
