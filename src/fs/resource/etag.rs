//! [`Etag`]: what entity-tags are made of (RFC 9110 §8.8.3).

use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Seek};
use std::time::{Duration, SystemTime};

/// What the `etag` of a file on disk is made of (RFC 9110 §8.8.3), set with [`Files::etag`](crate::Files::etag).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Etag {
    /// The content of a file that is small enough to be kept in memory, see
    /// [`FileCache::file_bytes_max`](crate::FileCache::file_bytes_max). Of a larger one, its size, its time, and, if a
    /// program has set that time, when it did so: a system notes that (as `ctime`) on Unix, and no program can set it.
    /// So the `etag` of a large file with such a time is another one on each server that the file is copied to.
    #[default]
    Auto,
    /// The content, of any size. A large file is read as a whole when it is first requested, and again after a change,
    /// and once for each request if it is not kept in the [cache](crate::FileCache). Servers of one build agree on the
    /// `etag` of a file that they were given copies of, whatever its time.
    Content,
    /// Size and time alone, as with nginx, for files whose time changes whenever their content does. A time before
    /// 1990 counts as none, so such a file has the `etag` of [`Etag::Auto`].
    Time,
}

/// The metadata of a file that changes with its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) len: u64,
    pub(super) modified: Option<SystemTime>,
    /// When its content, its times or its names were changed. No program can set this.
    pub(super) changed: Option<SystemTime>,
}

impl Stat {
    pub(super) fn new(metadata: &Metadata) -> Stat {
        Stat { len: metadata.len(), modified: metadata.modified().ok(), changed: changed(metadata) }
    }

    /// An opaque-tag made of size and times, and whether another content would have another one.
    pub(super) fn tag(&self, etag: Etag, now: SystemTime) -> (String, bool) {
        let is_plausible = self.modified.is_some_and(|at| is_plausible(&at));
        // Where the two are the same, no program has set the time of the last change.
        let is_needed = self.changed != self.modified && !(etag == Etag::Time && is_plausible);
        let changed = self.changed.filter(|_| is_needed);
        let mut tag = format!("{:x}-{:x}", self.modified.map_or(0, nanoseconds), self.len);
        if let Some(at) = changed {
            tag.push_str(&format!("-{:x}", nanoseconds(at)));
        }
        let is_known = is_plausible || self.changed.is_some();
        let is_strong =
            is_known && [self.modified, changed].into_iter().flatten().all(|at| is_settled(at, now));
        if !is_strong {
            // The file may change in a moment without a change of time, and must then have another tag.
            tag.push_str(&format!("-{:x}", nanoseconds(now)));
        }
        (tag, is_strong)
    }
}

/// An opaque-tag made of content: one for each content, whatever its time.
pub(in crate::fs) fn content_tag(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("{:x}-{:x}", hasher.finish(), bytes.len())
}

/// The opaque-tag of the first `len` bytes of a file.
pub(super) fn hash_file(mut file: &File, len: u64) -> io::Result<String> {
    let (mut hasher, mut chunk, mut left) = (DefaultHasher::new(), vec![0; CHUNK], file.take(len));
    file.rewind()?;
    loop {
        match left.read(&mut chunk)? {
            0 => return Ok(format!("{:x}-{len:x}", hasher.finish())),
            count => hasher.write(&chunk[..count]),
        }
    }
}

/// Bytes that are hashed at once.
const CHUNK: usize = 64 << 10;

/// Whether a change that is made `now` gets another time than `at`.
pub(super) fn is_settled(at: SystemTime, now: SystemTime) -> bool {
    // A date in the future was set by hand, and a change would set the current one.
    now.duration_since(at).unwrap_or_else(|ahead| ahead.duration()) > SETTLING
}

/// Two changes within this time may have the same date, since the clock of some file systems counts in steps of two
/// seconds.
const SETTLING: Duration = Duration::from_secs(2);

/// Whether a date may be that of a change. Earlier dates than the first web page are those of builds that give all files
/// one date, so that their result depends on nothing else: 1970 (Nix), 1980 (zip), 1985 (npm).
pub(super) fn is_plausible(at: &SystemTime) -> bool {
    *at >= SystemTime::UNIX_EPOCH + PLAUSIBLE_SINCE
}

/// 1 January 1990, in seconds after 1970.
const PLAUSIBLE_SINCE: Duration = Duration::from_secs(631_152_000);

fn nanoseconds(at: SystemTime) -> u128 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_else(|error| error.duration()).as_nanos()
}

#[cfg(unix)]
fn changed(metadata: &Metadata) -> Option<SystemTime> {
    use std::os::unix::fs::MetadataExt;
    let since = Duration::new(metadata.ctime().try_into().ok()?, metadata.ctime_nsec().try_into().ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// Elsewhere the standard library does not offer it.
#[cfg(not(unix))]
fn changed(_: &Metadata) -> Option<SystemTime> {
    None
}
