//! [`poll_peek`]: the first bytes of a connection, which stay unread.

use std::io;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

use super::transport::Transport;
use crate::net::AnyStream;

/// Looks at the first bytes, as many as have arrived and fit `seen`. Returns 0 at the end. More of them may wake no task,
/// since these were not taken. A header of the PROXY protocol comes before TLS, so that cannot look ahead.
pub(crate) fn poll_peek<B: AnyStream>(
    transport: &mut Transport<B>,
    cx: &mut Context<'_>,
    seen: &mut [u8],
) -> Poll<io::Result<usize>> {
    match transport {
        Transport::Tcp(stream) => stream.poll_peek(cx, &mut ReadBuf::new(seen)),
        #[cfg(unix)]
        Transport::Unix(stream) => unix::poll_peek(stream, cx, seen),
        Transport::Memory(stream) => stream.poll_peek(cx, seen),
        Transport::Boxed(stream) => stream.poll_peek(cx, seen),
        Transport::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        Transport::Tls(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
    }
}

/// tokio has this for TCP alone.
#[cfg(unix)]
mod unix {
    use std::io;
    use std::task::{Context, Poll, ready};

    use rustix::net::{RecvFlags, recv};
    use tokio::io::Interest;
    use tokio::net::UnixStream;

    pub(super) fn poll_peek(
        socket: &UnixStream,
        cx: &mut Context<'_>,
        seen: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(socket.poll_read_ready(cx))?;
            let peek = || Ok(recv(socket, &mut *seen, RecvFlags::PEEK).map(|(count, _)| count)?);
            match socket.try_io(Interest::READABLE, peek) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                peeked => return Poll::Ready(peeked),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::runtime::Builder;

    use super::*;

    /// The bytes are seen as they come, and then read.
    async fn check(mut near: impl AsyncWriteExt + Unpin, mut far: Transport) {
        let mut seen = [0; 4];
        for (piece, expected) in [("ab", "ab"), ("c", "abc"), ("def", "abcd")] {
            near.write_all(piece.as_bytes()).await.unwrap();
            let count = poll_fn(|cx| poll_peek(&mut far, cx, &mut seen)).await.unwrap();
            assert_eq!(&seen[..count], expected.as_bytes());
        }
        drop(near);
        let mut received = String::new();
        far.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "abcdef");
        assert_eq!(poll_fn(|cx| poll_peek(&mut far, cx, &mut seen)).await.unwrap(), 0);
    }

    #[test]
    fn bytes_that_were_seen_are_still_read() {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let (near, far) = duplex(64);
            check(near, Transport::from_stream(far)).await;
            #[cfg(unix)]
            {
                let (near, far) = tokio::net::UnixStream::pair().unwrap();
                check(near, Transport::Unix(far.into())).await;
            }
        });
    }
}
