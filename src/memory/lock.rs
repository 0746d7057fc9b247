//! [`lock`]: what several threads have in common, for one of them at a time.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

// Whoever panics with a lock in hand poisons it for all. Here each change under a lock leaves what is whole, so the
// others go on: one request that failed is not to fail them all.

/// The value in `mutex`, for us alone.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The value in `lock`, for all who only look at it.
#[inline]
pub(crate) fn read_lock<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// The value in `lock`, for us alone.
#[inline]
pub(crate) fn write_lock<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
