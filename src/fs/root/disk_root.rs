//! [`DiskRoot`]: the directory that is at a path now.

use std::io;
use std::path::{self, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::disk::RootDir;
use crate::memory::lock;

/// The directory that is at a path. If another one takes its place, because it is removed and made again, renamed, or
/// reached by a link that is switched, that one is found the next time the path is checked.
#[derive(Debug)]
pub(in crate::fs) struct DiskRoot {
    /// Absolute, with the links in it.
    path: PathBuf,
    /// The directory, or why there is none.
    current: Mutex<Result<Arc<RootDir>, io::ErrorKind>>,
    opened_at: Instant,
    /// When the path was checked, in milliseconds after `opened_at`.
    checked_at: AtomicU64,
}

impl DiskRoot {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    ///
    /// Fails if the path does not lead to a directory that can be read.
    pub(in crate::fs) fn new(path: PathBuf) -> io::Result<DiskRoot> {
        let dir = RootDir::new(&path)?;
        // The process may change its directory.
        let path = path::absolute(path)?;
        let current = Mutex::new(Ok(Arc::new(dir)));
        Ok(DiskRoot { path, current, opened_at: Instant::now(), checked_at: AtomicU64::new(0) })
    }

    /// Whether the path is to be checked again. Of several callers at a time one gets `true`.
    pub(in crate::fs) fn is_due(&self, now: Instant) -> bool {
        let now = now.saturating_duration_since(self.opened_at).as_millis().try_into().unwrap_or(u64::MAX);
        let checked_at = self.checked_at.load(Ordering::Relaxed);
        let is_due = now >= checked_at.saturating_add(CHECK_INTERVAL.as_millis() as u64);
        is_due
            && self.checked_at.compare_exchange(checked_at, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Checks the path. Returns whether there is another directory now, or one where none was, or none any more. This
    /// may block.
    pub(in crate::fs) fn refresh(&self) -> bool {
        let found = match RootDir::new(&self.path) {
            Ok(dir) => Ok(Arc::new(dir)),
            Err(error) if is_about_path(&error) => Err(error.kind()),
            // For example, the process has too many open files.
            Err(_) => return false,
        };
        let mut current = lock(&self.current);
        let is_same = match (&*current, &found) {
            (Ok(old), Ok(new)) => old.is_same(new),
            (Err(old), Err(new)) => old == new,
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
        };
        if !is_same {
            *current = found;
        }
        !is_same
    }

    /// The directory that was there when the path was last checked.
    ///
    /// # Errors
    ///
    /// Fails if there was none, or one that must not be read.
    pub(in crate::fs) fn current_dir(&self) -> io::Result<Arc<RootDir>> {
        lock(&self.current).clone().map_err(io::Error::from)
    }
}

/// Half of the second in which another directory is to be found: the rest is for the check itself.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Whether opening failed because of what is at the path, and not for want of something else.
fn is_about_path(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}
