//! [`Script`]: a server that a client finds in memory, and that says the same to whatever it is asked.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use corehttp::net::Dialer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Opens connections on which each request is answered with these bytes.
pub struct Script(pub &'static [u8]);

impl Dialer for Script {
    type Stream = Scripted;

    async fn dial(&self, _: &str, _: u16) -> io::Result<Scripted> {
        Ok(Scripted { response: self.0, unread: &[], asked: Tail::default(), waiting: None })
    }
}

/// One connection. A response can be read as soon as the last byte of a request's head was written.
pub struct Scripted {
    response: &'static [u8],
    /// The part of the response that is still to be read.
    unread: &'static [u8],
    asked: Tail,
    waiting: Option<Waker>,
}

/// The last bytes that were written.
type Tail = [u8; 4];

impl AsyncRead for Scripted {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            self.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let (here, rest) = self.unread.split_at(self.unread.len().min(into.remaining()));
        into.put_slice(here);
        self.unread = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Scripted {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let last = bytes.len().saturating_sub(self.asked.len());
        for byte in &bytes[last..] {
            self.asked.rotate_left(1);
            self.asked[3] = *byte;
        }
        if self.asked == *b"\r\n\r\n" {
            assert!(self.unread.is_empty(), "the client reads a response before it asks again");
            self.unread = self.response;
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
