//! [`Home`]: where a connection lives: on one core for ever, or wherever a client's future is polled.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::transport::{AnyStream, Stream};
use super::{Deadline, Lane, Stopwatch};

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

/// How long one connection may wait.
pub(crate) trait Timer {
    /// Ready when the wait in this lane, which began with the first call since [`Timer::disarm`], has taken longer
    /// than `limit`. Until then the task is woken for that.
    fn poll_expired(&mut self, cx: &mut Context<'_>, lane: Lane, limit: Duration) -> Poll<()>;

    /// Ends the wait in this lane.
    fn disarm(&mut self, lane: Lane);

    /// Milliseconds since some moment.
    fn now(&self) -> u64;
}
