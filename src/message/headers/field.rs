//! [`FieldLine`]: one field line, and why a field cannot be set (RFC 9110 §5).

use std::fmt;

use super::list::trim;
use super::name::{FieldName, NameHash, is_field_value};
use crate::error::Excerpt;
use crate::memory::{Arena, Span};

/// Where one field line is in the text of its [`Headers`](super::Headers).
#[derive(Clone, Copy)]
pub(super) struct FieldLine {
    pub(super) hash: NameHash,
    pub(super) name: Span,
    pub(super) value: Span,
}

impl FieldLine {
    #[inline]
    pub(super) fn is(&self, name: FieldName<'_>, text: &Arena) -> bool {
        self.hash == name.hash() && name.is(&text[self.name])
    }

    /// This line in a text that has `len` more bytes in front.
    #[inline]
    pub(super) fn shifted(self, len: usize) -> FieldLine {
        FieldLine { name: self.name.shifted(len), value: self.value.shifted(len), ..self }
    }
}

/// Why a field cannot be set: it would break the head, or add other fields to it (RFC 9110 §5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidField {
    /// The name, which is in quotes and may be cut short, is not a token.
    Name(Box<str>),
    /// The value contains CR, LF, NUL or another control character than HTAB. With the name of the field.
    Value(Box<str>),
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidField::Name(name) => write!(f, "the field name {name} is not a token"),
            InvalidField::Value(name) => {
                write!(f, "the value of the field {name} contains a control character")
            }
        }
    }
}

impl std::error::Error for InvalidField {}

/// Returns `value` without the whitespace around it.
///
/// # Errors
///
/// Fails if no field can have it.
#[inline]
pub(super) fn valid_value<'a>(name: &str, value: &'a [u8]) -> Result<&'a [u8], InvalidField> {
    let value = trim(value);
    if is_field_value(value) { Ok(value) } else { Err(invalid_value(name)) }
}

#[cold]
fn invalid_value(name: &str) -> InvalidField {
    InvalidField::Value(name.into())
}

/// The error for a name that is not a token.
#[cold]
pub(super) fn invalid_name(name: &str) -> InvalidField {
    InvalidField::Name(Excerpt(name).to_string().into())
}
