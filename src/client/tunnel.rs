//! [`Tunnel`]: a connection that speaks something else from here on (RFC 9110 §7.8).

use std::fmt;
use std::pin::Pin;

use super::link::Link;
use crate::net::{Early, Stream, delegate_stream};

/// A connection that was handed over: bytes in both directions, and no HTTP any more.
///
/// Made by [`Client::upgrade`](super::Client::upgrade). It has no timeouts but the owner's, and no place in the pool.
/// What the server sent early is read first. Dropping it closes the connection.
pub struct Tunnel {
    stream: Early<Pin<Box<dyn Stream + Send>>>,
}

impl Tunnel {
    pub(super) fn new(link: Link) -> Tunnel {
        let (conn, early) = link.into_parts();
        let (transport, _timer) = conn.into_parts();
        Tunnel { stream: Early::new(transport, early) }
    }
}

delegate_stream!(Tunnel, stream);

impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnel").finish_non_exhaustive()
    }
}
