//! [`MultipartError`]: how a body can break RFC 7578 or [`MultipartLimits`], and the status for it.

use std::error::Error;
use std::fmt;
use std::io;

use crate::error_text::Excerpt;
use crate::message::{Explained, Status};
use crate::wire::WireDetail;

/// How a body broke the rules of `multipart/form-data`, or a limit of [`MultipartLimits`](super::MultipartLimits).
///
/// The error is inside the [`io::Error`] of a read of parts, unless the body itself could not be read. A handler that
/// passes it on with `?` answers with [the right status](MultipartError::status).
///
/// Parts are named by their number, from 1, or by the quoted beginning of their name. Limits have their value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MultipartError {
    /// The content type is missing, repeated, or not `multipart/form-data` (RFC 7578 §4.1).
    ContentType,
    /// The body has a content coding, which [`Context::decode_body`](crate::Context::decode_body) can undo (RFC 9110
    /// §8.4).
    ContentCoding,
    /// The content is not in memory, but a stream or not yet received.
    Unread,
    /// The boundary is missing, or does not consist of 1 to 70 allowed characters (RFC 2046 §5.1.1).
    Boundary,
    /// The boundary after this part is followed by something other than the end of its line, or follows the head at once.
    ///
    /// Part 0 stands for the preamble. A boundary in it must be at the start of a line (§5.1.1).
    Delimiter(usize),
    /// The head of this part is malformed (§5.1).
    PartHead(usize),
    /// This part has no content disposition `form-data` with one name, or has two (RFC 7578 §4.2).
    Disposition(usize),
    /// This part has a transfer encoding (RFC 7578 §4.7).
    TransferEncoding(usize),
    /// The body ends before the last boundary (RFC 2046 §5.1.1), within this part or after it. Part 0 stands for the preamble.
    Incomplete(usize),
    /// This part, which is read as text, is not UTF-8.
    Text(Box<str>),
    /// The name for a part to save is not the plain name of a file, or too long. The name is in quotes and may be cut short.
    FileName(Box<str>),
    /// There are more parts than the limit.
    TooManyParts(Box<WireDetail>),
    /// The head of this part is larger than the limit, or has more fields.
    PartHeadTooLarge(usize, Box<WireDetail>),
    /// This part is larger than the limit.
    PartTooLarge(Box<str>, Box<WireDetail>),
    /// The whole body is larger than the limit.
    BodyTooLarge(Box<WireDetail>),
    /// The preamble or the epilogue, which surround the parts, is larger than the limit.
    MarginTooLarge(Box<WireDetail>),
}

impl MultipartError {
    /// Returns the status of the response to such a body (RFC 9110 §15.5).
    pub fn status(&self) -> Status {
        self.explained().0
    }

    /// The error of a file name that is not plain.
    pub(super) fn from_file_name(name: &str) -> MultipartError {
        MultipartError::FileName(Excerpt(name).to_string().into())
    }

    fn explained(&self) -> &'static Explained {
        use MultipartError as E;
        match self {
            E::Unread => &Explained(Status::INTERNAL_SERVER_ERROR),
            E::ContentType | E::ContentCoding | E::TransferEncoding(_) => {
                &Explained(Status::UNSUPPORTED_MEDIA_TYPE)
            }
            E::PartHeadTooLarge(..) => &Explained(Status::REQUEST_HEADER_FIELDS_TOO_LARGE),
            E::TooManyParts(_) | E::PartTooLarge(..) | E::BodyTooLarge(_) | E::MarginTooLarge(_) => {
                &Explained(Status::CONTENT_TOO_LARGE)
            }
            E::Boundary | E::Delimiter(_) | E::PartHead(_) | E::Disposition(_) => {
                &Explained(Status::BAD_REQUEST)
            }
            E::Incomplete(_) | E::Text(_) | E::FileName(_) => &Explained(Status::BAD_REQUEST),
        }
    }
}

impl fmt::Display for MultipartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use MultipartError as E;
        match self {
            E::ContentType => f.write_str("the field content-type is missing, or is not multipart/form-data"),
            E::ContentCoding => f.write_str("the body has a content coding, and was not decoded"),
            E::Unread => f.write_str("the body was not read yet"),
            E::Boundary => f.write_str("the boundary is missing or malformed"),
            E::Delimiter(0) => f.write_str("the line of the first boundary is malformed, or misplaced"),
            E::Delimiter(part) => {
                write!(f, "the line of the boundary after part {part} is malformed, or misplaced")
            }
            E::PartHead(part) => write!(f, "the head of part {part} is malformed"),
            E::Disposition(part) => {
                write!(f, "the content disposition of part {part} is missing, repeated or malformed")
            }
            E::TransferEncoding(part) => write!(f, "part {part} is in a transfer encoding"),
            E::Incomplete(0) => f.write_str("the body ends before the first boundary"),
            E::Incomplete(part) => {
                write!(f, "the body ends in or after part {part}, before the last boundary")
            }
            E::Text(name) => write!(f, "the part {name} is not UTF-8"),
            E::FileName(name) => write!(f, "the file name {name} is not a plain name, or too long"),
            E::TooManyParts(limit) => write!(f, "there are too many parts: {limit}"),
            E::PartHeadTooLarge(part, limit) => write!(f, "the head of part {part} is too large: {limit}"),
            E::PartTooLarge(name, limit) => write!(f, "the part {name} is too large: {limit}"),
            E::BodyTooLarge(limit) => write!(f, "the body is too large: {limit}"),
            E::MarginTooLarge(limit) => {
                write!(f, "too much precedes the first boundary or follows the last: {limit}")
            }
        }
    }
}

impl Error for MultipartError {
    /// The status, which makes `?` in a handler answer with it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.explained())
    }
}

impl From<MultipartError> for io::Error {
    fn from(error: MultipartError) -> io::Error {
        let kind = match error {
            MultipartError::Incomplete(_) => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

/// Bounds on every size and count of a multipart body. Exceeding one is a [`MultipartError`](super::MultipartError).
///
/// All fields are public and stay so. A later release may add fields. Literals with `..MultipartLimits::default()` and patterns
/// with `..` work with both.
///
/// # Examples
///
/// ```
/// use corehttp::multipart::MultipartLimits;
///
/// let limits = MultipartLimits { part_max: 2 << 30, bytes_max: 3 << 30, ..MultipartLimits::default() };
/// # assert_eq!(limits.parts_max, 1000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultipartLimits {
    /// Parts of a body. Beyond: 413. Default: 1,000.
    pub parts_max: usize,
    /// Fields in the head of a part. Beyond: 431. Default: 64.
    pub fields_max: usize,
    /// Bytes of the head of a part, allocated from the start. Beyond: 431. Default: 16 KiB. Maximum: 1 MiB.
    pub head_max: usize,
    /// Bytes of the content of a part, whether it is read, saved or skipped. Beyond: 413. Default: 32 MiB.
    pub part_max: u64,
    /// Bytes that [`Part::bytes`](super::Part::bytes) and [`Part::text`](super::Part::text) keep in memory.
    /// Beyond: 413. Default: 1 MiB.
    pub memory_max: usize,
    /// Bytes of the whole body. Beyond: 413, before a byte is read if the peer announces them. Default: 64 MiB.
    pub bytes_max: u64,
    /// Bytes before the first boundary, and bytes after the last. Beyond: 413. Default: 16 KiB.
    pub margin_max: u64,
}

impl Default for MultipartLimits {
    fn default() -> MultipartLimits {
        MultipartLimits {
            parts_max: 1000,
            fields_max: 64,
            head_max: 16 << 10,
            part_max: 32 << 20,
            memory_max: 1 << 20,
            bytes_max: 64 << 20,
            margin_max: 16 << 10,
        }
    }
}
