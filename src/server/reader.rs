//! [`Reader`]: a request's body, read as it comes (RFC 9112 §6).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{self, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::context::Link;
use crate::exchange::{Bounds, ExchangeError, Incoming};
use crate::message::{Headers, Request};

/// A request's body, read as it comes. What is not read holds the peer back.
///
/// Made by [`Context::body_reader`](super::Context::body_reader). The first read sends `100 Continue` to a peer
/// that waits for it (RFC 9110 §10.1.1).
pub struct Reader<'a> {
    /// The request whose body it is.
    pub request: &'a Request,
    incoming: &'a mut Incoming,
    conn: &'a Link,
    bounds: &'a Bounds,
    /// How much of a body that was buffered has been read.
    buffered: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        request: &'a Request,
        incoming: &'a mut Incoming,
        conn: &'a Link,
        bounds: &'a Bounds,
    ) -> Reader<'a> {
        Reader { request, incoming, conn, bounds, buffered: 0 }
    }

    /// The next piece of the body, as large as it came; none at its end.
    ///
    /// # Errors
    ///
    /// A body that is cut short, malformed or too slow. Its end was not reached then, and it never will be.
    pub async fn chunk(&mut self) -> io::Result<Option<&[u8]>> {
        if self.request.body.len() > self.buffered {
            let rest = &self.request.body.bytes()[self.buffered..];
            self.buffered = self.request.body.len();
            return Ok(Some(rest));
        }
        match poll_fn(|cx| self.poll_chunk(cx)).await? {
            0 => Ok(None),
            _ => Ok(Some(self.incoming.chunk())),
        }
    }

    /// The trailer fields, once the body has been read to its end (RFC 9110 §6.5).
    pub fn trailers(&self) -> &Headers {
        match self.request.trailers.is_empty() {
            true => &self.incoming.trailers,
            false => &self.request.trailers,
        }
    }

    fn poll_chunk(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<usize, ExchangeError>> {
        let chunk = match self.conn.borrow_mut().as_mut() {
            Some(conn) => self.incoming.poll_chunk(cx, conn, self.bounds),
            None => Poll::Ready(Ok(0)),
        };
        if matches!(chunk, Poll::Ready(Err(_))) {
            self.incoming.forfeit();
        }
        chunk
    }
}

impl AsyncRead for Reader<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let rest = &this.request.body.bytes()[this.buffered..];
        if !rest.is_empty() {
            let count = rest.len().min(out.remaining());
            out.put_slice(&rest[..count]);
            this.buffered += count;
            return Poll::Ready(Ok(()));
        }
        let lent = ready!(this.poll_chunk(cx))?;
        let count = lent.min(out.remaining());
        out.put_slice(&this.incoming.chunk()[..count]);
        this.incoming.took(count);
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("request", &self.request).finish_non_exhaustive()
    }
}
