//! [`Timer`]: the time limits of a connection; [`Deadlines`]: when each of its waits expires.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// The time limits of one connection.
pub(crate) trait Timer {
    /// Ready when the wait in this slot, which began with the first call since [`Timer::disarm`], has taken longer than
    /// `limit`. The task is woken then.
    fn poll_expired(&mut self, cx: &mut Context<'_>, slot: TimerSlot, limit: Duration) -> Poll<()>;

    /// The waker of whoever waited last, if it is another one.
    fn other_waker(&self, waker: &Waker) -> Option<Waker>;

    /// Ends the wait in this slot.
    fn disarm(&mut self, slot: TimerSlot);

    /// Milliseconds since some fixed moment.
    fn now(&self) -> u64;
}

/// What a connection can wait for simultaneously.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerSlot {
    Read,
    Write,
    /// The handler of a request, a whole exchange, or the first request that a stop waits for.
    Total,
}

pub(super) const SLOTS: usize = 3;

/// When each wait of a connection expires.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deadlines([Deadline; SLOTS]);

impl Deadlines {
    /// When the wait in this slot expires. If it has only begun, `deadline` determines that.
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

    pub(super) fn of(&self, slot: TimerSlot) -> Deadline {
        self.0[slot as usize]
    }

    /// Returns when the next wait ends. A wait that has ended by `now` has rung, and may have no waiter any more.
    pub(super) fn next(&self, now: Deadline) -> Deadline {
        self.0.into_iter().filter(|deadline| *deadline > now).min().unwrap_or(UNARMED)
    }
}

/// When a wait expires, in milliseconds on the owner's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Deadline(pub(super) u64);

impl Deadline {
    /// The same time as an instant, on a clock that was zero at `epoch`. `None` means never.
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
