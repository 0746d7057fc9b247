//! [`CacheTable`]: the caches of files, by the names that the application has given them.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::{Mutex, Weak};

use super::metrics_writer::MetricsWriter;
use crate::memory::lock;

/// A cache that counts its look-ups.
pub(crate) trait CountedCache: Send + Sync {
    /// The counts so far.
    fn counts(&self) -> CacheCounts;
}

/// The counts of one cache, or of several together.
#[derive(Clone, Copy, Default)]
pub(crate) struct CacheCounts {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// How many files are kept.
    pub(crate) files: u64,
    /// How many bytes count towards the bound of the cache.
    pub(crate) bytes: u64,
}

/// The caches of each name. None is kept alive, since a cache can hold many files.
#[derive(Default)]
pub(super) struct CacheTable(Mutex<BTreeMap<Box<str>, Caches>>);

type Caches = Vec<Weak<dyn CountedCache>>;

impl CacheTable {
    /// Adds a cache, unless it is known by this name.
    pub(super) fn add(&self, name: &str, cache: Weak<dyn CountedCache>) {
        let mut by_name = lock(&self.0);
        by_name.retain(|_, caches| {
            caches.retain(|cache| cache.strong_count() > 0);
            !caches.is_empty()
        });
        let caches = by_name.entry(name.into()).or_default();
        if !caches.iter().any(|known| known.ptr_eq(&cache)) {
            caches.push(cache);
        }
    }

    /// Writes the counts of each name that has caches left.
    pub(super) fn write(&self, writer: &mut MetricsWriter) {
        let counts = self.counts();
        if counts.is_empty() {
            return;
        }
        for (name, help, count) in CACHE_COUNTERS {
            let mut counter = writer.counter(&format!("corehttp_file_cache_{name}"), help);
            counts
                .iter()
                .for_each(|(cache, counts)| counter.value(&[("cache", cache)], count(counts) as f64));
        }
        for (name, help, count) in CACHE_GAUGES {
            let mut gauge = writer.gauge(&format!("corehttp_file_cache_{name}"), help);
            counts.iter().for_each(|(cache, counts)| gauge.value(&[("cache", cache)], count(counts) as f64));
        }
    }

    fn counts(&self) -> BTreeMap<Box<str>, CacheCounts> {
        let mut by_name = BTreeMap::<_, CacheCounts>::new();
        for (name, caches) in &*lock(&self.0) {
            for cache in caches.iter().filter_map(Weak::upgrade) {
                *by_name.entry(name.clone()).or_default() += cache.counts();
            }
        }
        by_name
    }
}

impl AddAssign for CacheCounts {
    fn add_assign(&mut self, other: CacheCounts) {
        let CacheCounts { hits, misses, files, bytes } = other;
        self.hits += hits;
        self.misses += misses;
        self.files += files;
        self.bytes += bytes;
    }
}

/// The name of a metric of a cache, its meaning, and the count.
type CacheMetric = (&'static str, &'static str, fn(&CacheCounts) -> u64);

const CACHE_COUNTERS: [CacheMetric; 2] = [
    ("hits_total", "Look-ups that found a file.", |cache| cache.hits),
    ("misses_total", "Look-ups that found no file, or one to be checked again.", |cache| cache.misses),
];

const CACHE_GAUGES: [CacheMetric; 2] = [
    ("files", "Files that are kept, in memory or open.", |cache| cache.files),
    ("bytes", "Bytes that count towards the bound of the cache.", |cache| cache.bytes),
];
