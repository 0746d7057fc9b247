//! [`FileMetadata`]: the parts of a file that a response needs before the content (RFC 9110 §8); [`SourceEntry`]: a
//! file with them, or a directory.

use std::io;
use std::time::SystemTime;

/// The entry at a path of a [`FileSource`](crate::fs::FileSource).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEntry {
    /// A file, with all that is known of it before reading.
    File(FileMetadata),
    /// A directory. A store without directories returns this if the path and a `/` begin the path of a file.
    Directory,
}

/// The metadata of a file before it is read.
///
/// # Examples
///
/// ```
/// use corehttp::fs::FileMetadata;
///
/// let metadata = FileMetadata { len: 5, etag: Some("\"5d41402a\"".into()), ..FileMetadata::default() };
/// # assert_eq!(metadata.modified, None);
/// ```
///
/// All fields are public and stay so. As a later release may add some, end literals in `..FileMetadata::default()`, and
/// patterns in `..`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileMetadata {
    /// Bytes of the content.
    pub len: u64,
    /// The time of the last change. Times before 1990 are not sent, as those of [`Files`](crate::fs::Files).
    pub modified: Option<SystemTime>,
    /// The entity-tag as in a field: in quotes, and after `W/` if weak (RFC 9110 §8.8.3). Each content must have a tag
    /// of its own. Without a tag, there is no `etag`.
    pub etag: Option<String>,
    /// The content type, sent unchanged. Without it, the name of the file suggests one, and text is in UTF-8.
    pub content_type: Option<String>,
}

impl FileMetadata {
    /// The opaque-tag, without its quotes, and whether the entity-tag is strong.
    ///
    /// # Errors
    ///
    /// Fails if the entity-tag is malformed: a peer would compare another one.
    pub(in crate::fs) fn opaque_tag(&self) -> io::Result<Option<(&str, bool)>> {
        let Some(etag) = &self.etag else { return Ok(None) };
        let (opaque, is_strong) = match etag.strip_prefix("W/") {
            Some(opaque) => (opaque, false),
            None => (&**etag, true),
        };
        let is_etagc = |octet: u8| matches!(octet, 0x21 | 0x23..=0x7e | 0x80..);
        let tag = opaque.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        match tag.filter(|tag| !tag.is_empty() && tag.bytes().all(is_etagc)) {
            Some(tag) => Ok(Some((tag, is_strong))),
            None => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "an entity-tag of the source is malformed"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_tag_is_in_quotes_rfc9110_8_8_3() {
        for (etag, expected) in [
            ("\"a\"", Some(("a", true))),
            ("W/\"a-1\"", Some(("a-1", false))),
            ("\"é\"", Some(("é", true))),
            ("", None),
            ("a", None),
            ("\"", None),
            ("\"\"", None),
            ("\"a", None),
            ("w/\"a\"", None),
            ("\"a b\"", None),
            ("\"a\"b\"", None),
            ("\"a\r\nx: y\"", None),
            ("\"\x7f\"", None),
        ] {
            let metadata = FileMetadata { etag: Some(etag.to_owned()), ..FileMetadata::default() };
            assert_eq!(metadata.opaque_tag().ok().flatten(), expected, "{etag:?}");
        }
        assert_eq!(FileMetadata::default().opaque_tag().unwrap(), None);
    }
}
