//! [`Resource`]: one file in all its representations, with the fields that each is answered with (RFC 9110 §8).

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

use super::condition::Validators;
use crate::coding::{Choice, Coding};
use crate::message::{Headers, InvalidField};

/// One file in all its representations.
#[derive(Debug)]
pub(super) struct Resource {
    /// The file as it is, and then what is kept encoded.
    representations: Vec<Representation>,
    /// To the second.
    pub(super) modified: Option<SystemTime>,
    /// Whether that was over when it was looked at, so that the date stands for this state only.
    is_past: bool,
    looked_at: Instant,
    pub(super) content_type: String,
}

/// One representation of a file.
#[derive(Debug)]
pub(super) struct Representation {
    coding: Option<Coding>,
    pub(super) content: Content,
    /// What the system said of the file.
    changed: Option<SystemTime>,
    etag: String,
    /// All that describes it, ready to be copied into an answer.
    pub(super) fields: Headers,
    /// The same for an answer without its content, such as 304 (RFC 9110 §15.4.5).
    pub(super) fields_alone: Headers,
}

/// The bytes of a representation, or where they are.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Bytes(Bytes),
    File(Arc<File>, u64),
}

/// A representation whose fields are not written yet.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) content: Content,
    /// Without quotes.
    pub(super) etag: String,
    pub(super) modified: Option<SystemTime>,
    /// Whether another change would have another time.
    pub(super) is_settled: bool,
}

impl Resource {
    /// The file `name` as it is, and what is kept of it encoded.
    pub(super) fn new(
        name: &str,
        cache_control: Option<&str>,
        whole: Draft,
        encoded: Vec<(Coding, Draft)>,
    ) -> Result<Resource, InvalidField> {
        let content_type = content_type(name);
        let modified = whole.modified.map(to_second);
        let is_past = whole.is_settled && modified.is_none_or(|at| at <= SystemTime::now());
        let varies = !encoded.is_empty();
        let encoded = encoded.into_iter().map(|(coding, draft)| (Some(coding), draft));
        let all = [(None, whole)].into_iter().chain(encoded).map(|(coding, draft)| {
            let etag = draft.tag(coding);
            let mut alone = Headers::new();
            alone.set("etag", &*etag)?;
            modified.map_or(Ok(()), |modified| alone.set_date("last-modified", modified))?;
            alone.set("accept-ranges", "bytes")?;
            cache_control.map_or(Ok(()), |value| alone.set("cache-control", value))?;
            if varies {
                alone.set("vary", "accept-encoding")?;
            }
            let mut fields = Headers::new();
            fields.set("content-type", &*content_type)?;
            coding.map_or(Ok(()), |coding| fields.set("content-encoding", coding.as_str()))?;
            fields.append_all(&alone);
            let Draft { content, modified: changed, .. } = draft;
            Ok(Representation { coding, content, changed, etag, fields, fields_alone: alone })
        });
        let representations = all.collect::<Result<_, _>>()?;
        Ok(Resource { representations, modified, is_past, looked_at: Instant::now(), content_type })
    }

    /// Whether the files that it keeps open are what they were. The system knows without asking a disk.
    pub(super) fn is_as_it_was(&self) -> bool {
        self.representations.iter().all(|it| match &it.content {
            Content::Bytes(_) => true,
            Content::File(file, len) => {
                let is_same = |now: Metadata| now.len() == *len && now.modified().ok() == it.changed;
                file.metadata().is_ok_and(is_same)
            }
        })
    }

    /// When it was last changed, as the answer to a request that `arrived` then may say: not after its own date, which
    /// is that of the request (RFC 9110 §8.8.2.1).
    pub(super) fn last_modified(&self, arrived: Instant) -> Option<SystemTime> {
        let modified = self.modified?;
        if self.is_past && arrived >= self.looked_at {
            return Some(modified);
        }
        let date = SystemTime::now().checked_sub(arrived.elapsed()).unwrap_or(modified);
        Some(to_second(date).min(modified))
    }

    /// The representation that a peer wants. One that refuses the file as it is, and all that there is, gets it all the
    /// same: it is better than nothing (RFC 9110 §12.5.3).
    pub(super) fn select(&self, fields: &Headers) -> &Representation {
        if let [whole] = &*self.representations {
            return whole;
        }
        let choice = Choice::of(fields, self.representations.iter().filter_map(|it| it.coding));
        let chosen = self.representations.iter().find(|it| it.coding == choice.coding);
        chosen.unwrap_or(&self.representations[0])
    }

    pub(super) fn validators<'a>(
        &self,
        chosen: &'a Representation,
        modified: Option<SystemTime>,
    ) -> Validators<'a> {
        Validators { etag: &chosen.etag, modified, is_past: self.is_past }
    }

    /// How many files it keeps open.
    pub(super) fn handles(&self) -> usize {
        self.representations.iter().filter(|it| matches!(it.content, Content::File(..))).count()
    }

    /// About how many bytes of memory it takes.
    pub(super) fn cost(&self) -> usize {
        let cost = |it: &Representation| match &it.content {
            Content::Bytes(content) => content.len() + FIELDS_COST,
            Content::File(..) => FIELDS_COST,
        };
        self.representations.iter().map(cost).sum()
    }
}

/// About what a representation takes beside its content.
pub(super) const FIELDS_COST: usize = 1024;

impl Content {
    pub(super) fn len(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File(_, len) => *len,
        }
    }
}

impl Draft {
    /// Reads a file, if it is no larger than `in_memory_max`; of a larger one only the handle is kept.
    pub(super) fn read(file: File, metadata: Metadata, in_memory_max: usize) -> io::Result<Draft> {
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
                return Ok(Draft::new(&metadata, now, Content::Bytes(bytes.into())));
            }
            metadata = after;
        }
        Ok(Draft::new(&metadata, now, Content::File(Arc::new(file), metadata.len())))
    }

    /// Whether this was changed no longer than a second before `other`: tools that write both do not do it at once.
    pub(super) fn is_as_new_as(&self, other: &Draft) -> bool {
        // A file may have any date, the last one that can be said among them.
        let late = |at: SystemTime| at.checked_add(Duration::from_secs(1)).unwrap_or(at);
        self.modified.map(late) >= other.modified
    }

    /// `now` is before the content was read.
    fn new(metadata: &Metadata, now: SystemTime, content: Content) -> Draft {
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
        Draft { content, etag, modified, is_settled }
    }

    /// Its entity-tag: a weak one as long as a change might go unseen (RFC 9110 §8.8.1).
    fn tag(&self, coding: Option<Coding>) -> String {
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
pub(super) fn read(file: &File, len: usize) -> io::Result<Vec<u8>> {
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

/// What a name says about the content (RFC 9110 §8.3). Text is taken to be UTF-8.
pub(super) fn content_type(name: &str) -> String {
    match mime_guess::from_path(name).first_raw() {
        Some(text) if text.starts_with("text/") => format!("{text}; charset=utf-8"),
        Some(other) => other.to_owned(),
        None => "application/octet-stream".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some file systems hold any date, and what is unpacked into them brings its own.
    #[test]
    fn a_file_may_have_any_date() {
        let seconds = |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        let first = SystemTime::UNIX_EPOCH.checked_sub(Duration::from_secs(1 << 40));
        let dates = [None, first, seconds(0), seconds(1), seconds(2), seconds(i64::MAX as u64)];
        let draft = |modified| {
            let content = Content::Bytes(Bytes::from_static(b"x"));
            Draft { content, etag: "x".to_owned(), modified, is_settled: true }
        };
        for (at, date) in dates.into_iter().enumerate() {
            let newer = dates.map(|other| draft(date).is_as_new_as(&draft(other)));
            let least_late = if date == seconds(1) || date == seconds(0) { at + 1 } else { at };
            assert_eq!(newer, std::array::from_fn(|other| other <= least_late), "{date:?}");
            Resource::new("a.js", None, draft(date), vec![(Coding::Gzip, draft(date))]).unwrap();
        }
    }
}
