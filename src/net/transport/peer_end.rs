//! [`PeerEnd`]: the end of a peer; and [`EndAware`] and [`ReadAhead`], streams whose end is seen while their bytes are
//! left unread.

use std::io::{self, Read};
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use crate::net::{AnyStream, ReadBuffer, Stream, delegate_write};

/// How the peer has ended the bytes that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerEnd {
    /// The peer has closed the connection, or its sending half, which looks the same.
    Eof,
    /// The connection has failed.
    Failed,
}

/// A socket. The system tells of its end whatever is unread before it, so no byte is read to see that.
///
/// tokio wakes a task for bytes and for the end alike, but no task while it believes the socket readable. So a wait for the
/// end clears tokio's readiness and leaves the bytes in the kernel, which the next read asks itself.
pub(crate) struct EndAware<S> {
    socket: S,
    /// Whether the kernel may have bytes of which tokio does not know any more.
    has_unseen: bool,
}

/// A socket, as its runtime sees it.
pub(crate) trait Socket: AsyncRead + Unpin {
    fn as_sock_ref(&self) -> SockRef<'_>;

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// The readiness that the runtime has noticed; `None` if a read would wait.
    fn noticed(&self) -> Option<Ready>;

    /// Makes the runtime forget that bytes can be read.
    fn clear_readiness(&self);
}

macro_rules! socket {
    ($type:ty) => {
        impl Socket for $type {
            fn as_sock_ref(&self) -> SockRef<'_> {
                SockRef::from(self)
            }

            fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_read_ready(cx)
            }

            fn noticed(&self) -> Option<Ready> {
                // As a rule there is nothing, and this takes no lock to see that.
                self.try_io(Interest::READABLE, || Ok(())).ok()?;
                let ready = pin!(self.ready(Interest::READABLE | Interest::WRITABLE));
                match ready.poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(ready) => ready.ok(),
                    Poll::Pending => None,
                }
            }

            fn clear_readiness(&self) {
                let blocked = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                drop(self.try_io(Interest::READABLE, blocked));
            }
        }
    };
}

socket!(TcpStream);
#[cfg(unix)]
socket!(UnixStream);

impl<S: Socket> EndAware<S> {
    /// Waits until a read may succeed.
    pub(in crate::net) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.has_unseen {
            true => Poll::Ready(Ok(())),
            false => Socket::poll_read_ready(&self.socket, cx),
        }
    }

    /// Ready once the peer has ended.
    pub(in crate::net) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<PeerEnd> {
        loop {
            if ready!(Socket::poll_read_ready(&self.socket, cx)).is_err() {
                return Poll::Ready(PeerEnd::Failed);
            }
            if let Some(end) = self.end() {
                return Poll::Ready(end);
            }
            self.socket.clear_readiness();
            if !std::mem::replace(&mut self.has_unseen, true) {
                // The bytes may have come since a reader has begun to wait for them.
                cx.waker().wake_by_ref();
            }
        }
    }

    /// The end of the peer, if the runtime has noticed it.
    pub(in crate::net) fn end(&self) -> Option<PeerEnd> {
        let noticed = self.socket.noticed()?;
        match (noticed.is_read_closed(), noticed.is_write_closed()) {
            (false, _) => None,
            (true, false) => Some(PeerEnd::Eof),
            // A reset closes both ways, and so does a Unix socket that is closed.
            (true, true) => Some(PeerEnd::Failed),
        }
    }

    pub(in crate::net) fn into_inner(self) -> S {
        self.socket
    }
}

impl<S> From<S> for EndAware<S> {
    fn from(socket: S) -> EndAware<S> {
        EndAware { socket, has_unseen: false }
    }
}

impl<S> Deref for EndAware<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

impl<S: Socket> AsyncRead for EndAware<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.has_unseen {
            match (&*self.socket.as_sock_ref()).read(out.initialize_unfilled()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.has_unseen = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return Poll::Ready(read.map(|count| out.advance(count))),
            }
        }
        Pin::new(&mut self.socket).poll_read(cx, out)
    }
}

delegate_write!([S: AsyncWrite + Unpin] EndAware<S>, socket);

/// A stream that is no socket. Only a read tells of its end, so what comes before that is kept for the next read.
pub(crate) struct ReadAhead<S> {
    stream: S,
    /// Boxed, because few connections have any, and each holds this while it is idle.
    ahead: Option<Box<ReadBuffer>>,
}

impl<S: AnyStream> ReadAhead<S> {
    /// Ready once the peer has ended, unless 64 KiB are unread before that.
    pub(in crate::net) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<PeerEnd> {
        while self.unread_len() <= AHEAD_MAX {
            let mut part = [0; 1 << 10];
            let mut part = ReadBuf::new(&mut part);
            match ready!(self.stream.as_stream().poll_read(cx, &mut part)) {
                Ok(()) if part.filled().is_empty() => return Poll::Ready(PeerEnd::Eof),
                // A reader may have begun to wait for them.
                Ok(()) if self.unread_len() == 0 => cx.waker().wake_by_ref(),
                Ok(()) => {}
                Err(_) => return Poll::Ready(PeerEnd::Failed),
            }
            self.ahead.get_or_insert_default().append(part.filled());
        }
        Poll::Pending
    }

    /// Looks at the first bytes, as many as have arrived and fit `out`. Returns 0 at the end.
    #[allow(dead_code, reason = "unused without the feature `proxy-protocol`")]
    pub(in crate::net) fn poll_peek(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let known = self.unread_len().min(out.len());
        let mut more = ReadBuf::new(&mut out[known..]);
        if more.capacity() > 0 {
            match self.stream.as_stream().poll_read(cx, &mut more) {
                Poll::Ready(Ok(())) => self.ahead.get_or_insert_default().append(more.filled()),
                ended if known == 0 => return ended.map_ok(|()| 0),
                // The next read has the error.
                Poll::Ready(Err(_)) | Poll::Pending => {}
            }
        }
        let unread = self.ahead.as_ref().map_or(&[][..], |ahead| ahead.unread());
        let count = unread.len().min(out.len());
        out[..count].copy_from_slice(&unread[..count]);
        Poll::Ready(Ok(count))
    }

    pub(in crate::net) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.ahead {
            Some(ahead) if !ahead.is_empty() => {
                ahead.hand_out(out.remaining(), |bytes| out.put_slice(bytes));
                Poll::Ready(Ok(()))
            }
            _ => self.stream.as_stream().poll_read(cx, out),
        }
    }

    /// How much was read ahead.
    fn unread_len(&self) -> usize {
        self.ahead.as_ref().map_or(0, |ahead| ahead.unread().len())
    }

    pub(in crate::net) fn as_stream(&mut self) -> Pin<&mut dyn Stream> {
        self.stream.as_stream()
    }

    pub(in crate::net) fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The stream, without what was read ahead.
    pub(in crate::net) fn into_inner(self) -> S {
        debug_assert!(self.ahead.is_none_or(|ahead| ahead.is_empty()), "nothing is left behind");
        self.stream
    }
}

/// How much is kept.
const AHEAD_MAX: usize = 64 << 10;

impl<S> From<S> for ReadAhead<S> {
    fn from(stream: S) -> ReadAhead<S> {
        ReadAhead { stream, ahead: None }
    }
}
