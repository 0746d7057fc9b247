//! [`Field`]: one field line, and why a field cannot be set (RFC 9110 §5).

use std::fmt;

use super::list::trim;
use super::name::{Name, Tag, is_field_value};
use crate::memory::{Arena, Span};

/// Where one field line is in the text of its [`Headers`](super::Headers).
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub(super) tag: Tag,
    pub(super) name: Span,
    pub(super) value: Span,
}

impl Field {
    #[inline]
    pub(super) fn is(&self, name: Name<'_>, text: &Arena) -> bool {
        self.tag == name.tag() && name.is(&text[self.name])
    }

    /// This line in a text that has `len` more bytes in front.
    #[inline]
    pub(super) fn behind(self, len: usize) -> Field {
        Field { name: self.name.behind(len), value: self.value.behind(len), ..self }
    }
}

/// Why a field cannot be set: it would break the head, or add other fields to it (RFC 9110 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidField {
    /// The name is not a token.
    Name,
    /// The value contains CR, LF, NUL or another control character than HTAB.
    Value,
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidField::Name => "the field name is not a token",
            InvalidField::Value => "the field value contains a control character",
        })
    }
}

impl std::error::Error for InvalidField {}

/// Returns `value` without the whitespace around it.
///
/// # Errors
///
/// Fails if no field can have it.
#[inline]
pub(super) fn fit_value(value: &[u8]) -> Result<&[u8], InvalidField> {
    let value = trim(value);
    if is_field_value(value) { Ok(value) } else { Err(InvalidField::Value) }
}
