//! Systems other than Unix, such as Windows: the names of a path are checked before it is opened as a whole.
//!
//! A process that may replace directories below the root by links could do so between the check and the opening, and
//! lead a request out of the root.

use std::fs::{self, DirEntry, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::fs::path::Links;

/// The octets of a path as text. Names are Unicode on Windows, so no file has another path.
pub(super) fn as_path(path: &[u8]) -> io::Result<&Path> {
    str::from_utf8(path).map(Path::new).map_err(|_| io::ErrorKind::NotFound.into())
}

pub(super) fn open(_: &File, root: &Path, path: &Path, links: Links) -> io::Result<File> {
    let whole = match links {
        Links::Refused => check_names(root, path),
        Links::Followed => root.join(path).canonicalize(),
    };
    let whole = whole.map_err(normalize_error)?;
    let is_special = |metadata: Metadata| !metadata.is_file() && !metadata.is_dir();
    if !whole.starts_with(root) || fs::metadata(&whole).map(is_special).map_err(normalize_error)? {
        return Err(io::ErrorKind::NotFound.into());
    }
    open_root(&whole).map_err(normalize_error)
}

/// Opens a file or a directory, which may be anywhere. Windows opens directories only with this flag.
pub(super) fn open_root(path: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;

    const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
    fs::OpenOptions::new().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)
}

/// The time when a directory was created, which earlier directories at its path do not have.
pub(super) type FileId = Option<SystemTime>;

pub(super) fn file_id(metadata: &Metadata) -> FileId {
    metadata.created().ok()
}

/// The names in the directory that is at `path` below `root`.
pub(super) fn names(
    _: &File,
    root: &Path,
    path: &[u8],
    _: Links,
) -> io::Result<impl Iterator<Item = io::Result<Vec<u8>>> + use<>> {
    let name = |found: DirEntry| found.file_name().into_encoded_bytes();
    Ok(fs::read_dir(root.join(as_path(path)?))?.map(move |found| found.map(name)))
}

/// Windows bounds files by memory only.
pub(in crate::fs) fn descriptor_limit() -> usize {
    usize::MAX
}

/// Returns the whole path, if none of its names is a link.
fn check_names(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut whole = root.to_owned();
    for name in path {
        whole.push(name);
        if fs::symlink_metadata(&whole)?.is_symlink() {
            return Err(io::ErrorKind::NotFound.into());
        }
    }
    Ok(whole)
}

/// Reduces errors to the kinds that matter to a peer: not found, not permitted, and busy.
fn normalize_error(error: io::Error) -> io::Error {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    match error.kind() {
        NotADirectory | InvalidFilename => NotFound.into(),
        _ => error,
    }
}
