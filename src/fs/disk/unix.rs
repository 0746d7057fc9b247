//! Unix: a path is opened name by name, each in the directory before it.
//!
//! Links are never followed by the system, and each directory is held by its descriptor. So renaming one meanwhile
//! cannot lead out of the root. cap-std does the same, for more systems and with 13 more crates.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, DirEntry, FileType, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::fs::path::Links;

/// The octets of a path, which Unix takes as they are.
pub(super) fn as_path(path: &[u8]) -> io::Result<&Path> {
    Ok(Path::new(OsStr::from_bytes(path)))
}

/// Opens the file or directory at `path` below the directory `dir`, which is at `root`.
pub(super) fn open(dir: &File, root: &Path, path: &Path, links: Links) -> io::Result<File> {
    match links {
        Links::Refused => open_names(dir, path),
        Links::Followed => open_names(dir, &resolve_links(root, path)?),
    }
}

/// Resolves the links in a path below the directory at `root`. A path that leads out of the root is not found.
pub(super) fn resolve_links(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let whole = root.join(path).canonicalize();
    let whole = whole.map_err(|cause| Errno::from_io_error(&cause).map_or(cause, io_error))?;
    let below = whole.strip_prefix(root).map_err(|_| io::ErrorKind::NotFound)?;
    Ok(below.to_owned())
}

/// How files are opened: with `NONBLOCK`, so that opening a pipe does not wait for its writer.
pub(super) const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Links that lead out of the root or in circles, names that no file may have, and sockets, which cannot be opened,
/// count as not there.
pub(super) fn io_error(errno: Errno) -> io::Error {
    match errno {
        Errno::LOOP | Errno::XDEV | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::NXIO | Errno::ILSEQ => {
            io::ErrorKind::NotFound.into()
        }
        errno => errno.into(),
    }
}

/// Opens the directory at `path`, which may be anywhere.
pub(super) fn open_root(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// The device and the inode of a directory: no other directory has both while this one is open.
pub(super) type FileId = (u64, u64);

pub(super) fn file_id(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// The names in the directory `dir` that may be those of files and directories.
pub(super) fn names(
    dir: &File,
    _: &Path,
    _: &[u8],
    links: Links,
) -> io::Result<impl Iterator<Item = io::Result<Vec<u8>>> + use<>> {
    let name = move |found: DirEntry| {
        let is_candidate = match (found.file_type(), links) {
            (FileType::Symlink, Links::Refused) => false,
            (FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::Unknown, _) => true,
            _ => false,
        };
        let name = found.file_name().to_bytes();
        (is_candidate && !matches!(name, b"." | b"..")).then(|| name.to_owned())
    };
    let found = Dir::read_from(dir)?;
    Ok(found.filter_map(move |found| found.map_err(io::Error::from).map(name).transpose()))
}

/// How many file descriptors the process may have open.
pub(in crate::fs) fn descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| limit.try_into().ok()).unwrap_or(usize::MAX)
}

fn open_names(root: &File, path: &Path) -> io::Result<File> {
    let mut names = path.iter();
    let last = names.next_back().unwrap_or(".".as_ref());
    let mut directory: Option<OwnedFd> = None;
    let at = |directory: &Option<OwnedFd>, name, flags| {
        let dir: BorrowedFd<'_> = directory.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        openat(dir, name, FLAGS | OFlags::NOFOLLOW | flags, Mode::empty()).map_err(io_error)
    };
    for name in names {
        directory = Some(at(&directory, name, OFlags::DIRECTORY)?);
    }
    Ok(at(&directory, last, OFlags::empty())?.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fs::disk::RootDir;

    /// The walk and the system's own resolution agree on each path.
    #[test]
    fn names_are_opened_as_the_system_resolves_their_path() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        for path in ["secret", "root/x", "root/a/y"] {
            fs::write(outside.path().join(path), path).unwrap();
        }
        let absolute = |path: &str| outside.path().join(path).into_os_string().into_string().unwrap();
        let links = [
            ("up", "..".to_owned()),
            ("out", "../secret".to_owned()),
            ("in", "a/y".to_owned()),
            ("dir", "a".to_owned()),
            ("loop", "loop".to_owned()),
            ("a/b/x", "../../x".to_owned()),
            ("whole", absolute("root/a/y")),
            ("whole-dir", absolute("root/a")),
            ("whole-root", absolute("root")),
            ("whole-out", absolute("secret")),
            ("whole-up", absolute("root/..")),
            ("round", "../root/x".to_owned()),
            ("again", "whole".to_owned()),
        ];
        links.iter().for_each(|(name, target)| symlink(target, root.join(name)).unwrap());
        let dir = RootDir::new(&root).unwrap();
        let file = open_root(&dir.path).unwrap();
        let paths = [
            ("", true, true),
            ("x", true, true),
            ("a", true, true),
            ("a/y", true, true),
            ("in", false, true),
            ("dir/y", false, true),
            ("dir", false, true),
            ("a/b/x", false, true),
            ("whole", false, true),
            ("whole-dir", false, true),
            ("whole-dir/y", false, true),
            ("whole-root/a/y", false, true),
            ("round", false, true),
            ("again", false, true),
            ("none", false, false),
            ("x/y", false, false),
            ("up", false, false),
            ("up/secret", false, false),
            ("out", false, false),
            ("whole-out", false, false),
            ("whole-up", false, false),
            ("whole-up/secret", false, false),
            ("loop", false, false),
            ("loop/x", false, false),
        ];
        let long = "n".repeat(300);
        for (path, refused, followed) in paths.into_iter().chain([(&*long, false, false)]) {
            for (links, expected) in [(Links::Refused, refused), (Links::Followed, followed)] {
                let expected = if expected { Ok(()) } else { Err(io::ErrorKind::NotFound) };
                let walked = open(&file, &dir.path, Path::new(path), links).map(drop);
                let resolved = dir.open(path.as_bytes(), links).map(drop);
                assert_eq!(walked.map_err(|error| error.kind()), expected, "{path} {links:?}");
                assert_eq!(resolved.map_err(|error| error.kind()), expected, "{path} {links:?}");
            }
        }
    }

    /// While a path is walked, a directory on it becomes a link that leads out, and then a directory again.
    #[test]
    fn no_rename_leads_out_of_the_root() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("root");
        fs::create_dir_all(root.join("a")).unwrap();
        fs::create_dir(outside.path().join("out")).unwrap();
        for (path, content) in [("out/x", "secret"), ("root/a/x", "open")] {
            fs::write(outside.path().join(path), content).unwrap();
        }
        let dir = RootDir::new(&root).unwrap();
        let is_over = AtomicBool::new(false);
        let file = open_root(&dir.path).unwrap();
        let swap = || {
            while !is_over.load(Ordering::Relaxed) {
                fs::rename(root.join("a"), root.join("b")).unwrap();
                symlink("../out", root.join("a")).unwrap();
                fs::remove_file(root.join("a")).unwrap();
                fs::rename(root.join("b"), root.join("a")).unwrap();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(swap);
            for links in [Links::Refused, Links::Followed].repeat(3000) {
                let Ok(file) = open(&file, &dir.path, Path::new("a/x"), links) else { continue };
                let content = io::read_to_string(file).unwrap();
                assert_eq!(content, "open", "{links:?}");
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
