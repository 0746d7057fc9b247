//! [`Expiries`]: when each wait of a connection expires.

use std::time::Duration;

use tokio::time::Instant;

/// What a connection can wait for simultaneously.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Read,
    Write,
    /// The handler of a request, a whole exchange, or the first request that a stop waits for.
    Whole,
}

pub(super) const LANES: usize = 3;

/// When each wait of a connection expires.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expiries([Expiry; LANES]);

impl Expiries {
    /// When the wait in this lane expires. If it has only begun, `expiry` determines that.
    #[inline]
    pub(super) fn arm(&mut self, lane: Lane, expiry: impl FnOnce() -> Expiry) -> Expiry {
        let armed = &mut self.0[lane as usize];
        if *armed == UNARMED {
            *armed = expiry();
        }
        *armed
    }

    #[inline]
    pub(super) fn disarm(&mut self, lane: Lane) {
        self.0[lane as usize] = UNARMED;
    }

    pub(super) fn of(&self, lane: Lane) -> Expiry {
        self.0[lane as usize]
    }

    /// Returns when the next wait ends. A wait that has ended by `now` has rung, and may have no waiter any more.
    pub(super) fn next(&self, now: Expiry) -> Expiry {
        self.0.into_iter().filter(|expiry| *expiry > now).min().unwrap_or(UNARMED)
    }
}

/// When a wait expires, in milliseconds on the owner's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Expiry(pub(super) u64);

impl Expiry {
    /// The same time as an instant, on a clock that was zero at `epoch`. `None` means never.
    pub(super) fn on(self, epoch: Instant) -> Option<Instant> {
        epoch.checked_add(Duration::from_millis(self.0)).filter(|_| self < FAR)
    }
}

impl Default for Expiry {
    fn default() -> Expiry {
        UNARMED
    }
}

const UNARMED: Expiry = Expiry(u64::MAX);

/// A century, which is as good as never.
const FAR: Expiry = Expiry(100 * 365 * 24 * 60 * 60 * 1000);

/// A duration in the unit of [`Expiry`], and of the clocks of connections.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
