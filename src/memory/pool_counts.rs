//! [`PoolCounts`]: how often the objects of a core are used again; and [`ReuseCounters`], which count that.

use std::cell::RefCell;
use std::ops::AddAssign;
use std::sync::Arc;

use super::lock::Counter;

/// The objects of one kind that a core keeps for reuse, at one moment.
///
/// See [`CoreCounts::pools`](crate::server::CoreCounts::pools).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// How often an object was used again.
    pub reused: u64,
    /// How many objects were made for lack of a free one.
    pub created: u64,
    /// How many objects are free now.
    pub kept: u64,
    /// How much memory these take, in bytes.
    pub bytes: u64,
}

impl AddAssign<PoolCounts> for PoolCounts {
    fn add_assign(&mut self, other: PoolCounts) {
        let PoolCounts { reused, created, kept, bytes } = other;
        self.reused += reused;
        self.created += created;
        self.kept += kept;
        self.bytes += bytes;
    }
}

/// The kinds of objects that are counted, in the order of [`POOL_NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolKind {
    Contexts,
    Futures,
    #[allow(dead_code, reason = "unused without the feature `compress`")]
    Encoders,
    Decoders,
    #[allow(dead_code, reason = "unused without the feature `compress`")]
    Transforms,
    #[allow(dead_code, reason = "unused without the feature `websocket`")]
    Deflaters,
    #[allow(dead_code, reason = "unused without the feature `websocket`")]
    Inflaters,
}

/// The names of the kinds.
pub(crate) const POOL_NAMES: [&str; 7] =
    ["contexts", "futures", "encoders", "decoders", "transforms", "deflaters", "inflaters"];

const _: () = assert!(PoolKind::Inflaters as usize + 1 == POOL_NAMES.len(), "each kind has its name");

impl PoolKind {
    /// How much memory a state of zlib-rs takes that decompresses: its window, and tables.
    #[allow(dead_code, reason = "unused without the features `compress` and `websocket`")]
    pub(crate) const INFLATE_MEMORY: usize = 48 << 10;

    /// How much one takes that compresses: its window twice, the links of that, and tables.
    #[allow(dead_code, reason = "unused without the features `compress` and `websocket`")]
    pub(crate) const fn deflate_memory(window_bits: u8) -> usize {
        (4 << window_bits) + (248 << 10)
    }
}

/// The counts of the objects of one core. Only its thread writes.
#[derive(Default)]
pub(crate) struct ReuseCounters([ReuseCounter; POOL_NAMES.len()]);

#[derive(Default)]
struct ReuseCounter {
    reused: Counter,
    created: Counter,
    kept: Counter,
    bytes: Counter,
}

impl ReuseCounters {
    /// Has the caches of this thread report here, and no longer elsewhere, until the guard is dropped.
    pub(crate) fn attach_to_thread(self: &Arc<ReuseCounters>) -> PoolGuard {
        CURRENT.set(Some(self.clone()));
        PoolGuard(self.clone())
    }

    /// Replaces the counts of a kind.
    pub(crate) fn set(&self, kind: PoolKind, counts: PoolCounts) {
        let counter = &self.0[kind as usize];
        counter.reused.set(counts.reused);
        counter.created.set(counts.created);
        counter.set_kept(counts.kept, counts.bytes);
    }

    /// The counts at this moment, in the order of [`POOL_NAMES`].
    pub(crate) fn counts(&self) -> [PoolCounts; POOL_NAMES.len()] {
        self.0.each_ref().map(|ReuseCounter { reused, created, kept, bytes }| PoolCounts {
            reused: reused.get(),
            created: created.get(),
            kept: kept.get(),
            bytes: bytes.get(),
        })
    }
}

impl ReuseCounter {
    fn set_kept(&self, kept: u64, bytes: u64) {
        self.kept.set(kept);
        self.bytes.set(bytes);
    }
}

/// Counts what a cache of this thread does, if its core is counted: whether it had the object that was asked for (`None`
/// if one was given), and how many it keeps now, of so many bytes.
pub(super) fn count_cache(kind: PoolKind, hit: Option<bool>, kept: usize, bytes: impl FnOnce() -> usize) {
    // On a thread that is ending, there is nothing to count.
    let _ = CURRENT.try_with(|current| {
        let current = current.borrow();
        let Some(counters) = &*current else { return };
        let counter = &counters.0[kind as usize];
        counter.reused.add(u64::from(hit == Some(true)));
        counter.created.add(u64::from(hit == Some(false)));
        counter.set_kept(kept as u64, bytes() as u64);
    });
}

thread_local! {
    /// The counters of the core of this thread.
    static CURRENT: RefCell<Option<Arc<ReuseCounters>>> = const { RefCell::new(None) };
}

/// Has the caches of a thread report to these counters. Once it is dropped, nothing is kept.
pub(crate) struct PoolGuard(Arc<ReuseCounters>);

impl Drop for PoolGuard {
    fn drop(&mut self) {
        self.0.0.iter().for_each(|counter| counter.set_kept(0, 0));
        let _ = CURRENT.try_with(|current| {
            current.borrow_mut().take_if(|current| Arc::ptr_eq(current, &self.0));
        });
    }
}
