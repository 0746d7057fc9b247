//! [`Writer`]: an answer's body, written by the handler (RFC 9112 §7.1).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{self, Poll};

use tokio::io::AsyncWrite;

use super::context::Link;
use crate::exchange::{Bounds, ExchangeError, Outgoing, Phase};
use crate::message::{Headers, Request};
use crate::net::Conn;

/// An answer's body, written by the handler. The head has left.
///
/// Made by [`Context::stream`](super::Context::stream). Small writes are gathered until [`Writer::flush`], until
/// there are enough of them, or until the handler waits for something; a peer that does not read holds them back. What
/// is written in answer to HEAD is dropped.
pub struct Writer<'a> {
    /// The request that is answered.
    pub request: &'a Request,
    trailers: &'a Headers,
    outgoing: &'a mut Outgoing,
    conn: &'a Link,
    bounds: &'a Bounds,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        request: &'a Request,
        trailers: &'a Headers,
        outgoing: &'a mut Outgoing,
        conn: &'a Link,
        bounds: &'a Bounds,
    ) -> Writer<'a> {
        Writer { request, trailers, outgoing, conn, bounds }
    }

    /// Writes all of `data`.
    ///
    /// # Errors
    ///
    /// More data than the `content-length` that was set; a connection that fails; a peer that does not read.
    pub async fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        let mut rest = data;
        while !rest.is_empty() {
            let count = poll_fn(|cx| self.poll_data(cx, rest)).await?;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Sends what was written so far.
    ///
    /// # Errors
    ///
    /// A connection that fails, or a peer that does not read.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_sent(cx)).await
    }

    /// Ends the body, with the response's trailers if it has some, and sends the rest of it.
    ///
    /// # Errors
    ///
    /// Less data than the `content-length` that was set, or as [`Writer::flush`].
    pub async fn finish(self) -> io::Result<()> {
        let trailers = self.trailers;
        self.finish_with(trailers).await
    }

    /// Ends the body with these trailer fields (RFC 9110 §6.5). A body that is not sent in chunks goes without them.
    ///
    /// # Errors
    ///
    /// As [`Writer::finish`].
    pub async fn finish_with(mut self, trailers: &Headers) -> io::Result<()> {
        self.end(trailers)?;
        self.flush().await
    }

    fn end(&mut self, trailers: &Headers) -> io::Result<()> {
        match self.conn.borrow_mut().as_mut() {
            Some(conn) => Ok(self.outgoing.finish(conn, trailers)?),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn poll_data(&mut self, cx: &mut task::Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(|outgoing, conn, bounds| outgoing.poll_write(cx, conn, data, bounds))
    }

    fn poll_sent(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        self.poll(|_, conn, bounds| {
            conn.poll_flush(cx, bounds.timeouts.write).map_err(ExchangeError::during(Phase::Write))
        })
    }

    fn poll<T>(
        &mut self,
        poll: impl FnOnce(&mut Outgoing, &mut Conn, &Bounds) -> Poll<Result<T, ExchangeError>>,
    ) -> Poll<io::Result<T>> {
        match self.conn.borrow_mut().as_mut() {
            Some(conn) => poll(self.outgoing, conn, self.bounds).map_err(io::Error::from),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncWrite for Writer<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_data(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        self.poll_sent(cx)
    }

    /// Ends the body, as [`Writer::finish`].
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let trailers = self.trailers;
        self.end(trailers)?;
        self.poll_sent(cx)
    }
}

impl fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("request", &self.request).finish_non_exhaustive()
    }
}
