//! [`Turns`]: requests that are due at fixed moments, whoever is free to send them.
//!
//! Latency counts from the moment a request was due, so a client that stalls is charged for all that it should have
//! sent meanwhile. The clock is a timer of the kernel's that every runtime can wait for as for a socket: their own
//! timers are of a millisecond, which is more than an exchange takes.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use nix::sys::timer::{Expiration, TimerSetTimeFlags};
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};

use crate::load::{Latency, OVERTIME, Recorder};

pub(super) struct Turns {
    started: Instant,
    time: Duration,
    rate: u32,
    taken: u64,
}

impl Turns {
    /// `rate` a second for so long, from now on.
    pub(super) fn new(rate: u32, time: Duration) -> Turns {
        Turns { started: Instant::now(), time, rate, taken: 0 }
    }

    /// When the next request is due, if there is one and there is time for it.
    pub(super) fn take(&mut self) -> Option<Instant> {
        if self.taken == self.total() || self.started.elapsed() > self.time + OVERTIME {
            return None;
        }
        self.taken += 1;
        Some(self.due(self.taken - 1))
    }

    /// A file from which [`TICK_LEN`] bytes can be read each time a request is due. It comes a little after that and
    /// never before: who came too early would wait for the next.
    pub(super) fn timer(&self, flags: TimerFlags) -> io::Result<File> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        let interval = Duration::from_nanos(1_000_000_000_u64.div_ceil(self.rate.into()));
        timer.set(Expiration::Interval(interval.into()), TimerSetTimeFlags::empty())?;
        Ok(OwnedFd::from(timer).into())
    }

    /// The latencies of requests that were sent, and the number of those that were not.
    pub(super) fn end(self, mut recorder: Recorder) -> Latency {
        let (now, answered) = (Instant::now(), recorder.count());
        // Who was never sent waits at least since it was due.
        for index in self.taken..self.total() {
            recorder.record(now.saturating_duration_since(self.due(index)));
        }
        let achieved = answered as f64 / (now - self.started).max(self.time).as_secs_f64();
        recorder.summary(self.rate, achieved)
    }

    fn total(&self) -> u64 {
        (f64::from(self.rate) * self.time.as_secs_f64()).round() as u64
    }

    fn due(&self, index: u64) -> Instant {
        self.started + Duration::from_secs_f64(index as f64 / f64::from(self.rate))
    }
}

/// How often it came since the last time.
pub(super) const TICK_LEN: usize = size_of::<u64>();

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::{Duration, Instant};

    use super::{Recorder, TICK_LEN, TimerFlags, Turns};

    /// 3,000 in a second is no whole number of nanoseconds.
    #[test]
    fn the_timer_never_comes_too_early() {
        let turns = Turns::new(3_000, Duration::from_millis(10));
        let mut timer = turns.timer(TimerFlags::empty()).expect("a timer");
        let (mut ticks, mut tick) = (0, [0; TICK_LEN]);
        while ticks < turns.total() {
            timer.read_exact(&mut tick).expect("it comes");
            ticks += u64::from_ne_bytes(tick);
            assert!(Instant::now() >= turns.due(ticks), "tick {ticks}");
        }
    }

    #[test]
    fn turns_are_due_evenly_and_what_was_not_sent_counts() {
        let mut turns = Turns::new(1_000, Duration::from_millis(4));
        let due: Vec<_> = std::iter::from_fn(|| turns.take()).collect();
        let since: Vec<_> = due.iter().map(|due| (*due - turns.started).as_micros()).collect();
        assert_eq!(since, [0, 1_000, 2_000, 3_000]);
        let mut recorder = Recorder::new();
        recorder.record(Duration::from_micros(7));
        assert!(!turns.end(recorder).is_met(), "one of four was answered");

        let mut unsent = Turns::new(1_000, Duration::ZERO);
        assert!(unsent.take().is_none());
        unsent.time = Duration::from_millis(5);
        unsent.started -= Duration::from_millis(100);
        let latency = unsent.end(Recorder::new());
        assert!(latency.p50 >= 95_000.0 && latency.achieved == 0.0, "{latency:?}");
    }
}
