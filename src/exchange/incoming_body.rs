//! [`BodyDecoder`], [`MinRate`], [`LargeInput`]: the content of a body in its framing (RFC 9112 §6), its rate, and the memory
//! of its reads.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::body_failure::BodyFailure;
use super::{ExchangeError, Phase, Timeouts, cut_as_end};
use crate::error_text::TimeLimit;
use crate::memory::{Arena, clear_cold};
use crate::message::Headers;
use crate::net::{Conn, ConnError, Locality, READ_KEPT_MAX, READ_UNCOUNTED_MAX, ReadBuffer, millis};
use crate::runtime::{MemoryBudget, MemoryShare};
use crate::wire::chunked::ChunkedDecoder;
use crate::wire::parse::{ForbiddenTrailers, Leniency};
use crate::wire::{Framing, Limits, WireError};

/// The decoder of a body: its framing, and how much of it is still to be received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BodyDecoder {
    /// All of the body has been received.
    #[default]
    Done,
    /// So many bytes, at least one.
    Length(u64),
    /// Chunks, up to the last one and its trailers.
    Chunked(ChunkedDecoder),
    /// Everything until the peer closes.
    UntilClose,
    /// No more of the body is received.
    Failed(BodyFailure),
}

impl BodyDecoder {
    /// Takes a cut for an end, unless the content itself lasts until the end (RFC 9112 §9.8).
    pub(super) fn cut_as_end(&self, read: Result<usize, ConnError>) -> Result<usize, ConnError> {
        if *self == BodyDecoder::UntilClose { read } else { cut_as_end(read) }
    }

    pub(super) fn new(framing: Framing, forbidden: ForbiddenTrailers, leniency: Leniency) -> BodyDecoder {
        match framing {
            Framing::Empty | Framing::Length(0) => BodyDecoder::Done,
            Framing::Length(length) => BodyDecoder::Length(length),
            Framing::Chunked => BodyDecoder::Chunked(ChunkedDecoder::new(forbidden, leniency)),
            Framing::UntilClose => BodyDecoder::UntilClose,
        }
    }

    /// Finds the next piece of the body at the front of `input`, consumes the framing before it, and returns its
    /// length. 0 means that more input is needed, or that the body has ended. After the last chunk,
    /// [`BodyDecoder::end_chunks`] is due.
    pub(super) fn decode(
        &mut self,
        input: &mut ReadBuffer,
        limits: &Limits,
        trailers: &mut Headers,
    ) -> Result<usize, WireError> {
        match self {
            BodyDecoder::Failed(_) => unreachable!("nothing is decoded after a failure"),
            BodyDecoder::Done => Ok(0),
            BodyDecoder::Length(left) => {
                debug_assert!(*left > 0, "a body of which nothing remains is done");
                let data = usize::try_from(*left).unwrap_or(usize::MAX).min(input.unread().len());
                *left -= data as u64;
                if *left == 0 {
                    *self = BodyDecoder::Done;
                }
                Ok(data)
            }
            BodyDecoder::UntilClose => Ok(input.unread().len()),
            BodyDecoder::Chunked(decoder) => {
                let decoded = decoder.decode(input.unread(), limits, trailers)?;
                input.consume(decoded.framing);
                Ok(decoded.data)
            }
        }
    }

    /// The error if no more of a body comes. If `text` has trailers yet to parse, it is that of these, or else `error`.
    pub(super) fn unfinished_error(
        &self,
        error: ExchangeError,
        text: &[u8],
        limits: &Limits,
    ) -> ExchangeError {
        let (ExchangeError::Incomplete | ExchangeError::TimedOut(..)) = error else { return error };
        let BodyDecoder::Chunked(decoder) = self else { return error };
        match decoder.check_unfinished(text, limits) {
            Err(wire_error) => ExchangeError::with_detail(wire_error, text, limits),
            Ok(()) => error,
        }
    }

    /// Ends a body in chunks, if the last one has been decoded. Returns whether a fault of them was overlooked.
    pub(super) fn end_chunks(&mut self) -> bool {
        match *self {
            BodyDecoder::Chunked(decoder) if decoder.is_done() => {
                *self = BodyDecoder::Done;
                decoder.is_mended()
            }
            BodyDecoder::Chunked(_)
            | BodyDecoder::Done
            | BodyDecoder::Length(_)
            | BodyDecoder::UntilClose
            | BodyDecoder::Failed(_) => false,
        }
    }
}

/// Reads a body of which `left` bytes remain. The memory grows with what has arrived, and not beyond what will.
pub(super) fn poll_content<L: Locality>(
    cx: &mut Context<'_>,
    conn: &mut Conn<L>,
    limit: Duration,
    left: &mut u64,
    content: &mut Arena,
    input: &mut ReadBuffer,
) -> Poll<Result<usize, ConnError>> {
    let left_here = usize::try_from(*left).unwrap_or(usize::MAX);
    // Room beyond the body spares a system call: a read that fills its room leaves open whether there is more.
    let most = left_here.saturating_add(READ_BEYOND);
    let room = content.spare_within(content.len().clamp(READ_MIN, READ_MAX), most);
    let room_len = room.len().min(most);
    let count = ready!(conn.poll_read(cx, &mut room[..room_len], limit))?;
    let of_body = count.min(left_here);
    content.commit(of_body);
    input.append(&content.spare(0)[..count - of_body]);
    *left -= of_body as u64;
    Poll::Ready(Ok(count))
}

/// Content that is no longer in the input.
#[derive(Default)]
pub(crate) struct TakenContent {
    /// Whether the reader has had any.
    pub(super) by_reader: bool,
    /// Whether a reader has claimed the body, until its end: it takes content ahead, which all others would miss.
    pub(crate) is_claimed: bool,
    /// How many bytes were drained or discarded.
    pub(super) discarded: usize,
}

/// The part of the peers' memory that an input has, while it is large.
#[derive(Default)]
pub(crate) struct LargeInput {
    share: MemoryShare,
    /// The budget of the share, if it is not that of the connection.
    budget: Option<MemoryBudget>,
}

impl LargeInput {
    /// Prepares `input`, which is to read much, to read for a head. A large read takes memory for a copy of the head as well.
    /// While there is not plenty of it, the read is a smaller one.
    #[cold]
    pub(crate) fn prepare_head(&mut self, budget: &MemoryBudget, input: &mut ReadBuffer) {
        while input.reads_much() && !try_take(&mut self.share, budget, 2 * READ_KEPT_MAX) {
            input.read_less();
        }
    }

    /// For a head of which length there is memory.
    pub(super) fn head_len(&self) -> usize {
        self.share.len() / 2
    }

    /// Has the memory for bodies taken from `budget`, up to the end of this one: a server's that passes it on.
    pub(crate) fn set_budget(&mut self, budget: MemoryBudget) {
        self.budget = Some(budget);
    }

    /// Reads once into `input`, for a body. A large read takes memory. The input of a streamed body takes any beyond that of
    /// each connection, since it may wait for long. If there is none, the read is a smaller one.
    pub(super) fn poll_fill<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        limit: Duration,
        budget: &MemoryBudget,
        input: &mut ReadBuffer,
        is_buffered: bool,
    ) -> Poll<Result<usize, ConnError>> {
        let budget = self.budget.as_ref().unwrap_or(budget);
        while input.reads_much()
            && !(is_buffered && input.read_max() <= READ_KEPT_MAX)
            && !try_take(&mut self.share, budget, input.read_max())
        {
            input.read_less();
        }
        let filled = conn.poll_fill_body(cx, input, limit);
        self.follow(input);
        filled
    }

    /// Leaves the memory to the other connections of the thread.
    pub(super) fn give_back(&mut self, input: &mut ReadBuffer) {
        input.return_large();
        self.follow(input);
    }

    /// Gives back what the input has no longer.
    #[inline]
    pub(super) fn follow(&mut self, input: &ReadBuffer) {
        if self.share.len() > 0 && !input.is_large() {
            self.share.shrink_to(input.large_len());
        }
    }

    /// Gives the share back, for an input that has no large content, or no connection. It is trimmed within a second.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.share.len() > 0 {
            self.share.clear();
        }
        clear_cold(&mut self.budget);
    }
}

/// Takes memory for `share`, if there is plenty. It is a small part, since the body may wait for a large one beside it.
fn try_take(share: &mut MemoryShare, budget: &MemoryBudget, len: usize) -> bool {
    let is_free = || budget.is_plentiful() && len <= budget.share_max() / 8;
    share.len() >= len || is_free() && share.try_grow_to(budget, len)
}

pub(super) const READ_MIN: usize = 16 << 10;
/// A head or content up to this length reserves no memory: the buffer of a read is as large.
pub(super) const UNRESERVED_MAX: usize = READ_UNCOUNTED_MAX;
const READ_MAX: usize = 256 << 10;
/// Room for the head of another message.
const READ_BEYOND: usize = 1 << 10;

/// Whether a body arrives at the required rate ([`Timeouts::body_rate_min`]). Without a rate, a peer that sends a byte now
/// and then would never exceed a timeout, and keep a connection forever (a slow POST).
///
/// The rate is an average over the whole body, but a lead counts for no longer than the grace. So a peer cannot send much
/// at once and then stop, and no list of arrivals is kept.
///
/// All times are in milliseconds.
#[derive(Default)]
pub(super) struct MinRate {
    /// How many bytes have arrived since the head, or with it. Capped, so that a burst counts for no longer than
    /// `body_grace`.
    received: u64,
    /// How long the body was waited for in all, and how much of that since its last byte.
    waited: u64,
    silent: u64,
    wait: Option<ReadWait>,
    /// How long the body had been waited for when it was found to be too slow. `None` if it is fast enough.
    slow_since: Option<u64>,
}

/// A wait for the next byte.
#[derive(Clone, Copy)]
struct ReadWait {
    since: u64,
    /// When it was polled last.
    polled: u64,
}

impl MinRate {
    /// Begins a body of which so many bytes arrived with the head.
    #[inline]
    pub(super) fn begin(&mut self, received: usize) {
        debug_assert!(self.wait.is_none(), "no wait is left of the body before");
        self.received = received as u64;
    }

    /// Counts bytes that arrived while something else was waited for.
    pub(super) fn count(&mut self, count: usize) {
        self.received += count as u64;
    }

    /// Begins a wait, unless a wait goes on already.
    ///
    /// # Errors
    ///
    /// Fails if the body is too slow, and the rest of it did not follow at once. Bytes that complete a message must not be
    /// refused because they arrived in two packets.
    pub(super) fn wait(&mut self, now: u64, timeouts: &Timeouts) -> Result<(), ConnError> {
        if self.wait.is_none() {
            self.cap_lead(timeouts);
        }
        let wait = self.wait.get_or_insert(ReadWait { since: now, polled: now });
        wait.polled = now;
        let waited = self.waited + now.saturating_sub(wait.since);
        match self.slow_since {
            Some(since) if waited - since >= PACKET_GAP_MAX => Err(ConnError::TimedOut),
            _ => Ok(()),
        }
    }

    /// For how long the body was waited for, without a wait that goes on.
    pub(super) fn waited(&self) -> Duration {
        Duration::from_millis(self.waited)
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// Ends a wait that the reader gave up: the time until the reader waits again does not count.
    pub(super) fn end_wait(&mut self, now: u64) {
        let time = self.wait.take().map_or(0, |wait| now.saturating_sub(wait.since));
        self.waited += time;
        self.silent += time;
    }

    /// Ends a wait that the reader gave up without notice, as a future of `AsyncRead` is dropped: the time of such a wait was
    /// over long ago, and it was not polled then. Returns whether the wait was abandoned.
    pub(super) fn end_abandoned(&mut self, now: u64, timeouts: &Timeouts) -> bool {
        let Some(ReadWait { since, polled }) = self.wait else { return false };
        let over = since.saturating_add(millis(self.time_left(timeouts)));
        let is_abandoned = now > over.saturating_add(LATE_MAX);
        if is_abandoned {
            self.end_wait(polled);
        }
        is_abandoned
    }

    /// How long the next byte may still be waited for.
    pub(super) fn time_left(&self, timeouts: &Timeouts) -> Duration {
        let time_left = timeouts.body.saturating_sub(Duration::from_millis(self.silent));
        match self.slow_since {
            None => time_left,
            Some(since) => {
                time_left.min(Duration::from_millis(PACKET_GAP_MAX.saturating_sub(self.waited - since)))
            }
        }
    }

    /// The error of a body whose connection failed with `error`, with the limit that was reached.
    #[cold]
    pub(super) fn error(&self, error: ConnError, timeouts: &Timeouts) -> ExchangeError {
        match (error, self.slow_since) {
            (ConnError::TimedOut, Some(_)) => {
                ExchangeError::TimedOut(Phase::Body, TimeLimit::from_bytes_per_second(timeouts.body_rate_min))
            }
            // The time of the body itself ends within a wait.
            (ConnError::TimedOut, None) if self.wait.is_none() => {
                ExchangeError::TimedOut(Phase::Body, STILL_MAX.into())
            }
            (error, _) => ExchangeError::during(Phase::Body, timeouts.body)(error),
        }
    }

    /// Counts bytes that have arrived, and ends the wait for them, if there was one.
    pub(super) fn record(&mut self, count: usize, now: impl FnOnce() -> u64, timeouts: &Timeouts) {
        self.received += count as u64;
        if self.wait.is_some() {
            let now = now();
            if !self.end_abandoned(now, timeouts) {
                self.end_wait(now);
            }
        }
        self.silent = 0;
        let since = self.slow_since.unwrap_or(self.waited);
        self.slow_since = self.is_slow(timeouts).then_some(since);
    }

    /// Forgets most of a large lead. A body of which megabytes came at once could otherwise stop for hours.
    fn cap_lead(&mut self, timeouts: &Timeouts) {
        let until = u128::from(self.waited).saturating_add(timeouts.body_grace.as_millis());
        let needed = u128::from(timeouts.body_rate_min).saturating_mul(until) / 1000;
        if timeouts.body_rate_min > 0 {
            self.received = self.received.min(u64::try_from(needed).unwrap_or(u64::MAX));
        }
    }

    fn is_slow(&self, timeouts: &Timeouts) -> bool {
        let waited = u128::from(self.waited);
        waited > timeouts.body_grace.as_millis()
            && u128::from(self.received) < u128::from(timeouts.body_rate_min) * waited / 1000
    }
}

/// How long a body with memory may stand still while others wait for some.
pub(super) const STILL_MAX: Duration = Duration::from_secs(5);

/// How many milliseconds the rest of a body that is too slow may take: as many as a sender may hold back the second of two
/// packets (RFC 9293 §3.8.6.3).
const PACKET_GAP_MAX: u64 = 250;

/// How many milliseconds late a task that waits for a timer is polled at most.
const LATE_MAX: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A body that arrives in these pieces is fast enough as `expected`, if 100 bytes a second are demanded after a grace of
    /// 2 seconds, and 5 bytes arrived with the head. A piece is the milliseconds without a wait, the milliseconds in which
    /// the handler waits, and the bytes that arrive then. The body is not complete after the last piece.
    #[track_caller]
    fn check(pieces: &[(u64, u64, usize)], expected: bool) {
        let timeouts =
            Timeouts { body_grace: Duration::from_secs(2), body_rate_min: 100, ..Timeouts::default() };
        let mut rate = MinRate::default();
        let mut now = 0;
        rate.begin(5);
        let is_fast = pieces.iter().chain(&[(0, PACKET_GAP_MAX, 0)]).all(|(unwanted, waited, count)| {
            now += unwanted;
            let begun = rate.wait(now, &timeouts);
            now += waited;
            // To poll again meanwhile does not begin another wait.
            let waits = begun.and_then(|()| rate.wait(now, &timeouts));
            rate.record(*count, || now, &timeouts);
            waits.is_ok()
        });
        assert_eq!(is_fast, expected, "{pieces:?}");
    }

    #[test]
    fn after_the_grace_a_body_is_timed_only_while_it_is_waited_for() {
        check(&[(0, 2000, 1)], true);
        check(&[(0, 1000, 1), (0, 1000, 1)], true);
        check(&[(0, 3000, 295)], true);
        check(&[(60_000, 1000, 1), (60_000, 1000, 1)], true);
        check(&[(0, 0, 195), (0, 3_900, 190)], true);
        check(&[(0, 2010, 1)], false);
        check(&[(0, 3000, 294)], false);
        check(&[(0, 1000, 1), (0, 1000, 1), (0, 1000, 1)], false);
        check(&[(0, 0, 995), (0, 20_000, 1)], false);
    }

    /// The first octets of a body are cheap for a peer that means to hold the buffer of all of them.
    #[test]
    fn a_lead_counts_for_no_longer_than_the_grace() {
        let lead = (0, 0, 4 << 20);
        check(&[lead, (0, 2000, 1)], true);
        check(&[lead, (0, 2010, 1)], true);
        check(&[lead, (0, 2030, 1)], false);
        check(&[lead, (0, 20_000, 1)], false);
        check(&[(0, 1000, 4 << 20), (0, 2000, 1)], true);
        check(&[(0, 1000, 4 << 20), (0, 2030, 1)], false);
        check(&[lead, (0, 1000, 1), (0, 1000, 1), (0, 1000, 1)], false);
        // A peer that pauses for longer goes on as fast as the pause was long.
        check(&[lead, (0, 20_000, 1800)], true);
        check(&[lead, (0, 20_000, 1799)], false);
        // The last seconds decide, with no regard to the time before them.
        let steady = [(0, 1000, 100)].repeat(60);
        check(&steady, true);
        check(&[&steady[..], &[lead, (60_000, 2000, 1)]].concat(), true);
        check(&[&steady[..], &[lead, (60_000, 2030, 1)]].concat(), false);
    }

    #[test]
    fn without_a_rate_nothing_is_forgotten() {
        let mut timeouts = Timeouts { body_rate_min: 0, ..Timeouts::default() };
        let mut rate = MinRate::default();
        rate.begin(10_000);
        assert!(rate.wait(0, &timeouts).is_ok());
        timeouts.body_rate_min = u64::MAX;
        timeouts.body_grace = Duration::MAX;
        rate.record(0, || 60_000, &timeouts);
        assert!(rate.wait(60_000, &timeouts).is_ok());
        assert_eq!((rate.received, rate.slow_since), (10_000, None));
    }

    #[test]
    fn a_slow_body_has_time_for_the_packet_that_follows() {
        check(&[(0, 3000, 1), (0, PACKET_GAP_MAX - 1, 400)], true);
        check(&[(0, 3000, 1), (9000, PACKET_GAP_MAX - 1, 400)], true);
        check(&[(0, 3000, 1), (0, PACKET_GAP_MAX, 400)], false);
        // That time is not renewed.
        check(&[(0, 3000, 1), (0, PACKET_GAP_MAX / 2, 1), (0, PACKET_GAP_MAX / 2, 400)], false);
    }

    #[test]
    fn a_wait_that_was_given_up_ends_when_it_was_polled_last() {
        let timeouts = Timeouts::default();
        let mut rate = MinRate::default();
        let body = millis(timeouts.body);
        for polled in [0, 1000] {
            assert!(rate.wait(polled, &timeouts).is_ok());
        }
        assert!(!rate.end_abandoned(body + LATE_MAX, &timeouts), "it may have been polled late");
        assert!(rate.end_abandoned(body + LATE_MAX + 1, &timeouts));
        assert_eq!(rate.time_left(&timeouts), timeouts.body - Duration::from_secs(1));
    }
}
