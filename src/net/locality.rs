//! [`Locality`]: where a connection lives: on one core for good, or wherever the future of a client is polled.

use std::pin::Pin;

use super::timer::{TableTimer, Timer, TokioTimer};
use super::{AnyStream, Stream};

/// The differences between the connections of a server and those of a client.
pub(crate) trait Locality {
    /// A stream that the application supplied.
    type Boxed: AnyStream;
    /// The timer for its waits.
    type Timer: Timer;

    /// Whether more of a body is read only once everything written has been sent. A server must not pile up answers for
    /// a peer that does not read them; a client must read the answer even if the server does not read the request.
    const FLUSHES_BEFORE_READ: bool;
}

/// Connections of a server. They never leave their core, whose deadline table keeps their deadlines.
pub(crate) enum Local {}

impl Locality for Local {
    type Boxed = Pin<Box<dyn Stream>>;
    type Timer = TableTimer;

    const FLUSHES_BEFORE_READ: bool = true;
}

/// Connections of a client. Their futures may move to another thread between two polls.
pub(crate) enum Sendable {}

impl Locality for Sendable {
    type Boxed = Pin<Box<dyn Stream + Send>>;
    type Timer = TokioTimer;

    const FLUSHES_BEFORE_READ: bool = false;
}
