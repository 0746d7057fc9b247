//! [`ConnectionAges`]: how long connections have been open, and for how long they may be.

use std::time::Duration;

use crate::net::{Conn, Life};
use crate::runtime;

/// The ages of one core's connections.
pub(crate) struct ConnectionAges {
    /// The zero of the ticks in which [`Life`] notes when a connection opened.
    started: runtime::Instant,
    /// [`Timeouts::connection_age`](crate::Timeouts::connection_age).
    age_max: Option<Duration>,
}

impl ConnectionAges {
    pub(super) fn new(age_max: Option<Duration>) -> ConnectionAges {
        ConnectionAges { started: runtime::now(), age_max }
    }

    /// Whether connections are closed for their age.
    #[inline]
    pub(super) fn are_bounded(&self) -> bool {
        self.age_max.is_some()
    }

    /// Whether the connection has reached its age. Each response asks, and most servers have no bound.
    #[inline]
    pub(super) fn is_over(&self, conn: &Conn) -> bool {
        self.are_bounded() && self.left(conn).is_some_and(|left| left.is_zero())
    }

    /// How much longer the connection may stay open. `None` if ages are not bounded.
    ///
    /// Connections that opened together are closed apart; otherwise all of their peers would connect again at once.
    /// The numbers follow each other, and multiples of the golden ratio spread evenly, however many there are.
    #[cold]
    pub(super) fn left(&self, conn: &Conn) -> Option<Duration> {
        let age_max = self.age_max?;
        let share = conn.peer().id.wrapping_mul(GOLDEN) >> u32::BITS;
        let less = (age_max / 10).mul_f64(share as f64 / f64::from(u32::MAX));
        let age = conn.life().opened_at().map(|opened_at| self.since(opened_at)).unwrap_or_default();
        Some(age_max.saturating_sub(less).saturating_sub(age))
    }

    /// The life of a connection that opens now.
    pub(super) fn begin(&self) -> Life {
        Life::new(self.ticks())
    }

    /// The age of a connection that opened at this time.
    pub(super) fn since(&self, opened_at: u64) -> Duration {
        Duration::from_micros(self.ticks().saturating_sub(opened_at) * TICK_MICROS)
    }

    /// The time since the core has started, in the unit of [`Life`].
    fn ticks(&self) -> u64 {
        runtime::now().saturating_duration_since(self.started).as_micros() as u64 / TICK_MICROS
    }
}

const TICK_MICROS: u64 = 100;

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
