//! [`ConversionError`]: why a message or a part of it has no counterpart among the types of the crate `http`, or here.

use std::error::Error;
use std::fmt;

use http::uri::InvalidUri;

use crate::error_text::{Excerpt, without_secrets, write_error};
use crate::message::{MessageError, TargetError};

/// Why a message, or a part of it, cannot be converted to its counterpart of the crate `http`, or from it.
///
/// Little fails: the two differ only in their limits.
///
/// # Examples
///
/// ```
/// use corehttp::Request;
/// use corehttp::http_types::ConversionError;
///
/// let request = http::Request::get("ftp://a.example/b").body(String::new())?;
/// let error = Request::try_from(request).unwrap_err();
/// assert!(matches!(error, ConversionError::Message(_)));
/// assert_eq!(
///     format!("{error:#}"),
///     "the message has no counterpart: the url `ftp://a.example/b` is invalid: the scheme is neither http nor https"
/// );
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ConversionError {
    /// The method, the URI or a field is not one that this crate can send.
    Message(MessageError),
    /// The status of a response is beyond 599 (RFC 9110 §15).
    Status(http::StatusCode),
    /// The version is neither 1.0 nor 1.1.
    Version(http::Version),
    /// The target of a request is not a URI of the crate `http`, which holds at most 65,534 bytes. With the quoted
    /// beginning of the target, without its query.
    Target(InvalidUri, Box<str>),
    /// The name of a field is longer than 65,535 bytes. With its quoted beginning.
    FieldName(Box<str>),
    /// A message has so many fields, more than the 24,576 of a [`HeaderMap`](http::HeaderMap).
    TooManyFields(usize),
}

impl ConversionError {
    /// The error of a `target` that the crate `http` refuses.
    pub(super) fn from_target(error: InvalidUri, target: &str) -> ConversionError {
        ConversionError::Target(error, Excerpt(&without_secrets(target)).to_string().into())
    }

    /// The error of a field `name` that the crate `http` refuses.
    pub(super) fn from_name(name: &[u8]) -> ConversionError {
        ConversionError::FieldName(Excerpt::quote_octets(name).into())
    }
}

impl fmt::Display for ConversionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| match self {
            ConversionError::Message(_) => f.write_str("the message has no counterpart"),
            ConversionError::Status(status) => {
                write!(f, "the status {} is not from 100 to 599", status.as_u16())
            }
            ConversionError::Version(version) => write!(f, "the version {version:?} is neither 1.0 nor 1.1"),
            ConversionError::Target(_, target) => write!(f, "the target {target} is not a URI"),
            ConversionError::FieldName(name) => {
                write!(f, "the field name {name} is longer than 65,535 bytes")
            }
            ConversionError::TooManyFields(count) => {
                write!(f, "a header map holds at most 24,576 fields, and there are {count}")
            }
        })
    }
}

impl Error for ConversionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ConversionError::Message(error) => Some(error),
            ConversionError::Target(error, _) => Some(error),
            ConversionError::Status(_)
            | ConversionError::Version(_)
            | ConversionError::FieldName(_)
            | ConversionError::TooManyFields(_) => None,
        }
    }
}

impl From<MessageError> for ConversionError {
    fn from(error: MessageError) -> ConversionError {
        ConversionError::Message(error)
    }
}

impl From<TargetError> for ConversionError {
    fn from(error: TargetError) -> ConversionError {
        ConversionError::Message(error.into())
    }
}
