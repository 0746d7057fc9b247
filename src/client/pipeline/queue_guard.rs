//! [`QueueGuard`]: the tickets of a queue, locked.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

use super::queue_state::{Deferred, QueueState};
use crate::memory::lock;

/// The tickets of a queue, locked. Tasks that may continue are woken when this is dropped and the lock is free, since a
/// waker may do anything, and most likely uses the queue again.
pub(super) struct QueueGuard<'a> {
    /// Present until this is dropped.
    state: Option<MutexGuard<'a, QueueState>>,
}

impl<'a> QueueGuard<'a> {
    pub(super) fn new(state: &'a Mutex<QueueState>) -> QueueGuard<'a> {
        QueueGuard { state: Some(lock(state)) }
    }
}

impl Deref for QueueGuard<'_> {
    type Target = QueueState;

    fn deref(&self) -> &QueueState {
        self.state.as_ref().expect("they are let go when this is dropped")
    }
}

impl DerefMut for QueueGuard<'_> {
    fn deref_mut(&mut self) -> &mut QueueState {
        self.state.as_mut().expect("they are let go when this is dropped")
    }
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        let deferred = state.take_deferred();
        drop(state);
        deferred.for_each(Deferred::run);
    }
}
