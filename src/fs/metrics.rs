//! [`Metrics::add_files`]: the counts of file caches among metrics.

use std::sync::Arc;

use super::cache::{Cache, FileCacheCounts};
use super::files::Files;
use crate::metrics::{CacheCounts, CountedCache, Metrics};

impl Metrics {
    /// Shows the counts of the cache of `files` among these metrics: see [`Files::counts`].
    ///
    /// The metrics are `corehttp_file_cache_hits_total`, `corehttp_file_cache_misses_total`,
    /// `corehttp_file_cache_files` and `corehttp_file_cache_bytes`. The label `cache` is `name`.
    ///
    /// Several of one name count together, such as one for each core. The counts stay until the files are dropped. Call
    /// [`Files::cache`] and [`Files::host`] before: they make new caches.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Request, Server};
    /// use corehttp::fs::Files;
    /// use corehttp::metrics::{self, Metrics};
    ///
    /// let metrics = Metrics::new();
    /// let files = Files::from_embedded(&[("a.txt", b"hi")]);
    /// metrics.add_files("site", &files);
    ///
    /// let service = Server::new().service(files);
    /// corehttp::block_on(service.respond(Request::get("/a.txt")?))?;
    /// let text = metrics.to_text(metrics::Format::Prometheus);
    /// assert!(text.contains("corehttp_file_cache_misses_total{cache=\"site\"} 1\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_files<N>(&self, name: &str, files: &Files<N>) {
        files.caches().map(Arc::downgrade).for_each(|cache| self.add_cache(name, cache));
    }
}

impl CountedCache for Cache {
    fn counts(&self) -> CacheCounts {
        let FileCacheCounts { hits, misses, files, bytes } = self.counts();
        [hits, misses, files, bytes]
    }
}
