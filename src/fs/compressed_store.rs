//! [`CompressedStore`]: compressed copies of files, in a directory of their own.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use siphasher::sip::SipHasher13;
use tokio::sync::Semaphore;

use super::disk::{DiskRoot, Node};
use super::files::Files;
use super::lookup::CompressFn;
use super::path::Links;
use super::resource::StoredCoding;
use super::snapshot::{Etag, FileContent, ReadOptions, Snapshot, read, truncate_to_second};
use crate::coding::{Coding, encode_once, essence, is_compressible};
use crate::descriptors::with_descriptors;
use crate::memory::lock;
use crate::message::text::percent;
use crate::runtime::available_cores;

impl<N> Files<N> {
    /// Keeps compressed copies of files in the directory `copies`, for clients that prefer these codings (RFC 9110
    /// §12.5.3). The codings are br, gzip and, with the feature `zstd`, zstd.
    ///
    /// The first request for a file waits until its copies are made. Only as many are made at once as there are cores.
    /// Meanwhile, further files without copies are sent as they are. Copies are made of files between 1 KiB and 8 MiB
    /// that shrink, without a [precompressed sibling](Files::precompressed) in that coding.
    ///
    /// A copy is made again if the [`etag`](Files::etag) of its file changes. No copy is made of a file that changed
    /// less than two seconds ago. The time of a copy stands for that `etag`, and is no date. A copy is renamed into
    /// place. So it appears whole, and replaces any file or link of its name. Copies of removed files stay.
    ///
    /// Each `Files` needs a directory of its own, because copies are named by host and path, not by root. The directory
    /// may be removed and made again, as may a [root](Files::new). Only the server should write to `copies`.
    ///
    /// # Errors
    ///
    /// Fails if the directory does not exist. Also fails if it is below a served one.
    pub fn compressed_copies(self, copies: impl Into<PathBuf>) -> io::Result<Files<N>> {
        let root = DiskRoot::new(copies.into())?;
        let path = root.current_dir()?.path.clone();
        let store = CompressedStore::new(root);
        let copies: CompressFn = Arc::new(move |path, content_type, whole, stored| {
            store.find_or_make(path, content_type, whole, stored)
        });
        let files = self.with(|lookup| lookup.copies = Some((copies, path)));
        files.lookup.check_copies().map(|()| files)
    }
}

/// Compressed copies of files, by the path of the file.
struct CompressedStore {
    root: DiskRoot,
    /// The names of the copies that are being made. Other requests get the file as it is meanwhile.
    in_progress: Mutex<HashSet<String>>,
    /// Bounds the threads that make copies. No request waits for a permit: many requests for all files at once would
    /// occupy the threads that read disks, and delay requests for files that are ready.
    permits: Semaphore,
}

impl CompressedStore {
    fn new(root: DiskRoot) -> CompressedStore {
        CompressedStore { root, in_progress: Mutex::default(), permits: Semaphore::new(available_cores()) }
    }

    /// Finds the copy of a file, or makes it. Returns `None` if the file should have no copy, or if none could be made.
    fn find_or_make(
        &self,
        path: &[u8],
        content_type: &str,
        whole: &Snapshot,
        stored: StoredCoding,
    ) -> Option<Snapshot> {
        let is_eligible = SIZES.contains(&whole.content.len()) && is_compressible(essence(content_type));
        if !is_eligible || !stored.coding.is_available() {
            return None;
        }
        // All copies are in one directory, so no directory on the way can be a link.
        let name = format!("{}{}", percent::encode_segment(path), stored.suffix);
        debug_assert!(!name.contains('/'), "a copy is in the directory itself");
        if name.len() > NAME_MAX {
            return None;
        }
        let found = self.find(&name, whole).or_else(|| {
            let _permit = self.permits.try_acquire().ok()?;
            if !lock(&self.in_progress).insert(name.clone()) {
                return None;
            }
            // The directory may have been replaced: the copy is written to the current one, where `find` looks for it.
            self.root.refresh();
            let made = self.make(&name, whole, stored.coding);
            lock(&self.in_progress).remove(&name);
            // If no copy could be made, the file is sent as it is.
            made.ok().and_then(|()| self.find(&name, whole))
        })?;
        // An empty copy records that the file does not shrink enough.
        (found.content.len() > 0).then_some(found)
    }

    /// Opens the copy with this name, if it was made of this content.
    fn find(&self, name: &str, whole: &Snapshot) -> Option<Snapshot> {
        let open = || self.root.current_dir().and_then(|dir| dir.open(name.as_bytes(), Links::Refused));
        let opened = with_descriptors(open);
        let Ok(Node::File(file, metadata)) = opened else { return None };
        let is_current =
            metadata.modified().is_ok_and(|modified| is_same_time(modified, time_of_copy(whole)));
        let options = ReadOptions { in_memory_max: IN_MEMORY_MAX, etag: Etag::default(), previous: None };
        is_current.then(|| Snapshot::read(file, metadata, options).ok()).flatten()
    }

    /// Writes a copy under a temporary name, and renames it.
    fn make(&self, name: &str, whole: &Snapshot, coding: Coding) -> io::Result<()> {
        let bytes = match &whole.content {
            FileContent::Bytes(bytes) => bytes.clone(),
            FileContent::File(file, len) => read(file, *len as usize)?.into(),
            FileContent::Sourced(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        let mut encoded = encode_once(coding, LEVEL, &bytes)?;
        if encoded.len() > bytes.len() / 5 * 4 {
            encoded.clear();
        }
        // A file or link of this name was left by a server that was killed, or planted by an attacker.
        let directory = &self.root.current_dir()?.path;
        let temporary = directory.join(format!(".{name}.{}", process::id()));
        let _ = fs::remove_file(&temporary);
        let mut create = OpenOptions::new();
        create.write(true).create_new(true);
        let mut file = with_descriptors(|| create.open(&temporary))?;
        let written = write(&mut file, &encoded, whole);
        let moved = written.and_then(|()| fs::rename(&temporary, directory.join(name)));
        moved.inspect_err(|_| drop(fs::remove_file(&temporary)))
    }
}

/// The sizes, in bytes, of files that get copies: for smaller files it does not pay, and larger ones take too long.
const SIZES: RangeInclusive<u64> = 1 << 10..=8 << 20;

/// Bytes of a copy that is kept in memory.
const IN_MEMORY_MAX: usize = 64 << 10;

/// Leaves room for the prefix and suffix of temporary names, within the 255 bytes of most systems.
const NAME_MAX: usize = 230;

fn write(file: &mut File, encoded: &[u8], whole: &Snapshot) -> io::Result<()> {
    file.write_all(encoded)?;
    file.set_modified(time_of_copy(whole))
}

/// The time of a copy, made of the opaque-tag of its file. The time of the file itself would not do: a build gives all
/// files one time, whatever their content.
fn time_of_copy(whole: &Snapshot) -> SystemTime {
    let mut hasher = SipHasher13::new();
    hasher.write(whole.opaque_tag.as_bytes());
    let hash = hasher.finish();
    // An even second between 1980 and 2038, which all file systems can hold.
    let seconds = 315_532_800 + (hash >> 32) % 915_000_000 * 2;
    SystemTime::UNIX_EPOCH + Duration::new(seconds, hash as u32 % 1_000_000_000 / 100 * 100)
}

/// Whether a file has this time, to the precision of its file system.
fn is_same_time(modified: SystemTime, given: SystemTime) -> bool {
    modified == given || modified == truncate_to_second(given)
}

/// The highest level of gzip: a copy is made only once, so it may take some time. The highest levels of br and zstd
/// take far too long.
const LEVEL: u32 = 9;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::coding::ContentEncoder;

    fn snapshot(path: &Path) -> Snapshot {
        let file = File::options().read(true).write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        let metadata = file.metadata().unwrap();
        let options = ReadOptions { in_memory_max: IN_MEMORY_MAX, etag: Etag::default(), previous: None };
        Snapshot::read(file, metadata, options).unwrap()
    }

    /// An encoder that is kept for the next copy holds 14 MiB, and hundreds of threads may make copies in turn.
    #[test]
    fn a_thread_that_makes_a_copy_keeps_nothing_of_it() {
        let (root, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(root.path().join("a.js"), "let a = 1;\n".repeat(200)).unwrap();
        let whole = snapshot(&root.path().join("a.js"));
        let store = CompressedStore::new(DiskRoot::new(copies.path().into()).unwrap());
        for stored in StoredCoding::ALL {
            assert_eq!(
                store.find_or_make(b"/a.js", "text/javascript", &whole, stored).is_some(),
                stored.coding.is_available()
            );
        }
        assert_eq!(ContentEncoder::kept(), 0);
    }

    /// While all permits are taken, no request waits for one; copies that exist are found without a permit.
    #[test]
    fn no_more_copies_are_made_at_once_than_there_are_cores() {
        let (root, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(root.path().join("a.js"), "let a = 1;\n".repeat(200)).unwrap();
        let whole = snapshot(&root.path().join("a.js"));
        let store = CompressedStore::new(DiskRoot::new(copies.path().into()).unwrap());
        let [br, gzip] = [Coding::Br, Coding::Gzip]
            .map(|coding| *StoredCoding::ALL.iter().find(|stored| stored.coding == coding).unwrap());
        assert!(store.find_or_make(b"/a.js", "text/javascript", &whole, br).is_some());
        let mut permits: Vec<_> =
            (0..available_cores()).map(|_| store.permits.try_acquire().unwrap()).collect();
        assert!(store.find_or_make(b"/a.js", "text/javascript", &whole, gzip).is_none());
        assert!(store.find_or_make(b"/a.js", "text/javascript", &whole, br).is_some());
        permits.pop();
        assert!(store.find_or_make(b"/a.js", "text/javascript", &whole, gzip).is_some());
        assert_eq!(store.permits.available_permits(), 1, "it gives its permit back");
    }
}
