//! [`CodingError`]: why content cannot be decoded or encoded (RFC 9110 §8.4).

use std::error::Error;
use std::fmt;
use std::io;

use crate::message::Status;

/// Why content cannot be decoded or encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodingError {
    /// The content does not follow its coding, or its checksum is wrong.
    Corrupt,
    /// The content was cut short.
    Incomplete,
    /// The content has a coding that this build does not support.
    Unknown,
    /// The content has more codings than are ever used.
    TooMany,
    /// The decoded content is larger than this many bytes, which is what the application allows.
    TooLarge(usize),
    /// The encoder failed, for lack of memory.
    Encoder,
}

impl CodingError {
    /// Returns the status that a peer who sent such content is answered with.
    pub fn owed(self) -> Status {
        match self {
            CodingError::Corrupt | CodingError::Incomplete => Status::BAD_REQUEST,
            CodingError::Unknown | CodingError::TooMany => Status::UNSUPPORTED_MEDIA_TYPE,
            CodingError::TooLarge(_) => Status::CONTENT_TOO_LARGE,
            CodingError::Encoder => Status::INTERNAL_SERVER_ERROR,
        }
    }

    /// The kind of the error of the standard library that this becomes. Truncated content is
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof), as to the readers of flate2.
    pub(crate) fn kind(self) -> io::ErrorKind {
        match self {
            CodingError::Incomplete => io::ErrorKind::UnexpectedEof,
            CodingError::Encoder => io::ErrorKind::OutOfMemory,
            CodingError::Corrupt | CodingError::Unknown | CodingError::TooMany | CodingError::TooLarge(_) => {
                io::ErrorKind::InvalidData
            }
        }
    }
}

impl fmt::Display for CodingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            CodingError::Corrupt => "the coded content is corrupt",
            CodingError::Incomplete => "the coded content was cut short",
            CodingError::Unknown => "the content has an unknown coding",
            CodingError::TooMany => "the content has too many codings",
            CodingError::TooLarge(max) => {
                return write!(f, "the decoded content is too large: more than {max} bytes");
            }
            CodingError::Encoder => "the content could not be encoded",
        };
        f.write_str(text)
    }
}

impl Error for CodingError {}

impl From<CodingError> for io::Error {
    fn from(error: CodingError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}
