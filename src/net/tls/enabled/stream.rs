//! [`TlsStream`]: a connection that a handshake has made secure.

use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::ops::DerefMut;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsStream::{Client, Server};
use tokio_rustls::rustls::{ConnectionCommon, SideData};

use super::TlsSession;
use super::carrier::Carrier;
use crate::net::Stream;

/// A connection that a handshake has made secure.
///
/// Reading fails with [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof) if the connection ends without the peer
/// saying so: anybody on the way could have cut it (RFC 8446 §6.1).
pub(crate) struct TlsStream<C>(pub(super) tokio_rustls::TlsStream<Carrier<C>>);

impl<C: AsyncRead + AsyncWrite + Unpin> TlsStream<C> {
    pub(crate) fn stream(&mut self) -> Pin<&mut dyn Stream> {
        Pin::<&mut tokio_rustls::TlsStream<Carrier<C>>>::new(&mut self.0)
    }

    /// Takes in what the peer tells only TLS, such as tickets, and is ready when there is more than that: content, or
    /// the end. Also after [`TLS_ONLY_MAX`] bytes, since a peer could go on for ever. What was heard may then be lost.
    /// `read` reads from the carrier.
    pub(crate) fn poll_app_data(
        &mut self,
        mut read: impl FnMut(&mut C, &mut ReadBuf<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<()> {
        let mut read = |carrier: &mut Carrier<C>, room: &mut ReadBuf<'_>| read(&mut carrier.inner, room);
        let mut taken = 0;
        while taken < TLS_ONLY_MAX && !self.has_unread() {
            let received = match &mut self.0 {
                Client(stream) => poll_read_tls(stream.get_mut(), &mut read),
                Server(stream) => poll_read_tls(stream.get_mut(), &mut read),
            };
            match ready!(received) {
                Ok(count) => taken += count,
                Err(_) => break,
            }
        }
        Poll::Ready(())
    }

    /// Has the carrier take some of what has been written.
    pub(crate) fn poll_write_tls(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let write =
            |carrier: &mut C, parts: &[IoSlice<'_>]| match Pin::new(carrier).poll_write_vectored(cx, parts) {
                Poll::Ready(written) => written,
                Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
            };
        match self.write_tls_with(write) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            given => Poll::Ready(given),
        }
    }

    /// Has the carrier take some of what has been written, by `write`.
    pub(crate) fn write_tls(
        &mut self,
        mut write: impl FnMut(&mut C, &[u8]) -> io::Result<u64>,
    ) -> io::Result<()> {
        self.write_tls_with(|carrier, parts| {
            write(carrier, parts.first().map_or(&[], |part| part)).map(|count| count as usize)
        })
    }

    fn write_tls_with(
        &mut self,
        mut write: impl FnMut(&mut C, &[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let write = |carrier: &mut Carrier<C>, parts: &[IoSlice<'_>]| write(&mut carrier.inner, parts);
        match &mut self.0 {
            Client(stream) => write_records(stream.get_mut(), write),
            Server(stream) => write_records(stream.get_mut(), write),
        }
    }
}

impl<C> TlsStream<C> {
    /// The connection that carries it.
    pub(crate) fn carrier(&self) -> &C {
        &self.0.get_ref().0.inner
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

/// Has the carrier take some of what waits inside of TLS.
fn write_records<C, T: DerefMut<Target = ConnectionCommon<S>>, S: SideData>(
    (carrier, tls): (&mut C, &mut T),
    write: impl FnMut(&mut C, &[IoSlice<'_>]) -> io::Result<usize>,
) -> io::Result<()> {
    match tls.write_tls(&mut Sink { carrier, write })? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        _ => Ok(()),
    }
}

/// A carrier that is written to by one that does not wait.
struct Sink<'a, C, F> {
    carrier: &'a mut C,
    write: F,
}

impl<C, F: FnMut(&mut C, &[IoSlice<'_>]) -> io::Result<usize>> Write for Sink<'_, C, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        (self.write)(self.carrier, parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Has TLS take what one read of its carrier brings. Returns how much that was.
fn poll_read_tls<C, T: DerefMut<Target = ConnectionCommon<S>>, S: SideData>(
    (carrier, tls): (&mut C, &mut T),
    read: &mut impl FnMut(&mut C, &mut ReadBuf<'_>) -> Poll<io::Result<()>>,
) -> Poll<io::Result<usize>> {
    let mut room = [MaybeUninit::uninit(); 4 << 10];
    let mut room = ReadBuf::uninit(&mut room);
    ready!(read(carrier, &mut room))?;
    let mut received = room.filled();
    loop {
        // Also when there was nothing, which is the end.
        if tls.read_tls(&mut received)? == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        tls.process_new_packets().map_err(|broken| io::Error::new(io::ErrorKind::InvalidData, broken))?;
        if received.is_empty() {
            return Poll::Ready(Ok(room.filled().len()));
        }
    }
}

/// How much of what only TLS is told is taken from a resting connection: more than all tickets of a server.
const TLS_ONLY_MAX: usize = 32 << 10;
