//! [`Snapshot`]: the state of a file when it was checked, and [`Etag`]: what its entity-tag is made of (RFC 9110 §8.8).

use std::fs::{File, Metadata};
use std::hash::Hasher;
use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use siphasher::sip::SipHasher13;

use super::source::SourcedFile;
use crate::coding::Coding;

/// How a file is read, and what its entity-tag is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadOptions<'a> {
    /// Bytes of a file that is read; a larger one is kept open.
    pub(super) in_memory_max: usize,
    pub(super) etag: Etag,
    /// The snapshot of an earlier check of the same file.
    pub(super) previous: Option<&'a Snapshot>,
}

/// The content of a file when it was checked, and the metadata that distinguishes it from later states.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) content: FileContent,
    /// The opaque-tag of its entity-tag, which that of an encoded form begins with (RFC 9110 §8.8.3).
    pub(super) opaque_tag: String,
    /// Whether the opaque-tag names this content only. Otherwise its entity-tags are weak.
    pub(super) is_strong: bool,
    modified: Option<SystemTime>,
    /// Whether another change would change the time, too.
    pub(super) is_settled: bool,
    /// When the file was checked, if the second of its last change was over by then: the date is then a strong
    /// validator (RFC 9110 §8.8.2.2).
    pub(super) strong_since: Option<Instant>,
    /// `None` if the content may change, or has changed, without a change of its metadata.
    stat: Option<Stat>,
}

/// The bytes of a representation, or where they are.
#[derive(Clone, Debug)]
pub(super) enum FileContent {
    Bytes(Bytes),
    File(Arc<File>, u64),
    /// Read from its source for each response.
    Sourced(Arc<SourcedFile>),
}

impl Snapshot {
    /// Content that has no date, with the opaque-tag that names it.
    pub(super) fn undated(content: FileContent, opaque_tag: String) -> Snapshot {
        Snapshot {
            content,
            opaque_tag,
            is_strong: true,
            modified: None,
            is_settled: true,
            strong_since: None,
            stat: None,
        }
    }

    /// A file of a source, which gives its validators.
    ///
    /// # Errors
    ///
    /// Fails if its entity-tag is malformed.
    pub(super) fn sourced(file: SourcedFile) -> io::Result<Snapshot> {
        let tag = file.metadata.opaque_tag()?.map(|(tag, is_strong)| (tag.to_owned(), is_strong));
        let (opaque_tag, is_strong) = tag.unwrap_or_default();
        let modified = file.metadata.modified;
        let now = SystemTime::now();
        let is_settled = modified.is_none_or(|at| is_settled(at, now));
        let strong_since = modified.filter(|at| is_past(at, now)).map(|_| Instant::now());
        let content = FileContent::Sourced(Arc::new(file));
        Ok(Snapshot { content, opaque_tag, is_strong, modified, is_settled, strong_since, stat: None })
    }

    /// The snapshot with a date, which is a strong validator since `strong_since`.
    #[cfg(test)]
    pub(super) fn dated(self, modified: Option<SystemTime>, strong_since: Option<Instant>) -> Snapshot {
        Snapshot { modified, strong_since, ..self }
    }

    /// Reads a file, if it is no larger than may be kept in memory; a larger one is kept open.
    pub(super) fn read(file: File, metadata: Metadata, options: ReadOptions<'_>) -> io::Result<Snapshot> {
        let mut metadata = metadata;
        let now = SystemTime::now();
        for _ in 0..ATTEMPTS {
            if metadata.len() > options.in_memory_max as u64 {
                break;
            }
            let bytes = read(&file, metadata.len() as usize)?;
            let after = file.metadata()?;
            // If the file changes while it is read, the bytes are a mixture.
            let is_same = Stat::new(&after) == Stat::new(&metadata);
            if is_same && bytes.len() as u64 == metadata.len() {
                let tag = (options.etag != Etag::Time).then(|| content_tag(&bytes));
                let content = FileContent::Bytes(bytes.into());
                return Ok(Snapshot::new(&metadata, now, content, options.etag, tag));
            }
            metadata = after;
        }
        let tag = match options.etag {
            Etag::Content => file_tag(&file, &mut metadata, options.previous)?,
            Etag::Auto | Etag::Time => None,
        };
        let content = FileContent::File(Arc::new(file), metadata.len());
        Ok(Snapshot::new(&metadata, now, content, options.etag, tag))
    }

    /// Whether the file was changed at most a second before `other`. Tools that write both do not write them at once.
    pub(super) fn is_as_new_as(&self, other: &Snapshot) -> bool {
        // A file may have any date, even the last one that can be represented.
        let late = |at: SystemTime| at.checked_add(Duration::from_secs(1)).unwrap_or(at);
        self.modified.map(late) >= other.modified
    }

    /// Whether the file, an encoded form of `whole`, may be sent in its place: it is smaller, and older by a second at most.
    pub(super) fn may_replace(&self, whole: &Snapshot) -> bool {
        self.is_as_new_as(whole) && self.content.len() < whole.content.len()
    }

    /// Whether the file is unchanged, if it is kept open. The metadata of an open file is in memory, so the disk is not
    /// accessed.
    pub(super) fn is_unchanged(&self) -> bool {
        match &self.content {
            FileContent::Bytes(_) | FileContent::Sourced(_) => true,
            FileContent::File(file, _) => {
                file.metadata().is_ok_and(|metadata| self.stat == Some(Stat::new(&metadata)))
            }
        }
    }

    /// The second of the last change, for `last-modified`, unless a build has replaced it by one that is the same for
    /// all content.
    pub(super) fn last_modified(&self) -> Option<SystemTime> {
        self.modified.filter(is_plausible).map(truncate_to_second)
    }

    /// The date for `last-modified` if the file was changed after the request `arrived`: no later one than that of the
    /// response (RFC 9110 §8.8.2.1).
    pub(super) fn clamped_modified(&self, arrived: Instant) -> Option<SystemTime> {
        if self.strong_since.is_some_and(|looked_at| looked_at <= arrived) {
            return None;
        }
        let second = self.last_modified()?;
        let date = truncate_to_second(SystemTime::now().checked_sub(arrived.elapsed())?);
        (date < second).then_some(date)
    }

    /// The entity-tag, which is weak if a change might go unnoticed (RFC 9110 §8.8.1). Empty if a source gives none.
    pub(super) fn entity_tag(&self, coding: Option<Coding>) -> String {
        if matches!(self.content, FileContent::Sourced(_)) && self.opaque_tag.is_empty() {
            return String::new();
        }
        let weak = if self.is_strong { "" } else { "W/" };
        let coding = coding.map(|coding| format!("-{}", coding.as_str())).unwrap_or_default();
        format!("{weak}\"{}{coding}\"", self.opaque_tag)
    }

    /// `now` is a time before the content was read. `content_tag` is made of the content, if the etag is.
    fn new(
        metadata: &Metadata,
        now: SystemTime,
        content: FileContent,
        etag: Etag,
        content_tag: Option<String>,
    ) -> Snapshot {
        let stat = Stat::new(metadata);
        debug_assert_eq!(content.len(), stat.len, "content and metadata are of one state of the file");
        let modified = stat.modified;
        let has_settled = modified.is_some_and(|at| is_settled(at, now));
        let strong_since = modified.filter(|at| is_past(at, now)).map(|_| Instant::now());
        let is_of_content = content_tag.is_some();
        let (opaque_tag, is_strong) = content_tag.map_or_else(|| stat.tag(etag, now), |tag| (tag, true));
        // A tag that is made of the content would be wrong after a change that the metadata does not show.
        let is_detectable =
            !is_of_content || has_settled && stat.changed.is_none_or(|at| is_settled(at, now));
        let stat = is_detectable.then_some(stat);
        Snapshot { content, opaque_tag, is_strong, modified, is_settled: has_settled, strong_since, stat }
    }
}

/// The opaque-tag of the content of a file that is not kept in memory, or `None` if the file changes all the time.
fn file_tag(file: &File, metadata: &mut Metadata, previous: Option<&Snapshot>) -> io::Result<Option<String>> {
    for _ in 0..ATTEMPTS {
        let stat = Stat::new(metadata);
        if let Some(same) = previous.filter(|previous| previous.stat == Some(stat)) {
            return Ok(same.is_strong.then(|| same.opaque_tag.clone()));
        }
        let tag = hash_file(file, stat.len)?;
        *metadata = file.metadata()?;
        // If the file changes while it is read, the tag is that of a mixture.
        if Stat::new(metadata) == stat {
            return Ok(Some(tag));
        }
    }
    Ok(None)
}

impl FileContent {
    pub(super) fn len(&self) -> u64 {
        match self {
            FileContent::Bytes(bytes) => bytes.len() as u64,
            FileContent::File(_, len) => *len,
            FileContent::Sourced(file) => file.metadata.len,
        }
    }

    /// The first bytes, and whether these are all: up to 64 KiB of a file that is kept open, and none of a source, which
    /// would have to be awaited.
    pub(super) fn head(&self) -> io::Result<(Bytes, bool)> {
        match self {
            FileContent::Bytes(bytes) => Ok((bytes.clone(), true)),
            FileContent::File(file, len) => Ok((read(file, HEAD_LEN)?.into(), *len <= HEAD_LEN as u64)),
            FileContent::Sourced(_) => Ok((Bytes::new(), false)),
        }
    }
}

/// Bytes at the beginning of a file that is kept open.
const HEAD_LEN: usize = 64 << 10;

/// How often a file is read again because it changed meanwhile. A small file is then kept open instead.
const ATTEMPTS: usize = 3;

/// The first `len` bytes of a file.
pub(super) fn read(mut file: &File, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    file.rewind()?;
    file.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn truncate_to_second(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

/// The parts of a file on disk that its `etag` is made of (RFC 9110 §8.8.3), set with
/// [`Files::etag`](crate::fs::Files::etag).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Etag {
    /// The content of a file that is small enough for the cache: see
    /// [`FileCacheLimits::file_bytes_max`](crate::fs::FileCacheLimits::file_bytes_max).
    ///
    /// Of a larger file, the size and the time. If a program has set that time, also the time of the setting. Unix
    /// notes it as `ctime`, and no program can set it. So a large file with such a time has another `etag` on each
    /// server with a copy.
    #[default]
    Auto,
    /// The content, of any size. A large file is read as a whole for its first request, and again after a change. If it
    /// is not kept in the [cache](crate::fs::FileCacheLimits), it is read for each request. Servers of one build agree
    /// on the `etag` of a copied file, whatever its time.
    Content,
    /// Size and time alone, as with nginx, for files whose time changes with their content. A time before 1990 counts
    /// as none. Such a file has the `etag` of [`Etag::Auto`].
    Time,
}

/// The metadata of a file that changes with its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    len: u64,
    modified: Option<SystemTime>,
    /// When the content, the times or the names of the file were changed (`ctime`). No program can set this time.
    changed: Option<SystemTime>,
}

impl Stat {
    fn new(metadata: &Metadata) -> Stat {
        Stat { len: metadata.len(), modified: metadata.modified().ok(), changed: changed(metadata) }
    }

    /// An opaque-tag made of size and times, and whether another content would have another one.
    fn tag(&self, etag: Etag, now: SystemTime) -> (String, bool) {
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

/// An opaque-tag made of content: one for each content, whatever its time, and whichever compiler built the server.
pub(super) fn content_tag(bytes: &[u8]) -> String {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    format!("{:x}-{:x}", hasher.finish(), bytes.len())
}

/// The opaque-tag of the first `len` bytes of a file.
fn hash_file(mut file: &File, len: u64) -> io::Result<String> {
    let mut hasher = SipHasher13::new();
    let mut chunk = vec![0; CHUNK];
    let mut left = file.take(len);
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
fn is_settled(at: SystemTime, now: SystemTime) -> bool {
    // A date in the future was set by hand, and a change would set the current one.
    now.duration_since(at).unwrap_or_else(|ahead| ahead.duration()) > SETTLING
}

/// Whether a date can be that of a change, and another change would get another date.
fn is_past(at: &SystemTime, now: SystemTime) -> bool {
    is_settled(*at, now) && *at < now && is_plausible(at)
}

/// Two changes within this time may have the same date, since the clock of some file systems counts in steps of two
/// seconds.
const SETTLING: Duration = Duration::from_secs(2);

/// Whether a date may be that of a change. Earlier dates than the first web page are those of builds that give all files
/// one date, so that their result depends on nothing else: 1970 (Nix), 1980 (zip), 1985 (npm).
fn is_plausible(at: &SystemTime) -> bool {
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

/// The standard library has no `ctime` of other systems.
#[cfg(not(unix))]
fn changed(_: &Metadata) -> Option<SystemTime> {
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Peers and copies on disk keep a tag for longer than a server runs, and servers behind one name share it.
    #[test]
    fn a_tag_of_content_is_the_same_in_every_build() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"Hello, World!").unwrap();
        assert_eq!(content_tag(b"Hello, World!"), "2972a18038c92793-d");
        assert_eq!(hash_file(&file, 13).unwrap(), "2972a18038c92793-d");
        assert_eq!(content_tag(b""), "d1fba762150c532c-0");
    }
}
