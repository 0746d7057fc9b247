//! [`TlsStream`]: a connection that a handshake has made secure.

use std::cell::OnceCell;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::ops::DerefMut;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsStream::{Client, Server};
use tokio_rustls::rustls::{ConnectionCommon, SideData};

use super::Session;
use super::carrier::Carrier;
use crate::net::Stream;

/// A connection that a handshake has made secure.
///
/// Reading fails with [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof) if the connection ends without a
/// `close_notify` alert: an attacker on the way could have cut it (RFC 8446 §6.1).
pub(crate) struct TlsStream<C> {
    inner: tokio_rustls::TlsStream<Carrier<C>>,
    /// Assembled when it is asked for, once.
    session: OnceCell<Arc<Session>>,
}

impl<C: AsyncRead + AsyncWrite + Unpin> TlsStream<C> {
    pub(crate) fn stream(&mut self) -> Pin<&mut dyn Stream> {
        Pin::<&mut tokio_rustls::TlsStream<Carrier<C>>>::new(&mut self.inner)
    }

    /// Reads content.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // The words of rustls are for those who program with it.
        self.stream().poll_read(cx, buf).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), NO_CLOSE_NOTIFY),
            _ => error,
        })
    }

    /// Processes records without content, such as session tickets, and is ready when there is content, or the end; also
    /// after [`TLS_ONLY_MAX`] bytes, since a peer could send such records for ever. `read` reads from the transport below.
    pub(crate) fn poll_app_data(
        &mut self,
        mut read: impl FnMut(&mut C, &mut ReadBuf<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<()> {
        let mut read = |carrier: &mut Carrier<C>, room: &mut ReadBuf<'_>| read(&mut carrier.inner, room);
        let mut taken = 0;
        while taken < TLS_ONLY_MAX && !self.has_unread() {
            let received = match &mut self.inner {
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

    /// Whether the peer has sent `close_notify`, and nothing before it is unread.
    pub(crate) fn has_close_notify(&mut self) -> bool {
        let state = match &mut self.inner {
            Client(stream) => stream.get_mut().1.process_new_packets(),
            Server(stream) => stream.get_mut().1.process_new_packets(),
        };
        state.is_ok_and(|state| state.peer_has_closed() && state.plaintext_bytes_to_read() == 0)
    }

    /// Writes some of the pending records to the transport below.
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

    /// Writes some of the pending records with `write`.
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
        match &mut self.inner {
            Client(stream) => write_records(stream.get_mut(), write),
            Server(stream) => write_records(stream.get_mut(), write),
        }
    }
}

impl<C> TlsStream<C> {
    pub(super) fn new(inner: impl Into<tokio_rustls::TlsStream<Carrier<C>>>) -> TlsStream<C> {
        TlsStream { inner: inner.into(), session: OnceCell::new() }
    }

    /// The transport below.
    pub(crate) fn carrier(&self) -> &C {
        &self.inner.get_ref().0.inner
    }

    pub(crate) fn carrier_mut(&mut self) -> &mut C {
        &mut self.inner.get_mut().0.inner
    }

    /// Whether TLS has content or an end to read, without reading from the transport below.
    pub(crate) fn has_unread(&self) -> bool {
        !self.inner.get_ref().1.wants_read()
    }

    /// Whether records are pending that the transport below has not taken yet.
    pub(crate) fn has_tls_records(&self) -> bool {
        self.inner.get_ref().1.wants_write()
    }

    /// Whether the handshake was one by which an authority validates a name (RFC 8737 §6.2).
    pub(crate) fn is_validation(&self) -> bool {
        self.inner.get_ref().1.alpn_protocol() == Some(VALIDATION)
    }

    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        Some(self.session.get_or_init(|| Arc::new(Session::from_stream(&self.inner))).clone())
    }
}

/// The end of a connection that TLS has not announced (RFC 8446 §6.1).
const NO_CLOSE_NOTIFY: &str = "the peer closed the connection without close_notify, as if it had been cut";

/// The protocol of ALPN in which an authority validates a name.
pub(crate) const VALIDATION: &[u8] = b"acme-tls/1";

/// Writes some of the pending records with `write`.
fn write_records<C, T: DerefMut<Target = ConnectionCommon<S>>, S: SideData>(
    (carrier, tls): (&mut C, &mut T),
    write: impl FnMut(&mut C, &[IoSlice<'_>]) -> io::Result<usize>,
) -> io::Result<()> {
    match tls.write_tls(&mut Sink { carrier, write })? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        _ => Ok(()),
    }
}

/// A transport as a blocking writer, as rustls expects it.
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

/// Processes the bytes of one read. Returns how many there were.
fn poll_read_tls<C, T: DerefMut<Target = ConnectionCommon<S>>, S: SideData>(
    (carrier, tls): (&mut C, &mut T),
    read: &mut impl FnMut(&mut C, &mut ReadBuf<'_>) -> Poll<io::Result<()>>,
) -> Poll<io::Result<usize>> {
    let mut room = [MaybeUninit::uninit(); 4 << 10];
    let mut room = ReadBuf::uninit(&mut room);
    ready!(read(carrier, &mut room))?;
    let mut received = room.filled();
    loop {
        // An empty read is passed on too, since it is the end.
        if tls.read_tls(&mut received)? == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        tls.process_new_packets().map_err(|broken| io::Error::new(io::ErrorKind::InvalidData, broken))?;
        if received.is_empty() {
            return Poll::Ready(Ok(room.filled().len()));
        }
    }
}

/// How many bytes of records without content are processed on an idle connection: more than all tickets of a server.
const TLS_ONLY_MAX: usize = 32 << 10;
