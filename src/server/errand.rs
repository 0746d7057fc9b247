//! [`Errand`]: what keeps a connection busy; and [`Rest`], what is left of the connection after that.

use std::io;

use super::Context;
use super::context::Vacated;
use crate::memory::Reset;
use crate::net::Conn;
use crate::runtime::Routine;

/// Where the worker `W` does the errands of one connection after the other.
///
/// So the task of a connection has no room for what it needs while it is busy, and an idle one is small whatever the
/// handler is. A desk at rest does not hold the worker, which holds the desk.
pub(super) type Desk<W> = Routine<(W, Errand), Rest>;

/// What keeps a connection busy. Small, since it passes from hand to hand.
pub(super) enum Errand {
    /// Its TLS handshake.
    Handshake(Box<Conn>),
    /// The requests that arrive on the connection that this context has adopted.
    Exchanges(Box<Context>),
}

/// What is left of a connection that is no longer busy.
pub(super) enum Rest {
    /// It is secure, and waits for its first request.
    Secured(Box<Conn>),
    /// It waits for another request, and this context lets it go.
    Waiting(Box<Context>),
    /// It is closed, or was handed over, and left its place. Or it failed, and the peer has already been told, if that
    /// was possible.
    Over(io::Result<Option<Box<Vacated>>>),
}

/// A desk at rest is as good as new.
impl<W> Reset for Desk<W> {
    fn reset(&mut self) {}

    fn shrink(&mut self) {}
}
