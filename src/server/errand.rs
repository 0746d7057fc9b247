//! [`Errand`]: what keeps a connection busy; and [`Rest`], what is left of the connection after that.

use std::io;

use super::Context;
use super::context::Vacated;
use crate::net::Conn;

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
