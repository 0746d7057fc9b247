//! [`Incoming`]: receives one message (RFC 9112 §2.2, §6).

use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::body_failure::BodyFailure;
use super::incoming_body::{
    BodyDecoder, LargeInput, MinRate, READ_MIN, STILL_MAX, TakenContent, UNRESERVED_MAX, poll_content,
};
use super::message_head::{Expectation, HeadOutcome, MessageHead, has_head_begun};
use super::{Bounds, ExchangeError, Phase, cut_as_end, poll_flush};
use crate::memory::{Arena, Reset};
use crate::message::Headers;
use crate::net::{Conn, ConnError, Locality, ReadBuffer, TimerSlot};
use crate::runtime::MemoryShare;
use crate::wire::parse::{EndSearch, ForbiddenTrailers, Leniency};
use crate::wire::{Framing, Limits};

/// The receiving side of one exchange: what has arrived, and what remains to be received of the message.
#[derive(Default)]
pub(crate) struct Incoming {
    pub(crate) input: ReadBuffer,
    /// The trailers of a chunked body, once it has ended.
    pub(crate) trailers: Headers,
    pub(crate) expectation: Expectation,
    body: BodyDecoder,
    /// The length of the current piece: bytes at the front of the input that the reader may read, until it reads on.
    piece_len: usize,
    /// How many bytes after the current piece are decoded data too, from a piece that the reader truncated.
    truncated_rest: usize,
    pub(crate) taken: TakenContent,
    /// Whether a fault of the chunks was overlooked, once their end has been received.
    pub(crate) is_mended: bool,
    /// How far the input was searched for the end of a head.
    head_search: EndSearch,
    rate: MinRate,
    /// The memory of a body that is buffered and, at a server, of the large response to it: one share for both, since a response
    /// may take the place of its request. It is kept with the buffers, until they are given back.
    pub(crate) memory: MemoryShare,
    /// The memory of the input, while it is large.
    pub(crate) large_input: LargeInput,
}

impl Incoming {
    /// Receives a head. Before it waits, the write buffer is flushed.
    #[inline]
    pub(crate) fn poll_head<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        message: &mut impl MessageHead,
        bounds: &Bounds,
        on_read: impl Fn(),
    ) -> Poll<Result<HeadOutcome, ExchangeError>> {
        while !self.try_head(message, bounds)? {
            let outcome = ready!(self.poll_incomplete_head(cx, conn, message, bounds, &on_read))?;
            if let Some(outcome) = outcome {
                return Poll::Ready(Ok(outcome));
            }
        }
        conn.disarm(TimerSlot::Read);
        Poll::Ready(Ok(HeadOutcome::Complete))
    }

    /// Reads for a head that is not complete. Returns the outcome if no head will come. Not inlined, so that the path of
    /// a head that has arrived stays short.
    #[inline(never)]
    fn poll_incomplete_head<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        message: &mut impl MessageHead,
        bounds: &Bounds,
        on_read: &impl Fn(),
    ) -> Poll<Result<Option<HeadOutcome>, ExchangeError>> {
        match ready!(poll_flush(cx, conn, bounds)) {
            // The peer may have closed after answering: read its answer.
            Err(ExchangeError::Io(_)) if !L::FLUSHES_BEFORE_READ => {}
            flushed => flushed?,
        }
        let len = self.input.unread().len();
        if len >= UNRESERVED_MAX.max(self.memory.len() / 2).max(self.large_input.head_len()) {
            // For twice as much, which is copied once the head is complete.
            let taken = ready!(bounds.poll_memory(cx, &mut self.memory, 4 * len));
            taken.map_err(|error| message.unfinished_error(error, self.input.unread(), &bounds.limits))?;
        }
        Poll::Ready(match ready!(self.poll_head_bytes(cx, conn, bounds, bounds.timeouts.head)) {
            Ok(None) => {
                on_read();
                Ok(None)
            }
            Ok(Some(outcome)) => Ok(Some(outcome)),
            Err(error) => Err(message.unfinished_error(error, self.input.unread(), &bounds.limits)),
        })
    }

    /// Reads once for a head. Returns the reason if no head will come.
    pub(crate) fn poll_head_bytes<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        bounds: &Bounds,
        limit: Duration,
    ) -> Poll<Result<Option<HeadOutcome>, ExchangeError>> {
        if self.input.reads_much() {
            self.large_input.prepare_head(&bounds.memory, &mut self.input);
        }
        let filled = cut_as_end(ready!(conn.poll_fill(cx, &mut self.input, limit)));
        let has_begun = has_head_begun(self.input.unread());
        Poll::Ready(match filled {
            Ok(1..) => Ok(None),
            Ok(0) if has_begun => Err(ExchangeError::Incomplete),
            Ok(0) => Ok(Some(HeadOutcome::Closed)),
            Err(ConnError::TimedOut) if !has_begun => Ok(Some(HeadOutcome::Idle)),
            Err(error) => Err(ExchangeError::during(Phase::Head, limit)(error)),
        })
    }

    /// Whether a part of a head has arrived, but no whole one.
    pub(crate) fn has_partial_head(&self) -> bool {
        self.head_search.has_begun()
    }

    /// Takes the head out of the input, if it is complete.
    pub(crate) fn try_head<M: MessageHead>(
        &mut self,
        message: &mut M,
        bounds: &Bounds,
    ) -> Result<bool, ExchangeError> {
        let text = self.input.unread();
        let limits = &bounds.limits;
        if !self.head_search.is_due(text, limits.head_max) {
            return Ok(false);
        }
        debug_assert!(self.is_end_stream() && self.piece_len == 0, "a head follows a whole message");
        let parsed = message.parse(text, limits);
        let Some(len) = parsed.map_err(|error| M::parse_error(error, text, limits))? else {
            return Ok(false);
        };
        self.head_search = EndSearch::default();
        debug_assert!(0 < len && len <= text.len(), "a head is part of the input");
        self.rate.begin(text.len() - len);
        self.input.consume(len);
        let framing = message.framing();
        let framing = framing.map_err(|error| ExchangeError::with_detail(error, message.text(), limits))?;
        self.body = BodyDecoder::new(framing, M::FORBIDDEN_TRAILERS, message.leniency());
        Ok(true)
    }

    /// Begins to receive a body whose head has come another way.
    pub(crate) fn begin_body(&mut self, framing: Framing) {
        debug_assert!(
            self.is_end_stream() && framing != Framing::Chunked,
            "such a body has no framing of its own"
        );
        self.body = BodyDecoder::new(framing, ForbiddenTrailers::Refused, Leniency::None);
    }

    /// Receives the next piece of the body. Returns its length; 0 at the end. [`Incoming::piece`] is valid until the
    /// next call, which consumes it. If one fails, all later ones do.
    pub(crate) fn poll_piece<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        bounds: &Bounds,
    ) -> Poll<Result<usize, ExchangeError>> {
        self.consume_piece();
        self.poll_next_piece(cx, conn, bounds).map_err(|error| self.fail(error))
    }

    fn poll_next_piece<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        bounds: &Bounds,
    ) -> Poll<Result<usize, ExchangeError>> {
        loop {
            self.piece_len = self.decode(bounds)?;
            if self.piece_len > 0 || self.is_end_stream() {
                self.taken.by_reader |= self.piece_len > 0;
                if L::STAYS_ON_THREAD && self.piece_len == 0 {
                    self.large_input.give_back(&mut self.input);
                }
                return Poll::Ready(Ok(self.piece_len));
            }
            ready!(self.poll_more(cx, conn, bounds, None))?;
        }
    }

    /// Makes the next piece the current one, as [`Incoming::poll_piece`] does, if it is a chunk that has already
    /// arrived. Many may have arrived at once, and the checks of a wait take longer than finding the next one. Returns
    /// whether there was one.
    #[inline]
    pub(crate) fn next_arrived_piece(&mut self) -> bool {
        self.consume_piece();
        if let (BodyDecoder::Chunked(decoder), 0) = (&mut self.body, self.truncated_rest)
            && let Some(decoded) = decoder.next_chunk(self.input.unread())
        {
            self.input.consume(decoded.framing);
            self.piece_len = decoded.data;
        }
        self.taken.by_reader |= self.piece_len > 0;
        self.piece_len > 0
    }

    /// The current piece, which the last [`Incoming::poll_piece`] has received.
    pub(crate) fn piece(&self) -> &[u8] {
        &self.input.unread()[..self.piece_len]
    }

    /// Truncates the current piece to its first `count` bytes. The others become the next piece.
    pub(crate) fn truncate_piece(&mut self, count: usize) {
        debug_assert!(count <= self.piece_len && self.truncated_rest == 0, "a piece is truncated once");
        self.truncated_rest = self.piece_len - count;
        self.piece_len = count;
    }

    /// Receives the whole body into `content`. If that fails, all later calls do.
    pub(crate) fn poll_body<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        bounds: &Bounds,
        body_max: usize,
        content: &mut Arena,
    ) -> Poll<Result<(), ExchangeError>> {
        self.poll_whole(cx, conn, bounds, body_max, content).map_err(|error| self.fail(error))
    }

    fn poll_whole<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        bounds: &Bounds,
        body_max: usize,
        content: &mut Arena,
    ) -> Poll<Result<(), ExchangeError>> {
        loop {
            // The body is refused before a byte is stored, and before `100 Continue` is sent.
            let room = body_max.saturating_sub(content.len());
            if let BodyDecoder::Length(left) = self.body
                && left > room as u64
            {
                let length = left.saturating_add(content.len() as u64);
                return Poll::Ready(Err(ExchangeError::body_too_large(body_max, Some(length))));
            }
            let may_be_more = self.take_arrived(bounds, body_max, content)?;
            if self.is_end_stream() {
                self.memory.shrink_to(content.capacity());
                self.consume_piece();
                return Poll::Ready(Ok(()));
            }
            if !may_be_more {
                ready!(self.poll_room(cx, conn, bounds, body_max, content))?;
                ready!(self.poll_more(cx, conn, bounds, Some(content)))?;
            }
        }
    }

    /// Takes memory for the rest of a body that is not small: for all of it, or if its length is not known, for as
    /// much as it may become.
    fn poll_room<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        bounds: &Bounds,
        body_max: usize,
        content: &Arena,
    ) -> Poll<Result<(), ExchangeError>> {
        let left = self.length_left().and_then(|left| usize::try_from(left).ok());
        let needed = content.len() + left.unwrap_or(self.input.unread().len().max(READ_MIN));
        if needed <= self.memory.len().max(UNRESERVED_MAX) {
            return Poll::Ready(Ok(()));
        }
        let len = match left {
            Some(_) => needed,
            None => bounds.memory.growth_target(needed, body_max),
        };
        let grown = bounds.poll_memory(cx, &mut self.memory, len);
        if grown.is_pending() {
            // The time of the body does not run meanwhile.
            self.end_wait(conn);
        }
        grown
    }

    /// Moves what has arrived of the body to `content`, which may grow to `body_max`. Returns whether more may have.
    fn take_arrived(
        &mut self,
        bounds: &Bounds,
        body_max: usize,
        content: &mut Arena,
    ) -> Result<bool, ExchangeError> {
        self.consume_piece();
        if let (BodyDecoder::Chunked(decoder), 0) = (&mut self.body, self.truncated_rest) {
            let input = self.input.unread();
            let trailers = &mut self.trailers;
            let read =
                decoder.decode_all(input, &bounds.limits, trailers, body_max, content).map_err(|error| {
                    ExchangeError::with_detail(error, input, &Limits { body_max, ..bounds.limits })
                })?;
            self.input.consume(read);
            self.is_mended |= self.body.end_chunks();
            return Ok(false);
        }
        self.piece_len = self.decode(bounds)?;
        if self.piece_len > body_max.saturating_sub(content.len()) {
            return Err(ExchangeError::body_too_large(body_max, None));
        }
        let may_be_more = self.piece_len > 0;
        // Only a complete body is moved as a whole. A part of a larger body is copied to where there is room for all of it.
        if self.is_end_stream() && content.is_empty() && self.piece_len == self.input.unread().len() {
            self.input.move_all_to(content);
            self.piece_len = 0;
        } else {
            content.extend(self.piece());
        }
        Ok(may_be_more)
    }

    /// Notes that no more of the body can be received, for this reason.
    #[cold]
    fn fail(&mut self, error: ExchangeError) -> ExchangeError {
        self.body = BodyDecoder::Failed(BodyFailure::from_error(&error));
        (self.piece_len, self.truncated_rest) = (0, 0);
        error
    }

    /// Has further reads fail, since a part of the received content is lost. If all of it was received, another message
    /// may follow.
    pub(crate) fn give_up(&mut self) {
        if self.is_end_stream() {
            self.note_discarded(1);
        } else if !self.has_failed() {
            self.fail(ExchangeError::Discarded);
        }
    }

    /// Whether the body could not be received, or was given up. Its end is unknown then.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.body, BodyDecoder::Failed(_))
    }

    /// Drops all input, even the current piece.
    pub(crate) fn drop_input(&mut self) {
        (self.piece_len, self.truncated_rest) = (0, 0);
        self.head_search = EndSearch::default();
        self.input.reset();
    }

    /// Ends the wait for more of the body, if there is one. The time until the reader waits again does not count against
    /// the rate.
    pub(crate) fn end_wait<L: Locality>(&mut self, conn: &mut Conn<L>) {
        if self.rate.is_waiting() {
            self.rate.end_wait(conn.now());
            conn.disarm(TimerSlot::Read);
        }
    }

    /// Reads once into the input while something other than the body is waited for.
    pub(crate) fn poll_read_ahead<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
    ) -> Poll<Result<usize, ConnError>> {
        let count = ready!(conn.poll_fill(cx, &mut self.input, Duration::MAX))?;
        self.rate.count(count);
        Poll::Ready(Ok(count))
    }

    /// Whether the whole body has been received. The current piece may be the last one.
    #[inline]
    pub(crate) fn is_end_stream(&self) -> bool {
        matches!(self.body, BodyDecoder::Done) && self.truncated_rest == 0
    }

    /// Whether a reader has had any of the body.
    pub(crate) fn has_read_any(&self) -> bool {
        self.taken.by_reader
    }

    /// Notes that bytes of the body were discarded which had been received.
    pub(crate) fn note_discarded(&mut self, count: usize) {
        self.taken.discarded = self.taken.discarded.saturating_add(count);
    }

    /// How many bytes of the body were discarded.
    pub(super) fn discarded(&self) -> usize {
        self.taken.discarded
    }

    /// Whether some of the body was discarded, so that the rest must not pass for all of it.
    pub(crate) fn has_discarded(&self) -> bool {
        self.discarded() > 0
    }

    /// Discards the next piece, if it has arrived. Returns its length.
    pub(super) fn discard_arrived(&mut self, bounds: &Bounds) -> Result<usize, ExchangeError> {
        self.consume_piece();
        let count = self.decode(bounds)?;
        self.input.consume(count);
        self.note_discarded(count);
        Ok(count)
    }

    /// Whether the whole body has arrived, even if it has not been read. Unknown, and thus false, for a body in chunks.
    pub(crate) fn has_body_arrived(&self) -> bool {
        self.length_left().is_some_and(|left| left <= (self.input.unread().len() - self.piece_len) as u64)
    }

    /// Whether the body ends only with the connection.
    pub(crate) fn ends_with_close(&self) -> bool {
        matches!(self.body, BodyDecoder::UntilClose)
    }

    /// How many bytes of the body remain, if its length is known.
    pub(crate) fn length_left(&self) -> Option<u64> {
        match self.body {
            BodyDecoder::Done => Some(self.truncated_rest as u64),
            BodyDecoder::Length(left) => Some(left + self.truncated_rest as u64),
            BodyDecoder::Chunked(_) | BodyDecoder::UntilClose | BodyDecoder::Failed(_) => None,
        }
    }

    /// Consumes the current piece, which has been read.
    #[inline]
    pub(crate) fn consume_piece(&mut self) {
        debug_assert!(
            self.piece_len + self.truncated_rest <= self.input.unread().len(),
            "pieces are part of the input"
        );
        // Most messages have no body.
        if self.piece_len > 0 {
            self.input.consume(std::mem::take(&mut self.piece_len));
        }
    }

    /// Finds the next piece of the body in the input, and counts it as received.
    fn decode(&mut self, bounds: &Bounds) -> Result<usize, ExchangeError> {
        if self.truncated_rest > 0 {
            return Ok(std::mem::take(&mut self.truncated_rest));
        }
        if let BodyDecoder::Failed(failure) = self.body {
            return Err(failure.error());
        }
        let decoded = self.body.decode(&mut self.input, &bounds.limits, &mut self.trailers);
        let count = decoded
            .map_err(|error| ExchangeError::with_detail(error, self.input.unread(), &bounds.limits))?;
        if count == 0 {
            self.is_mended |= self.body.end_chunks();
        }
        Ok(count)
    }

    /// Reads once: a body of known length straight into `content`, anything else into the input.
    fn poll_more<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        bounds: &Bounds,
        content: Option<&mut Arena>,
    ) -> Poll<Result<(), ExchangeError>> {
        if self.expectation == Expectation::Continue {
            conn.write_buffer().bytes().extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.expectation = Expectation::None;
        }
        match poll_flush(cx, conn, bounds) {
            Poll::Pending if L::FLUSHES_BEFORE_READ => {
                // Meanwhile, the time of the body does not run. But a peer may read nothing before all of its body was read.
                self.end_wait(conn);
                return match ready!(self.poll_read_ahead(cx, conn)) {
                    Ok(0) => Poll::Ready(Err(ExchangeError::Incomplete)),
                    Ok(_) => Poll::Ready(Ok(())),
                    Err(error) => Poll::Ready(Err(self.rate.error(error, &bounds.timeouts))),
                };
            }
            // A server that reads no more may have answered before. The sending side reports the error, and the
            // response is still read.
            Poll::Ready(Err(ExchangeError::Io(_))) if !L::FLUSHES_BEFORE_READ => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending | Poll::Ready(Ok(())) => {}
        }
        // However fast it arrives, a body does not hold memory for ever for which others wait.
        let is_contended = self.memory.len() > 0 && bounds.memory.is_contended();
        if is_contended && self.rate.waited() > bounds.timeouts.body {
            return Poll::Ready(Err(ExchangeError::TimedOut(Phase::Body, bounds.timeouts.body.into())));
        }
        let read = ready!(self.poll_read(cx, conn, bounds, content));
        let received = self.body.cut_as_end(read);
        let unfinished = |error| self.body.unfinished_error(error, self.input.unread(), &bounds.limits);
        match received.map_err(|error| unfinished(self.rate.error(error, &bounds.timeouts)))? {
            0 if self.body == BodyDecoder::UntilClose => {
                self.body = BodyDecoder::Done;
                Poll::Ready(Ok(()))
            }
            0 => Poll::Ready(Err(unfinished(ExchangeError::Incomplete))),
            count => {
                conn.disarm(TimerSlot::Read);
                if self.body == BodyDecoder::Length(0) {
                    self.body = BodyDecoder::Done;
                }
                self.rate.record(count, || conn.now(), &bounds.timeouts);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Reads once for the body, as long as its rate allows.
    fn poll_read<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        bounds: &Bounds,
        mut content: Option<&mut Arena>,
    ) -> Poll<Result<usize, ConnError>> {
        let timeouts = &bounds.timeouts;
        loop {
            let time_left = self.rate.time_left(timeouts);
            let limit = if self.memory.len() > 0 { time_left.min(STILL_MAX) } else { time_left };
            let received = match (&mut self.body, content.as_deref_mut()) {
                (BodyDecoder::Length(left), Some(content)) => {
                    poll_content(cx, conn, limit, left, content, &mut self.input)
                }
                (_, content) => {
                    let (memory, input) = (&bounds.memory, &mut self.input);
                    self.large_input.poll_fill(cx, conn, limit, memory, input, content.is_some())
                }
            };
            match received {
                Poll::Pending => {
                    self.rate.wait(conn.now(), timeouts)?;
                    return Poll::Pending;
                }
                // The next round begins another wait.
                Poll::Ready(Err(ConnError::TimedOut)) if self.rate.end_abandoned(conn.now(), timeouts) => {
                    conn.disarm(TimerSlot::Read);
                }
                Poll::Ready(Err(ConnError::TimedOut)) if limit < time_left => {
                    self.rate.end_wait(conn.now());
                    conn.disarm(TimerSlot::Read);
                    check_uncontended(bounds)?;
                }
                received => return received,
            }
        }
    }

    /// Forgets the message, but not the input after it.
    pub(crate) fn forget_message(&mut self) {
        self.consume_piece();
        let Incoming {
            input: _,
            trailers,
            expectation,
            body,
            piece_len: _,
            truncated_rest,
            taken,
            is_mended,
            head_search,
            rate,
            memory,
            large_input: _,
        } = self;
        trailers.clear();
        *expectation = Expectation::None;
        *body = BodyDecoder::Done;
        *truncated_rest = 0;
        *head_search = EndSearch::default();
        *taken = TakenContent::default();
        *is_mended = false;
        *rate = MinRate::default();
        memory.renew();
    }
}

/// Fails if others wait for memory.
fn check_uncontended(bounds: &Bounds) -> Result<(), ConnError> {
    if bounds.memory.is_contended() { Err(ConnError::TimedOut) } else { Ok(()) }
}

impl Reset for Incoming {
    fn reset(&mut self) {
        self.drop_input();
        self.large_input.clear();
        self.forget_message();
    }

    fn shrink(&mut self) -> usize {
        self.memory.clear();
        let kept = self.input.shrink() + self.trailers.shrink();
        self.large_input.follow(&self.input);
        kept
    }
}
