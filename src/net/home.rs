//! [`Home`]: where a connection lives: on one core for good, or wherever the future of a client is polled.

use std::pin::Pin;

use super::timer::{Deadline, Stopwatch, Timer};
use super::{AnyStream, Stream};

/// The differences between the connections of a server and those of a client.
pub(crate) trait Home {
    /// A stream that the application supplied.
    type Boxed: AnyStream;
    /// The timer for its waits.
    type Timer: Timer;

    /// Whether more of a body is read only once everything written has been sent. A server must not pile up answers for
    /// a peer that does not read them; a client must read the answer even if the server does not read the request.
    const SENDS_FIRST: bool;
}

/// Connections of a server. They never leave their core, whose timetable keeps their deadlines.
pub(crate) enum OneCore {}

impl Home for OneCore {
    type Boxed = Pin<Box<dyn Stream>>;
    type Timer = Deadline;

    const SENDS_FIRST: bool = true;
}

/// Connections of a client. Their futures may move to another thread between two polls.
pub(crate) enum Anywhere {}

impl Home for Anywhere {
    type Boxed = Pin<Box<dyn Stream + Send>>;
    type Timer = Stopwatch;

    const SENDS_FIRST: bool = false;
}
