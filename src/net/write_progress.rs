//! [`WriteProgress`]: whether the peer takes what is written.
//!
//! A runtime reports room in a socket's buffer once a third of it is free, for which a slow peer has to read megabytes.
//! The system itself takes more as soon as the peer has acknowledged anything. So the wait has parts, and each of them
//! ends with another write.

use std::time::Duration;

/// Whether the peer takes what is written, as far as that is known when a write has waited for long.
#[derive(Default)]
pub(super) struct WriteProgress {
    wait: Option<Wait>,
    /// How many bytes the peer had taken when the time of a wait was over last.
    taken: u64,
}

/// A wait for the peer to take more.
struct Wait {
    /// When it began, in milliseconds on the clock of the connection.
    since: u64,
    /// Whether its time is over with the part that has begun.
    is_last: bool,
}

impl WriteProgress {
    /// Ends the wait, because the peer has taken something.
    #[inline]
    pub(super) fn end_wait(&mut self) {
        self.wait = None;
    }

    /// Begins the next part of the wait, `now`. Returns how long it may take, of `limit` in all.
    pub(super) fn begin_part(&mut self, now: u64, limit: Duration) -> Duration {
        let wait = self.wait.get_or_insert(Wait { since: now, is_last: false });
        let left = limit.saturating_sub(Duration::from_millis(now.saturating_sub(wait.since)));
        let part = left.min(limit / PARTS);
        wait.is_last = left == part;
        part
    }

    /// Whether a part of a wait has begun.
    pub(super) fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// Whether the wait goes on behind a part in which the peer, which has taken `taken` bytes in all, took nothing. A
    /// peer that has taken much since a limit was reached last has the limit once more: some read a lot at once and pause
    /// then, such as `curl --limit-rate` for up to 100 s.
    pub(super) fn goes_on(&mut self, taken: u64) -> bool {
        if self.wait.as_ref().is_some_and(|wait| !wait.is_last) {
            return true;
        }
        let has_taken_much = taken.saturating_sub(self.taken) >= BURST;
        if has_taken_much {
            (self.wait, self.taken) = (None, taken);
        }
        has_taken_much
    }
}

/// A peer that takes nothing any more is given up at the end of the limit if it has taken nothing since the wait began,
/// and up to a part later otherwise. With more parts, that would be sooner.
const PARTS: u32 = 4;

/// More than a peer that has never read holds in its buffer.
const BURST: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of a wait with this `limit`, in milliseconds, if each is noticed so `late`, and `taken` bytes in all.
    #[track_caller]
    fn check(limit: u64, late: u64, taken: u64, expected: &[u64]) {
        let (mut progress, mut now, mut parts) = (WriteProgress::default(), 7, Vec::new());
        loop {
            let part = progress.begin_part(now, Duration::from_millis(limit)).as_millis() as u64;
            parts.push(part);
            now += part + late;
            if !progress.goes_on(taken) {
                break;
            }
        }
        assert_eq!(parts, expected);
    }

    #[test]
    fn a_wait_ends_with_its_last_part() {
        check(60_000, 0, 0, &[15_000; 4]);
        check(60_000, 500, 0, &[15_000, 15_000, 15_000, 13_500]);
        check(1_000, 300, 0, &[250, 250, 0]);
        check(0, 0, 0, &[0]);
        assert_eq!(WriteProgress::default().begin_part(0, Duration::MAX), Duration::MAX / PARTS);
    }

    #[test]
    fn a_peer_that_has_taken_much_is_granted_the_limit_once_more() {
        check(4_000, 0, BURST - 1, &[1_000; 4]);
        check(4_000, 0, BURST, &[1_000; 8]);
        check(4_000, 0, u64::MAX, &[1_000; 8]);
    }
}
