//! [`Field`]: one line of a message's fields, and why one cannot be set (RFC 9110 §5).

use std::fmt;

use super::name::{Name, Tag};
use crate::memory::{Arena, Span};

/// Where one field line is, in a text that somebody else has.
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

    /// This line in a text that has so many bytes before this one's.
    #[inline]
    pub(super) fn behind(self, len: usize) -> Field {
        Field { name: self.name.behind(len), value: self.value.behind(len), ..self }
    }
}

/// Why a field cannot be set: it would not be a field any more, but more or less than one (RFC 9110 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidField {
    /// The name is no token.
    Name,
    /// The value holds CR, LF, NUL or another control.
    Value,
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidField::Name => "the field name is not a token",
            InvalidField::Value => "the field value holds a control character",
        })
    }
}

impl std::error::Error for InvalidField {}
