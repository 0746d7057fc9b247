//! [`join`]: passes bytes between two connections that were upgraded to WebSocket (RFC 9110 §7.8, RFC 6455).

use std::future::poll_fn;
use std::pin::pin;
use std::task::{self, Poll, ready};
use std::time::Duration;

use crate::exchange::{ExchangeError, Phase};
use crate::net::{Conn, ConnError, Locality, ReadBuffer};
use crate::runtime;
use crate::wire::FrameStart;

/// Passes bytes in both directions, until both have ended. Once one of them has, the other has no longer than `linger`.
/// A connection that fails ends its two directions one by one, since a peer that has closed takes nothing more, but its
/// last frames may be here. A peer that takes nothing for as long as its end allows ends both. Once it is `stopping`, the
/// front is sent a close frame of 1001.
///
/// A server behind that still sends to a peer that has left would notice by its writes without this tunnel. So it only has
/// the time to read the last frames of that peer, such as a close frame.
///
/// Fails as the WebSocket of a handler does, if the peer in front leaves without a close frame, or takes nothing.
pub(super) async fn join<A: Locality, B: Locality>(
    front: End<A>,
    behind: End<B>,
    linger: Duration,
    stopping: impl Future<Output = ()>,
) -> Result<(), ExchangeError> {
    let (inward, outward) = (Direction::default(), Direction::default());
    let mut tunnel = Tunnel { front, behind, inward, outward, cut: None };
    let mut stopping = pin!(stopping);
    let mut poll_until = |cx: &mut task::Context<'_>, is_over: fn([Step; 2]) -> bool| {
        if !tunnel.outward.closes && stopping.as_mut().poll(cx).is_ready() {
            tunnel.outward.closes = true;
        }
        match tunnel.poll(cx) {
            Ok(steps) if !is_over(steps) => Poll::Pending,
            steps => Poll::Ready(steps.map(drop)),
        }
    };
    let one = poll_fn(|cx| poll_until(cx, |steps| steps.into_iter().any(Step::passes_nothing)));
    if one.await.is_ok() {
        let has_front_left = |[inward, outward]: [Step; 2]| inward == Step::Over && outward.passes_nothing();
        let left = poll_fn(|cx| poll_until(cx, has_front_left));
        if let Ok(Ok(())) = runtime::timeout(linger, left).await {
            let both = poll_fn(|cx| poll_until(cx, |steps| steps == [Step::Over; 2]));
            let _ = runtime::timeout(linger.min(LAST_FRAMES_MAX), both).await;
        }
    }
    tunnel.cut.map_or(Ok(()), Err)
}

/// How long a server behind may read the last frames of a peer that has left, while it still sends.
const LAST_FRAMES_MAX: Duration = Duration::from_millis(500);

/// Two connections that are joined.
struct Tunnel<A: Locality, B: Locality> {
    front: End<A>,
    behind: End<B>,
    inward: Direction,
    outward: Direction,
    /// How the peer in front has cut the exchange.
    cut: Option<ExchangeError>,
}

impl<A: Locality, B: Locality> Tunnel<A, B> {
    /// Passes on what is here. Fails if one of the two takes nothing for too long.
    fn poll(&mut self, cx: &mut task::Context<'_>) -> Result<[Step; 2], ConnError> {
        let Tunnel { front, behind, inward, outward, cut } = self;
        let inward_step = inward.poll(cx, front, behind)?;
        let ends_first = matches!(inward_step, Step::Ending | Step::Over) && outward.step == Step::Open;
        let outward_step = outward.poll(cx, behind, front).inspect_err(|_| {
            *cut = Some(ExchangeError::TimedOut(Phase::Write, front.write_limit.into()));
        })?;
        let has_close = inward.frames.has_closed || outward.frames.has_closed;
        if !has_close && (ends_first || outward_step == Step::Lingering) {
            *cut = Some(ExchangeError::NoCloseFrame);
        }
        Ok([inward_step, outward_step])
    }
}

/// One of the two connections.
pub(super) struct End<L: Locality> {
    conn: Conn<L>,
    /// The bytes that had arrived already.
    early: ReadBuffer,
    /// How long the peer may take nothing of what is written to it.
    write_limit: Duration,
}

impl<L: Locality> End<L> {
    pub(super) fn new(mut conn: Conn<L>, early: ReadBuffer, write_limit: Duration) -> End<L> {
        // The waits of the exchange are over.
        conn.disarm_all();
        End { conn, early, write_limit }
    }

    /// Reads once into `room`. Returns 0 at the end. The peer may be silent for ever.
    fn poll_read(&mut self, cx: &mut task::Context<'_>, room: &mut [u8]) -> Poll<Result<usize, ConnError>> {
        if self.early.is_empty() {
            return self.conn.poll_read(cx, room, Duration::MAX);
        }
        let count = self.early.hand_out(room.len(), |bytes| room[..bytes.len()].copy_from_slice(bytes));
        Poll::Ready(Ok(count))
    }

    /// Writes `bytes` as far as the peer takes them at once, and keeps the rest.
    fn write(&mut self, cx: &mut task::Context<'_>, bytes: &[u8]) -> Result<(), ConnError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let written = match self.conn.poll_send(cx, bytes, self.write_limit) {
            Poll::Ready(written) => self.checked(written)?,
            Poll::Pending => 0,
        };
        self.conn.write_buffer().bytes().extend_from_slice(&bytes[written..]);
        Ok(())
    }

    /// Writes all that waits, and what TLS has held back.
    fn poll_flush(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), ConnError>> {
        let flushed = ready!(self.conn.poll_flush(cx, self.write_limit));
        self.checked(flushed)?;
        // A tunnel may stay for days.
        *self.conn.write_buffer().bytes() = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// Whether the peer has yet to take bytes that were kept.
    fn has_waiting(&mut self) -> bool {
        !self.conn.write_buffer().is_empty()
    }

    /// Writes all that waits, and closes the sending half.
    fn poll_finish(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), ConnError>> {
        ready!(self.poll_flush(cx))?;
        let shut = ready!(self.conn.poll_shutdown(cx, self.write_limit));
        Poll::Ready(self.checked(shut))
    }

    /// Reads and drops what the peer still sends, until it closes: a close before that would be a reset, which could take
    /// away what was written to it last.
    fn poll_linger(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), ConnError>> {
        self.conn.poll_linger(cx, Duration::MAX, Duration::MAX)
    }

    /// Has the system forget what it still holds for a peer that takes nothing.
    fn checked<T>(&self, written: Result<T, ConnError>) -> Result<T, ConnError> {
        written.inspect_err(|error| {
            if matches!(error, ConnError::TimedOut) {
                self.conn.transport.reset();
            }
        })
    }
}

/// Bytes in one direction. Only those that the receiver does not take at once are kept.
#[derive(Default)]
struct Direction {
    step: Step,
    frames: FrameScanner,
    /// Whether a close frame is sent in front of the next frame, and the rest is discarded.
    closes: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Open,
    /// The sender has ended.
    Ending,
    /// The receiver takes nothing more.
    Lingering,
    Over,
}

impl Step {
    fn passes_nothing(self) -> bool {
        matches!(self, Step::Lingering | Step::Over)
    }
}

impl Direction {
    /// Passes on what is here. Fails if the receiver takes nothing for too long.
    fn poll<A: Locality, B: Locality>(
        &mut self,
        cx: &mut task::Context<'_>,
        from: &mut End<A>,
        to: &mut End<B>,
    ) -> Result<Step, ConnError> {
        while self.step != Step::Over {
            let polled = match self.step {
                Step::Open => self.poll_pass(cx, from, to),
                Step::Ending => to.poll_finish(cx),
                Step::Lingering | Step::Over => from.poll_linger(cx),
            };
            let Poll::Ready(ended) = polled else { break };
            self.step = match (self.step, ended) {
                (_, Err(ConnError::TimedOut)) => return Err(ConnError::TimedOut),
                (Step::Open, Ok(())) => Step::Ending,
                (Step::Open, Err(ConnError::Io(_))) => Step::Lingering,
                (Step::Ending | Step::Lingering | Step::Over, _) => Step::Over,
            };
        }
        Ok(self.step)
    }

    /// Ready when the sender has ended, or with the error of a write to the receiver.
    fn poll_pass<A: Locality, B: Locality>(
        &mut self,
        cx: &mut task::Context<'_>,
        from: &mut End<A>,
        to: &mut End<B>,
    ) -> Poll<Result<(), ConnError>> {
        loop {
            if self.closes && self.frames.is_between() && !self.frames.has_closed {
                self.frames.has_closed = true;
                to.write(cx, &CLOSE_AWAY)?;
            }
            if to.has_waiting() {
                ready!(to.poll_flush(cx))?;
            }
            let mut room = [0; READ_SIZE];
            match from.poll_read(cx, &mut room) {
                // TLS may hold back the end of what was written.
                Poll::Pending => {
                    ready!(to.poll_flush(cx))?;
                    return Poll::Pending;
                }
                // A sender that closes while bytes come to it resets the connection. Whether all frames are here is said by
                // the close frame (RFC 6455 §7.1.5).
                Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(count)) => {
                    let passed = self.frames.scan(&room[..count], self.closes);
                    to.write(cx, &room[..passed])?;
                }
            }
        }
    }
}

/// Where the frames of WebSocket end, in bytes that pass through (RFC 6455 §5.2).
#[derive(Default)]
struct FrameScanner {
    /// The first octets of a frame, until its length is here.
    start: [u8; FrameStart::LEN_MAX],
    start_len: usize,
    /// How much of a frame is to come after its length: the mask and the payload.
    left: u64,
    /// Whether a close frame has begun, after which there are no others.
    has_closed: bool,
}

impl FrameScanner {
    fn is_between(&self) -> bool {
        self.start_len == 0 && self.left == 0
    }

    /// Reads on. Returns how many of `bytes` pass: all of them; with `closes`, those up to the end of a frame.
    fn scan(&mut self, bytes: &[u8], closes: bool) -> usize {
        let mut at = 0;
        while at < bytes.len() && !(closes && self.is_between()) {
            if self.left > 0 {
                let count = self.left.min((bytes.len() - at) as u64);
                self.left -= count;
                at += count as usize;
                continue;
            }
            self.start[self.start_len] = bytes[at];
            self.start_len += 1;
            at += 1;
            self.read_start();
        }
        at
    }

    /// Reads the start of a frame, if all of it is here.
    fn read_start(&mut self) {
        let Some((frame, _)) = FrameStart::parse(&self.start[..self.start_len]) else { return };
        let mask_len = if frame.is_masked { 4 } else { 0 };
        self.has_closed |= frame.opcode == FrameStart::CLOSE;
        self.start_len = 0;
        self.left = frame.payload_len.saturating_add(mask_len);
    }
}

/// A close frame of a server with the code 1001, "going away" (§5.5.1, §7.4.1).
const CLOSE_AWAY: [u8; 4] = [0x88, 2, 0x03, 0xe9];

/// How much is read at once, into the stack.
const READ_SIZE: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// The close frame comes after the first frame of `sent`, however that is cut, and nothing comes after it.
    #[track_caller]
    fn check(sent: &[u8], first: usize) {
        for cut in 0..=sent.len() {
            for stop in 0..=cut.min(first) {
                let mut frames = FrameScanner::default();
                let before = frames.scan(&sent[..stop], false);
                let passed = [&sent[stop..cut], &sent[cut..]].map(|bytes| frames.scan(bytes, true));
                let expected = if stop == 0 { 0 } else { first };
                assert_eq!(
                    before + passed[0] + passed[1],
                    expected,
                    "{sent:02x?} cut at {cut}, stopped at {stop}"
                );
                assert!(frames.is_between());
            }
        }
    }

    #[test]
    fn frames_end_behind_their_payload_rfc6455_5_2() {
        check(b"\x82\x00\x82\x01a", 2);
        check(b"\x01\x03abc\x80\x00", 5);
        check(b"\x81\x82maskab\x81\x00", 8);
        check(&[&b"\x82\x7e\x00\x7e"[..], &[0; 126], b"\x82\x00"].concat(), 130);
        check(&[&b"\x82\x7f\x00\x00\x00\x00\x00\x00\x00\x03"[..], b"abc", b"\x82\x00"].concat(), 13);
        let mut frames = FrameScanner::default();
        frames.scan(b"\x88", false);
        assert!(!frames.is_between() && !frames.has_closed);
        frames.scan(b"\x00", false);
        assert!(frames.is_between() && frames.has_closed);
    }
}
