//! [`Timer`]: the waits of a connection; [`Deadlines`]: when each of them expires.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// The waits of one connection, each with a deadline.
pub(crate) trait Timer {
    /// Ready when the wait in this slot, which began with the first call since [`Timer::disarm`], has taken longer than
    /// `limit`. The task is woken at that time.
    fn poll_expired(&mut self, cx: &mut Context<'_>, slot: TimerSlot, limit: Duration) -> Poll<()>;

    /// The waker of the last poll, if it is not `waker`.
    fn other_waker(&self, waker: &Waker) -> Option<Waker>;

    /// Ends the wait in this slot.
    fn disarm(&mut self, slot: TimerSlot);

    /// Milliseconds since some fixed moment.
    fn now(&self) -> u64;
}

/// The waits that a connection can have at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerSlot {
    Read,
    Write,
    /// The handler of a request, a whole exchange, or the first request that a stop waits for.
    Total,
}

pub(super) const SLOTS: usize = 3;

/// The deadline of each wait of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deadlines([Deadline; SLOTS]);

impl Deadlines {
    /// The deadline of the wait in this slot, set to `deadline` if the wait begins now.
    #[inline]
    pub(super) fn arm(&mut self, slot: TimerSlot, deadline: impl FnOnce() -> Deadline) -> Deadline {
        let armed = &mut self.0[slot as usize];
        if *armed == UNARMED {
            *armed = deadline();
        }
        *armed
    }

    #[inline]
    pub(super) fn disarm(&mut self, slot: TimerSlot) {
        self.0[slot as usize] = UNARMED;
    }

    pub(super) fn get(&self, slot: TimerSlot) -> Deadline {
        self.0[slot as usize]
    }

    /// Returns the earliest deadline after `now`. Earlier ones have expired, and a task may no longer wait for them.
    pub(super) fn next(&self, now: Deadline) -> Deadline {
        self.0.into_iter().filter(|deadline| *deadline > now).min().unwrap_or(UNARMED)
    }
}

/// A moment in milliseconds on the clock of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Deadline(pub(super) u64);

impl Deadline {
    /// The same moment as an instant, on a clock that was zero at `epoch`. `None` means never.
    pub(super) fn on(self, epoch: Instant) -> Option<Instant> {
        epoch.checked_add(Duration::from_millis(self.0)).filter(|_| self < FAR)
    }
}

impl Default for Deadline {
    fn default() -> Deadline {
        UNARMED
    }
}

const UNARMED: Deadline = Deadline(u64::MAX);

/// A century, which is as good as never.
const FAR: Deadline = Deadline(100 * 365 * 24 * 60 * 60 * 1000);

/// A duration in the unit of [`Deadline`], and of the clocks of connections.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
