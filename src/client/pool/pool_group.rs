//! [`PoolGroup`]: what the pools of a client in one runtime share; [`PoolOwner`], which has them all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The idle connections of all pools of a client in one runtime, and the reaper that closes them.
pub(super) struct PoolGroup {
    owner: Weak<dyn PoolOwner>,
    /// Whether the idle reaper is running.
    pub(super) is_reaping: AtomicBool,
    /// How many connections are idle.
    idle: AtomicUsize,
    idle_max: usize,
}

/// Has the pools of a group.
pub(super) trait PoolOwner: Send + Sync {
    /// Starts the idle reaper, unless it is running. The task ends when no connection is left.
    fn start_reaper(self: Arc<Self>);

    /// Closes the connections that have been idle for longest. Returns how many.
    fn close_oldest(&self, count: usize) -> usize;
}

impl PoolGroup {
    pub(super) fn new(owner: Weak<dyn PoolOwner>, idle_max: usize) -> PoolGroup {
        PoolGroup { owner, is_reaping: AtomicBool::new(false), idle: AtomicUsize::new(0), idle_max }
    }

    /// Counts connections that have become idle, under the lock of their pool.
    #[inline]
    pub(super) fn count_idle(&self, count: usize) {
        self.idle.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts connections that are idle no longer, under the lock of their pool.
    #[inline]
    pub(super) fn count_taken(&self, count: usize) {
        let before = self.idle.fetch_sub(count, Ordering::Relaxed);
        debug_assert!(before >= count, "each idle connection was counted");
    }

    /// Does what is due when a connection or the memory of an exchange has come back: the reaper runs, and no more
    /// connections are idle than may be. No pool is locked.
    ///
    /// A reaper that is about to end first clears its flag, and then checks once more, under the lock of each pool,
    /// whether anything is left.
    #[inline]
    pub(super) fn settle(&self) {
        if !self.is_reaping.load(Ordering::Acquire) || self.idle.load(Ordering::Relaxed) > self.idle_max {
            self.tidy();
        }
    }

    #[cold]
    fn tidy(&self) {
        let Some(owner) = self.owner.upgrade() else { return };
        let surplus = self.idle.load(Ordering::Relaxed).saturating_sub(self.idle_max);
        if surplus > 0 {
            owner.close_oldest(surplus);
        }
        owner.start_reaper();
    }
}
