//! Opens a path beneath a directory name by name, where the operating system cannot do so.
//!
//! A process that may rename directories below the root could lead such a walk astray. openat2(2) has no such gap, so
//! it is preferred where it exists.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::{Disk, Links};

pub(super) fn open(disk: &Disk, path: &str, links: Links) -> io::Result<File> {
    let whole = match links {
        Links::Refused => without_links(disk, path),
        Links::Followed => disk.path.join(path).canonicalize(),
    };
    let whole = whole.map_err(plain)?;
    // Opening a pipe would wait for its writer.
    let is_special = |metadata: Metadata| !metadata.is_file() && !metadata.is_dir();
    if !whole.starts_with(&disk.path) || fs::metadata(&whole).map(is_special).map_err(plain)? {
        return Err(io::ErrorKind::NotFound.into());
    }
    open_any(&whole).map_err(plain)
}

/// Opens a file or a directory.
#[cfg(not(windows))]
pub(super) fn open_any(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a file or a directory. Windows opens directories only with this flag.
#[cfg(windows)]
pub(super) fn open_any(path: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;

    const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
    fs::OpenOptions::new().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)
}

/// Returns the whole path, if none of its names is a link.
fn without_links(disk: &Disk, path: &str) -> io::Result<PathBuf> {
    let mut whole = disk.path.clone();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        whole.push(name);
        if fs::symlink_metadata(&whole)?.is_symlink() {
            return Err(io::ErrorKind::NotFound.into());
        }
    }
    Ok(whole)
}

/// Reduces errors to the kinds that matter to a peer: not found, not permitted, and busy.
fn plain(error: io::Error) -> io::Error {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound, PermissionDenied, ResourceBusy};
    match error.kind() {
        NotADirectory | InvalidFilename => NotFound.into(),
        NotFound | PermissionDenied | ResourceBusy => error,
        // The kind for a circle of links is not stable.
        _ if error.raw_os_error().is_some_and(|code| code == ELOOP) => NotFound.into(),
        _ => error,
    }
}

#[cfg(target_os = "linux")]
const ELOOP: i32 = 40;
#[cfg(not(target_os = "linux"))]
const ELOOP: i32 = 62;

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The walk and openat2 agree on each path.
    #[test]
    fn paths_are_walked_as_the_system_resolves_them() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        for path in ["secret", "root/x", "root/a/y"] {
            fs::write(outside.path().join(path), path).unwrap();
        }
        let links = [
            ("up", ".."),
            ("out", "../secret"),
            ("in", "a/y"),
            ("dir", "a"),
            ("loop", "loop"),
            ("a/b/x", "../../x"),
        ];
        links.iter().for_each(|(name, target)| symlink(target, root.join(name)).unwrap());
        let disk = Disk::new(root).unwrap();
        let paths = [
            ("", true, true),
            ("x", true, true),
            ("a", true, true),
            ("a/y", true, true),
            ("in", false, true),
            ("dir/y", false, true),
            ("dir", false, true),
            ("a/b/x", false, true),
            ("none", false, false),
            ("x/y", false, false),
            ("up", false, false),
            ("up/secret", false, false),
            ("out", false, false),
            ("loop", false, false),
            ("loop/x", false, false),
        ];
        let long = "n".repeat(300);
        for (path, refused, followed) in paths.into_iter().chain([(&*long, false, false)]) {
            for (links, expected) in [(Links::Refused, refused), (Links::Followed, followed)] {
                let walked = open(&disk, path, links).map(drop).map_err(|error| error.kind());
                let resolved = disk.open(path, links).map(drop).map_err(|error| error.kind());
                assert_eq!(
                    walked,
                    if expected { Ok(()) } else { Err(io::ErrorKind::NotFound) },
                    "{path} {links:?}"
                );
                assert_eq!(walked, resolved, "{path} {links:?}");
            }
        }
    }
}
