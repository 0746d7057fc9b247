//! [`Alarm`]: a timer that is seldom moved; and [`Expiries`]: what a connection waits for.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// What a connection can wait for at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Read,
    Write,
    /// The handler of a request, or all of an exchange.
    Whole,
}

pub(super) const LANES: usize = 3;

/// When each wait of a connection is over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expiries([Expiry; LANES]);

/// When a wait is over, in milliseconds on a clock of the owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Expiry(pub(super) u64);

impl Default for Expiry {
    fn default() -> Expiry {
        UNARMED
    }
}

const UNARMED: Expiry = Expiry(u64::MAX);

impl Expiries {
    /// When the wait in this lane is over: as it is noted, or as `expiry` says if it has only begun.
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

    pub(super) fn earliest(&self) -> Expiry {
        self.0.into_iter().min().unwrap_or(UNARMED)
    }
}

/// A timer that wakes a task at a deadline or a little before. One that would ring too early is left as it is until
/// it rings: a busy connection moves its deadline for each message, and its alarm never gets that far.
#[derive(Default)]
pub(super) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Has the task woken when `earliest` has come on a clock that was zero at `epoch`.
    pub(super) fn set(&mut self, cx: &mut Context<'_>, epoch: Instant, earliest: Expiry) {
        let Some(rings) = epoch.checked_add(Duration::from_millis(earliest.0)).filter(|_| earliest < FAR)
        else {
            return;
        };
        let alarm = self.0.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(rings)));
        if alarm.deadline() > rings || alarm.is_elapsed() {
            alarm.as_mut().reset(rings);
        }
        while alarm.as_mut().poll(cx).is_ready() {
            // The deadline is not reached, as the caller has seen, but clocks are read in whole milliseconds.
            let next = rings.max(Instant::now() + Duration::from_millis(1));
            alarm.as_mut().reset(next);
        }
    }
}

/// Nobody waits for a century, and tokio's clock does not count that far.
const FAR: Expiry = Expiry(100 * 365 * 24 * 60 * 60 * 1000);

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
