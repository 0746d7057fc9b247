//! [`lock`]: locks that a panic does not poison; [`Counter`]: a number that needs none; [`CachePadded`]: a value of which
//! threads that do not use it notice nothing.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

// A panic under a lock poisons it for all other threads. In this crate every change under a lock leaves its value
// whole, so poison is ignored: one request that panicked must not fail all others.

/// Locks `mutex`.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `lock` for reading.
#[inline]
pub(crate) fn read_lock<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `lock` for writing.
#[inline]
pub(crate) fn write_lock<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// A number that one thread at a time writes, and any may read: that of its core, or the one that holds a certain lock.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds, without a locked instruction: no other thread writes.
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Replaces the count: no other thread writes.
    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A value with cache lines of its own: a pair of 64 bytes, since processors fetch them in pairs. Its writers slow down
/// no thread but those that use it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);
