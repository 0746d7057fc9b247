//! [`Description`]: the fields of an answer about a file that do not come from the file itself (RFC 9110 §8).

use std::time::SystemTime;

use crate::message::Headers;

/// The fields of an answer about a file, by the settings of the program or by those that a handler has set.
#[derive(Debug)]
pub(in crate::fs) struct Description<'a> {
    pub(super) content_type: String,
    pub(super) cache_control: Option<&'a str>,
    /// Whether the file itself is an encoded form of what it stands for.
    pub(super) is_encoded: bool,
    /// Instead of one that is made of the file.
    pub(super) etag: Option<Vec<u8>>,
    /// Instead of the time of the file.
    pub(super) modified: Option<SystemTime>,
    pub(super) accepts_ranges: bool,
}

impl<'a> Description<'a> {
    pub(in crate::fs) fn new(content_type: String, cache_control: Option<&'a str>) -> Description<'a> {
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
    pub(in crate::fs) fn from_fields(fields: &Headers, content_type: String) -> Description<'a> {
        let chosen = fields.content_type().map(str::to_owned);
        Description {
            is_encoded: fields.contains("content-encoding"),
            etag: fields.get("etag").map(<[u8]>::to_vec),
            modified: fields.date("last-modified"),
            accepts_ranges: fields
                .text("accept-ranges")
                .is_none_or(|unit| unit.eq_ignore_ascii_case("bytes")),
            ..Description::new(chosen.unwrap_or(content_type), None)
        }
    }
}
