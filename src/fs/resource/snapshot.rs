//! [`Snapshot`]: the state of a file when it was checked (RFC 9110 §8.8).

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

use crate::coding::Coding;

/// The content of a file when it was checked, and what distinguishes it from later states.
#[derive(Debug)]
pub(in crate::fs) struct Snapshot {
    pub(in crate::fs) content: Content,
    /// What its entity-tags begin with, between their quotes.
    pub(in crate::fs) mark: String,
    pub(in crate::fs) modified: Option<SystemTime>,
    /// Whether another change would change the time, too.
    pub(in crate::fs) is_settled: bool,
    /// When the file was checked, if the time of its last change was over by then: that time denotes this state and no
    /// other.
    pub(in crate::fs) past_since: Option<Instant>,
}

/// The bytes of a representation, or where they are.
#[derive(Clone, Debug)]
pub(in crate::fs) enum Content {
    Bytes(Bytes),
    File(Arc<File>, u64),
}

impl Snapshot {
    /// Reads a file, if it is no larger than `in_memory_max`; a larger one is kept open.
    pub(in crate::fs) fn read(file: File, metadata: Metadata, in_memory_max: usize) -> io::Result<Snapshot> {
        let mut metadata = metadata;
        let now = SystemTime::now();
        for _ in 0..ATTEMPTS {
            if metadata.len() > in_memory_max as u64 {
                break;
            }
            let bytes = read(&file, metadata.len() as usize)?;
            let after = file.metadata()?;
            // If it changes while it is read, the bytes are a mixture.
            let is_same = after.modified().ok() == metadata.modified().ok() && after.len() == metadata.len();
            if is_same && bytes.len() as u64 == metadata.len() {
                return Ok(Snapshot::new(&metadata, now, Content::Bytes(bytes.into())));
            }
            metadata = after;
        }
        Ok(Snapshot::new(&metadata, now, Content::File(Arc::new(file), metadata.len())))
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
            Content::File(file, len) => {
                let is_same = |now: Metadata| now.len() == *len && now.modified().ok() == self.modified;
                file.metadata().is_ok_and(is_same)
            }
        }
    }

    /// The second of its last change.
    pub(in crate::fs) fn second(&self) -> Option<SystemTime> {
        self.modified.map(to_second)
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

    /// Its entity-tag, which is weak as long as a change might go unnoticed (RFC 9110 §8.8.1).
    pub(in crate::fs) fn tag(&self, coding: Option<Coding>) -> String {
        let weak = if self.is_settled { "" } else { "W/" };
        let coding = coding.map(|coding| format!("-{}", coding.as_str())).unwrap_or_default();
        format!("{weak}\"{}{coding}\"", self.mark)
    }

    /// `now` is a time before the content was read.
    fn new(metadata: &Metadata, now: SystemTime, content: Content) -> Snapshot {
        let modified = metadata.modified().ok();
        // A date in the future was set by hand, and a change would set the current one.
        let distance = |at| now.duration_since(at).unwrap_or_else(|ahead| ahead.duration());
        let is_settled = modified.is_some_and(|at| distance(at) > SETTLING);
        let nanoseconds = |at: SystemTime| {
            at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_else(|error| error.duration()).as_nanos()
        };
        let mut mark = format!("{:x}-{:x}", modified.map_or(0, nanoseconds), metadata.len());
        if !is_settled {
            // The file may change in a moment without a change of time, and must then have another tag.
            mark.push_str(&format!("-{:x}", nanoseconds(now)));
        }
        let is_past = is_settled && modified.is_some_and(|at| at < now);
        Snapshot { content, mark, modified, is_settled, past_since: is_past.then(Instant::now) }
    }
}

impl Content {
    pub(in crate::fs) fn len(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File(_, len) => *len,
        }
    }
}

/// Two changes within this time may have the same date, since the clock of some file systems counts in steps of two
/// seconds.
const SETTLING: Duration = Duration::from_secs(2);

/// How often a small file is read until it does not change meanwhile. After that, it is kept open instead.
const ATTEMPTS: usize = 3;

/// The first `len` bytes of a file.
pub(in crate::fs) fn read(mut file: &File, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    file.rewind()?;
    file.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn to_second(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}
