//! [`PoolCounters`]: the counts of one pool; [`ExchangeEnd`]: how an exchange ended; [`PoolObserver`], which sees each
//! time.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::client_stats::ClientCounts;
use crate::client::cause::ClientPhase;
use crate::memory::{Counter, lock};
use crate::message::Timings;
use crate::net::{Traffic, TrafficTotals};

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
    others: Mutex<ClientCounts>,
    /// The bytes of connections that did not come back to the pool.
    pub(in crate::client) unreturned: Arc<TrafficTotals>,
    observer: OnceLock<Box<dyn PoolObserver>>,
}

/// Sees how long the exchanges of one pool took, on any thread.
pub(crate) trait PoolObserver: Send + Sync {
    /// Notes how long a request has waited for a connection.
    fn on_queue(&self, took: Duration);

    /// Notes how long it took to open a connection.
    fn on_open(&self, timings: &Timings);

    /// Notes an exchange that was answered.
    fn on_exchange(&self, timings: &Timings);

    /// Notes a dial or an exchange that has failed.
    fn on_failure(&self);
}

/// How an exchange ended whose connection did not go back to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum ExchangeEnd {
    Answered,
    Failed(ClientPhase),
    /// The caller is gone.
    Canceled,
    /// The request is sent again, on another connection. The one that it was sent on was stale.
    Retried,
}

impl PoolCounters {
    /// Counts an exchange after which the connection goes back to the pool. Called under the lock of the pool.
    #[inline]
    pub(in crate::client) fn count_returned(&self, timings: &Timings, traffic: Traffic) {
        self.answered.add(1);
        self.reused.add(timings.reused.into());
        self.send_time.add(nanos(timings.send));
        self.wait_time.add(nanos(timings.wait));
        self.received.add(traffic.received);
        self.sent.add(traffic.sent);
        self.observe(|observer| observer.on_exchange(timings));
    }

    /// Counts an exchange whose connection does not go back to the pool, or not yet.
    pub(in crate::client) fn count_end(&self, end: ExchangeEnd, timings: &Timings) {
        self.count(|counts| {
            match end {
                ExchangeEnd::Answered => counts.answered += 1,
                ExchangeEnd::Failed(phase) => counts.count_failure(phase),
                ExchangeEnd::Canceled => counts.canceled += 1,
                ExchangeEnd::Retried => {
                    counts.stale += 1;
                    counts.retries += 1;
                }
            }
            counts.count_exchange(timings);
        });
        self.observe(|observer| match end {
            ExchangeEnd::Answered => observer.on_exchange(timings),
            ExchangeEnd::Failed(_) => observer.on_failure(),
            ExchangeEnd::Canceled | ExchangeEnd::Retried => {}
        });
    }

    /// Counts a wait for a connection, which has taken this time or longer than it may.
    pub(in crate::client) fn count_queued(&self, waited: Result<Duration, ClientPhase>) {
        match waited {
            Ok(took) => {
                self.count(|counts| counts.queue.count(took));
                self.observe(|observer| observer.on_queue(took));
            }
            Err(phase) => self.count_failed(phase),
        }
    }

    /// Counts a dial, which has taken these times or failed in this phase.
    pub(in crate::client) fn count_dialed(&self, outcome: Result<&Timings, ClientPhase>) {
        match outcome {
            Ok(timings) => {
                self.count(|counts| {
                    counts.opened += 1;
                    counts.count_opening(timings);
                });
                self.observe(|observer| observer.on_open(timings));
            }
            Err(phase) => self.count_failed(phase),
        }
    }

    fn count_failed(&self, phase: ClientPhase) {
        self.count(|counts| counts.count_failure(phase));
        self.observe(|observer| observer.on_failure());
    }

    /// Changes the counts that need a lock.
    pub(in crate::client) fn count(&self, change: impl FnOnce(&mut ClientCounts)) {
        change(&mut lock(&self.others));
    }

    /// Sets the observer, unless there is one.
    pub(super) fn set_observer(&self, observer: Box<dyn PoolObserver>) {
        let _ = self.observer.set(observer);
    }

    #[inline]
    fn observe(&self, report: impl FnOnce(&dyn PoolObserver)) {
        if let Some(observer) = self.observer.get() {
            report(&**observer);
        }
    }

    /// The counts so far. Connections that are open are not among them.
    pub(super) fn counts(&self) -> ClientCounts {
        let mut counts = lock(&self.others).clone();
        let answered = self.answered.get();
        counts.answered += answered;
        counts.reused += self.reused.get();
        // Both phases are over when the response is, and are counted with it.
        counts.send.ended += answered;
        counts.wait.ended += answered;
        counts.send.time += Duration::from_nanos(self.send_time.get());
        counts.wait.time += Duration::from_nanos(self.wait_time.get());
        let unreturned = self.unreturned.get();
        counts.received += self.received.get() + unreturned.received;
        counts.sent += self.sent.get() + unreturned.sent;
        counts
    }
}

/// The nanoseconds of a duration. They wrap after 584 years.
#[inline]
fn nanos(duration: Duration) -> u64 {
    duration.as_secs().wrapping_mul(1_000_000_000).wrapping_add(duration.subsec_nanos().into())
}
