//! [`Job`]: what keeps a connection busy; and [`JobOutcome`], what is left of the connection after that.

use std::io;

use super::Context;
use super::upgraded::UpgradedHandle;
use crate::net::Conn;

/// What keeps a connection busy. Small, since it passes from hand to hand.
pub(super) enum Job {
    /// Its TLS handshake.
    Handshake(Box<Conn>),
    /// The requests that arrive on the connection that this context has adopted.
    Exchanges(Box<Context>),
}

/// What is left of a connection that is no longer busy.
pub(super) enum JobOutcome {
    /// It is secure, and waits for its first request.
    Secured(Box<Conn>),
    /// It waits for another request, and this context lets it go.
    Idle(Box<Context>),
    /// It is closed, or was handed over, and holds its place. Or it failed, and the peer has already been told, if that
    /// was possible.
    Closed(io::Result<Option<Box<UpgradedHandle>>>),
}
