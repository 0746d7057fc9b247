//! Linux: openat2(2), which resolves paths beneath a directory only.

use std::fs::File;
use std::io;

use rustix::fs::{Dir, DirEntry, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::{Disk, Entry, Links, walk};

pub(super) fn open(disk: &Disk, path: &str, links: Links) -> io::Result<File> {
    let path = if path.is_empty() { "." } else { path };
    // `NONBLOCK`, so that opening a pipe does not wait for its writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let resolve = match links {
        Links::Refused => resolve | ResolveFlags::NO_SYMLINKS,
        Links::Followed => resolve,
    };
    for _ in 0..ATTEMPTS {
        match openat2(&disk.dir, path, flags, Mode::empty(), resolve) {
            Ok(file) => return Ok(file.into()),
            // A directory is being renamed.
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Kernels before 5.6, and sandboxes that do not know the call.
            Err(Errno::NOSYS | Errno::PERM) => return walk::open(disk, path, links),
            Err(errno) => return Err(error(errno)),
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

const ATTEMPTS: usize = 16;

/// Links that lead out of the root or in circles, names that are too long, and what cannot be opened, count as not
/// there.
fn error(errno: Errno) -> io::Error {
    match errno {
        Errno::LOOP | Errno::XDEV | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::NXIO => {
            io::ErrorKind::NotFound.into()
        }
        errno => errno.into(),
    }
}

pub(super) fn entries<'a>(
    disk: &'a Disk,
    dir: &File,
    path: &'a str,
    links: Links,
) -> io::Result<impl Iterator<Item = io::Result<Entry>> + 'a> {
    let entry = move |found: DirEntry| {
        // A name that is not UTF-8 cannot be requested.
        let Ok(name) = found.file_name().to_str() else { return Ok(None) };
        let is_candidate = match (found.file_type(), links) {
            (FileType::Symlink, Links::Refused) => false,
            (FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::Unknown, _) => true,
            _ => false,
        };
        if !is_candidate || matches!(name, "." | "..") {
            return Ok(None);
        }
        disk.entry(path, name, links)
    };
    let found = Dir::read_from(dir)?;
    Ok(found.filter_map(move |found| found.map_err(io::Error::from).and_then(entry).transpose()))
}

pub(super) fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| limit.try_into().ok()).unwrap_or(usize::MAX)
}
