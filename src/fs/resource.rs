//! [`Resource`]: one file in all its representations, with the fields that each is answered with (RFC 9110 §8).

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::condition::Validators;
use crate::coding::{Choice, Coding};
use crate::message::{Headers, InvalidField};

/// One file in all its representations.
#[derive(Debug)]
pub(super) struct Resource {
    /// The file as it is, and then what is kept encoded.
    forms: Vec<Form>,
    /// To the second.
    modified: Option<SystemTime>,
    is_settled: bool,
    pub(super) content_type: String,
}

/// One representation of a file.
#[derive(Debug)]
pub(super) struct Form {
    coding: Option<Coding>,
    pub(super) content: Content,
    etag: String,
    /// All that describes it, ready to be copied into an answer.
    pub(super) fields: Headers,
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
        let (modified, is_settled) = (whole.modified.map(to_second), whole.is_settled);
        let varies = !encoded.is_empty();
        let encoded = encoded.into_iter().map(|(coding, draft)| (Some(coding), draft));
        let forms =
            [(None, whole)].into_iter().chain(encoded).map(|(coding, Draft { content, etag, .. })| {
                let etag = match coding {
                    None => format!("\"{etag}\""),
                    Some(coding) => format!("\"{etag}-{}\"", coding.name()),
                };
                let mut fields = Headers::new();
                fields.set("content-type", &*content_type)?;
                fields.set("etag", &*etag)?;
                modified.map_or(Ok(()), |modified| fields.set_date("last-modified", modified))?;
                fields.set("accept-ranges", "bytes")?;
                cache_control.map_or(Ok(()), |value| fields.set("cache-control", value))?;
                coding.map_or(Ok(()), |coding| fields.set("content-encoding", coding.name()))?;
                if varies {
                    fields.set("vary", "accept-encoding")?;
                }
                Ok(Form { coding, content, etag, fields })
            });
        Ok(Resource { forms: forms.collect::<Result<_, _>>()?, modified, is_settled, content_type })
    }

    /// The representation that a peer wants. One that refuses the file as it is, and all that there is, gets it all the
    /// same: it is better than nothing (RFC 9110 §12.5.3).
    pub(super) fn select(&self, fields: &Headers) -> &Form {
        if let [whole] = &*self.forms {
            return whole;
        }
        let choice = Choice::of(fields, self.forms.iter().filter_map(|form| form.coding));
        let form = self.forms.iter().find(|form| form.coding == choice.coding);
        form.unwrap_or(&self.forms[0])
    }

    pub(super) fn validators<'a>(&self, form: &'a Form) -> Validators<'a> {
        Validators { etag: &form.etag, modified: self.modified, is_settled: self.is_settled }
    }

    /// What it costs to keep: bytes, and open files.
    pub(super) fn cost(&self) -> (usize, usize) {
        self.forms.iter().fold((0, 0), |(bytes, files), form| match &form.content {
            Content::Bytes(content) => (bytes + content.len() + FORM_COST, files),
            Content::File(..) => (bytes + FORM_COST, files + 1),
        })
    }
}

/// About what a representation takes beside its content.
const FORM_COST: usize = 512;

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
        for _ in 0..ATTEMPTS {
            if metadata.len() > in_memory_max as u64 {
                break;
            }
            let bytes = read(&file, metadata.len() as usize)?;
            let now = file.metadata()?;
            // What changes while it is read is half the one and half the other.
            let is_same = now.modified().ok() == metadata.modified().ok() && now.len() == metadata.len();
            if is_same && bytes.len() as u64 == metadata.len() {
                return Ok(Draft::new(&metadata, Content::Bytes(bytes.into())));
            }
            metadata = now;
        }
        Ok(Draft::new(&metadata, Content::File(Arc::new(file), metadata.len())))
    }

    /// Whether this was changed no longer than a second before `other`: tools that write both do not do it at once.
    pub(super) fn is_as_new_as(&self, other: &Draft) -> bool {
        let late = |at: SystemTime| at + Duration::from_secs(1);
        self.modified.map(late) >= other.modified
    }

    fn new(metadata: &Metadata, content: Content) -> Draft {
        let modified = metadata.modified().ok();
        let since = modified
            .map(|at| at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_else(|error| error.duration()));
        let etag = format!("{:x}-{:x}", since.unwrap_or_default().as_nanos(), metadata.len());
        let age = modified.and_then(|at| at.elapsed().ok());
        Draft { content, etag, modified, is_settled: age.is_some_and(|age| age > Duration::from_secs(1)) }
    }
}

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
