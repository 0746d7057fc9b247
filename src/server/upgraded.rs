//! [`Upgraded`]: a connection that speaks something else from here on (RFC 9110 §7.8, §9.3.6).

use std::fmt;
use std::pin::Pin;

use crate::net::{Buffer, Conn, Deadline, Early, Stream, delegate_stream};

/// A connection that was handed over: bytes in both directions, and no HTTP any more.
///
/// Made by [`Context::upgrade`](super::Context::upgrade) and [`Context::tunnel`](super::Context::tunnel). It has no
/// timeouts but the owner's. What the peer sent early is read first. Dropping it closes the connection.
pub struct Upgraded {
    stream: Early<Pin<Box<dyn Stream>>>,
    /// Keeps the connection counted.
    _deadline: Deadline,
}

impl Upgraded {
    pub(super) fn new(conn: Conn, early: Buffer) -> Upgraded {
        let (transport, deadline) = conn.into_parts();
        Upgraded { stream: Early::new(transport, early), _deadline: deadline }
    }
}

delegate_stream!(Upgraded, stream);

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").finish_non_exhaustive()
    }
}
