//! [`RootDir`]: a directory, and nothing that is not below it; and [`DiskRoot`]: the one that is at a path now.

use std::fs::{File, Metadata};
use std::io;
use std::path::{self, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use super::system;
use crate::descriptors::{is_out_of_descriptors, with_descriptors};
use crate::fs::listing::DirEntry;
use crate::fs::path::{Links, join};
use crate::memory::{read_lock, write_lock};

/// A directory whose files are served.
#[derive(Debug)]
pub(in crate::fs) struct RootDir {
    /// The canonical path, without links.
    pub(in crate::fs) path: PathBuf,
    dir: File,
    file_id: system::FileId,
}

/// The file or directory at a path. A pipe, a socket or a device counts as not there.
#[derive(Debug)]
pub(in crate::fs) enum Node {
    File(File, Metadata),
    Directory(File),
}

impl RootDir {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    ///
    /// Fails if the path does not exist, or is not a directory.
    pub(in crate::fs) fn new(path: &Path) -> io::Result<RootDir> {
        let open = || {
            let path = path.canonicalize()?;
            let dir = with_descriptors(|| system::open_root(&path))?;
            let metadata = dir.metadata()?;
            match metadata.is_dir() {
                true => Ok(RootDir { path, dir, file_id: system::file_id(&metadata) }),
                false => Err(io::Error::from(io::ErrorKind::NotADirectory)),
            }
        };
        // Usually only the text of an `io::Error` is displayed, so it states both the path and the cause.
        open()
            .map_err(|cause| io::Error::new(cause.kind(), format!("cannot open {}: {cause}", path.display())))
    }

    /// Whether both are the same directory, at the same place.
    pub(in crate::fs) fn is_same(&self, other: &RootDir) -> bool {
        self.file_id == other.file_id && self.path == other.path
    }

    /// Opens the file or directory at `path`, which must be relative, without a `/` at its end.
    ///
    /// # Errors
    ///
    /// Fails with `NotFound` for anything that is not there, is not below the root, or must not be served.
    pub(in crate::fs) fn open(&self, path: &[u8], links: Links) -> io::Result<Node> {
        debug_assert!(
            !path.starts_with(b"/") && !path.ends_with(b"/"),
            "the path is relative, and names a file"
        );
        let file = system::open(&self.dir, &self.path, system::as_path(path)?, links)?;
        let metadata = file.metadata()?;
        match (metadata.is_file(), metadata.is_dir()) {
            (true, _) => Ok(Node::File(file, metadata)),
            (_, true) => Ok(Node::Directory(file)),
            (false, false) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Lists the directory `dir`, which is at `path`: files and directories.
    pub(in crate::fs) fn entries<'a>(
        &'a self,
        dir: &File,
        path: &'a [u8],
        links: Links,
    ) -> io::Result<impl Iterator<Item = io::Result<DirEntry>> + 'a> {
        let entry = move |name: Vec<u8>| self.entry(path, name, links);
        let names = system::names(dir, &self.path, path, links)?;
        Ok(names.filter_map(move |name| name.and_then(entry).transpose()))
    }

    /// The entry for `name` in the directory at `path`. A file that cannot be opened has none, since a link to it on a
    /// page would be dead.
    ///
    /// # Errors
    ///
    /// Fails if there are no descriptors left: existing files would seem to be gone.
    fn entry(&self, path: &[u8], name: Vec<u8>, links: Links) -> io::Result<Option<DirEntry>> {
        let path = join(path, &name);
        let (size, metadata) = match self.open(&path, links) {
            Ok(Node::File(_, metadata)) => (Some(metadata.len()), metadata),
            Ok(Node::Directory(dir)) => (None, dir.metadata()?),
            Err(error) if is_out_of_descriptors(&error) => return Err(error),
            Err(_) => return Ok(None),
        };
        Ok(Some(DirEntry { name, size, modified: metadata.modified().ok() }))
    }
}

/// The directory that is currently at a path. If another one takes its place, because it is removed and made again,
/// renamed, or reached by a link that is switched, the next check of the path finds that one.
#[derive(Debug)]
pub(in crate::fs) struct DiskRoot {
    /// Absolute; links in the path are resolved by each check.
    path: PathBuf,
    /// The directory, or why there is none.
    current: RwLock<Result<Arc<RootDir>, io::ErrorKind>>,
    opened_at: Instant,
    /// When the path is to be checked next, in milliseconds after `opened_at`.
    next_check: AtomicU64,
}

impl DiskRoot {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    ///
    /// Fails if the path does not lead to a directory that can be read.
    pub(in crate::fs) fn new(path: PathBuf) -> io::Result<DiskRoot> {
        let dir = RootDir::new(&path)?;
        // The process may change its working directory later.
        let path = path::absolute(path)?;
        debug_assert!(path.is_absolute(), "a check must not depend on the working directory");
        let current = RwLock::new(Ok(Arc::new(dir)));
        let next_check = AtomicU64::new(CHECK_INTERVAL.as_millis() as u64);
        Ok(DiskRoot { path, current, opened_at: Instant::now(), next_check })
    }

    /// Whether the path is to be checked again. Of several callers at a time one gets `true`.
    pub(in crate::fs) fn is_due(&self, now: Instant) -> bool {
        let next_check = self.next_check.load(Ordering::Relaxed);
        // Each request comes here: a sum and a comparison take half as long as a difference in milliseconds.
        if now < self.opened_at + Duration::from_millis(next_check) {
            return false;
        }
        let after_now = (now + CHECK_INTERVAL).saturating_duration_since(self.opened_at);
        let later = after_now.as_millis().try_into().unwrap_or(u64::MAX);
        self.next_check.compare_exchange(next_check, later, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Checks the path, which may block. Returns whether the directory was replaced, has appeared, or has disappeared.
    pub(in crate::fs) fn refresh(&self) -> bool {
        let found = match RootDir::new(&self.path) {
            Ok(dir) => Ok(Arc::new(dir)),
            Err(error) if is_about_path(&error) => Err(error.kind()),
            // For example, the process has too many open files.
            Err(_) => return false,
        };
        let mut current = write_lock(&self.current);
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

    /// Checks the path if it is time for that, which may block.
    pub(in crate::fs) fn refresh_if_due(&self) {
        if self.is_due(Instant::now()) {
            self.refresh();
        }
    }

    /// The directory that was there when the path was last checked.
    ///
    /// # Errors
    ///
    /// Fails if there was none, or one that must not be read.
    pub(in crate::fs) fn current_dir(&self) -> io::Result<Arc<RootDir>> {
        read_lock(&self.current).clone().map_err(io::Error::from)
    }
}

/// Half of the second within which [`Files::new`](crate::fs::Files::new) promises another directory: the rest is for the
/// check itself.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Whether opening failed because of the path, and not for lack of descriptors or memory.
fn is_about_path(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}
