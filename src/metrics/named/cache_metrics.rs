//! [`CacheTable`]: the caches of files, by the names that the application has given them.

use std::collections::BTreeMap;
use std::iter::zip;
use std::sync::{Mutex, Weak};

use crate::memory::lock;
use crate::metrics::Writer;

/// A cache that counts its look-ups.
pub(crate) trait CountedCache: Send + Sync {
    /// The counts so far.
    fn counts(&self) -> CacheCounts;
}

/// The counts of one cache, or of several together, in the order of [`CACHE_METRICS`].
pub(crate) type CacheCounts = [u64; CACHE_METRICS.len()];

/// The kind of a metric of a cache, its name, and its meaning.
const CACHE_METRICS: [(&str, &str, &str); 4] = [
    ("counter", "hits_total", "Look-ups that found a file."),
    ("counter", "misses_total", "Look-ups that found no file, or one to be checked again."),
    ("gauge", "files", "Files that are kept, in memory or open."),
    ("gauge", "bytes", "Bytes that count towards the bound of the cache."),
];

/// The caches of each name. None is kept alive, since a cache can hold many files.
#[derive(Default)]
pub(in crate::metrics) struct CacheTable(Mutex<BTreeMap<Box<str>, Caches>>);

type Caches = Vec<Weak<dyn CountedCache>>;

impl CacheTable {
    /// Adds a cache, unless it is known by this name.
    pub(in crate::metrics) fn add(&self, name: &str, cache: Weak<dyn CountedCache>) {
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
    pub(in crate::metrics) fn write(&self, writer: &mut Writer) {
        let counts = self.counts();
        if counts.is_empty() {
            return;
        }
        for (place, (kind, name, help)) in CACHE_METRICS.into_iter().enumerate() {
            let mut samples = writer.metric(&format!("corehttp_file_cache_{name}"), kind, help);
            counts
                .iter()
                .for_each(|(cache, counts)| samples.value(&[("cache", cache)], counts[place] as f64));
        }
    }

    pub(in crate::metrics) fn counts(&self) -> BTreeMap<Box<str>, CacheCounts> {
        let mut by_name = BTreeMap::<_, CacheCounts>::new();
        for (name, caches) in &*lock(&self.0) {
            for cache in caches.iter().filter_map(Weak::upgrade) {
                let sums = by_name.entry(name.clone()).or_default();
                zip(sums, cache.counts()).for_each(|(sum, count)| *sum += count);
            }
        }
        by_name
    }
}
