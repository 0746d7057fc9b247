//! [`InvalidText`]: what a peer spelled is not UTF-8 (RFC 3629).

use std::error::Error;
use std::fmt;

use crate::message::Status;

/// What a peer spelled is not UTF-8: a path that was decoded, or the content of a request.
///
/// In a handler `?` makes 400 of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct InvalidText;

impl InvalidText {
    /// The status that is owed to whoever sent it: 400 (RFC 9110 §15.5.1).
    pub fn owed(self) -> Status {
        Status::BAD_REQUEST
    }
}

impl fmt::Display for InvalidText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text is not UTF-8")
    }
}

impl Error for InvalidText {}
