//! [`Home`]: where a connection lives: on one core for ever, or wherever a client's future is polled.

use std::pin::Pin;

use super::timer::{Deadline, Stopwatch, Timer};
use super::{AnyStream, Stream};

/// What differs between the connections of a server and those of a client.
pub(crate) trait Home {
    /// A stream that the application has brought along.
    type Boxed: AnyStream;
    /// What its waits are timed with.
    type Timer: Timer;

    /// Whether a body is read on only when all that was written has left. A server shall not gather answers that their
    /// reader does not take; a client shall take an answer although its server does not read.
    const SENDS_FIRST: bool;
}

/// A server's connections: they never leave their core, and its watch looks after their deadlines.
pub(crate) enum OneCore {}

impl Home for OneCore {
    type Boxed = Pin<Box<dyn Stream>>;
    type Timer = Deadline;

    const SENDS_FIRST: bool = true;
}

/// A client's connections: their futures may be sent to another thread between two polls.
pub(crate) enum Anywhere {}

impl Home for Anywhere {
    type Boxed = Pin<Box<dyn Stream + Send>>;
    type Timer = Stopwatch;

    const SENDS_FIRST: bool = false;
}
