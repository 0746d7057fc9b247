//! [`Upgraded`]: a connection that speaks another protocol from here on (RFC 9110 §7.8, §9.3.6).

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::connection_report::ConnectionReport;
use crate::net::{Conn, Peer, ReadBuffer, Rewind, Stream, TableTimer, delegate_stream};

/// A connection that was upgraded: bytes in both directions, and no longer HTTP.
///
/// Made by [`Context::upgrade`](super::Context::upgrade) and [`Context::accept_tunnel`](super::Context::accept_tunnel).
/// Reading begins with the bytes that the peer has already sent. There are no timeouts except those that you set.
///
/// Flush what you have written before you wait for the peer: over TLS, the end of it may still be held back.
///
/// Dropping it closes the connection. Until then it counts as one of the server's connections, even if it outlives the
/// handler. The client's side of such a connection is a [`ClientUpgraded`](crate::ClientUpgraded), which is [`Send`].
pub struct Upgraded {
    stream: Rewind<Pin<Box<dyn Stream>>>,
    /// Dropped last, since the connection must be closed before it is no longer counted.
    _dropped: oneshot::Sender<Infallible>,
}

impl Upgraded {
    pub(super) fn new(conn: Conn, early: ReadBuffer) -> (Upgraded, UpgradedHandle) {
        let peer = conn.peer();
        let (transport, timer) = conn.into_parts();
        let (sender, handle) = UpgradedHandle::new(peer, Some(timer));
        (Upgraded { stream: Rewind::new(transport, early), _dropped: sender }, handle)
    }
}

delegate_stream!(Upgraded, stream);

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").finish_non_exhaustive()
    }
}

/// The server's part of a connection that was upgraded: it still counts as one of its core's.
pub(super) struct UpgradedHandle {
    dropped: oneshot::Receiver<Infallible>,
    peer: Peer,
    /// The entry by which a stop waits for the connection, unless that has kept it.
    _timer: Option<TableTimer>,
    /// The report of the connection, if one is wanted.
    pub(super) report: Option<Box<ConnectionReport>>,
}

impl UpgradedHandle {
    /// A handle, and the sender that the owner of the connection drops behind it.
    pub(super) fn new(
        peer: Peer,
        timer: Option<TableTimer>,
    ) -> (oneshot::Sender<Infallible>, UpgradedHandle) {
        let (sender, dropped) = oneshot::channel();
        (sender, UpgradedHandle { dropped, peer, _timer: timer, report: None })
    }

    /// The peer of the connection.
    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// Ready when the [`Upgraded`] has been dropped.
    pub(super) fn poll_dropped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.dropped).poll(cx).map(|_| ())
    }
}
