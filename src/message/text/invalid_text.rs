//! [`InvalidText`]: text of a peer is not UTF-8 (RFC 3629).

use std::error::Error;
use std::fmt;

use crate::message::Status;

/// Text of a peer is not UTF-8.
///
/// In a handler, `?` turns it into 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidText {
    /// The path of a target, or a segment of it, once it is decoded.
    Path,
    /// The content of a request.
    Content,
}

impl InvalidText {
    /// Returns the status that the peer is answered with: 400 (RFC 9110 §15.5.1).
    pub fn owed(self) -> Status {
        Status::BAD_REQUEST
    }
}

impl fmt::Display for InvalidText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidText::Path => "the path of the request is not UTF-8",
            InvalidText::Content => "the content of the request is not UTF-8",
        })
    }
}

impl Error for InvalidText {}
