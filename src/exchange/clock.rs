//! [`Clock`]: the time of one core, read once for all that one read of a socket brings.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime};

use crate::message::ImfDate;

/// The time of one core. Reading the real clock costs as much as parsing a field, so whoever reads from a socket
/// refreshes this one, and everything else looks here.
pub(crate) struct Clock {
    now: Cell<Instant>,
    /// The date that answers carry (RFC 9110 §6.6.1), and until when it is the right one.
    date: Cell<ImfDate>,
    date_until: Cell<Instant>,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let (now, (date, left)) = (Instant::now(), today());
        Clock { now: Cell::new(now), date: Cell::new(date), date_until: Cell::new(now + left) }
    }

    /// Reads the real clock.
    #[inline]
    pub(crate) fn refresh(&self) {
        let now = Instant::now();
        self.now.set(now);
        if now >= self.date_until.get() {
            let (date, left) = today();
            self.date.set(date);
            self.date_until.set(now + left);
        }
    }

    /// When the clock was read last.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    #[inline]
    pub(crate) fn date(&self) -> ImfDate {
        self.date.get()
    }
}

/// The date, and how long its second still lasts.
fn today() -> (ImfDate, Duration) {
    let now = SystemTime::now();
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (ImfDate::new(now), Duration::from_secs(1) - Duration::from_nanos(since_epoch.subsec_nanos().into()))
}
