//! [`MemoryQueue`]: which of the shares that wait for more memory gives way to those before it.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::sleep;

/// The shares that wait for memory, in the order in which each of them has first waited.
///
/// A share that waits for more keeps what it has. If all that have large pages wait, none ever come back, so the last of them
/// gives its own to those before it. Some have large pages and neither wait nor give them back for days, such as streams that
/// are compressed. So the last gives way as well once no wait has ended for a second.
#[derive(Debug, Default)]
pub(super) struct MemoryQueue {
    waits: Mutex<Waits>,
    /// How many shares have large pages.
    large_holders: AtomicUsize,
    /// How many waits have ended with small pages, or for lack of them.
    small_ends: AtomicUsize,
    large_ends: AtomicUsize,
}

/// The size of a share, and of the pages that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShareSize {
    Small,
    Large,
}

/// The shares that wait now.
#[derive(Debug, Default)]
struct Waits {
    by_age: BTreeMap<ShareAge, WaitingShare>,
    /// How many of them have large pages.
    large_holders: usize,
    next_age: u64,
}

/// When a share has first waited. The oldest share has the lowest one, and keeps it as long as it has memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShareAge(u64);

#[derive(Clone, Copy, Debug)]
struct WaitingShare {
    wanted: ShareSize,
    held: Option<ShareSize>,
}

impl WaitingShare {
    /// Whether it could use pages of this size.
    fn can_use(&self, size: ShareSize) -> bool {
        match size {
            ShareSize::Small => self.wanted == ShareSize::Small,
            ShareSize::Large => true,
        }
    }
}

impl MemoryQueue {
    /// Notes that a wait has ended with pages of this size, or that pages of this size are given back for others.
    pub(super) fn note_end(&self, size: ShareSize) {
        match size {
            ShareSize::Small => self.small_ends.fetch_add(1, Relaxed),
            ShareSize::Large => self.large_ends.fetch_add(1, Relaxed),
        };
    }

    /// How many waits have ended that concern shares with pages of this size. Small pages are left for large ones as well.
    fn ends(&self, size: ShareSize) -> usize {
        let large = self.large_ends.load(Relaxed);
        match size {
            ShareSize::Small => large.wrapping_add(self.small_ends.load(Relaxed)),
            ShareSize::Large => large,
        }
    }

    /// Whether all shares with large pages wait. Shares with small pages are not counted.
    fn is_standstill(&self, size: ShareSize) -> bool {
        size == ShareSize::Large && self.large_holders.load(Relaxed) == self.waits().large_holders
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waits {
    /// Whether a share with pages of this size is the last that has such pages, and one before it could use them.
    fn is_last(&self, age: ShareAge, held: ShareSize) -> bool {
        let mut later = self.by_age.range(age..).skip(1);
        !later.any(|(_, share)| share.held == Some(held))
            && self.by_age.range(..age).any(|(_, share)| share.can_use(held))
    }
}

/// The place of a share in the queue, which it leaves when this is dropped.
pub(super) struct QueuePlace {
    queue: Arc<MemoryQueue>,
    age: ShareAge,
    held: Option<ShareSize>,
}

impl QueuePlace {
    /// Enters the queue, at the place of a share of this `age` or at the end.
    pub(super) fn new(
        queue: &Arc<MemoryQueue>,
        age: Option<ShareAge>,
        wanted: ShareSize,
        held: Option<ShareSize>,
    ) -> QueuePlace {
        let mut waits = queue.waits();
        waits.next_age += 1;
        let age = age.unwrap_or(ShareAge(waits.next_age));
        waits.by_age.insert(age, WaitingShare { wanted, held });
        waits.large_holders += usize::from(held == Some(ShareSize::Large));
        drop(waits);
        QueuePlace { queue: queue.clone(), age, held }
    }

    pub(super) fn age(&self) -> ShareAge {
        self.age
    }

    /// Waits until the share is to give up, because those before it need the pages of the size `held` that it has.
    pub(super) fn until_it_gives_way(&self, held: ShareSize) -> impl Future<Output = ()> + Send + 'static {
        let (queue, age) = (self.queue.clone(), self.age);
        async move {
            let mut quiet = 0;
            let mut still = 0;
            loop {
                let ends = queue.ends(held);
                sleep(PAUSE).await;
                // Pages that were granted may not have been taken yet. So one look is not enough.
                let has_ended = queue.ends(held) != ends;
                quiet = if has_ended { 0 } else { quiet + 1 };
                still = if has_ended || !queue.is_standstill(held) { 0 } else { still + 1 };
                let is_stuck = still >= STILL_MIN || quiet >= QUIET_MIN;
                if is_stuck && queue.waits().is_last(age, held) {
                    queue.note_end(held);
                    return;
                }
            }
        }
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let mut waits = self.queue.waits();
        waits.by_age.remove(&self.age);
        waits.large_holders -= usize::from(self.held == Some(ShareSize::Large));
    }
}

/// The time between two looks at the queue.
const PAUSE: Duration = Duration::from_millis(25);
/// For how many looks all shares must have waited.
const STILL_MIN: usize = 2;
/// For how many looks no wait must have ended: a second.
const QUIET_MIN: usize = 40;

/// Counts a share that has large pages.
pub(super) struct LargeHolder(Arc<MemoryQueue>);

impl LargeHolder {
    pub(super) fn new(queue: &Arc<MemoryQueue>) -> LargeHolder {
        queue.large_holders.fetch_add(1, Relaxed);
        LargeHolder(queue.clone())
    }
}

impl Drop for LargeHolder {
    fn drop(&mut self) {
        self.0.large_holders.fetch_sub(1, Relaxed);
    }
}
