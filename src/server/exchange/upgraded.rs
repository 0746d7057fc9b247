//! [`Upgraded`]: a connection that speaks another protocol from here on (RFC 9110 §7.8, §9.3.6).

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{self, Poll, ready};

use tokio::sync::oneshot;

use crate::exchange::ExchangeError;
use crate::net::{Conn, ConnEntry, Peer, ReadBuffer, Rewind, Stream, delegate_stream};
use crate::server::report::ConnectionReport;

/// A connection that was upgraded: bytes in both directions, and no longer HTTP.
///
/// Made by [`Context::upgrade`](crate::server::Context::upgrade) and
/// [`Context::accept_tunnel`](crate::server::Context::accept_tunnel). Reading begins with the bytes that the peer has
/// already sent. There are no timeouts except those that you set.
///
/// Flush your writes before you wait for the peer. Over TLS, the end of them may still be held back.
///
/// An error of a read or a write contains an [`ExchangeError`](crate::error::ExchangeError). A handler that passes it on with
/// `?` is not at fault, but its peer.
///
/// Dropping it closes the connection. Until then the connection counts as one of the server's, even after its handler.
/// The client's side of such a connection is a [`ClientUpgraded`](crate::client::ClientUpgraded), which is [`Send`].
pub struct Upgraded {
    stream: Rewind<Pin<Box<dyn Stream>>>,
    /// Dropped last, since the connection must be closed before it is no longer counted.
    _guard: UpgradedGuard,
}

impl Upgraded {
    pub(super) fn new(conn: Conn, early: ReadBuffer) -> (Upgraded, UpgradedHandle) {
        let peer = conn.peer();
        let (transport, entry) = conn.into_parts();
        let (guard, handle) = UpgradedHandle::new(peer, Some(entry));
        (Upgraded { stream: Rewind::new(transport, early), _guard: guard }, handle)
    }
}

delegate_stream!(Upgraded, stream, connection_error);

/// The error of the connection, as that of other readers and writers.
fn connection_error(error: io::Error) -> io::Error {
    ExchangeError::Io(error).into()
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").finish_non_exhaustive()
    }
}

/// The owner's end of a channel to the server. An upgraded connection counts as open until its owner drops this end, which
/// the owner does after it has dropped the connection. An owner that is dropped while the connection must still be closed
/// in order, such as a WebSocket, first sends the future that does so, and the server polls that to its end.
pub(crate) type UpgradedGuard = oneshot::Sender<Closing>;

/// Closes a connection whose owner was dropped.
type Closing = Pin<Box<dyn Future<Output = ()>>>;

/// The server's end of that channel, by which a connection that was upgraded still counts as one of its core's.
pub(crate) struct UpgradedHandle {
    /// Fails when the owner has dropped its [`UpgradedGuard`].
    dropped: oneshot::Receiver<Closing>,
    /// Closes the connection, once its owner was dropped.
    closing: Option<Closing>,
    peer: Peer,
    /// The entry by which a stop waits for the connection, unless the owner has kept it.
    _entry: Option<ConnEntry>,
    /// The report of the connection, if one is wanted.
    pub(crate) report: Option<Box<ConnectionReport>>,
}

impl UpgradedHandle {
    /// Both ends of the channel.
    pub(crate) fn new(peer: Peer, entry: Option<ConnEntry>) -> (UpgradedGuard, UpgradedHandle) {
        let (guard, dropped) = oneshot::channel();
        (guard, UpgradedHandle { dropped, closing: None, peer, _entry: entry, report: None })
    }

    /// The peer of the connection.
    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// Ready when the owner of the connection was dropped, and the connection is closed.
    pub(crate) fn poll_until_closed(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        if self.closing.is_none() {
            self.closing = ready!(Pin::new(&mut self.dropped).poll(cx)).ok();
        }
        self.poll_close_if_dropped(cx)
    }

    /// Ready when the connection is closed, or its owner still has it.
    pub(crate) fn poll_close_if_dropped(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        if self.closing.is_none() {
            self.closing = self.dropped.try_recv().ok();
        }
        self.closing.as_mut().map_or(Poll::Ready(()), |closing| closing.as_mut().poll(cx))
    }
}
