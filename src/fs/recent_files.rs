//! [`RecentFiles`]: files that this core has found in a [`Cache`](super::cache::Cache) lately, and finds again without a
//! lock.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::resource::Resource;

thread_local! {
    /// The files of all caches: a server has few of these.
    pub(super) static RECENT_FILES: RefCell<RecentFiles> = RefCell::default();
}

/// Files by path. A cache still owns them: one that it has dropped or replaced is not found here either.
pub(super) struct RecentFiles {
    /// By a hash of the path. The last of several files with one hash is kept, so a hash that attackers can predict costs
    /// no more than a look into the cache.
    slots: Box<[Option<RecentFile>]>,
    /// The number of this thread, which chooses its counter where each thread has one of its own.
    pub(super) thread: usize,
}

struct RecentFile {
    /// Of the cache that the file is in.
    generation: Generation,
    path: Vec<u8>,
    resource: Weak<Resource>,
    expires_at: Instant,
}

impl RecentFiles {
    /// Keeps a file that is fresh until then in the cache of this generation.
    pub(super) fn insert(
        &mut self,
        path: &[u8],
        resource: &Arc<Resource>,
        generation: Generation,
        now: Instant,
        fresh_until: Instant,
    ) {
        let slot = &mut self.slots[index(path)];
        // The memory of the last path is used again, so that a file is kept without an allocation.
        let mut kept = slot.take().map_or_else(Vec::new, |last| last.path);
        kept.clear();
        kept.extend_from_slice(path);
        let resource = Arc::downgrade(resource);
        let expires_at = fresh_until.min(now + TTL_MAX);
        *slot = Some(RecentFile { generation, path: kept, resource, expires_at });
    }

    /// The file at `path` in the cache of this generation.
    pub(super) fn get(&self, path: &[u8], generation: Generation, now: Instant) -> Option<Arc<Resource>> {
        let recent = self.slots[index(path)].as_ref()?;
        let is_same = recent.generation == generation && *recent.path == *path;
        if is_same && now < recent.expires_at { recent.resource.upgrade() } else { None }
    }
}

impl Default for RecentFiles {
    fn default() -> RecentFiles {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        let slots = (0..SLOTS).map(|_| None).collect();
        RecentFiles { slots, thread: THREADS.fetch_add(1, Ordering::Relaxed) }
    }
}

/// The state of a cache from one [`clear`](super::cache::Cache::clear) to the next. The result of a lookup on disk is not
/// kept if the root was replaced meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(pub(super) u64);

impl Generation {
    /// One that no cache has had before.
    pub(super) fn next() -> Generation {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Generation(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Several times as many as the files of most pages.
const SLOTS: usize = 128;

/// How long a file is found here before it is looked up in the cache again, which then counts it as used.
const TTL_MAX: Duration = Duration::from_millis(100);

/// The slot of a path, by its FNV-1a hash, of which the upper bits are the best.
fn index(path: &[u8]) -> usize {
    let hash = path.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::fs::resource::Description;
    use crate::fs::snapshot::{FileContent, Snapshot};

    #[test]
    fn a_file_is_found_while_its_cache_has_it_and_it_is_fresh() {
        let content = FileContent::Bytes(Bytes::from_static(b"x"));
        let whole = Snapshot::undated(content, String::new());
        let description = Description::new("text/plain".to_owned(), None);
        let resource = Arc::new(Resource::new(description, whole, Vec::new()).unwrap());
        let mut recent = RecentFiles::default();
        let now = Instant::now();
        let (generation, other) = (Generation::next(), Generation::next());
        for fresh_for in [TTL_MAX / 2, TTL_MAX, 2 * TTL_MAX] {
            recent.insert(b"a", &resource, generation, now, now + fresh_for);
            let found = |path: &[u8], generation, after| recent.get(path, generation, now + after).is_some();
            let kept_for = fresh_for.min(TTL_MAX);
            for (path, generation, after, expected) in [
                (&b"a"[..], generation, Duration::ZERO, true),
                (b"a", generation, kept_for - Duration::from_nanos(1), true),
                (b"a", generation, kept_for, false),
                (b"a", other, Duration::ZERO, false),
                (b"b", generation, Duration::ZERO, false),
                (b"", generation, Duration::ZERO, false),
            ] {
                assert_eq!(found(path, generation, after), expected, "{path:?} after {after:?}");
            }
        }
        drop(resource);
        assert!(recent.get(b"a", generation, now).is_none(), "the cache has dropped it");
    }

    #[test]
    fn the_slots_are_used_evenly() {
        let mut counts = [0; SLOTS];
        (0..8 * SLOTS)
            .for_each(|number| counts[index(format!("assets/app-{number:04x}.js").as_bytes())] += 1);
        let fullest = counts.iter().max().unwrap();
        assert!(*fullest <= 24, "{counts:?}");
    }
}
