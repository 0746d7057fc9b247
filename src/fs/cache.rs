//! [`Cache`]: recently requested files, in bounded memory; [`FileCacheCounts`], its counts.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::disk::descriptor_limit;
use super::path::RelativePath;
use super::recent_files::{Generation, RECENT_FILES};
use super::resource::{FIELDS_COST, Resource, StoredCoding};
use crate::memory::{CachePadded, lock};
use crate::runtime::available_cores;

/// Bounds on what [`Files`](crate::fs::Files) keeps between requests, for each root.
///
/// # Examples
///
/// ```
/// use corehttp::fs::FileCacheLimits;
///
/// let cache = FileCacheLimits { bytes_max: 256 << 20, ..FileCacheLimits::default() };
/// # assert_eq!(cache.file_bytes_max, FileCacheLimits::default().file_bytes_max);
/// ```
///
/// All fields are public and stay so. As a later release may add some, end literals in `..FileCacheLimits::default()`,
/// and patterns in `..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCacheLimits {
    /// Total bytes of content. Default: 64 MiB.
    pub bytes_max: usize,
    /// Number of files. Default: 1,024.
    ///
    /// Files that are too large for memory are kept open. Of these there are up to 256 for all roots together, but no
    /// more than a quarter of the process's limit for open files.
    pub files_max: usize,
    /// Bytes of a file that is kept in memory, at most `bytes_max`. Larger ones are kept open. Default: 64 KiB.
    pub file_bytes_max: usize,
    /// How long a file is served from memory before the disk is checked again. For this long after a change, and during
    /// that check, the old file may be sent, with its old `etag`. For a file that is kept open, size and time are
    /// checked each time. Default: 1 s.
    pub fresh: Duration,
}

impl Default for FileCacheLimits {
    fn default() -> FileCacheLimits {
        FileCacheLimits {
            bytes_max: 64 << 20,
            files_max: 1024,
            file_bytes_max: SMALL,
            fresh: Duration::from_secs(1),
        }
    }
}

/// Files up to this size are always read whole, which takes less time than to open them and have them sent.
const SMALL: usize = 64 << 10;

/// The look-ups in the cache of [`Files`](crate::fs::Files), and its content.
///
/// The parts of the cache are read one after the other during requests. Their counts may be a moment apart.
#[doc(alias = "metrics")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileCacheCounts {
    /// Look-ups that found a file checked within [`FileCacheLimits::fresh`]. A changed file kept open is opened again,
    /// and counts as well.
    pub hits: u64,
    /// All other look-ups: for files not kept, due for a check, or missing.
    pub misses: u64,
    /// Files that are kept now, in memory or open.
    pub files: u64,
    /// Bytes that count towards [`FileCacheLimits::bytes_max`] now: content in memory, and a little for each file.
    pub bytes: u64,
}

impl AddAssign for FileCacheCounts {
    fn add_assign(&mut self, other: FileCacheCounts) {
        let FileCacheCounts { hits, misses, files, bytes } = other;
        self.hits += hits;
        self.misses += misses;
        self.files += files;
        self.bytes += bytes;
    }
}

/// Files by path. Divided into shards, so that cores rarely wait for each other; and a file that a core has found lately
/// takes no lock at all.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) bounds: FileCacheLimits,
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    /// The current [`Generation`].
    generation: AtomicU64,
    /// How many look-ups found a file without a lock: a counter for each core, which threads beyond them share.
    recent_hits: Box<[CachePadded<AtomicU64>]>,
}

#[derive(Debug, Default)]
struct Shard {
    /// By the hash of the path, which attackers cannot predict. If two files have the same hash, the last one is kept.
    entries: HashMap<u64, CacheEntry, BuildHasherDefault<PassThroughHasher>>,
    bytes: usize,
    /// How many files are kept open.
    open_files: usize,
    /// Counts look-ups, to order entries by their last use.
    tick: u64,
    /// How many look-ups found no fresh entry. All others are hits, and are not counted apart.
    misses: u64,
}

#[derive(Debug)]
struct CacheEntry {
    path: Box<[u8]>,
    resource: Arc<Resource>,
    fresh_until: Instant,
    used: u64,
    /// The share of descriptors for the files that `resource` keeps open.
    _quota: DescriptorQuota,
}

impl Cache {
    pub(super) fn new(bounds: FileCacheLimits) -> Cache {
        // Each shard has room for a file of the largest size in all its codings.
        let largest =
            bounds.file_bytes_max.saturating_add(FIELDS_COST).saturating_mul(1 + StoredCoding::ALL.len());
        let count = (bounds.files_max / FILES_PER_SHARD).min(bounds.bytes_max / largest).clamp(1, SHARDS_MAX);
        // A file that is too large for the cache is not read into memory either, unless it is small.
        let file_bytes_max = bounds.file_bytes_max.min(bounds.bytes_max.max(SMALL));
        let bounds = FileCacheLimits { file_bytes_max, fresh: bounds.fresh.min(FRESH_MAX), ..bounds };
        let shards = (0..count).map(|_| Mutex::default()).collect();
        let generation = AtomicU64::new(Generation::next().0);
        let recent_hits = (0..available_cores()).map(|_| CachePadded::default()).collect();
        Cache { bounds, shards, hasher: RandomState::new(), generation, recent_hits }
    }

    /// The file at `path`, if it was checked recently.
    ///
    /// After `None`, the caller must check the file. If the entry was fresh until recently, concurrent callers get it
    /// meanwhile, so that only one of them reads the disk.
    pub(super) fn get(&self, path: &[u8], now: Instant) -> Option<Arc<Resource>> {
        let generation = self.generation();
        let recent = RECENT_FILES.with_borrow(|recent| {
            let found = recent.get(path, generation, now)?;
            let hits = &self.recent_hits[recent.thread % self.recent_hits.len()];
            hits.0.fetch_add(1, Ordering::Relaxed);
            Some(found)
        });
        if recent.is_some() {
            return recent;
        }
        let (hash, mut shard) = self.shard(path);
        shard.tick += 1;
        let tick = shard.tick;
        let Some(entry) = shard.entries.get_mut(&hash).filter(|entry| *entry.path == *path) else {
            shard.misses += 1;
            return None;
        };
        entry.used = tick;
        if now < entry.fresh_until {
            let found = entry.resource.clone();
            let fresh_until = entry.fresh_until;
            drop(shard);
            RECENT_FILES.with_borrow_mut(|recent| recent.insert(path, &found, generation, now, fresh_until));
            return Some(found);
        }
        // An entry that was not requested in days must be checked for all concurrent callers.
        let was_fresh_lately = now < entry.fresh_until + self.bounds.fresh;
        if was_fresh_lately {
            entry.fresh_until = now + self.bounds.fresh;
        }
        shard.misses += 1;
        None
    }

    /// The file at `path`, however long ago it was checked.
    pub(super) fn stale(&self, path: &RelativePath<'_>) -> Option<Arc<Resource>> {
        let path = path.as_bytes();
        let (hash, shard) = self.shard(path);
        shard.entries.get(&hash).filter(|entry| *entry.path == *path).map(|entry| entry.resource.clone())
    }

    /// The current generation, to be read before the lookup on disk whose result is inserted.
    pub(super) fn generation(&self) -> Generation {
        Generation(self.generation.load(Ordering::Acquire))
    }

    /// Drops all entries, and the results of lookups that have begun. To be called after the root was replaced.
    pub(super) fn clear(&self) {
        self.generation.store(Generation::next().0, Ordering::Release);
        self.shards.iter().for_each(|shard| lock(shard).clear());
    }

    /// Inserts a file that was just checked, and evicts the least recently used ones.
    pub(super) fn insert(
        &self,
        path: &RelativePath<'_>,
        resource: &Arc<Resource>,
        generation: Generation,
        now: Instant,
    ) {
        let count = self.shards.len();
        let (bytes_max, files_max) = (self.bounds.bytes_max / count, self.bounds.files_max / count);
        let bytes = resource.cost();
        let open_files = resource.open_files;
        let open_files_max = DescriptorQuota::MAX / count;
        let (hash, mut shard) = self.shard(path.as_bytes());
        // The shard is locked: if the generation is still the same, `clear` has yet to reach this shard.
        if generation != self.generation() {
            return;
        }
        shard.remove(hash);
        if bytes > bytes_max || open_files > open_files_max || files_max == 0 {
            return;
        }
        while shard.bytes + bytes > bytes_max || shard.entries.len() >= files_max {
            shard.evict(|_| true);
        }
        while shard.open_files + open_files > open_files_max {
            shard.evict(|other| other.open_files > 0);
        }
        let mut quota = DescriptorQuota::try_acquire(open_files);
        while quota.is_none() && shard.open_files > 0 {
            shard.evict(|other| other.open_files > 0);
            quota = DescriptorQuota::try_acquire(open_files);
        }
        // Other roots hold the whole quota, so the file is opened for each request.
        let Some(quota) = quota else { return };
        shard.bytes += bytes;
        shard.open_files += open_files;
        let path = path.as_bytes().into();
        let resource = resource.clone();
        let entry = CacheEntry {
            path,
            resource,
            fresh_until: now + self.bounds.fresh,
            used: shard.tick,
            _quota: quota,
        };
        shard.entries.insert(hash, entry);
        debug_assert!(shard.bytes <= bytes_max && shard.entries.len() <= files_max, "the cache is bounded");
        debug_assert!(
            shard.open_files <= open_files_max,
            "a shard holds no more than its share of descriptors"
        );
    }

    /// Removes the entry of a file that no longer exists.
    pub(super) fn remove(&self, path: &RelativePath<'_>) {
        let (hash, mut shard) = self.shard(path.as_bytes());
        shard.remove(hash);
    }

    /// The counts so far.
    pub(super) fn counts(&self) -> FileCacheCounts {
        let mut counts = FileCacheCounts::default();
        self.shards.iter().for_each(|shard| counts += lock(shard).counts());
        counts.hits += self.recent_hits.iter().map(|hits| hits.0.load(Ordering::Relaxed)).sum::<u64>();
        counts
    }

    /// The hash of a path, and the shard that it is in.
    fn shard(&self, path: &[u8]) -> (u64, MutexGuard<'_, Shard>) {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(path);
        let hash = hasher.finish();
        // A hash map uses the bits at both ends, so those in the middle choose the shard.
        let index = (hash >> 32) as usize % self.shards.len();
        (hash, lock(&self.shards[index]))
    }
}

/// A shard is scanned to find its least recently used file, so it is small.
const FILES_PER_SHARD: usize = 64;

const SHARDS_MAX: usize = 64;

/// In effect for ever, and still within the range of [`Instant`].
const FRESH_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

const _: () = assert!(
    DescriptorQuota::MAX / SHARDS_MAX > StoredCoding::ALL.len(),
    "each shard has room for a file in all codings"
);

impl Shard {
    /// Drops all entries. The counts of look-ups go on.
    fn clear(&mut self) {
        let Shard { tick, misses, .. } = *self;
        *self = Shard { tick, misses, ..Shard::default() };
    }

    fn counts(&self) -> FileCacheCounts {
        FileCacheCounts {
            hits: self.tick - self.misses,
            misses: self.misses,
            files: self.entries.len() as u64,
            bytes: self.bytes as u64,
        }
    }

    fn remove(&mut self, hash: u64) {
        if let Some(entry) = self.entries.remove(&hash) {
            self.bytes -= entry.resource.cost();
            self.open_files -= entry.resource.open_files;
        }
        let is_counted = !self.entries.is_empty() || (self.bytes, self.open_files) == (0, 0);
        debug_assert!(is_counted, "an empty shard holds no bytes and no files");
    }

    /// Removes the least recently used file of those that `is_fit` accepts.
    fn evict(&mut self, is_fit: impl Fn(&Resource) -> bool) {
        let fit = self.entries.iter().filter(|(_, entry)| is_fit(&entry.resource));
        let oldest = fit.min_by_key(|(_, entry)| entry.used).map(|(hash, _)| *hash);
        if let Some(hash) = oldest {
            self.remove(hash);
        }
    }
}

/// A hasher for values that already are hashes.
#[derive(Default)]
struct PassThroughHasher(u64);

impl Hasher for PassThroughHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|octet| self.0 = self.0.rotate_left(8) ^ u64::from(*octet));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A share of the descriptors that the process may keep open between requests, returned on drop.
///
/// Descriptors are shared by the process: if each root had a bound of its own, a few roots could leave none for
/// connections.
#[derive(Debug)]
struct DescriptorQuota(usize);

impl DescriptorQuota {
    /// How many files are kept open in total. Most systems give a process 1,024 descriptors, and connections need them.
    const MAX: usize = 256;

    /// Acquires descriptors for `count` more files, if that many are left.
    fn try_acquire(count: usize) -> Option<DescriptorQuota> {
        let mut acquired = lock(&ACQUIRED);
        let has_left = count == 0 || *acquired + count <= *LIMIT;
        has_left.then(|| {
            *acquired += count;
            DescriptorQuota(count)
        })
    }
}

impl Drop for DescriptorQuota {
    fn drop(&mut self) {
        let mut acquired = lock(&ACQUIRED);
        debug_assert!(self.0 <= *acquired, "only acquired descriptors are returned");
        *acquired -= self.0;
    }
}

static ACQUIRED: Mutex<usize> = Mutex::new(0);

/// [`DescriptorQuota::MAX`], or a quarter of the descriptors that the process may open, if that is less.
static LIMIT: LazyLock<usize> = LazyLock::new(|| DescriptorQuota::MAX.min(descriptor_limit() / 4));

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::iter;
    use std::ops::Range;

    use bytes::Bytes;

    use super::*;
    use crate::fs::resource::Description;
    use crate::fs::snapshot::{FileContent, Snapshot};

    fn resource(content: FileContent) -> Arc<Resource> {
        let whole = Snapshot::undated(content, String::new());
        Arc::new(Resource::new(Description::new("text/plain".to_owned(), None), whole, Vec::new()).unwrap())
    }

    fn insert(cache: &Cache, path: String, resource: &Arc<Resource>, now: Instant) {
        let path = RelativePath::new(path.into_bytes()).unwrap();
        cache.insert(&path, resource, cache.generation(), now);
    }

    /// A request that found a file in the old root just before must not insert it into the cache of the new one.
    #[test]
    fn no_file_of_a_replaced_root_is_inserted() {
        let cache = Cache::new(FileCacheLimits::default());
        let resource = resource(FileContent::Bytes(Bytes::from_static(b"x")));
        let now = Instant::now();
        insert(&cache, "a".to_owned(), &resource, now);
        let generation = cache.generation();
        cache.clear();
        cache.insert(&RelativePath::new(&b"b"[..]).unwrap(), &resource, generation, now);
        assert!(cache.get(b"a", now).is_none() && cache.get(b"b", now).is_none());
        insert(&cache, "b".to_owned(), &resource, now);
        assert!(cache.get(b"b", now).is_some());
        let bytes = resource.cost() as u64;
        assert_eq!(cache.counts(), FileCacheCounts { hits: 1, misses: 2, files: 1, bytes });
        cache.clear();
        assert_eq!(cache.counts(), FileCacheCounts { hits: 1, misses: 2, files: 0, bytes: 0 });
    }

    #[test]
    fn all_shards_together_keep_no_more_than_the_bounds() {
        let small = resource(FileContent::Bytes(Bytes::from_static(b"x")));
        for (files_max, bytes_max) in [(256, usize::MAX), (usize::MAX, 1 << 20)] {
            let bounds =
                FileCacheLimits { files_max, bytes_max, file_bytes_max: 1, ..FileCacheLimits::default() };
            let cache = Cache::new(bounds);
            assert!(cache.shards.len() > 1);
            // Each is kept a second time in place of the first.
            for number in (0..5_000).flat_map(|number| [number; 2]) {
                insert(&cache, number.to_string(), &small, Instant::now());
            }
            let shards = || cache.shards.iter().map(lock);
            let files = shards().map(|shard| shard.entries.len()).sum::<usize>();
            let bytes = shards().map(|shard| shard.bytes).sum::<usize>();
            assert!(files <= files_max && bytes <= bytes_max, "{files} files of {bytes} bytes");
            assert!(4 * files > files_max || 4 * bytes > bytes_max, "{files} files of {bytes} bytes");
            assert_eq!(bytes, files * small.cost());
        }
    }

    /// Files that are kept open must leave descriptors for connections.
    #[test]
    fn few_files_are_kept_open_and_the_most_recently_used_ones() {
        let file = Arc::new(File::open("Cargo.toml").unwrap());
        let insert_all = |cache: &Cache, numbers: Range<usize>| {
            numbers.for_each(|number| {
                let path = number.to_string();
                let large = resource(FileContent::File(file.clone(), 1 << 20));
                insert(cache, path.clone(), &large, Instant::now());
                cache.get(path.as_bytes(), Instant::now());
            });
        };
        let many = Cache::new(FileCacheLimits {
            files_max: usize::MAX,
            bytes_max: usize::MAX,
            ..FileCacheLimits::default()
        });
        insert_all(&many, 0..1000);
        let count = |shard: &Mutex<Shard>| {
            let shard = lock(shard);
            (shard.entries.len(), shard.open_files)
        };
        let shards = Vec::from_iter(many.shards.iter().map(count));
        let each_max = DescriptorQuota::MAX / SHARDS_MAX;
        assert!(
            shards.iter().all(|(files, open_files)| files == open_files && *open_files <= each_max),
            "{shards:?}"
        );
        drop(many);
        // Other roots leave descriptors for two files.
        let mut others = Vec::from_iter(iter::from_fn(|| DescriptorQuota::try_acquire(1)));
        others.truncate(others.len() - 2);
        let one = Cache::new(FileCacheLimits { files_max: FILES_PER_SHARD, ..FileCacheLimits::default() });
        let small = resource(FileContent::Bytes(Bytes::from_static(b"x")));
        insert(&one, "small".to_owned(), &small, Instant::now());
        insert_all(&one, 0..4);
        let kept =
            ["small", "0", "1", "2", "3"].map(|path| one.get(path.as_bytes(), Instant::now()).is_some());
        assert_eq!(kept, [true, false, false, true, true]);
    }

    /// An entry that was fresh until recently is served to concurrent requests; one that was not requested in days is
    /// not.
    #[test]
    fn while_one_request_checks_a_file_others_get_the_entry_that_was_fresh_lately() {
        let resource = resource(FileContent::Bytes(Bytes::from_static(b"x")));
        let kept_at = Instant::now();
        for (after, others) in [(1000, true), (1999, true), (2000, false), (86_400_000, false)] {
            let cache = Cache::new(FileCacheLimits::default());
            insert(&cache, "a".to_owned(), &resource, kept_at);
            let found = |after| cache.get(b"a", kept_at + Duration::from_millis(after)).is_some();
            assert!(found(999), "it is fresh");
            assert!(!found(after), "the first request checks it");
            assert_eq!([found(after), found(after + 999)], [others; 2], "{after} ms later");
        }
    }
}
