//! [`Transport`]: the carrier of a connection's bytes; [`Rewind`]: a transport whose first bytes were already read.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::task::unconstrained;

use super::peer_end::{EndAware, PeerEnd, ReadAhead};
use crate::net::memory_listener::MemoryStream;
use crate::net::tls::{self, TlsStream};
use crate::net::{AnyStream, PeerCredentials, ReadBuffer, Stream, delegate_write, socket};

/// The carrier of a connection's bytes, bound to the runtime that it was opened in.
///
/// Messages are exchanged by polling the socket, and not by `try_read` and the like: only a poll clears the readiness
/// after a short transfer, and anything else pays for it with a system call that fails with `WouldBlock`. The read that
/// follows a wait for the peer's end is the exception.
#[derive(Default)]
pub(crate) enum Transport<B = Pin<Box<dyn Stream>>> {
    /// Closed. All operations fail with `NotConnected`.
    #[default]
    Closed,
    Tcp(EndAware<TcpStream>),
    #[cfg(unix)]
    Unix(EndAware<UnixStream>),
    Memory(ReadAhead<MemoryStream>),
    Tls(Box<TlsStream<Transport<B>>>),
    Boxed(ReadAhead<B>),
}

impl Transport {
    /// The transport of a server over any stream.
    pub(crate) fn from_stream(stream: impl Stream + 'static) -> Transport {
        Transport::Boxed(ReadAhead::from(Box::pin(stream) as Pin<Box<dyn Stream>>))
    }
}

impl<B: AnyStream> Transport<B> {
    /// Reads into `buf`. Returns 0 at the end.
    pub(in crate::net) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        let read = Pin::new(self).poll_read(cx, &mut buf);
        read.map_ok(|()| buf.filled().len())
    }

    /// Ready once the peer has ended. Bytes that it sends before that are left to the next read.
    pub(in crate::net) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<PeerEnd> {
        match self {
            Transport::Closed => Poll::Ready(PeerEnd::Failed),
            Transport::Tcp(stream) => stream.poll_end(cx),
            #[cfg(unix)]
            Transport::Unix(stream) => stream.poll_end(cx),
            Transport::Memory(stream) => stream.poll_end(cx),
            Transport::Tls(stream) => {
                // Records are decrypted until one has content, since `close_notify` may be among them (RFC 8446 §6.1).
                let mut read = |carrier: &mut Transport<B>, room: &mut ReadBuf<'_>| {
                    Pin::new(carrier).poll_read(cx, room)
                };
                if !stream.has_unread() && stream.poll_app_data(&mut read).is_ready() && stream.has_unread() {
                    // A reader may have begun to wait for the content.
                    cx.waker().wake_by_ref();
                }
                match stream.has_close_notify() {
                    true => Poll::Ready(PeerEnd::Eof),
                    false => stream.carrier_mut().poll_end(cx),
                }
            }
            Transport::Boxed(stream) => stream.poll_end(cx),
        }
    }

    /// The end of the peer, if the runtime has noticed it. `None` for a transport that is no socket.
    pub(crate) fn end(&self) -> Option<PeerEnd> {
        match self {
            Transport::Tcp(stream) => stream.end(),
            #[cfg(unix)]
            Transport::Unix(stream) => stream.end(),
            Transport::Tls(stream) => stream.carrier().end(),
            Transport::Closed | Transport::Memory(_) | Transport::Boxed(_) => None,
        }
    }

    /// Whether the runtime has noticed nothing to read, not even the end. If there is something, one byte of it is
    /// lost.
    pub(crate) fn is_quiet_in_runtime(&mut self) -> bool {
        match self {
            Transport::Tls(stream) => stream.poll_app_data(Transport::poll_read_runtime).is_pending(),
            _ => self.poll_read_runtime(&mut ReadBuf::new(&mut [0])).is_pending(),
        }
    }

    /// Reads bytes that the runtime has noticed.
    fn poll_read_runtime(&mut self, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            // A `try_read` registers no waker, and without readiness makes no system call.
            Transport::Tcp(stream) => unless_blocked(stream.try_read_buf(buf)),
            #[cfg(unix)]
            Transport::Unix(stream) => unless_blocked(stream.try_read_buf(buf)),
            _ => poll_now(|cx| Pin::new(&mut *self).poll_read(cx, buf)),
        }
    }

    pub(in crate::net) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, bytes)
    }

    pub(in crate::net) fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(cx, parts)
    }

    /// Sends all written bytes. Sockets and memory need no flush; other streams may hold bytes back.
    pub(in crate::net) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Tcp(_) | Transport::Memory(_) => Poll::Ready(Ok(())),
            #[cfg(unix)]
            Transport::Unix(_) => Poll::Ready(Ok(())),
            Transport::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            Transport::Tls(stream) => stream.stream().poll_flush(cx),
            Transport::Boxed(stream) => stream.as_stream().poll_flush(cx),
        }
    }

    /// Closes the sending half.
    pub(in crate::net) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }

    /// Closes the sending half of TLS and of boxed streams, if that takes no waiting (RFC 9112 §9.8). Other transports
    /// end when they are dropped.
    pub(crate) fn try_shutdown(&mut self) {
        if let Transport::Tls(_) | Transport::Boxed(_) = self {
            // If this fails, the peer is gone.
            drop(poll_now(|cx| self.poll_shutdown(cx)));
        }
    }

    /// Waits without a buffer until a read may succeed. Returns `None` for a transport whose readiness cannot be checked
    /// without a read.
    ///
    /// A read may still be pending afterwards, since a fresh socket is assumed to be readable until tried.
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Option<Poll<io::Result<()>>> {
        match self {
            Transport::Closed => Some(Poll::Ready(Err(io::ErrorKind::NotConnected.into()))),
            Transport::Tcp(stream) => Some(stream.poll_read_ready(cx)),
            #[cfg(unix)]
            Transport::Unix(stream) => Some(stream.poll_read_ready(cx)),
            Transport::Tls(stream) if stream.has_unread() => Some(Poll::Ready(Ok(()))),
            Transport::Tls(stream) => stream.carrier().poll_read_ready(cx),
            Transport::Memory(_) | Transport::Boxed(_) => None,
        }
    }

    /// Writes some of the TLS records that are held back until the next flush.
    pub(in crate::net) fn poll_write_tls(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Tls(stream) => stream.poll_write_tls(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Whether TLS records are held back until the next flush.
    #[inline]
    pub(in crate::net) fn has_tls_records(&self) -> bool {
        match self {
            Transport::Tls(stream) => stream.has_tls_records(),
            _ => false,
        }
    }

    /// The part of `first` and `second` that fills whole records, where TLS makes some of them: each record costs its
    /// overhead once, full or not (RFC 8446 §5.2). All of it, if it is less than one record.
    pub(in crate::net) fn whole_records<'a>(
        &self,
        first: &'a [u8],
        second: &'a [u8],
    ) -> (&'a [u8], &'a [u8]) {
        let len = first.len() + second.len();
        if !matches!(self, Transport::Tls(_)) || len < RECORD_MAX {
            return (first, second);
        }
        let whole = len - len % RECORD_MAX;
        let first_len = whole.min(first.len());
        (&first[..first_len], &second[..whole - first_len])
    }

    /// As [`Transport::end`], but asks the kernel, which may have an end that the runtime has not noticed yet.
    pub(crate) fn end_in_kernel(&self) -> Option<PeerEnd> {
        match self.peek()? {
            Ok(0) => Some(PeerEnd::Eof),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(_) => Some(PeerEnd::Failed),
        }
    }

    /// Whether the kernel has bytes for the socket, even if the runtime has not noticed them yet.
    pub(crate) fn has_kernel_input(&self) -> bool {
        matches!(self.peek(), Some(Ok(1..)))
    }

    /// Looks whether the kernel has a byte for the socket. `None` if there is no socket.
    fn peek(&self) -> Option<io::Result<usize>> {
        Some(self.socket()?.peek(&mut [MaybeUninit::uninit()]))
    }

    /// As [`Transport::is_quiet_in_runtime`], but reads from the kernel, which may have bytes that the runtime has not
    /// noticed yet.
    pub(crate) fn is_quiet_in_kernel(&mut self) -> bool {
        self.poll_read_kernel(&mut ReadBuf::new(&mut [0])).is_pending()
    }

    /// Reads the bytes that the kernel has for a socket. For TLS, ready with an error if there is content or an end.
    fn poll_read_kernel(&mut self, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Transport::Tls(stream) = self {
            let app_data = stream.poll_app_data(Transport::poll_read_kernel);
            return app_data.map(|()| Err(io::ErrorKind::Unsupported.into()));
        }
        let Some(socket) = self.socket() else { return Poll::Pending };
        let read = (&*socket).read(buf.initialize_unfilled());
        unless_blocked(read.inspect(|count| buf.advance(*count)))
    }

    /// Writes straight to the kernel, whether or not the runtime has noticed space. TLS writes the records that it
    /// holds back, and none of `bytes`.
    pub(in crate::net) fn write_to_kernel(&mut self, bytes: &[u8]) -> io::Result<u64> {
        if let Transport::Tls(stream) = self {
            return stream.write_tls(|carrier, bytes| carrier.write_to_kernel(bytes)).map(|()| 0);
        }
        let socket = self.socket().ok_or(io::ErrorKind::WouldBlock)?;
        (&*socket).write(bytes).map(|count| count as u64)
    }

    /// The capacity of the buffer in which the system keeps bytes until the peer has taken them.
    pub(in crate::net) fn send_buffer_len(&self) -> Option<u64> {
        self.socket()?.send_buffer_size().ok().map(|len| len as u64)
    }

    /// The socket at the bottom, if there is one. Only sockets depend on their runtime to notice arrivals.
    fn socket(&self) -> Option<SockRef<'_>> {
        match self {
            Transport::Tcp(stream) => Some(SockRef::from(&**stream)),
            #[cfg(unix)]
            Transport::Unix(stream) => Some(SockRef::from(&**stream)),
            Transport::Tls(stream) => stream.carrier().socket(),
            Transport::Closed | Transport::Memory(_) | Transport::Boxed(_) => None,
        }
    }

    /// Makes sure that the peer sees a failure, and not an orderly end, when this is dropped. Only TCP has a reset, and
    /// only TLS marks its end: other streams just end.
    pub(crate) fn reset(&self) {
        match self {
            // If this fails, the connection is already gone.
            Transport::Tcp(stream) => drop(SockRef::from(&**stream).set_linger(Some(Duration::ZERO))),
            Transport::Tls(stream) => stream.carrier().reset(),
            #[cfg(unix)]
            Transport::Unix(_) => {}
            Transport::Closed | Transport::Memory(_) | Transport::Boxed(_) => {}
        }
    }

    /// Whether the operating system can move files to this transport by itself (sendfile).
    pub(crate) fn sends_files(&self) -> bool {
        match self {
            Transport::Tcp(_) => socket::SENDS_FILES,
            #[cfg(unix)]
            Transport::Unix(_) => socket::SENDS_FILES,
            Transport::Closed | Transport::Memory(_) | Transport::Boxed(_) | Transport::Tls(_) => false,
        }
    }

    /// Moves some of a range of `file` straight to the kernel's buffer, whether or not the runtime has noticed space.
    pub(in crate::net) fn send_file_to_kernel(&self, file: &File, range: Range<u64>) -> io::Result<u64> {
        match self {
            Transport::Tcp(stream) => socket::send(&**stream, file, range),
            #[cfg(unix)]
            Transport::Unix(stream) => socket::send(&**stream, file, range),
            Transport::Closed | Transport::Memory(_) | Transport::Boxed(_) | Transport::Tls(_) => {
                Err(io::ErrorKind::InvalidInput.into())
            }
        }
    }

    /// Moves some of a range of `file` to the peer. Fails with `InvalidInput` if that is impossible with this file.
    pub(in crate::net) fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: &File,
        range: Range<u64>,
    ) -> Poll<io::Result<u64>> {
        loop {
            let sent = match self {
                Transport::Tcp(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_io(Interest::WRITABLE, || socket::send(&**stream, file, range.clone()))
                }
                #[cfg(unix)]
                Transport::Unix(stream) => {
                    ready!(stream.poll_write_ready(cx))?;
                    stream.try_io(Interest::WRITABLE, || socket::send(&**stream, file, range.clone()))
                }
                Transport::Closed | Transport::Memory(_) | Transport::Boxed(_) | Transport::Tls(_) => {
                    Err(io::ErrorKind::InvalidInput.into())
                }
            };
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Transport::Tcp(stream) => stream.local_addr().ok(),
            Transport::Tls(stream) => stream.carrier().local_addr(),
            _ => None,
        }
    }

    /// The address of the other end, while the socket is connected.
    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        match self {
            Transport::Tcp(stream) => stream.peer_addr().ok(),
            Transport::Tls(stream) => stream.carrier().peer_addr(),
            _ => None,
        }
    }

    /// The process at the other end of a Unix socket.
    pub(crate) fn peer_credentials(&self) -> Option<PeerCredentials> {
        match self {
            #[cfg(unix)]
            Transport::Unix(stream) => {
                let found = stream.peer_cred().ok()?;
                Some(PeerCredentials { uid: found.uid(), gid: found.gid(), pid: found.pid() })
            }
            Transport::Tls(stream) => stream.carrier().peer_credentials(),
            _ => None,
        }
    }

    /// The session of a secure connection.
    pub(crate) fn tls_session(&self) -> Option<Arc<tls::Session>> {
        match self {
            Transport::Tls(stream) => stream.session(),
            _ => None,
        }
    }

    /// Detaches the transport from its runtime, to be attached to another.
    ///
    /// # Errors
    ///
    /// Fails with `Unsupported` for a TLS or boxed stream, which may depend on its runtime; and if the connection is
    /// closed, or the system refuses.
    pub(crate) fn detach(self) -> io::Result<DetachedTransport> {
        match self {
            Transport::Closed => Err(io::ErrorKind::NotConnected.into()),
            Transport::Tcp(stream) => stream.into_inner().into_std().map(DetachedTransport::Tcp),
            #[cfg(unix)]
            Transport::Unix(stream) => stream.into_inner().into_std().map(DetachedTransport::Unix),
            Transport::Memory(stream) => Ok(DetachedTransport::Memory(stream.into_inner())),
            Transport::Tls(_) | Transport::Boxed(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut dyn Stream>> {
        Ok(match self {
            Transport::Closed => return Err(io::ErrorKind::NotConnected.into()),
            Transport::Tcp(stream) => Pin::<&mut EndAware<TcpStream>>::new(stream),
            #[cfg(unix)]
            Transport::Unix(stream) => Pin::<&mut EndAware<UnixStream>>::new(stream),
            Transport::Memory(stream) => stream.as_stream(),
            Transport::Tls(stream) => stream.stream(),
            Transport::Boxed(stream) => stream.as_stream(),
        })
    }
}

/// How many bytes of content a record of TLS holds (RFC 8446 §5.1).
const RECORD_MAX: usize = 16 << 10;

/// Polls once, without waiting. The poll is outside of tokio's budget, since a task that has used up its budget finds
/// all sockets pending.
fn poll_now<T>(poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    pin!(unconstrained(poll_fn(poll))).poll(&mut Context::from_waker(Waker::noop()))
}

/// The outcome of a read that does not wait.
fn unless_blocked(read: io::Result<usize>) -> Poll<io::Result<()>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        read => Poll::Ready(read.map(drop)),
    }
}

impl<B: AnyStream> AsyncRead for Transport<B> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Memory(stream) => stream.poll_read(cx, buf),
            Transport::Boxed(stream) => stream.poll_read(cx, buf),
            Transport::Tls(stream) => stream.poll_read(cx, buf),
            transport => transport.stream()?.poll_read(cx, buf),
        }
    }
}

impl<B: AnyStream> AsyncWrite for Transport<B> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Transport::Boxed(stream) => stream.is_write_vectored(),
            _ => true,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_shutdown(cx)
    }
}

/// A [`Transport`] between two runtimes.
pub(crate) enum DetachedTransport {
    Tcp(std::net::TcpStream),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream),
    Memory(MemoryStream),
}

impl DetachedTransport {
    /// Attaches the transport to the current runtime.
    pub(crate) fn attach(self) -> io::Result<Transport> {
        match self {
            DetachedTransport::Tcp(stream) => {
                TcpStream::from_std(stream).map(|stream| Transport::Tcp(stream.into()))
            }
            #[cfg(unix)]
            DetachedTransport::Unix(stream) => {
                UnixStream::from_std(stream).map(|stream| Transport::Unix(stream.into()))
            }
            DetachedTransport::Memory(stream) => Ok(Transport::Memory(stream.into())),
        }
    }
}

/// A transport whose first bytes have already been read, and are returned first.
pub(crate) struct Rewind<B> {
    transport: Transport<B>,
    bytes: ReadBuffer,
}

impl<B> Rewind<B> {
    pub(crate) fn new(transport: Transport<B>, bytes: ReadBuffer) -> Rewind<B> {
        Rewind { transport, bytes }
    }
}

impl<B: AnyStream> AsyncRead for Rewind<B> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Pin::new(&mut self.transport).poll_read(cx, out);
        }
        self.bytes.hand_out(out.remaining(), |bytes| out.put_slice(bytes));
        Poll::Ready(Ok(()))
    }
}

delegate_write!([B: AnyStream] Rewind<B>, transport);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::thread;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::net::TcpListener;
    use tokio::runtime::Builder;

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    async fn tcp() -> (Transport, Transport) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        (Transport::Tcp(near.into()), Transport::Tcp(far.into()))
    }

    #[cfg(unix)]
    fn unix() -> (Transport, Transport) {
        let (near, far) = UnixStream::pair().unwrap();
        (Transport::Unix(near.into()), Transport::Unix(far.into()))
    }

    fn memory() -> (Transport, Transport) {
        let (near, far) = duplex(64);
        (Transport::Memory(near.into()), Transport::Memory(far.into()))
    }

    fn boxed() -> (Transport, Transport) {
        let (near, far) = duplex(64);
        (Transport::from_stream(near), Transport::from_stream(far))
    }

    /// Sends a greeting one way; and a response in two parts and the end the other way.
    async fn check((mut near, mut far): (Transport, Transport)) {
        assert_eq!(poll_fn(|cx| near.poll_write(cx, b"hello")).await.unwrap(), 5);
        poll_fn(|cx| near.poll_flush(cx)).await.unwrap();
        poll_fn(|cx| far.poll_read_ready(cx).unwrap_or(Poll::Ready(Ok(())))).await.unwrap();
        let mut buf = [0; 16];
        assert_eq!(poll_fn(|cx| far.poll_read(cx, &mut buf)).await.unwrap(), 5);
        assert_eq!(&buf[..5], b"hello");

        let parts = [IoSlice::new(b"good"), IoSlice::new(b"bye")];
        assert!(far.is_write_vectored());
        assert_eq!(poll_fn(|cx| far.poll_write_vectored(cx, &parts)).await.unwrap(), 7);
        poll_fn(|cx| far.poll_shutdown(cx)).await.unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "goodbye");
    }

    #[test]
    fn every_transport_carries_bytes_both_ways() {
        block_on(async {
            check(tcp().await).await;
            #[cfg(unix)]
            check(unix()).await;
            check(memory()).await;
            check(boxed()).await;
        });
    }

    /// Sends one end to another runtime, which echoes from there.
    async fn check_detach((mut near, far): (Transport, Transport)) {
        let far = far.detach().unwrap();
        let there = thread::spawn(move || {
            block_on(async {
                let mut far = far.attach().unwrap();
                let mut received = [0; 5];
                far.read_exact(&mut received).await.unwrap();
                far.write_all(&received).await.unwrap();
            });
        });
        near.write_all(b"hello").await.unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "hello");
        there.join().unwrap();
    }

    #[test]
    fn a_transport_may_move_to_another_runtime() {
        block_on(async {
            check_detach(tcp().await).await;
            #[cfg(unix)]
            check_detach(unix()).await;
            check_detach(memory()).await;
            assert_eq!(boxed().0.detach().err().unwrap().kind(), io::ErrorKind::Unsupported);
        });
    }

    #[test]
    fn a_closed_transport_is_not_connected() {
        block_on(async {
            let mut closed: Transport = Transport::Closed;
            let read = poll_fn(|cx| closed.poll_read(cx, &mut [0])).await;
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::NotConnected);
            let ready = poll_fn(|cx| closed.poll_read_ready(cx).unwrap()).await;
            assert_eq!(ready.unwrap_err().kind(), io::ErrorKind::NotConnected);
            assert_eq!(closed.write(b"x").await.unwrap_err().kind(), io::ErrorKind::NotConnected);
            assert_eq!(closed.detach().err().unwrap().kind(), io::ErrorKind::NotConnected);
        });
    }
}
