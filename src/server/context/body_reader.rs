//! [`BodyReader`]: a request's body, read as it arrives (RFC 9112 §6).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{self, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::body_filter::{FilteredBody, PIECE};
use crate::coding::{ContentDecoder, DECODED_PER_STEP, DecoderChain, Flush};
use crate::exchange::{ExchangeError, Incoming};
use crate::message::{Headers, Request};
use crate::runtime::{Budget, MemoryShare};
use crate::server::Result;
use crate::server::exchange::SharedConn;

/// A request's body, read as it arrives. If the handler reads slowly, the peer has to wait.
///
/// Made by [`Context::body_reader`](super::Context::body_reader) and [`Context::duplex`](super::Context::duplex). The
/// first read sends `100 Continue` to a peer that waits for it (RFC 9110 §10.1.1).
#[must_use = "nothing is read or decoded before a read"]
pub struct BodyReader<'a> {
    /// The request whose body is read.
    pub request: &'a Request,
    incoming: &'a mut Incoming,
    conn: &'a SharedConn,
    /// Changes the content before it is read.
    filtered: Option<&'a mut FilteredBody>,
    /// How much of a buffered body has been read, and the length of the current piece after that. 0 if the piece is none of
    /// a buffered body.
    buffered: usize,
    buffered_piece_len: usize,
    decoder: Option<Box<ContentDecoder>>,
    /// The memory of the decoder's window.
    window: MemoryShare,
    budget: Budget,
    /// Whether other readers fail once this one has begun: what it has taken ahead is missing for them.
    claims: bool,
}

impl<'a> BodyReader<'a> {
    pub(super) fn new(
        request: &'a Request,
        incoming: &'a mut Incoming,
        conn: &'a SharedConn,
        filtered: Option<&'a mut FilteredBody>,
    ) -> BodyReader<'a> {
        BodyReader {
            request,
            incoming,
            conn,
            filtered,
            buffered: 0,
            buffered_piece_len: 0,
            decoder: None,
            window: MemoryShare::default(),
            budget: Budget::default(),
            claims: false,
        }
    }

    /// Decodes the body while it is read, undoing its content codings (RFC 9110 §8.4), up to `limit` decoded bytes. A
    /// body without codings is read as it is, within the same limit.
    ///
    /// Call this before the first read, since codings are undone from the start. The fields of the request still
    /// describe the body as it was sent. [`Context::decode_body`](super::Context::decode_body), for bodies that fit
    /// into memory, changes them too.
    ///
    /// During the reads, `br` keeps its last decoded bytes: as many as the peer chooses, but not much more than twice
    /// `limit`, or 256 KiB, and no more than 16 MiB. `zstd` keeps 8 MiB at most, the others 32 KiB.
    ///
    /// # Errors
    ///
    /// Fails with an unknown coding, or with [too many](crate::coding::CodingError::TooMany) (answered with 415 if
    /// passed on with `?`). Later, reading fails with corrupt or truncated content (400), or beyond the limit (413). Do
    /// not act on the content before the end of the body, because such an error may still follow. After such an error, or a
    /// drop of the reader before the end, each other read of a body that is not in memory fails: a part of it was decoded.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Result};
    /// use tokio::fs::File;
    ///
    /// // To a file, of which at most 64 MiB are written; with `BodyPlan::Stream`, piece by piece.
    /// async fn save(ctx: &mut Context) -> Result {
    ///     let mut file = File::create_new("upload").await?;
    ///     let mut body = ctx.body_reader().decoded_up_to(64 << 20)?;
    ///     let size = tokio::io::copy(&mut body, &mut file).await?;
    ///     file.sync_all().await?;
    ///     println!("{size} bytes");
    ///     Ok(())
    /// }
    /// ```
    pub fn decoded_up_to(mut self, limit: usize) -> io::Result<BodyReader<'a>> {
        let decoders = DecoderChain::from_headers(&self.request.headers, limit)?.unwrap_or_default();
        self.decoder = Some(Box::new(ContentDecoder::new(decoders, limit)));
        self.claims = self.may_claim();
        // The piece that another reader has read last would be decoded.
        self.incoming.consume_piece();
        if let Some(filtered) = &mut self.filtered {
            filtered.consume_piece();
        }
        Ok(self)
    }

    /// Skips what was buffered of the body.
    pub(crate) fn skip_buffered(self) -> BodyReader<'a> {
        self.skip_to(usize::MAX)
    }

    /// Skips the first `count` bytes of what was buffered of the body, or all of these.
    pub(crate) fn skip_to(mut self, count: usize) -> BodyReader<'a> {
        self.buffered = count.min(self.request.body.len());
        self
    }

    /// How many bytes of what was buffered have been read, with the current piece.
    pub(crate) fn buffered_read(&self) -> usize {
        self.buffered + self.buffered_piece_len
    }

    /// Claims a body that is not in memory for a parser, which takes more ahead than it yields. Once anything was read, all other
    /// readers fail, until [`BodyReader::release`]. If another reader has begun before, each read fails.
    #[allow(dead_code, reason = "unused without the feature `multipart`")]
    pub(crate) fn claimed(mut self) -> BodyReader<'a> {
        self.claims = self.may_claim();
        if self.has_begun() {
            self.incoming.note_discarded(1);
        }
        self
    }

    /// Gives up a claim, after the end of the body.
    pub(crate) fn release(&mut self) {
        if self.claims {
            self.incoming.taken.is_claimed = false;
        }
    }

    /// Returns the next piece of the body, of whatever size it arrived in; `None` at the end. A body in memory comes in pieces of
    /// up to 64 KiB.
    ///
    /// # Errors
    ///
    /// Fails if the body is cut short, malformed or too slow, with the error of a [filter](super::BodyFilter), or as
    /// described at [`BodyReader::decoded_up_to`]. After an error, the end of the body is never reached.
    pub async fn chunk(&mut self) -> io::Result<Option<&[u8]>> {
        if !self.next_arrived_piece() {
            let wait = EndWaitOnDrop(self);
            if poll_fn(|cx| wait.0.poll_piece(cx)).await? == 0 {
                return Ok(None);
            }
        }
        Ok(Some(self.piece()))
    }

    /// Returns the trailer fields, once the body has been read to its end (RFC 9110 §6.5).
    pub fn trailers(&self) -> &Headers {
        match self.request.trailers.is_empty() {
            true => &self.incoming.trailers,
            false => &self.request.trailers,
        }
    }

    /// Whether there is no body, or all of it was read and is no longer in memory.
    pub(crate) fn is_at_end(&self) -> bool {
        self.request.body.is_empty()
            && self.incoming.is_end_stream()
            && self.filtered.as_ref().is_none_or(|filtered| filtered.is_at_end())
    }

    /// Whether a part of the body was read as it arrived, and is no longer in memory.
    pub(crate) fn has_begun(&self) -> bool {
        self.request.body.is_empty() && self.incoming.has_read_any()
    }

    /// Whether no other reader has claimed the content, which is not in memory, where it could be read again.
    fn may_claim(&self) -> bool {
        let is_kept = !self.request.body.is_empty() && !self.request.body.is_partial();
        !is_kept && !self.incoming.taken.is_claimed
    }

    /// Makes the next piece the current one, if it has already arrived and need not be decoded. Returns whether it did.
    fn next_arrived_piece(&mut self) -> bool {
        self.decoder.is_none()
            && self.filtered.is_none()
            && self.request.body.is_empty()
            && !self.is_lost()
            && self.incoming.next_arrived_piece()
    }

    /// Makes the next piece the current one, until the next call. Returns its length, 0 at the end.
    fn poll_piece(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<usize>> {
        // A little input may decode to a lot.
        ready!(self.budget.poll_proceed(cx));
        loop {
            let Some(mut decoder) = self.decoder.take() else {
                return self.poll_received(cx);
            };
            let memory_len = decoder.memory_len(self.received());
            if !self.received().is_empty() && memory_len > self.window.len() {
                // The current piece is not read again: a wait that is given up changes nothing.
                let taken = self.conn.poll_memory(cx, &mut self.window, memory_len + memory_len / 4);
                if !matches!(taken, Poll::Ready(Ok(()))) {
                    self.decoder = Some(decoder);
                    return taken.map(|taken| Ok(taken.map(|()| 0)?));
                }
            }
            let pulled = decoder.pull(self.received());
            self.decoder = Some(decoder);
            match pulled? {
                0 => {}
                count => {
                    self.budget.spend(count);
                    return Poll::Ready(Ok(count));
                }
            }
            let received = ready!(self.poll_received(cx))?;
            if received == 0 {
                let end = self.decoder.as_ref().map_or(Ok(()), |decoder| decoder.end());
                end?;
                self.release();
                return Poll::Ready(Ok(0));
            }
            // Much input may also decode to nothing, which takes time, too.
            self.budget.spend(received);
            ready!(self.budget.poll_proceed(cx));
        }
    }

    /// The current piece.
    fn piece(&self) -> &[u8] {
        self.decoder.as_ref().map_or(self.received(), |decoder| decoder.piece())
    }

    /// Shortens the current piece to its first `count` bytes. The others become the next piece.
    fn truncate_piece(&mut self, count: usize) {
        debug_assert!(count <= self.piece().len(), "a piece is truncated, not extended");
        match (&mut self.decoder, self.buffered_piece_len, &mut self.filtered) {
            (Some(decoder), _, _) => decoder.truncate_piece(count),
            (None, 0, None) => self.incoming.truncate_piece(count),
            (None, 0, Some(filtered)) => filtered.truncate_piece(count),
            (None, _, _) => self.buffered_piece_len = count,
        }
    }

    /// Makes the next piece, in its content codings, the current one: from the buffered body, or else as it arrives, through
    /// its filter.
    fn poll_received(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<usize>> {
        self.buffered += self.buffered_piece_len;
        debug_assert!(self.buffered <= self.request.body.len(), "pieces of a buffered body lie within it");
        let most = if self.decoder.is_some() { DECODED_PER_STEP } else { BUFFERED_PIECE_MAX };
        self.buffered_piece_len = most.min(self.request.body.len() - self.buffered);
        if self.buffered_piece_len > 0 {
            return Poll::Ready(Ok(self.buffered_piece_len));
        }
        let Some(filtered) = self.filtered.take() else {
            return self.poll_arrived(cx).map_err(io::Error::from);
        };
        let piece = self.poll_filtered(cx, filtered);
        self.filtered = Some(filtered);
        piece
    }

    /// Advances to the next piece of the filter's output. Returns its length.
    fn poll_filtered(
        &mut self,
        cx: &mut task::Context<'_>,
        filtered: &mut FilteredBody,
    ) -> Poll<io::Result<usize>> {
        loop {
            if self.incoming.has_failed() || self.is_lost() {
                return self.poll_arrived(cx).map_err(io::Error::from);
            }
            let count = filtered.next_piece()?;
            if count > 0 || filtered.is_at_end() {
                return Poll::Ready(Ok(count));
            }
            match self.poll_arrived(cx) {
                Poll::Ready(Ok(0)) => filtered.end(&mut self.incoming.trailers)?,
                Poll::Ready(Ok(count)) => {
                    let step = count.min(PIECE);
                    self.incoming.truncate_piece(step);
                    filtered.spend(step)?;
                    filtered.apply(self.incoming.piece(), Flush::Later)?;
                    ready!(filtered.budget.poll_proceed(cx));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                // The peer may wait for a response to what it has sent.
                Poll::Pending if filtered.may_hold_back() => filtered.apply(&[], Flush::Now)?,
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Advances to the next piece as it was sent. Returns its length.
    fn poll_arrived(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<usize, ExchangeError>> {
        match (self.is_lost(), self.conn.is_taken()) {
            (true, _) => Poll::Ready(Err(ExchangeError::Discarded)),
            (false, true) => Poll::Ready(Ok(0)),
            (false, false) => {
                let arrived =
                    self.conn.poll_shared(cx, |cx, conn, bounds| self.incoming.poll_piece(cx, conn, bounds));
                if self.claims && matches!(arrived, Poll::Ready(Ok(1..))) {
                    self.incoming.taken.is_claimed = true;
                }
                arrived
            }
        }
    }

    /// Whether a part of the body is lost for this reader.
    fn is_lost(&self) -> bool {
        self.incoming.has_discarded() || (self.incoming.taken.is_claimed && !self.claims)
    }

    /// The current piece, in its content codings.
    fn received(&self) -> &[u8] {
        match (self.buffered_piece_len, &self.filtered) {
            (0, None) => self.incoming.piece(),
            (0, Some(filtered)) => filtered.piece(),
            (len, _) => &self.request.body.bytes()[self.buffered..][..len],
        }
    }
}

/// The most that a piece of a buffered body has. Services and gateways copy each piece, in memory that is not counted.
const BUFFERED_PIECE_MAX: usize = 64 << 10;

/// A wait for the next piece. When a wait is given up, the time until the next one is not counted against the peer's
/// rate.
struct EndWaitOnDrop<'r, 'a>(&'r mut BodyReader<'a>);

impl Drop for EndWaitOnDrop<'_, '_> {
    fn drop(&mut self) {
        let BodyReader { incoming, conn, .. } = &mut *self.0;
        conn.with(|conn| incoming.end_wait(conn));
        self.0.window.stop_waiting();
    }
}

impl AsyncRead for BodyReader<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let piece_len = ready!(self.poll_piece(cx))?;
        let count = piece_len.min(out.remaining());
        out.put_slice(&self.piece()[..count]);
        self.truncate_piece(count);
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for BodyReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyReader").field("request", &self.request).finish_non_exhaustive()
    }
}
