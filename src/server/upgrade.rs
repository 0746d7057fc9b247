//! [`Upgraded`]: a connection that speaks something else from here on (RFC 9110 §7.8, §9.3.6).

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{self, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::{Buffer, Conn, Deadline, Transport};

/// A connection that was handed over: bytes in both directions, and no HTTP any more.
///
/// Made by [`Context::upgrade`](super::Context::upgrade) and [`Context::tunnel`](super::Context::tunnel). It has no
/// timeouts but the owner's. What the peer sent early is read first. Dropping it closes the connection.
pub struct Upgraded {
    transport: Transport,
    early: Buffer,
    /// Keeps the connection counted.
    _deadline: Deadline,
}

impl Upgraded {
    pub(super) fn new(conn: Conn, early: Buffer) -> Upgraded {
        let (transport, deadline) = conn.into_parts();
        Upgraded { transport, early, _deadline: deadline }
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return Pin::new(&mut self.transport).poll_read(cx, out);
        }
        let count = self.early.unread().len().min(out.remaining());
        out.put_slice(&self.early.unread()[..count]);
        self.early.consume(count);
        if self.early.is_empty() {
            self.early = Buffer::default();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgraded").finish_non_exhaustive()
    }
}
