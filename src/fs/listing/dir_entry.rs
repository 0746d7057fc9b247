//! [`DirEntry`]: one file or directory of a listing.

use std::borrow::Cow;
use std::time::SystemTime;

use crate::message::text::percent;

/// One file or directory of a directory, as a [listing](crate::fs::DirListing) shows it, and as a
/// [source](crate::fs::FileSource::list) lists it.
///
/// # Examples
///
/// ```
/// use corehttp::fs::DirEntry;
///
/// let entry = DirEntry::directory("</script>\n");
/// assert_eq!(entry.display_name(), "</script>\u{fffd}"); // still to be escaped in HTML
/// assert_eq!(entry.link(), "./%3C%2Fscript%3E%0A/");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirEntry {
    /// The octets of the name, which need not be text.
    pub name: Vec<u8>,
    /// Bytes of a file. `None` for a directory.
    pub size: Option<u64>,
    /// The time of the last change, if it is known.
    pub modified: Option<SystemTime>,
}

impl DirEntry {
    /// A file of `size` bytes. Its time is set by the field.
    pub fn file(name: impl Into<Vec<u8>>, size: u64) -> DirEntry {
        DirEntry { name: name.into(), size: Some(size), modified: None }
    }

    /// A directory, whose name has no `/` at its end.
    pub fn directory(name: impl Into<Vec<u8>>) -> DirEntry {
        DirEntry { name: name.into(), size: None, modified: None }
    }

    /// Returns whether this is a directory.
    pub fn is_directory(&self) -> bool {
        self.size.is_none()
    }

    /// Returns the name as text. U+FFFD stands for controls and for octets that are not UTF-8. In HTML it must be
    /// [escaped](crate::message::escape_html).
    pub fn display_name(&self) -> Cow<'_, str> {
        display(&self.name)
    }

    /// Returns a reference to this entry for a page at the path of its directory: percent-encoded, and with a `/` at its
    /// end for a directory. It needs no further escape.
    pub fn link(&self) -> String {
        let slash = if self.is_directory() { "/" } else { "" };
        // After `./` nothing can be taken for a scheme or a host.
        format!("./{}{slash}", percent::encode_segment(&self.name))
    }
}

/// A name as text, in which U+FFFD stands for octets that are not UTF-8, and for controls.
pub(super) fn display(name: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(name);
    let has_form = |character: char| !character.is_control();
    match text.chars().all(has_form) {
        true => text,
        false => text.chars().map(|it| if has_form(it) { it } else { '\u{fffd}' }).collect(),
    }
}
