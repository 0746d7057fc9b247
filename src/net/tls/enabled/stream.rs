//! [`TlsStream`]: a connection that a handshake has made secure.

use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

use super::TlsSession;
use crate::net::Stream;

/// A connection that a handshake has made secure.
///
/// Reading fails with [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof) if the connection ends without the peer
/// saying so: anybody on the way could have cut it (RFC 8446 §6.1).
pub(crate) struct TlsStream<C>(pub(super) tokio_rustls::TlsStream<C>);

impl<C: AsyncRead + AsyncWrite + Unpin> TlsStream<C> {
    pub(crate) fn stream(&mut self) -> Pin<&mut dyn Stream> {
        Pin::<&mut tokio_rustls::TlsStream<C>>::new(&mut self.0)
    }
}

impl<C> TlsStream<C> {
    /// The connection that carries it.
    pub(crate) fn carrier(&self) -> &C {
        self.0.get_ref().0
    }

    /// Whether there is something to read, including the end, even if the carrier brings nothing more.
    pub(crate) fn has_unread(&self) -> bool {
        !self.0.get_ref().1.wants_read()
    }

    /// Whether something written has not been taken by the carrier yet.
    pub(crate) fn has_unsent(&self) -> bool {
        self.0.get_ref().1.wants_write()
    }

    pub(crate) fn session(&self) -> TlsSession {
        TlsSession::of(&self.0)
    }
}
