//! [`MemoryQueue`]: which of the shares that wait for more memory gives way to those before it.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::sleep;

/// The shares that wait for memory, in the order in which each of them has first waited.
///
/// A share that waits for more keeps what it has. If all that have large pages wait, none ever come back, so the last of them
/// give theirs to those before them, until the first gets all it waits for. Some have large pages and neither wait nor give them
/// back for days, such as streams that are compressed. So the last give way as well once no wait has ended for a second.
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

/// A share that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingShare {
    pub(super) size: ShareSize,
    /// How many small pages it waits for, or large ones in their place.
    pub(super) small: u32,
    pub(super) large: u32,
    pub(super) held: Option<HeldPages>,
    /// Whether it is to give up for those before it.
    pub(super) gives_way: bool,
}

/// The pages that a share has.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldPages {
    pub(super) size: ShareSize,
    pub(super) count: u32,
}

impl WaitingShare {
    /// How many pages of this size it waits for, if it can use such pages.
    fn wanted(&self, size: ShareSize) -> Option<u32> {
        match (size, self.size) {
            (ShareSize::Small, ShareSize::Small) => Some(self.small),
            (ShareSize::Small, ShareSize::Large) => None,
            (ShareSize::Large, _) => Some(self.large),
        }
    }

    fn held_of(&self, size: ShareSize) -> Option<u32> {
        self.held.filter(|held| held.size == size).map(|held| held.count)
    }
}

impl MemoryQueue {
    /// Notes that a wait has ended with pages of this size, or that such pages are about to be given back for others.
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
    /// Has the last shares with pages of this size give way, until the first that can use such pages gets all it waits for. In a
    /// standstill without another that has some, the first gives way itself: it stands behind one that has nothing to give.
    fn make_way(&mut self, size: ShareSize, is_standstill: bool) {
        let first = self.by_age.iter().find_map(|(age, share)| Some((*age, share.wanted(size)?)));
        let Some((first, mut missing)) = first else { return };
        let mut is_made = false;
        for (_, share) in self.by_age.range_mut((Excluded(first), Unbounded)).rev() {
            if missing == 0 {
                return;
            }
            if let Some(held) = share.held_of(size) {
                share.gives_way = true;
                is_made = true;
                missing = missing.saturating_sub(held);
            }
        }
        if !is_made
            && is_standstill
            && let Some(share) = self.by_age.get_mut(&first).filter(|share| share.held_of(size).is_some())
        {
            share.gives_way = true;
        }
    }

    fn gives_way(&self, age: ShareAge) -> bool {
        self.by_age.get(&age).is_some_and(|share| share.gives_way)
    }
}

/// The place of a share in the queue, which it leaves when this is dropped.
pub(super) struct QueuePlace {
    queue: Arc<MemoryQueue>,
    age: ShareAge,
    has_large: bool,
}

impl QueuePlace {
    /// Enters the queue, at the place of a share of this `age` or at the end.
    pub(super) fn new(queue: &Arc<MemoryQueue>, age: Option<ShareAge>, share: WaitingShare) -> QueuePlace {
        let has_large = share.held_of(ShareSize::Large).is_some();
        let mut waits = queue.waits();
        waits.next_age += 1;
        let age = age.unwrap_or(ShareAge(waits.next_age));
        waits.by_age.insert(age, share);
        waits.large_holders += usize::from(has_large);
        drop(waits);
        QueuePlace { queue: queue.clone(), age, has_large }
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
                if still >= STILL_MIN || quiet >= QUIET_MIN {
                    queue.note_end(held);
                    queue.waits().make_way(held, still >= STILL_MIN);
                }
                if queue.waits().gives_way(age) {
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
        waits.large_holders -= usize::from(self.has_large);
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
