//! [`Resource`]: one file in all its representations, with the fields of each (RFC 9110 §8).

use std::time::{Instant, SystemTime};

use super::snapshot::{FileContent, Snapshot};
use crate::coding::{Coding, NegotiatedCoding};
use crate::message::{Headers, MessageError};

/// One file in all its representations.
#[derive(Debug)]
pub(super) struct Resource {
    /// The file as it is, then its encoded forms. Never empty.
    representations: Vec<Representation>,
    pub(super) content_type: String,
    /// The time of its last change, to the second.
    pub(super) modified: Option<SystemTime>,
    /// Whether parts of it may be requested (RFC 9110 §14.3).
    pub(super) accepts_ranges: bool,
    has_custom_date: bool,
    /// How many files the resource keeps open.
    pub(super) open_files: usize,
}

/// One representation of a file.
#[derive(Debug)]
pub(super) struct Representation {
    coding: Option<Coding>,
    snapshot: Snapshot,
    /// Whether this is an encoded form.
    pub(super) is_encoded: bool,
    /// Empty for a file of a source without one.
    pub(super) etag: Vec<u8>,
    /// All fields that describe it, ready to be copied into a response.
    pub(super) fields: Headers,
    /// The fields that describe it in a response without its content, such as 304 (RFC 9110 §15.4.5).
    pub(super) fields_without_content: Headers,
}

impl Resource {
    /// Makes the resource for a file, with its encoded forms.
    pub(super) fn new(
        description: Description<'_>,
        whole: Snapshot,
        encoded: Vec<(Coding, Snapshot)>,
    ) -> Result<Resource, MessageError> {
        let Description { content_type, cache_control, is_encoded, etag, modified: chosen, accepts_ranges } =
            description;
        let modified = chosen.or(whole.last_modified());
        let varies = !encoded.is_empty();
        let encoded = encoded.into_iter().map(|(coding, snapshot)| (Some(coding), snapshot));
        let all = [(None, whole)].into_iter().chain(encoded).map(|(coding, snapshot)| {
            let etag = etag.clone().unwrap_or_else(|| snapshot.entity_tag(coding).into_bytes());
            let mut alone = Headers::new();
            if !etag.is_empty() {
                alone.set("etag", &*etag)?;
            }
            modified.map_or(Ok(()), |modified| alone.set_date("last-modified", modified))?;
            alone.set("accept-ranges", if accepts_ranges { "bytes" } else { "none" })?;
            cache_control.map_or(Ok(()), |value| alone.set("cache-control", value))?;
            if varies {
                alone.set("vary", "accept-encoding")?;
            }
            let mut fields = Headers::new();
            fields.set("content-type", &*content_type)?;
            coding.map_or(Ok(()), |coding| fields.set("content-encoding", coding.as_str()))?;
            fields.append_all(&alone);
            let is_encoded = is_encoded || coding.is_some();
            Ok(Representation { coding, snapshot, is_encoded, etag, fields, fields_without_content: alone })
        });
        let representations = all.collect::<Result<Vec<Representation>, MessageError>>()?;
        debug_assert!(representations[0].coding.is_none(), "the file as it is comes first");
        let has_custom_date = chosen.is_some();
        let is_open = |it: &&Representation| matches!(it.content(), FileContent::File(..));
        let open_files = representations.iter().filter(is_open).count();
        Ok(Resource { representations, content_type, modified, accepts_ranges, has_custom_date, open_files })
    }

    /// Whether the files that the resource keeps open are unchanged.
    pub(super) fn is_unchanged(&self) -> bool {
        self.open_files == 0 || self.representations.iter().all(|it| it.snapshot.is_unchanged())
    }

    /// The state of the file as it is, or of its form in this coding.
    pub(super) fn snapshot(&self, coding: Option<Coding>) -> Option<&Snapshot> {
        self.representations.iter().find(|it| it.coding == coding).map(|it| &it.snapshot)
    }

    /// The `last-modified` of a response to a request that `arrived` before the file was changed, see
    /// [`Snapshot::clamped_modified`].
    pub(super) fn clamped_modified(&self, arrived: Instant) -> Option<SystemTime> {
        match self.has_custom_date {
            true => None,
            false => self.representations[0].snapshot.clamped_modified(arrived),
        }
    }

    /// The time of its last change, if that denotes one state of one representation (RFC 9110 §8.8.1, §8.8.2.2): its
    /// second is over, and there is no other representation, which would have the same date. A date that the program
    /// has set is trusted.
    pub(super) fn strong_date(&self) -> Option<SystemTime> {
        let [whole] = &*self.representations else { return None };
        self.modified.filter(|_| self.has_custom_date || whole.snapshot.strong_since.is_some())
    }

    /// The representation that a peer prefers. A peer that refuses all of them gets the file as it is, which is better
    /// than nothing (RFC 9110 §12.5.3).
    pub(super) fn select(&self, fields: &Headers) -> &Representation {
        if let [whole] = &*self.representations {
            return whole;
        }
        let negotiated =
            NegotiatedCoding::from_headers(fields, self.representations.iter().filter_map(|it| it.coding));
        let chosen = self.representations.iter().find(|it| it.coding == negotiated.coding);
        chosen.unwrap_or(&self.representations[0])
    }

    /// About how many bytes of memory the resource uses.
    pub(super) fn cost(&self) -> usize {
        let cost = |it: &Representation| match it.content() {
            FileContent::Bytes(content) => content.len() + FIELDS_COST,
            FileContent::File(..) | FileContent::Sourced(_) => FIELDS_COST,
        };
        self.representations.iter().map(cost).sum()
    }
}

impl Representation {
    pub(super) fn content(&self) -> &FileContent {
        &self.snapshot.content
    }
}

/// About how many bytes a representation uses in addition to its content.
pub(super) const FIELDS_COST: usize = 1024;

/// The fields of a response about a file, by the settings of the program or by those that a handler has set.
#[derive(Debug)]
pub(super) struct Description<'a> {
    pub(super) content_type: String,
    pub(super) cache_control: Option<&'a str>,
    /// Whether the file itself has a content coding, by the `content-encoding` that a handler has set.
    pub(super) is_encoded: bool,
    /// Replaces the `etag` that is made of the file.
    pub(super) etag: Option<Vec<u8>>,
    /// Replaces the time of the file.
    pub(super) modified: Option<SystemTime>,
    pub(super) accepts_ranges: bool,
}

impl<'a> Description<'a> {
    pub(super) fn new(content_type: String, cache_control: Option<&'a str>) -> Description<'a> {
        Description {
            content_type,
            cache_control,
            is_encoded: false,
            etag: None,
            modified: None,
            accepts_ranges: true,
        }
    }

    /// The fields that a handler has set, and `content_type` if it has set none.
    pub(super) fn from_fields(fields: &Headers, content_type: String) -> Description<'a> {
        let chosen = fields.content_type().map(str::to_owned);
        Description {
            is_encoded: fields.contains("content-encoding"),
            etag: fields.get_bytes("etag").map(<[u8]>::to_vec),
            modified: fields.date("last-modified"),
            accepts_ranges: fields.get("accept-ranges").is_none_or(|unit| unit.eq_ignore_ascii_case("bytes")),
            ..Description::new(chosen.unwrap_or(content_type), None)
        }
    }
}

/// A content coding in which a file may be stored in addition to the file itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredCoding {
    pub(super) coding: Coding,
    /// The suffix of the names of encoded files.
    pub(super) suffix: &'static str,
}

impl StoredCoding {
    /// In order of preference.
    pub(super) const ALL: [StoredCoding; 3] = [
        StoredCoding { coding: Coding::Br, suffix: ".br" },
        StoredCoding { coding: Coding::Zstd, suffix: ".zst" },
        StoredCoding { coding: Coding::Gzip, suffix: ".gz" },
    ];
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    /// Some file systems hold any date, and unpacked files keep the date of their archive.
    #[test]
    fn a_file_may_have_any_date() {
        let seconds = |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        let first = SystemTime::UNIX_EPOCH.checked_sub(Duration::from_secs(1 << 40));
        let dates = [None, first, seconds(0), seconds(1), seconds(2), seconds(i64::MAX as u64)];
        let content = || FileContent::Bytes(Bytes::from_static(b"x"));
        let snapshot = |modified| Snapshot::undated(content(), "x".to_owned()).dated(modified, None);
        for (at, date) in dates.into_iter().enumerate() {
            let newer = dates.map(|other| snapshot(date).is_as_new_as(&snapshot(other)));
            let least_late = if date == seconds(1) || date == seconds(0) { at + 1 } else { at };
            assert_eq!(newer, std::array::from_fn(|other| other <= least_late), "{date:?}");
            let description = Description::new("text/javascript".to_owned(), None);
            Resource::new(description, snapshot(date), vec![(Coding::Gzip, snapshot(date))]).unwrap();
        }
    }
}
