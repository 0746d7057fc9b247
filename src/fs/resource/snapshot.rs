//! [`Snapshot`]: the state of a file when it was checked (RFC 9110 §8.8).

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

use super::etag::{Etag, Stat, content_tag, hash_file, is_plausible, is_settled};
use crate::coding::Coding;

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
    pub(in crate::fs) is_strong: bool,
    modified: Option<SystemTime>,
    /// Whether another change would change the time, too.
    pub(in crate::fs) is_settled: bool,
    /// When the file was checked, if the time of its last change was over by then: that time denotes this state and no
    /// other.
    pub(in crate::fs) strong_since: Option<Instant>,
    /// `None` if the content may change, or has changed, without another state.
    stat: Option<Stat>,
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
        let (is_strong, is_settled) = (true, true);
        Snapshot {
            content,
            opaque_tag,
            is_strong,
            modified: None,
            is_settled,
            strong_since: None,
            stat: None,
        }
    }

    /// This content with a date, which was over by then.
    #[cfg(test)]
    pub(in crate::fs) fn dated(
        self,
        modified: Option<SystemTime>,
        strong_since: Option<Instant>,
    ) -> Snapshot {
        Snapshot { modified, strong_since, ..self }
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
            let is_same = Stat::new(&after) == Stat::new(&metadata);
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
                file.metadata().is_ok_and(|metadata| self.stat == Some(Stat::new(&metadata)))
            }
        }
    }

    /// The second of its last change, unless a build has replaced it by one that is the same for all content.
    pub(in crate::fs) fn last_modified(&self) -> Option<SystemTime> {
        self.modified.filter(is_plausible).map(truncate_to_second)
    }

    /// What `last-modified` must say if the file was changed after the request `arrived`: no later date than the answer
    /// has itself (RFC 9110 §8.8.2.1).
    pub(in crate::fs) fn clamped_modified(&self, arrived: Instant) -> Option<SystemTime> {
        if self.strong_since.is_some_and(|looked_at| looked_at <= arrived) {
            return None;
        }
        let second = self.last_modified()?;
        let date = truncate_to_second(SystemTime::now().checked_sub(arrived.elapsed())?);
        (date < second).then_some(date)
    }

    /// Its entity-tag, which is weak if a change might go unnoticed (RFC 9110 §8.8.1).
    pub(in crate::fs) fn entity_tag(&self, coding: Option<Coding>) -> String {
        let weak = if self.is_strong { "" } else { "W/" };
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
        let stat = Stat::new(metadata);
        let modified = stat.modified;
        let has_settled = modified.is_some_and(|at| is_settled(at, now));
        let is_past = has_settled && modified.is_some_and(|at| at < now && is_plausible(&at));
        let strong_since = is_past.then(Instant::now);
        let is_of_content = content_tag.is_some();
        let (opaque_tag, is_strong) = content_tag.map_or_else(|| stat.tag(etag, now), |tag| (tag, true));
        // Content that is named by itself could change under its name, as long as that would not show.
        let is_detectable =
            !is_of_content || has_settled && stat.changed.is_none_or(|at| is_settled(at, now));
        let stat = is_detectable.then_some(stat);
        Snapshot { content, opaque_tag, is_strong, modified, is_settled: has_settled, strong_since, stat }
    }
}

/// The opaque-tag of the content of a file that is not kept in memory, or `None` if it changes all the time.
fn file_tag(file: &File, metadata: &mut Metadata, previous: Option<&Snapshot>) -> io::Result<Option<String>> {
    for _ in 0..ATTEMPTS {
        let stat = Stat::new(metadata);
        if let Some(same) = previous.filter(|previous| previous.stat == Some(stat)) {
            return Ok(same.is_strong.then(|| same.opaque_tag.clone()));
        }
        let tag = hash_file(file, stat.len)?;
        *metadata = file.metadata()?;
        // If it changes while it is read, the tag is that of a mixture.
        if Stat::new(metadata) == stat {
            return Ok(Some(tag));
        }
    }
    Ok(None)
}

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
            Content::File(file, len) => Ok((read(file, HEAD_LEN)?.into(), *len <= HEAD_LEN as u64)),
        }
    }
}

/// Bytes at the beginning of a file that is kept open.
const HEAD_LEN: usize = 64 << 10;

/// How often a small file is read until it does not change meanwhile. After that, it is kept open instead.
const ATTEMPTS: usize = 3;

/// The first `len` bytes of a file.
pub(in crate::fs) fn read(mut file: &File, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    file.rewind()?;
    file.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(in crate::fs) fn truncate_to_second(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}
