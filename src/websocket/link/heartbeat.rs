//! [`Heartbeat`]: pings that wait for their pongs, and a pong that is owed (RFC 6455 §5.5.2, §5.5.3).

use std::time::Duration;

use crate::runtime::{Instant, now};

/// Pings that wait for their pongs, and a pong that is owed.
#[derive(Default)]
pub(crate) struct Heartbeat {
    /// Whether a ping was sent because the peer was silent, and nothing has come since.
    is_silent: bool,
    /// How many pings were sent that no pong has come for, and when the first of them was.
    unanswered: u32,
    oldest_at: Option<Instant>,
    /// How long a ping has taken, in microseconds.
    round_trip: Option<u32>,
    /// A pong that waits until the peer reads. A newer one takes its place (§5.5.3).
    pub(super) late_pong: Option<Box<[u8]>>,
}

impl Heartbeat {
    /// Notes that a ping was sent.
    pub(super) fn note_ping(&mut self) {
        self.unanswered = self.unanswered.saturating_add(1);
        self.oldest_at.get_or_insert_with(now);
    }

    /// Whether a pong may be the answer to a ping, of which there is one fewer then.
    pub(crate) fn admit_pong(&mut self) -> bool {
        let left = self.unanswered.checked_sub(1);
        self.unanswered = left.unwrap_or(0);
        if let Some(at) = self.oldest_at.take() {
            self.round_trip = Some(u32::try_from(at.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
        left.is_some()
    }

    /// Notes that the peer is silent, for which it is sent a ping.
    pub(super) fn begin_silence(&mut self) {
        self.is_silent = true;
    }

    /// Notes that the peer has sent or taken something.
    pub(super) fn end_silence(&mut self) {
        self.is_silent = false;
    }

    /// Whether a ping was sent because the peer was silent, and nothing has come since.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// How long a ping has taken, up to its pong.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.map(|micros| Duration::from_micros(micros.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use Frame::{Ping, Pong};

    #[derive(Clone, Copy, Debug)]
    enum Frame {
        /// A ping that is sent.
        Ping,
        /// A pong that is received.
        Pong,
    }

    /// Of the pongs among these frames, so many may be answers. A pong after a ping has a round trip.
    #[track_caller]
    fn check(frames: &[Frame], expected: usize) {
        let mut heartbeat = Heartbeat::default();
        let mut answers = 0;
        for frame in frames {
            match frame {
                Ping => heartbeat.note_ping(),
                Pong => answers += usize::from(heartbeat.admit_pong()),
            }
        }
        assert_eq!(answers, expected, "{frames:?}");
        assert_eq!(heartbeat.round_trip().is_some(), expected > 0, "{frames:?}");
    }

    #[test]
    fn a_pong_without_a_ping_is_no_answer_rfc6455_5_5_3() {
        check(&[], 0);
        check(&[Pong], 0);
        check(&[Ping], 0);
        check(&[Ping, Pong], 1);
        check(&[Pong, Ping, Pong], 1);
        check(&[Ping, Pong, Pong], 1);
        check(&[Ping, Ping, Pong, Pong, Pong], 2);
        check(&[Ping, Pong, Ping, Pong], 2);
    }
}
