//! [`Clock`]: the time of one core, read once for each read of a socket.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant, SystemTime};

use crate::message::HttpDate;
use crate::wire::CommonFields;

/// The time of one core. Reading the real clock costs as much as parsing a field, so the real clock is read once after each
/// read of a socket, and all else uses the time that was noted then.
pub(crate) struct Clock {
    now: Cell<Instant>,
    /// The lines that all responses carry: `server`, if the server has a name, and `date` (RFC 9110 §6.6.1, §10.2.4).
    common_fields: RefCell<Vec<u8>>,
    /// The length of the `server` line.
    server_len: usize,
    /// Until when the date is valid.
    date_until: Cell<Instant>,
    /// Whether time may have passed since the clock was read.
    is_stale: Cell<bool>,
}

impl Clock {
    /// Creates the clock of a core. `name` is the name of the server.
    pub(crate) fn new(name: Option<&str>) -> Clock {
        let server = name.map(|name| format!("server: {name}\r\n")).unwrap_or_default().into_bytes();
        let now = Instant::now();
        let clock = Clock {
            now: Cell::new(now),
            server_len: server.len(),
            common_fields: RefCell::new(server),
            date_until: Cell::new(now),
            is_stale: Cell::new(false),
        };
        clock.set_date();
        clock
    }

    /// Reads the real clock, and returns its time.
    #[inline]
    pub(crate) fn refresh(&self) -> Instant {
        let now = Instant::now();
        self.now.set(now);
        self.is_stale.set(false);
        if now >= self.date_until.get() {
            self.set_date();
        }
        now
    }

    /// Notes that time has passed, so that the next use of the time reads the real clock first.
    #[inline]
    pub(crate) fn mark_stale(&self) {
        self.is_stale.set(true);
    }

    /// When the real clock was read last. After a wait, the real clock is read anew.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        if self.is_stale.get() {
            self.refresh();
        }
        self.now.get()
    }

    /// Calls `then` with the lines that a response carries now.
    #[inline]
    pub(crate) fn with_common_fields<R>(&self, then: impl FnOnce(CommonFields<'_>) -> R) -> R {
        self.now();
        then(CommonFields::new(&self.common_fields.borrow(), self.server_len))
    }

    #[cold]
    fn set_date(&self) {
        let date = SystemTime::now();
        let mut common_fields = self.common_fields.borrow_mut();
        common_fields.truncate(self.server_len);
        common_fields.extend_from_slice(b"date: ");
        common_fields.extend_from_slice(HttpDate::new(date).as_str().as_bytes());
        common_fields.extend_from_slice(b"\r\n");
        let nanos = date.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        let left = Duration::from_secs(1) - Duration::from_nanos(nanos.into());
        self.date_until.set(self.now.get() + left);
    }
}
