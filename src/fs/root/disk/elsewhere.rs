//! Systems without openat2(2): paths are walked name by name.

use std::fs::{self, File};
use std::io;

use super::{Disk, Entry, Links, walk};

pub(super) fn open(disk: &Disk, path: &str, links: Links) -> io::Result<File> {
    walk::open(disk, path, links)
}

pub(super) fn entries(disk: &Disk, _: &File, path: &str, links: Links, max: usize) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for found in fs::read_dir(disk.path.join(path))? {
        if entries.len() == max {
            break;
        }
        let name = found?.file_name();
        // A name that is not UTF-8 cannot be requested.
        let Some(name) = name.to_str() else { continue };
        entries.extend(disk.entry(path, name, links));
    }
    Ok(entries)
}

/// The default of macOS.
pub(super) fn descriptors() -> usize {
    256
}
