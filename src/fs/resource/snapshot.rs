//! [`Snapshot`]: the state of a file when it was checked (RFC 9110 §8.8).

use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

use crate::coding::Coding;

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

/// How a file is read, and what its entity-tag is made of.
#[derive(Clone, Copy, Debug)]
pub(in crate::fs) struct ReadOptions<'a> {
    /// Bytes of a file that is read; a larger one is kept open.
    pub(in crate::fs) in_memory_max: usize,
    pub(in crate::fs) etag: Etag,
    /// What is known of the file from an earlier look at it.
    pub(in crate::fs) previous: Option<&'a Snapshot>,
}

/// The content of a file when it was checked, and what distinguishes it from later states.
#[derive(Debug)]
pub(in crate::fs) struct Snapshot {
    pub(in crate::fs) content: Content,
    /// The opaque-tag of its entity-tag, which that of an encoded form begins with (RFC 9110 §8.8.3).
    pub(in crate::fs) opaque_tag: String,
    /// Whether the opaque-tag names this content only. Otherwise its entity-tags are weak.
    pub(in crate::fs) is_exact: bool,
    modified: Option<SystemTime>,
    /// Whether another change would change the time, too.
    pub(in crate::fs) is_settled: bool,
    /// When the file was checked, if the time of its last change was over by then: that time denotes this state and no
    /// other.
    pub(in crate::fs) past_since: Option<Instant>,
    /// `None` if the content may change, or has changed, without another state.
    state: Option<State>,
}

/// What the system says of a file that changes with its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    len: u64,
    modified: Option<SystemTime>,
    /// When its content, its times or its names were changed. No program can set this.
    changed: Option<SystemTime>,
}

/// The bytes of a representation, or where they are.
#[derive(Clone, Debug)]
pub(in crate::fs) enum Content {
    Bytes(Bytes),
    File(Arc<File>, u64),
}

impl Snapshot {
    /// Content that has no date, with the opaque-tag that names it.
    pub(in crate::fs) fn undated(content: Content, opaque_tag: String) -> Snapshot {
        let (is_exact, is_settled) = (true, true);
        Snapshot { content, opaque_tag, is_exact, modified: None, is_settled, past_since: None, state: None }
    }

    /// This content with a date, which was over by then.
    #[cfg(test)]
    pub(in crate::fs) fn dated(self, modified: Option<SystemTime>, past_since: Option<Instant>) -> Snapshot {
        Snapshot { modified, past_since, ..self }
    }

    /// Reads a file, if it is no larger than may be kept in memory; a larger one is kept open.
    pub(in crate::fs) fn read(
        file: File,
        metadata: Metadata,
        options: ReadOptions<'_>,
    ) -> io::Result<Snapshot> {
        let mut metadata = metadata;
        let now = SystemTime::now();
        for _ in 0..ATTEMPTS {
            if metadata.len() > options.in_memory_max as u64 {
                break;
            }
            let bytes = read(&file, metadata.len() as usize)?;
            let after = file.metadata()?;
            // If it changes while it is read, the bytes are a mixture.
            let is_same = State::of(&after) == State::of(&metadata);
            if is_same && bytes.len() as u64 == metadata.len() {
                let tag = (options.etag != Etag::Time).then(|| content_tag(&bytes));
                let content = Content::Bytes(bytes.into());
                return Ok(Snapshot::new(&metadata, now, content, options.etag, tag));
            }
            metadata = after;
        }
        let tag = match options.etag {
            Etag::Content => file_tag(&file, &mut metadata, options.previous)?,
            Etag::Auto | Etag::Time => None,
        };
        let content = Content::File(Arc::new(file), metadata.len());
        Ok(Snapshot::new(&metadata, now, content, options.etag, tag))
    }

    /// Whether this was changed at most a second before `other`. Tools that write both do not write them at once.
    pub(in crate::fs) fn is_as_new_as(&self, other: &Snapshot) -> bool {
        // A file may have any date, even the last one that can be represented.
        let late = |at: SystemTime| at.checked_add(Duration::from_secs(1)).unwrap_or(at);
        self.modified.map(late) >= other.modified
    }

    /// Whether the file is unchanged, if it is kept open. This does not access the disk.
    pub(in crate::fs) fn is_unchanged(&self) -> bool {
        match &self.content {
            Content::Bytes(_) => true,
            Content::File(file, _) => {
                file.metadata().is_ok_and(|metadata| self.state == Some(State::of(&metadata)))
            }
        }
    }

    /// The second of its last change, unless a build has replaced it by one that is the same for all content.
    pub(in crate::fs) fn second(&self) -> Option<SystemTime> {
        self.modified.filter(is_plausible).map(to_second)
    }

    /// What `last-modified` must say if the file was changed after the request `arrived`: no later date than the answer
    /// has itself (RFC 9110 §8.8.2.1).
    pub(in crate::fs) fn earlier_second(&self, arrived: Instant) -> Option<SystemTime> {
        if self.past_since.is_some_and(|looked_at| looked_at <= arrived) {
            return None;
        }
        let second = self.second()?;
        let date = to_second(SystemTime::now().checked_sub(arrived.elapsed())?);
        (date < second).then_some(date)
    }

    /// Its entity-tag, which is weak if a change might go unnoticed (RFC 9110 §8.8.1).
    pub(in crate::fs) fn entity_tag(&self, coding: Option<Coding>) -> String {
        let weak = if self.is_exact { "" } else { "W/" };
        let coding = coding.map(|coding| format!("-{}", coding.as_str())).unwrap_or_default();
        format!("{weak}\"{}{coding}\"", self.opaque_tag)
    }

    /// `now` is a time before the content was read. `content_tag` is made of the content, if the etag is.
    fn new(
        metadata: &Metadata,
        now: SystemTime,
        content: Content,
        etag: Etag,
        content_tag: Option<String>,
    ) -> Snapshot {
        let state = State::of(metadata);
        let modified = state.modified;
        let is_settled = modified.is_some_and(|at| is_settled(at, now));
        let is_past = is_settled && modified.is_some_and(|at| at < now && is_plausible(&at));
        let past_since = is_past.then(Instant::now);
        let is_of_content = content_tag.is_some();
        let (opaque_tag, is_exact) = content_tag.map_or_else(|| state.tag(etag, now), |tag| (tag, true));
        // Content that is named by itself could change under its name, as long as that would not show.
        let shows = !is_of_content || is_settled && state.changed.is_none_or(|at| self::is_settled(at, now));
        let state = shows.then_some(state);
        Snapshot { content, opaque_tag, is_exact, modified, is_settled, past_since, state }
    }
}

impl State {
    fn of(metadata: &Metadata) -> State {
        State { len: metadata.len(), modified: metadata.modified().ok(), changed: changed(metadata) }
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
        let is_exact =
            is_known && [self.modified, changed].into_iter().flatten().all(|at| is_settled(at, now));
        if !is_exact {
            // The file may change in a moment without a change of time, and must then have another tag.
            tag.push_str(&format!("-{:x}", nanoseconds(now)));
        }
        (tag, is_exact)
    }
}

/// An opaque-tag made of content: one for each content, whatever its time.
pub(in crate::fs) fn content_tag(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    format!("{:x}-{:x}", hasher.finish(), bytes.len())
}

/// The opaque-tag of the content of a file that is not kept in memory, or `None` if it changes all the time.
fn file_tag(file: &File, metadata: &mut Metadata, previous: Option<&Snapshot>) -> io::Result<Option<String>> {
    for _ in 0..ATTEMPTS {
        let state = State::of(metadata);
        if let Some(same) = previous.filter(|previous| previous.state == Some(state)) {
            return Ok(same.is_exact.then(|| same.opaque_tag.clone()));
        }
        let tag = hash_file(file, state.len)?;
        *metadata = file.metadata()?;
        // If it changes while it is read, the tag is that of a mixture.
        if State::of(metadata) == state {
            return Ok(Some(tag));
        }
    }
    Ok(None)
}

/// The opaque-tag of the first `len` bytes of a file.
fn hash_file(mut file: &File, len: u64) -> io::Result<String> {
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

impl Content {
    pub(in crate::fs) fn len(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File(_, len) => *len,
        }
    }

    /// The first bytes, and whether these are all: up to 64 KiB of a file that is kept open.
    pub(in crate::fs) fn head(&self) -> io::Result<(Bytes, bool)> {
        match self {
            Content::Bytes(bytes) => Ok((bytes.clone(), true)),
            Content::File(file, len) => Ok((read(file, CHUNK)?.into(), *len <= CHUNK as u64)),
        }
    }
}

/// Whether a change at a time that was `at` would now show in the time.
fn is_settled(at: SystemTime, now: SystemTime) -> bool {
    // A date in the future was set by hand, and a change would set the current one.
    now.duration_since(at).unwrap_or_else(|ahead| ahead.duration()) > SETTLING
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

/// How often a small file is read until it does not change meanwhile. After that, it is kept open instead.
const ATTEMPTS: usize = 3;

/// The first `len` bytes of a file.
pub(in crate::fs) fn read(mut file: &File, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    file.rewind()?;
    file.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

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

pub(in crate::fs) fn to_second(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}
