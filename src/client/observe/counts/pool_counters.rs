//! [`PoolCounters`]: the counts of one pool.

use std::sync::Mutex;
use std::time::Duration;

use super::client_counts::HostCounts;
use crate::memory::{Counter, lock};
use crate::message::Timings;
use crate::net::Traffic;

/// The counts of one pool.
///
/// Nearly all exchanges end with their connection back in the pool, whose lock is held then. They are counted without
/// further locks, and everything else under one.
#[derive(Default)]
pub(in crate::client) struct PoolCounters {
    /// Written under the lock of the pool, as all counters of this type are.
    reused: Counter,
    answered: Counter,
    /// In nanoseconds.
    send_time: Counter,
    wait_time: Counter,
    received: Counter,
    sent: Counter,
    /// Everything else.
    others: Mutex<HostCounts>,
}

impl PoolCounters {
    /// Counts an exchange after which the connection goes back to the pool. Called under the lock of the pool.
    pub(in crate::client) fn count_returned(&self, timings: &Timings, traffic: Traffic) {
        self.answered.add(1);
        self.reused.add(timings.reused.into());
        self.send_time.add(nanos(timings.send));
        self.wait_time.add(nanos(timings.wait));
        self.received.add(traffic.received);
        self.sent.add(traffic.sent);
    }

    /// Changes the counts that need a lock.
    pub(in crate::client) fn count(&self, change: impl FnOnce(&mut HostCounts)) {
        change(&mut lock(&self.others));
    }

    /// The counts so far. Connections that are open are not among them.
    pub(super) fn counts(&self) -> HostCounts {
        let mut counts = lock(&self.others).clone();
        let answered = self.answered.get();
        counts.answered += answered;
        counts.reused += self.reused.get();
        // Both phases are over when the response is, and are counted with it.
        counts.send.ended += answered;
        counts.wait.ended += answered;
        counts.send.time += Duration::from_nanos(self.send_time.get());
        counts.wait.time += Duration::from_nanos(self.wait_time.get());
        counts.received += self.received.get();
        counts.sent += self.sent.get();
        counts
    }
}

/// The nanoseconds of a duration. They wrap after 584 years.
fn nanos(duration: Duration) -> u64 {
    duration.as_secs().wrapping_mul(1_000_000_000).wrapping_add(duration.subsec_nanos().into())
}
