//! [`Upgraded`]: a connection that speaks something else from here on (RFC 9110 §7.8, §9.3.6).

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;

use tokio::sync::oneshot;

use crate::net::{Buffer, Conn, Deadline, Early, Peer, Stream, delegate_stream};

/// A connection that was handed over: bytes in both directions, and no longer HTTP.
///
/// Made by [`Context::upgrade`](super::Context::upgrade) and [`Context::tunnel`](super::Context::tunnel). Reading
/// begins with what the peer had already sent. There are no timeouts but those that you set.
///
/// Dropping it closes the connection. Until then it counts as one of its server's connections, wherever it is.
pub struct Upgraded {
    stream: Early<Pin<Box<dyn Stream>>>,
    /// The last field, since the connection must be closed before it is no longer counted.
    _owned: oneshot::Sender<Infallible>,
}

/// The place that a handed-over connection still takes among those of its core.
pub(in crate::server) struct Vacated {
    disowned: oneshot::Receiver<Infallible>,
    deadline: Deadline,
}

impl Upgraded {
    pub(super) fn new(conn: Conn, early: Buffer) -> (Upgraded, Vacated) {
        let (transport, deadline) = conn.into_parts();
        let (owned, disowned) = oneshot::channel();
        let upgraded = Upgraded { stream: Early::new(transport, early), _owned: owned };
        (upgraded, Vacated { disowned, deadline })
    }
}

impl Vacated {
    /// Who is at the other end of the connection.
    pub(super) fn peer(&self) -> Peer {
        self.deadline.peer()
    }

    /// Keeps the place until the [`Upgraded`] has been dropped.
    pub(in crate::server) async fn until_dropped(self) {
        let _ = self.disowned.await;
    }
}

delegate_stream!(Upgraded, stream);

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").finish_non_exhaustive()
    }
}
