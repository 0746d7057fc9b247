//! [`BodyWriter`]: a response's body, written piece by piece (RFC 9112 §7.1).

use std::cell::RefCell;
use std::fmt;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{self, Poll, ready};

use tokio::io::AsyncWrite;

use super::transform::{Transform, TransformAction, TransformWriter};
use crate::coding::Flush;
use crate::exchange::{ExchangeError, Incoming, Outgoing, poll_discard, poll_flush};
use crate::message::content::is_event_stream;
use crate::message::{BodyLength, Headers, Request, Response, Status};
use crate::runtime::{Budget, MemoryShare};
use crate::server::RespondError;
use crate::server::exchange::{Exchange, OnPending, ResponseContent, SharedConn, UnreadBody};

/// The body of a response, written piece by piece. The head is sent with it.
///
/// Made by [`Context::body_writer`](super::Context::body_writer) and [`Context::duplex`](super::Context::duplex). Small
/// writes are collected. They leave with [`BodyWriter::flush`], with enough others, or as soon as the handler waits. If
/// the peer reads slowly, writes have to wait. A [`Transform`](super::Transform), such as compression, may hold the
/// content back until [`BodyWriter::flush`]. After a failed write, all others fail, too, and the response cannot be
/// finished. Otherwise the peer could take a part for the whole.
///
/// A response to HEAD, and one of 204, 205 or 304, is over with its head (RFC 9110 §9.3.2, §15.3.5). Writes are then
/// dropped. With a [safe](crate::Method::is_safe) method, a handler that waits before the end of the body is dropped,
/// with all middleware around it, as at the end of its time. The exchange is then complete. So a stream without an end
/// does not hold the connection. With another method, the handler goes on, as it may have changes to make. After the
/// head, the handler's writes fail if the peer has closed the connection, or its sending half.
pub struct BodyWriter<'a> {
    /// The request that is being answered.
    pub request: &'a Request,
    /// The trailers of the response.
    trailers: &'a mut Headers,
    transform: Option<TransformWriter<'a>>,
    outgoing: &'a mut Outgoing,
    pub(super) conn: &'a SharedConn,
    /// The receiving side, unless a [`BodyReader`](super::BodyReader) has it.
    pub(super) incoming: Option<&'a RefCell<Incoming>>,
    /// Spent by writes that are dropped.
    budget: Budget,
}

impl<'a> BodyWriter<'a> {
    /// Writes the head, and returns the writer of the body, with the receiving side for a reader.
    pub(super) fn begin(
        request: &'a Request,
        response: &'a mut Response,
        mut transform: Option<&'a mut dyn Transform>,
        exchange: &'a mut Exchange,
        unread: UnreadBody,
    ) -> io::Result<(BodyWriter<'a>, &'a mut RefCell<Incoming>)> {
        if response.status.is_informational() {
            return Err(RespondError::Status(response.status.as_u16()).into());
        }
        let action =
            transform.as_mut().map_or(TransformAction::Bypass, |transform| transform.begin(response));
        let content = match (response.status, response.headers.content_length()) {
            // A length that was given is that of another response (RFC 9110 §8.6).
            (Status::NOT_MODIFIED, _) => BodyLength::NoContent,
            (_, Some(given)) => BodyLength::Known(given),
            (_, None) => BodyLength::Unknown,
        };
        // A stream of events has no end of its own.
        if is_event_stream(&response.headers) {
            exchange.change_bounds(|bounds| bounds.timeouts.handler = None);
        }
        exchange.begin_response(response, content, ResponseContent::Streamed(unread));
        exchange.note_response_time();
        let Exchange { incoming, outgoing, conn, transformed, info, .. } = exchange;
        // A method that is not safe has work to do beside its response (RFC 9110 §9.2.1).
        let is_safe = info.request_info.is_head || request.method().is_safe();
        let is_over = is_safe && outgoing.is_bodyless();
        conn.set_on_pending(if is_over { OnPending::Cancel } else { OnPending::CancelIfGone });
        // A body that is not sent, such as that of a HEAD, need not be transformed.
        let transform = transform.filter(|_| action == TransformAction::Apply && !outgoing.is_bodyless());
        let transform = transform.map(|transform| TransformWriter::new(transform, transformed));
        let trailers = &mut response.trailers;
        let budget = Budget::default();
        Ok((BodyWriter { request, trailers, transform, outgoing, conn, incoming: None, budget }, incoming))
    }

    /// Writes all of `data`. After a drop of the future, it is unknown how much of `data` was written.
    ///
    /// # Errors
    ///
    /// Fails for a failed connection, for a peer that does not read, for data beyond the `content-length` of the
    /// response, or after an earlier failure.
    pub async fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        if self.try_buffer(data) {
            return Ok(());
        }
        let mut rest = data;
        while !rest.is_empty() {
            let count = poll_fn(|cx| self.poll_write_or_discard(cx, rest)).await?;
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Sends what has been written so far.
    ///
    /// # Errors
    ///
    /// Fails for a failed connection, or for a peer that does not read.
    pub async fn flush(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_flush_or_discard(cx)).await
    }

    /// Ends the body, with the trailers of the response, and sends the rest of it.
    ///
    /// # Errors
    ///
    /// Fails with less data than the `content-length` of the response, after a failed write, or as
    /// [`BodyWriter::flush`].
    pub async fn finish(mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_end_or_discard(cx)).await
    }

    /// Ends the body like [`BodyWriter::finish`], with these trailer fields (RFC 9110 §6.5), which replace those of the
    /// response. A body that is not sent in chunks is sent without them.
    ///
    /// # Errors
    ///
    /// As [`BodyWriter::finish`].
    pub async fn finish_with_trailers(self, trailers: &Headers) -> io::Result<()> {
        self.trailers.clear();
        self.trailers.append_all(trailers);
        self.finish().await
    }

    /// Returns whether streams should end, in a stop of the server. The result is true when
    /// [`Context::stopping`](super::Context::stopping) is ready, after the
    /// [`Server::stop_delay`](crate::Server::stop_delay). Before that, a new connection would come back to this server.
    pub fn is_stopping(&self) -> bool {
        self.conn.with(|conn| conn.is_stopping()).unwrap_or_default()
    }

    /// Waits until the peer has closed the connection, or its sending half, like
    /// [`Context::peer_closed`](super::Context::peer_closed). By default, a waiting handler is dropped then, and needs
    /// no such check.
    ///
    /// With [`Context::duplex`](super::Context::duplex), this waits forever, because there the reader sees the end.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    /// use tokio::sync::mpsc::Receiver;
    /// # async fn note_reader_gone() {}
    ///
    /// async fn follow(ctx: &mut Context, mut news: Receiver<String>) -> corehttp::Result {
    ///     ctx.set_uncancelled();
    ///     let mut out = ctx.body_writer().await?;
    ///     loop {
    ///         let line = tokio::select! {
    ///             line = news.recv() => line,
    ///             () = out.peer_closed() => return Ok(note_reader_gone().await),
    ///         };
    ///         let Some(line) = line else { return Ok(out.finish().await?) };
    ///         out.write_all(line.as_bytes()).await?;
    ///         out.flush().await?;
    ///     }
    /// }
    /// ```
    pub async fn peer_closed(&self) {
        match self.incoming {
            Some(_) => poll_fn(|cx| self.conn.poll_peer_closed(cx)).await,
            None => pending().await,
        }
    }

    /// Grows the memory of content that is kept for the peer, unless others need it more. Returns whether it did.
    pub(crate) fn try_grow(&self, share: &mut MemoryShare, bytes: usize) -> bool {
        self.conn.bounds(|bounds| bounds.memory.is_plentiful() && share.try_grow_to(&bounds.memory, bytes))
    }

    /// Whether a pending write waits for its turn, and not for the peer.
    pub(crate) fn waits_for_turn(&self) -> bool {
        // Without a body nothing is written, so only the budget can make such a write pending.
        self.outgoing.is_bodyless() || self.transform.as_ref().is_some_and(TransformWriter::has_yielded)
    }

    /// Copies all of `data` to the write buffer, if it is small. Returns whether it did.
    #[inline]
    fn try_buffer(&mut self, data: &[u8]) -> bool {
        match self.transform {
            None => self.conn.with(|conn| self.outgoing.try_buffer(conn, data)).unwrap_or_default(),
            Some(_) => false,
        }
    }

    fn poll_write_or_discard(&mut self, cx: &mut task::Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.poll_write_piece(cx, data);
        let written = self.poll_discard(cx, written);
        if let Poll::Ready(Err(error)) = &written {
            self.outgoing.fail(error.kind());
        }
        written
    }

    fn poll_write_piece(&mut self, cx: &mut task::Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.outgoing.is_bodyless() {
            ready!(self.poll_drop(cx, data.len()))?;
        }
        let BodyWriter { transform, outgoing, conn, .. } = self;
        conn.poll_shared(cx, |cx, conn, bounds| match transform {
            Some(transform) => transform.poll_write(cx, outgoing, conn, data, bounds),
            None => outgoing.poll_write(cx, conn, data, bounds).map_err(io::Error::from),
        })
    }

    fn poll_flush_or_discard(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let sent = self.poll_flush_all(cx);
        self.poll_discard(cx, sent)
    }

    fn poll_flush_all(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        if self.outgoing.is_bodyless() {
            ready!(self.poll_drop(cx, 0))?;
        }
        let BodyWriter { transform, outgoing, conn, .. } = self;
        conn.poll_shared(cx, |cx, conn, bounds| {
            if let Some(transform) = transform {
                ready!(transform.poll_flush(cx, outgoing, conn, Flush::Now, bounds))?;
            }
            poll_flush(cx, conn, bounds).map_err(io::Error::from)
        })
    }

    /// Ready when a write of so many bytes may be dropped. Dropped writes meet neither the pace of the peer nor its end:
    /// without this check, a handler that writes forever would keep the core to itself, and would not notice that its peer
    /// is gone.
    fn poll_drop(&mut self, cx: &mut task::Context<'_>, bytes: usize) -> Poll<io::Result<()>> {
        ready!(self.budget.poll_proceed(cx));
        self.budget.spend(bytes);
        let has_sent_all = self.conn.with(|conn| conn.has_sent_all()).unwrap_or_default();
        match self.incoming.filter(|_| has_sent_all) {
            Some(_) if self.conn.poll_peer_closed(cx).is_ready() => {
                Poll::Ready(Err(ExchangeError::PeerClosed.into()))
            }
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Discards input while a write is pending, unless a reader has the receiving side.
    fn poll_discard<T>(
        &self,
        cx: &mut task::Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let Some(incoming) = self.incoming.filter(|_| written.is_pending()) else { return written };
        self.conn
            .poll_shared(cx, |cx, conn, bounds| {
                poll_discard(&mut incoming.borrow_mut(), cx, conn, bounds).map(Err)
            })
            .map_err(io::Error::from)
    }

    fn poll_end_or_discard(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let ended = self.poll_end(cx);
        self.poll_discard(cx, ended)
    }

    fn poll_end(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let BodyWriter { trailers, transform, outgoing, conn, .. } = self;
        // A handler that has written all of its content goes on to its end.
        conn.set_on_pending(OnPending::CancelIfGone);
        let ended = conn.poll_shared(cx, |cx, conn, bounds| {
            if let Some(transform) = transform {
                ready!(transform.poll_flush(cx, outgoing, conn, Flush::End, bounds))?;
                transform.end(trailers);
            }
            outgoing.finish(conn, trailers, bounds)?;
            poll_flush(cx, conn, bounds).map_err(io::Error::from)
        });
        if let Poll::Ready(Ok(())) = ended {
            conn.set_on_pending(OnPending::GoOn);
        }
        ended
    }
}

impl AsyncWrite for BodyWriter<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_or_discard(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush_or_discard(cx)
    }

    /// Ends the body, as [`BodyWriter::finish`] does.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end_or_discard(cx)
    }
}

impl fmt::Debug for BodyWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyWriter").field("request", &self.request).finish_non_exhaustive()
    }
}
