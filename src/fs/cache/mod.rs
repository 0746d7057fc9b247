//! [`Cache`]: the files that were asked for last, in bounded memory.

mod room;

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use self::room::Room;
use super::resource::{FIELDS_COST, Resource, StoredCoding};
use super::root::Below;
use crate::memory::lock;

/// Bounds on what is kept of files between requests, for each root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCache {
    /// Bytes of content in all. Default: 64 MiB.
    pub bytes_max: usize,
    /// How many files. Of those that are too large for memory up to 256 are kept open, but no more than a quarter of
    /// the files that the process may open; this bound is for all roots together. Default: 1,024.
    pub files_max: usize,
    /// How large a file may be to be kept in memory, in bytes, `bytes_max` at most; larger ones are kept open. Default:
    /// 64 KiB.
    pub file_bytes_max: usize,
    /// How long a file is answered from memory before the disk is looked at again: for so long after a change the old
    /// file may be sent, under its old `etag`. The size and the time of a file that is kept open are looked at each
    /// time. Default: 1 s.
    pub fresh: Duration,
}

impl Default for FileCache {
    fn default() -> FileCache {
        FileCache {
            bytes_max: 64 << 20,
            files_max: 1024,
            file_bytes_max: SMALL,
            fresh: Duration::from_secs(1),
        }
    }
}

/// A file that is small is read at once wherever it is, which takes less than to open it and have it sent.
const SMALL: usize = 64 << 10;

/// Files by path. It is in several parts, so that cores seldom wait for each other.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) bounds: FileCache,
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Shard {
    /// By the hash of the path, which nobody outside can tell. Should two files share one, the last is kept.
    slots: HashMap<u64, Slot, BuildHasherDefault<Hashed>>,
    bytes: usize,
    /// So many files are kept open.
    handles: usize,
    /// Counts what is done, to know what was done last.
    tick: u64,
}

#[derive(Debug)]
struct Slot {
    path: Box<str>,
    resource: Arc<Resource>,
    fresh_until: Instant,
    used: u64,
    /// For the files that it keeps open.
    _room: Room,
}

impl Cache {
    pub(super) fn new(bounds: FileCache) -> Cache {
        // Each part has room for a file of the largest size in all its codings.
        let largest =
            bounds.file_bytes_max.saturating_add(FIELDS_COST).saturating_mul(1 + StoredCoding::ALL.len());
        let count = (bounds.files_max / FILES_PER_SHARD).min(bounds.bytes_max / largest).clamp(1, SHARDS_MAX);
        // What can never be kept shall not be read at once either, unless it is small.
        let file_bytes_max = bounds.file_bytes_max.min(bounds.bytes_max.max(SMALL));
        let bounds = FileCache { file_bytes_max, fresh: bounds.fresh.min(FRESH_MAX), ..bounds };
        let shards = (0..count).map(|_| Mutex::default()).collect();
        Cache { bounds, shards, hasher: RandomState::new() }
    }

    /// The file at `path`, if it was looked at lately.
    ///
    /// Whoever is told that it was not is to look; until then all others get what is here.
    pub(super) fn find(&self, path: &str, now: Instant) -> Option<Arc<Resource>> {
        let (hash, mut shard) = self.shard(path);
        shard.tick += 1;
        let tick = shard.tick;
        let slot = shard.slots.get_mut(&hash).filter(|slot| *slot.path == *path)?;
        slot.used = tick;
        if now < slot.fresh_until {
            return Some(slot.resource.clone());
        }
        slot.fresh_until = now + self.bounds.fresh;
        None
    }

    /// Keeps a file that was looked at just now. Those not used for the longest time go.
    pub(super) fn keep(&self, path: &Below<'_>, resource: &Arc<Resource>, now: Instant) {
        let count = self.shards.len();
        let (bytes_max, files_max) = (self.bounds.bytes_max / count, self.bounds.files_max / count);
        let (bytes, handles, handles_max) = (resource.cost(), resource.handles(), Room::MAX / count);
        let (hash, mut shard) = self.shard(path.as_str());
        shard.remove(hash);
        if bytes > bytes_max || handles > handles_max || files_max == 0 {
            return;
        }
        while shard.bytes + bytes > bytes_max || shard.slots.len() >= files_max {
            shard.evict(|_| true);
        }
        while shard.handles + handles > handles_max {
            shard.evict(|other| other.handles() > 0);
        }
        let mut room = Room::take(handles);
        while room.is_none() && shard.handles > 0 {
            shard.evict(|other| other.handles() > 0);
            room = Room::take(handles);
        }
        // Others have it all: the file is opened each time.
        let Some(room) = room else { return };
        shard.bytes += bytes;
        shard.handles += handles;
        let (path, resource) = (path.as_str().into(), resource.clone());
        let slot =
            Slot { path, resource, fresh_until: now + self.bounds.fresh, used: shard.tick, _room: room };
        shard.slots.insert(hash, slot);
    }

    /// Forgets what is not there any more.
    pub(super) fn forget(&self, path: &Below<'_>) {
        let (hash, mut shard) = self.shard(path.as_str());
        shard.remove(hash);
    }

    /// The hash of a path, and the part that it is in.
    fn shard(&self, path: &str) -> (u64, MutexGuard<'_, Shard>) {
        // Not as a `str`, which is hashed with an end mark for what may follow it.
        let mut hasher = self.hasher.build_hasher();
        hasher.write(path.as_bytes());
        let hash = hasher.finish();
        // A map tells its slots apart by the bits at either end, so those in the middle choose it.
        let index = (hash >> 32) as usize % self.shards.len();
        (hash, lock(&self.shards[index]))
    }
}

/// A part is gone through to find what was used last, so it is small.
const FILES_PER_SHARD: usize = 64;

const SHARDS_MAX: usize = 64;

/// As good as for ever, and yet a time that a clock has.
const FRESH_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

const _: () =
    assert!(Room::MAX / SHARDS_MAX > StoredCoding::ALL.len(), "each part has room for a file in all codings");

impl Shard {
    fn remove(&mut self, hash: u64) {
        if let Some(slot) = self.slots.remove(&hash) {
            self.bytes -= slot.resource.cost();
            self.handles -= slot.resource.handles();
        }
    }

    /// Removes what was not used for the longest time of all that `is_fit`.
    fn evict(&mut self, is_fit: impl Fn(&Resource) -> bool) {
        let fit = self.slots.iter().filter(|(_, slot)| is_fit(&slot.resource));
        let oldest = fit.min_by_key(|(_, slot)| slot.used).map(|(hash, _)| *hash);
        if let Some(hash) = oldest {
            self.remove(hash);
        }
    }
}

/// The hasher of what is a hash already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
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
