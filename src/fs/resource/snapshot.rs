//! [`Snapshot`]: what a file held when it was looked at (RFC 9110 §8.8).

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

use crate::coding::Coding;

/// What a file held when it was looked at, and what tells that from what it will hold.
#[derive(Debug)]
pub(in crate::fs) struct Snapshot {
    pub(in crate::fs) content: Content,
    /// Without quotes.
    pub(in crate::fs) etag: String,
    pub(in crate::fs) modified: Option<SystemTime>,
    /// Whether another change would have another time.
    pub(in crate::fs) is_settled: bool,
    /// When it was looked at, if that time was over then: it stands for this state only.
    pub(in crate::fs) past_since: Option<Instant>,
}

/// The bytes of a representation, or where they are.
#[derive(Clone, Debug)]
pub(in crate::fs) enum Content {
    Bytes(Bytes),
    File(Arc<File>, u64),
}

impl Snapshot {
    /// Reads a file, if it is no larger than `in_memory_max`; of a larger one only the handle is kept.
    pub(in crate::fs) fn read(file: File, metadata: Metadata, in_memory_max: usize) -> io::Result<Snapshot> {
        let mut metadata = metadata;
        let now = SystemTime::now();
        for _ in 0..ATTEMPTS {
            if metadata.len() > in_memory_max as u64 {
                break;
            }
            let bytes = read(&file, metadata.len() as usize)?;
            let after = file.metadata()?;
            // What changes while it is read is half the one and half the other.
            let is_same = after.modified().ok() == metadata.modified().ok() && after.len() == metadata.len();
            if is_same && bytes.len() as u64 == metadata.len() {
                return Ok(Snapshot::new(&metadata, now, Content::Bytes(bytes.into())));
            }
            metadata = after;
        }
        Ok(Snapshot::new(&metadata, now, Content::File(Arc::new(file), metadata.len())))
    }

    /// Whether this was changed no longer than a second before `other`: tools that write both do not do it at once.
    pub(in crate::fs) fn is_as_new_as(&self, other: &Snapshot) -> bool {
        // A file may have any date, the last one that can be said among them.
        let late = |at: SystemTime| at.checked_add(Duration::from_secs(1)).unwrap_or(at);
        self.modified.map(late) >= other.modified
    }

    /// Whether the time of its last change was over when it was looked at.
    pub(in crate::fs) fn is_past(&self) -> bool {
        self.past_since.is_some()
    }

    /// Whether the file is what it was, if it is kept open: the system knows that without asking a disk.
    pub(in crate::fs) fn is_as_it_was(&self) -> bool {
        match &self.content {
            Content::Bytes(_) => true,
            Content::File(file, len) => {
                let is_same = |now: Metadata| now.len() == *len && now.modified().ok() == self.modified;
                file.metadata().is_ok_and(is_same)
            }
        }
    }

    /// The second in which it was changed last.
    pub(in crate::fs) fn second(&self) -> Option<SystemTime> {
        self.modified.map(to_second)
    }

    /// What the answer to a request that `arrived` then has to say instead, if that second is after its own date, which
    /// is that of the request (RFC 9110 §8.8.2.1).
    pub(in crate::fs) fn earlier_second(&self, arrived: Instant) -> Option<SystemTime> {
        if self.past_since.is_some_and(|looked_at| looked_at <= arrived) {
            return None;
        }
        let date = to_second(SystemTime::now().checked_sub(arrived.elapsed())?);
        self.second().is_some_and(|second| date < second).then_some(date)
    }

    /// `now` is before the content was read.
    fn new(metadata: &Metadata, now: SystemTime, content: Content) -> Snapshot {
        let modified = metadata.modified().ok();
        // A date that lies ahead was set, and a change would have the one of today.
        let distance = |at| now.duration_since(at).unwrap_or_else(|ahead| ahead.duration());
        let is_settled = modified.is_some_and(|at| distance(at) > SETTLING);
        let nanoseconds = |at: SystemTime| {
            at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_else(|error| error.duration()).as_nanos()
        };
        let mut etag = format!("{:x}-{:x}", modified.map_or(0, nanoseconds), metadata.len());
        if !is_settled {
            // What is called so now may be something else in a moment, and must have another name then.
            etag.push_str(&format!("-{:x}", nanoseconds(now)));
        }
        let is_past = is_settled && modified.is_some_and(|at| at < now);
        Snapshot { content, etag, modified, is_settled, past_since: is_past.then(Instant::now) }
    }

    /// Its entity-tag: a weak one as long as a change might go unseen (RFC 9110 §8.8.1).
    pub(in crate::fs) fn tag(&self, coding: Option<Coding>) -> String {
        let weak = if self.is_settled { "" } else { "W/" };
        let coding = coding.map(|coding| format!("-{}", coding.as_str())).unwrap_or_default();
        format!("{weak}\"{}{coding}\"", self.etag)
    }
}

/// Two changes within this time may have one date: the clock of some file systems counts by two seconds.
const SETTLING: Duration = Duration::from_secs(2);

/// A file that is written to all the time is sent from where it is.
const ATTEMPTS: usize = 3;

/// The first `len` bytes of a file.
pub(in crate::fs) fn read(file: &File, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    let mut file = file;
    file.rewind()?;
    file.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn to_second(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

impl Content {
    pub(in crate::fs) fn len(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File(_, len) => *len,
        }
    }
}
