//! [`InvalidText`] and [`InvalidCharset`]: text that is not UTF-8, not in a charset that can be read, or not here yet.

use std::error::Error;
use std::fmt;

use crate::error_text::Excerpt;
use crate::message::Status;

/// Content is not text in the charset that its type names, or that charset cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCharset {
    charset: Box<str>,
    error: CharsetError,
    /// Whether the content is that of a request, so that its sender is to blame.
    is_of_request: bool,
}

/// Why content cannot be decoded from a charset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::message) enum CharsetError {
    /// The content is not text in this charset.
    Malformed,
    /// The charset cannot be read, for this reason.
    Unknown(&'static str),
    /// The content has not been received.
    Unread,
}

impl InvalidCharset {
    pub(in crate::message) fn new(charset: &[u8], error: CharsetError) -> InvalidCharset {
        let charset = &charset[..charset.len().min(LABEL_MAX)];
        InvalidCharset { charset: String::from_utf8_lossy(charset).into(), error, is_of_request: false }
    }

    /// Marks the content as that of a request, whose sender is then to blame.
    pub(in crate::message) fn of_request(self) -> InvalidCharset {
        InvalidCharset { is_of_request: true, ..self }
    }

    /// Returns the charset as the content type names it, its first 40 octets; `utf-8` if it names none.
    pub fn charset(&self) -> &str {
        &self.charset
    }

    /// The status that the peer is answered with, if it is to blame.
    pub(crate) fn status(&self) -> Option<Status> {
        match self.error {
            CharsetError::Malformed => self.is_of_request.then_some(Status::BAD_REQUEST),
            CharsetError::Unknown(_) => self.is_of_request.then_some(Status::UNSUPPORTED_MEDIA_TYPE),
            CharsetError::Unread => None,
        }
    }
}

/// The longest name of a charset (RFC 2978 §2.3).
const LABEL_MAX: usize = 40;

impl fmt::Display for InvalidCharset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let charset = Excerpt(&self.charset);
        match self.error {
            CharsetError::Malformed => write!(f, "the content is not text in the charset {charset}"),
            CharsetError::Unknown(why) => write!(f, "the content is text in the charset {charset}, {why}"),
            CharsetError::Unread => f.write_str("the content was not read yet"),
        }
    }
}

impl Error for InvalidCharset {}

/// Text of a peer is not UTF-8, or has not been received.
///
/// In a handler, `?` turns it into the right status: see [`InvalidText::status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidText {
    /// The path of a target, or a segment of it, once it is decoded.
    Path,
    /// The content of a request.
    Content,
    /// The content of a response, or of a [`Body`](crate::Body) whose message is not known.
    Body,
    /// The content has not been received: the application read it too early, or it is a stream.
    Unread,
}

impl InvalidText {
    /// Returns the status that the peer is answered with (RFC 9110 §15.5.1, §15.6.1).
    pub fn status(self) -> Status {
        match self {
            InvalidText::Path | InvalidText::Content => Status::BAD_REQUEST,
            InvalidText::Body | InvalidText::Unread => Status::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for InvalidText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidText::Path => "the path of the request is not UTF-8",
            InvalidText::Content => "the content of the request is not UTF-8",
            InvalidText::Body => "the content is not UTF-8",
            InvalidText::Unread => "the content was not read yet",
        })
    }
}

impl Error for InvalidText {}
