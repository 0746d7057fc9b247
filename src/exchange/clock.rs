//! [`Clock`]: the time of one core, read once for all that one read of a socket brings.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant, SystemTime};

use crate::message::ImfDate;
use crate::wire::Stamp;

/// The time of one core. Reading the real clock costs as much as parsing a field, so whoever reads from a socket
/// refreshes this one, and everything else looks here.
pub(crate) struct Clock {
    now: Cell<Instant>,
    /// The lines that all answers carry: `server`, if it has a name, and `date` (RFC 9110 §6.6.1, §10.2.4).
    stamp: RefCell<Vec<u8>>,
    /// How long the first of them is.
    server_len: usize,
    /// When the date is over.
    date_until: Cell<Instant>,
    /// Whether somebody has waited since.
    is_outdated: Cell<bool>,
}

impl Clock {
    /// `name` is the server's.
    pub(crate) fn new(name: Option<&str>) -> Clock {
        let server = name.map(|name| format!("server: {name}\r\n")).unwrap_or_default().into_bytes();
        let now = Instant::now();
        let clock = Clock {
            now: Cell::new(now),
            server_len: server.len(),
            stamp: RefCell::new(server),
            date_until: Cell::new(now),
            is_outdated: Cell::new(false),
        };
        clock.set_date();
        clock
    }

    /// Reads the real clock.
    #[inline]
    pub(crate) fn refresh(&self) {
        let now = Instant::now();
        self.now.set(now);
        self.is_outdated.set(false);
        if now >= self.date_until.get() {
            self.set_date();
        }
    }

    /// Time has passed, or is about to: an answer is not to be dated before the real clock was read again.
    #[inline]
    pub(crate) fn outdate(&self) {
        self.is_outdated.set(true);
    }

    /// When the clock was read last.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    /// Lends the lines that an answer carries now.
    #[inline]
    pub(crate) fn with_stamp<R>(&self, then: impl FnOnce(Stamp<'_>) -> R) -> R {
        if self.is_outdated.get() {
            self.refresh();
        }
        then(Stamp::new(&self.stamp.borrow(), self.server_len))
    }

    #[cold]
    fn set_date(&self) {
        let date = SystemTime::now();
        let mut stamp = self.stamp.borrow_mut();
        stamp.truncate(self.server_len);
        stamp.extend_from_slice(b"date: ");
        stamp.extend_from_slice(ImfDate::new(date).as_str().as_bytes());
        stamp.extend_from_slice(b"\r\n");
        let of_second = date.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        let left = Duration::from_secs(1) - Duration::from_nanos(of_second.into());
        self.date_until.set(self.now.get() + left);
    }
}
