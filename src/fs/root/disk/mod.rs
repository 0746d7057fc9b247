//! [`RootDir`]: a directory, and nothing that is not below it.
//!
//! This module blocks, so it is used on threads that may wait. There is a file for each kind of operating system, with
//! the same functions.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(unix)]
mod unix;
#[cfg(not(unix))]
mod windows;

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(all(unix, not(target_os = "linux")))]
use unix as system;
#[cfg(not(unix))]
use windows as system;

use super::path::join;

/// A directory whose files are served.
#[derive(Debug)]
pub(in crate::fs) struct RootDir {
    /// The path without links.
    pub(in crate::fs) path: PathBuf,
    #[cfg_attr(not(unix), expect(dead_code, reason = "files are opened by their whole path"))]
    dir: File,
    file_id: system::FileId,
}

/// What to do with symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fs) enum Links {
    Refused,
    /// Followed as long as they stay below the root.
    Followed,
}

/// What a path leads to. Anything else, such as a pipe, a socket or a device, counts as not there.
#[derive(Debug)]
pub(in crate::fs) enum Node {
    File(File, Metadata),
    Directory(File),
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fs) struct Entry {
    /// The octets of the name, which need not be text.
    pub(in crate::fs) name: Vec<u8>,
    /// `None` for a directory.
    pub(in crate::fs) size: Option<u64>,
    pub(in crate::fs) modified: Option<SystemTime>,
}

/// How many file descriptors the process may have open.
pub(in crate::fs) fn descriptor_limit() -> usize {
    system::descriptor_limit()
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
            let dir = system::open_root(&path)?;
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

    /// Opens what is at `path`, which must be relative, without a `/` at its end.
    ///
    /// # Errors
    ///
    /// Fails with `NotFound` for anything that is not there, is not below the root, or must not be served.
    pub(in crate::fs) fn open(&self, path: &[u8], links: Links) -> io::Result<Node> {
        let file = system::open(self, system::as_path(path)?, links)?;
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
    ) -> io::Result<impl Iterator<Item = io::Result<Entry>> + 'a> {
        system::entries(self, dir, path, links)
    }

    /// The entry for `name` in the directory at `path`. What cannot be opened has none, since a link to it would be
    /// dead.
    ///
    /// # Errors
    ///
    /// Fails if there are no descriptors left: what is there would seem to be gone.
    fn entry(&self, path: &[u8], name: &[u8], links: Links) -> io::Result<Option<Entry>> {
        let path = join(path, name);
        let (size, metadata) = match self.open(&path, links) {
            Ok(Node::File(_, metadata)) => (Some(metadata.len()), metadata),
            Ok(Node::Directory(dir)) => (None, dir.metadata()?),
            Err(error) if is_out_of_descriptors(&error) => return Err(error),
            Err(_) => return Ok(None),
        };
        Ok(Some(Entry { name: name.to_owned(), size, modified: metadata.modified().ok() }))
    }
}

/// Whether the process or the system has too many open files.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    cfg!(unix) && matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// The same on all Unix systems.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
