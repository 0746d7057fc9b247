//! Linux: openat2(2), which resolves paths beneath a directory only.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, ResolveFlags, openat2};
use rustix::io::Errno;

pub(in crate::fs) use super::unix::descriptor_limit;
use super::unix::{self, FLAGS, io_error, resolve_links};
pub(super) use super::unix::{FileId, as_path, file_id, names, open_root};
use crate::fs::path::Links;

pub(super) fn open(dir: &File, root: &Path, path: &Path, links: Links) -> io::Result<File> {
    match resolve(dir, path, links) {
        // Kernels before 5.6, and sandboxes that refuse the call.
        Err(Errno::NOSYS | Errno::PERM) => unix::open(dir, root, path, links),
        // The kernel takes an absolute link for one that leads out of the root, even if its target is below the root.
        Err(Errno::XDEV) if links == Links::Followed => {
            resolve(dir, &resolve_links(root, path)?, Links::Refused).map_err(io_error)
        }
        resolved => resolved.map_err(io_error),
    }
}

fn resolve(dir: &File, path: &Path, links: Links) -> Result<File, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let resolve = match links {
        Links::Refused => resolve | ResolveFlags::NO_SYMLINKS,
        Links::Followed => resolve,
    };
    for _ in 0..ATTEMPTS {
        match openat2(dir, path, FLAGS, Mode::empty(), resolve) {
            // A directory on the path was renamed meanwhile.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened.map(File::from),
        }
    }
    Err(Errno::BUSY)
}

const ATTEMPTS: usize = 16;
