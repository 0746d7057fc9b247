//! [`InvalidJson`]: why content cannot be read as JSON, and the status for it.

use std::error::Error;
use std::fmt;

use super::JsonError;
use crate::message::{Status, Unfit};

/// Why the content of a request cannot be read as JSON.
///
/// In a handler, `?` turns it into the right status: see [`InvalidJson::owed`].
#[derive(Debug)]
#[non_exhaustive]
pub enum InvalidJson {
    /// The content type is missing, repeated, or none of JSON.
    ContentType,
    /// The content has a content coding (RFC 9110 §8.4), and was not decoded.
    ContentCoding,
    /// The content has not been received: the application asked too early.
    Unread,
    /// The content is not JSON (RFC 8259 §2); or what is read of it nests deeper than 127 levels, or has a number that is
    /// too large for an `f64`. What the type does not ask for is skipped.
    Syntax(JsonError),
    /// The content is JSON, but not of the type that was asked for: a field is missing, for example.
    Value(JsonError),
}

impl InvalidJson {
    /// Returns the status that the peer is answered with (RFC 9110 §15.5.1, §15.5.16, §15.5.21, §15.6.1).
    pub fn owed(&self) -> Status {
        *self.status()
    }

    fn status(&self) -> &'static Status {
        match self {
            InvalidJson::ContentType | InvalidJson::ContentCoding => &Status::UNSUPPORTED_MEDIA_TYPE,
            InvalidJson::Unread => &Status::INTERNAL_SERVER_ERROR,
            InvalidJson::Syntax(_) => &Status::BAD_REQUEST,
            InvalidJson::Value(_) => &Status::UNPROCESSABLE_CONTENT,
        }
    }
}

impl fmt::Display for InvalidJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidJson::ContentType => f.write_str("the field content-type is missing, or is not of JSON"),
            InvalidJson::ContentCoding => {
                f.write_str("the content has a content coding, and was not decoded")
            }
            InvalidJson::Unread => f.write_str("the content was not read yet"),
            InvalidJson::Syntax(error) | InvalidJson::Value(error) => error.fmt(f),
        }
    }
}

impl Error for InvalidJson {
    /// The status, which makes `?` in a handler answer with it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.status())
    }
}

impl From<Unfit> for InvalidJson {
    fn from(unfit: Unfit) -> InvalidJson {
        match unfit {
            Unfit::Type => InvalidJson::ContentType,
            Unfit::Coding => InvalidJson::ContentCoding,
            Unfit::Unread => InvalidJson::Unread,
        }
    }
}

impl From<JsonError> for InvalidJson {
    fn from(error: JsonError) -> InvalidJson {
        if error.as_serde().is_data() { InvalidJson::Value(error) } else { InvalidJson::Syntax(error) }
    }
}
