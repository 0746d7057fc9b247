//! [`BalancedName`]: a name each of whose addresses is a host of a balancer.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::oneshot;

use crate::client::host::Host;
use crate::memory::lock;

/// A name each of whose addresses is a host of a balancer.
pub(super) struct BalancedName {
    /// The name, at no particular address.
    pub(super) host: Host,
    weight: AtomicU32,
    /// Whether the last look-up has failed.
    is_unresolved: AtomicBool,
    /// Whether a look-up has ended.
    is_looked_up: AtomicBool,
    /// Dropped with the name, which ends the task that looks it up.
    task: Mutex<Option<oneshot::Sender<Infallible>>>,
}

impl BalancedName {
    pub(super) fn new(host: Host) -> BalancedName {
        BalancedName {
            host,
            weight: AtomicU32::new(1),
            is_unresolved: AtomicBool::new(false),
            is_looked_up: AtomicBool::new(false),
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

    /// Whether a look-up has ended: then the hosts are those that are known.
    pub(super) fn is_looked_up(&self) -> bool {
        self.is_looked_up.load(Ordering::Acquire)
    }

    /// Notes a look-up, whose addresses are hosts by now. Returns whether it is the first failure since one succeeded.
    pub(super) fn note_look_up(&self, has_failed: bool) -> bool {
        self.is_looked_up.store(true, Ordering::Release);
        !self.is_unresolved.swap(has_failed, Ordering::Relaxed) && has_failed
    }

    /// Ends the task that looks the name up.
    pub(super) fn stop(&self) {
        *self.task() = None;
    }

    pub(super) fn task(&self) -> MutexGuard<'_, Option<oneshot::Sender<Infallible>>> {
        lock(&self.task)
    }
}
