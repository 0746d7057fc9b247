//! Systems without openat2(2): paths are walked name by name.

use std::fs::{self, DirEntry, File};
use std::io;

use super::{Disk, Entry, Links, walk};

pub(super) fn open(disk: &Disk, path: &str, links: Links) -> io::Result<File> {
    walk::open(disk, path, links)
}

pub(super) fn entries<'a>(
    disk: &'a Disk,
    _: &File,
    path: &'a str,
    links: Links,
) -> io::Result<impl Iterator<Item = io::Result<Entry>> + 'a> {
    // A name that is not UTF-8 cannot be requested.
    let entry = move |found: DirEntry| match found.file_name().to_str() {
        Some(name) => disk.entry(path, name, links),
        None => Ok(None),
    };
    let found = fs::read_dir(disk.path.join(path))?;
    Ok(found.filter_map(move |found| found.and_then(entry).transpose()))
}

/// The default of macOS.
pub(super) fn descriptors() -> usize {
    256
}
