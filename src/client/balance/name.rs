//! [`BalancedName`]: a name each of whose addresses is a host of a balancer.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::{oneshot, watch};

use crate::client::host::Host;
use crate::memory::lock;
use crate::runtime::{Instant, timeout_at};

/// A name each of whose addresses is a host of a balancer.
pub(super) struct BalancedName {
    /// The name, at no particular address.
    pub(super) host: Host,
    weight: AtomicU32,
    /// Whether the last look-up has failed.
    is_unresolved: AtomicBool,
    /// Whether a look-up has ended.
    is_looked_up: watch::Sender<bool>,
    /// Dropped with the name, which ends the task that looks it up.
    task: Mutex<Option<oneshot::Sender<Infallible>>>,
}

impl BalancedName {
    pub(super) fn new(host: Host) -> BalancedName {
        BalancedName {
            host,
            weight: AtomicU32::new(1),
            is_unresolved: AtomicBool::new(false),
            is_looked_up: watch::Sender::new(false),
            task: Mutex::default(),
        }
    }

    /// The weight of addresses that will be found.
    pub(super) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    pub(super) fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Ordering::Relaxed);
    }

    /// Notes whether a look-up has failed. Returns whether it is the first failure since one succeeded.
    pub(super) fn note_look_up(&self, has_failed: bool) -> bool {
        !self.is_unresolved.swap(has_failed, Ordering::Relaxed) && has_failed
    }

    /// Ends the wait for the first look-up.
    pub(super) fn end_wait(&self) {
        self.is_looked_up.send_replace(true);
    }

    /// Waits until the name was looked up once, or until `deadline`.
    pub(super) async fn looked_up(&self, deadline: Option<Instant>) {
        let mut is_looked_up = self.is_looked_up.subscribe();
        // The sender is there for as long as `self` is.
        let first = is_looked_up.wait_for(|is_looked_up| *is_looked_up);
        match deadline {
            Some(deadline) => drop(timeout_at(deadline, first).await),
            None => drop(first.await),
        }
    }

    /// Ends the task that looks the name up.
    pub(super) fn stop(&self) {
        *self.task() = None;
    }

    pub(super) fn task(&self) -> MutexGuard<'_, Option<oneshot::Sender<Infallible>>> {
        lock(&self.task)
    }
}
