//! [`MultipartError`]: how a body can break RFC 7578, and the status for it.

use std::error::Error;
use std::fmt;
use std::io;

use crate::message::Status;

/// How a body broke the rules of `multipart/form-data`, or a limit of [`MultipartLimits`](super::MultipartLimits).
///
/// It is inside the [`io::Error`] that reading parts returns, unless the body itself could not be read. A handler that
/// passes it on with `?` answers with [the status it owes](MultipartError::owed).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MultipartError {
    /// The content type is missing, repeated, or not `multipart/form-data` (RFC 7578 §4.1).
    ContentType,
    /// The body has a content coding, which [`Context::decode_body`](crate::Context::decode_body) can undo (RFC 9110
    /// §8.4).
    ContentCoding,
    /// The content is not here: it is a stream, or was not read. The application asked too early.
    Unread,
    /// The boundary is missing, or does not consist of 1 to 70 allowed characters (RFC 2046 §5.1.1).
    Boundary,
    /// A boundary is followed by something other than the end of its line, follows a head at once, or is in the preamble
    /// but not at the start of a line (§5.1.1).
    Delimiter,
    /// The head of a part is malformed (§5.1).
    PartHead,
    /// A part has no content disposition `form-data` with one name, or has two (RFC 7578 §4.2).
    Disposition,
    /// A part has a transfer encoding (RFC 7578 §4.7).
    TransferEncoding,
    /// The body ends before its last boundary (RFC 2046 §5.1.1).
    Incomplete,
    /// A part that is read as text is not UTF-8.
    Text,
    /// The name under which a part is to be saved is not the plain name of a file, or too long for one.
    FileName,
    /// There are more parts than the limit.
    TooManyParts,
    /// The head of a part is larger than the limit, or has more fields.
    PartHeadTooLarge,
    /// A part is larger than the limit.
    PartTooLarge,
    /// The whole body is larger than the limit.
    BodyTooLarge,
    /// What precedes the first boundary, or follows the last, is larger than the limit.
    MarginTooLarge,
}

impl MultipartError {
    /// Returns the status that a peer who sent such a body is answered with (RFC 9110 §15.5).
    pub fn owed(self) -> Status {
        *self.status()
    }

    fn status(self) -> &'static Status {
        use MultipartError as E;
        match self {
            E::Unread => &Status::INTERNAL_SERVER_ERROR,
            E::ContentType | E::ContentCoding | E::TransferEncoding => &Status::UNSUPPORTED_MEDIA_TYPE,
            E::PartHeadTooLarge => &Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            E::TooManyParts | E::PartTooLarge | E::BodyTooLarge | E::MarginTooLarge => {
                &Status::CONTENT_TOO_LARGE
            }
            E::Boundary | E::Delimiter | E::PartHead | E::Disposition => &Status::BAD_REQUEST,
            E::Incomplete | E::Text | E::FileName => &Status::BAD_REQUEST,
        }
    }
}

impl fmt::Display for MultipartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use MultipartError as E;
        f.write_str(match self {
            E::ContentType => "the field content-type is missing, or is not multipart/form-data",
            E::ContentCoding => "the body has a content coding, and was not decoded",
            E::Unread => "the body was not read yet",
            E::Boundary => "the boundary is missing or malformed",
            E::Delimiter => "the line of a boundary is malformed, or misplaced",
            E::PartHead => "the head of a part is malformed",
            E::Disposition => "the content disposition of a part is missing, repeated or malformed",
            E::TransferEncoding => "a part is in a transfer encoding",
            E::Incomplete => "the last boundary is missing",
            E::Text => "a part is not UTF-8",
            E::FileName => "the file name is not a plain name",
            E::TooManyParts => "there are more parts than `parts_max`",
            E::PartHeadTooLarge => {
                "the head of a part is larger than `head_max`, or has more fields than `fields_max`"
            }
            E::PartTooLarge => {
                "a part is larger than `part_max`, or than `memory_max` if it is kept in memory"
            }
            E::BodyTooLarge => "the body is larger than `bytes_max`",
            E::MarginTooLarge => "more than `margin_max` precedes the first boundary or follows the last",
        })
    }
}

impl Error for MultipartError {
    /// The status, which makes `?` in a handler answer with it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.status())
    }
}

impl From<MultipartError> for io::Error {
    fn from(error: MultipartError) -> io::Error {
        let kind = match error {
            MultipartError::Incomplete => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}
