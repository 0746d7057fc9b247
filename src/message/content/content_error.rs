//! [`ContentError`]: why content cannot be read as text, as a form or as JSON (RFC 9110 §8.3, §8.4).

use std::error::Error;
use std::fmt;
use std::io;

use crate::error_text::{Excerpt, write_reason};
use crate::message::Status;

/// Why the content of a message cannot be read as text, as a form or as JSON.
///
/// In a handler, `?` turns it into the right status: see [`ContentError::status`]. The text names the fault and its
/// place, without the value:
/// ``the JSON at `items[2].price` is wrong: invalid type: string, expected a number at line 1 column 30``.
///
/// # Examples
///
/// ```
/// use corehttp::{Request, Status};
///
/// let mut request = Request::post("/")?;
/// request.body.set_bytes(b"caf\xe9");
/// let error = request.text().unwrap_err();
/// assert_eq!(error.to_string(), "the content of the request is not UTF-8");
/// assert_eq!(error.status(), Status::BAD_REQUEST);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
// A box keeps the results of reading content as small as what is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContentError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inner {
    fault: ContentFault,
    /// Whether the content is that of a request, so that its sender is to blame.
    is_of_request: bool,
}

/// A fault of content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ContentFault {
    /// The content type is missing, repeated, or not this one.
    MediaType(&'static str),
    /// The content has a content coding, and was not decoded.
    Coding,
    /// The charset, whose name may be cut short, cannot be read, for this reason.
    Charset(Box<str>, &'static str),
    /// The content has not been received, because it was read too early or is a stream.
    Unread,
    /// The content is not UTF-8, or not text in this charset.
    Text(Option<Box<str>>),
    /// A form has more pairs than this many.
    TooManyPairs(usize),
    /// One of the pieces that the content is read in, with this name, is too long.
    TooLong(&'static str),
    /// The content does not have the syntax of its type.
    #[allow(dead_code, reason = "unused without the feature `json`")]
    Syntax(ValueFault),
    /// The content is not that of the requested type: a member is missing, for example.
    #[allow(dead_code, reason = "unused without the features `form` and `json`")]
    Value(ValueFault),
}

/// Where a value is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ValueFault {
    /// The beginning of a sentence about the whole: `the form`.
    pub(crate) whole: &'static str,
    /// The name or the path of the value, in quotes and cut short, unless the whole is wrong.
    pub(crate) path: Option<Box<str>>,
    /// The reason of serde, without the value that was found.
    pub(crate) reason: Box<str>,
    /// The line and the column, if they are known.
    pub(crate) place: Option<(usize, usize)>,
}

impl ContentError {
    pub(crate) fn new(fault: ContentFault) -> ContentError {
        ContentError(Box::new(Inner { fault, is_of_request: false }))
    }

    /// Marks the content as that of a request, whose sender is then to blame.
    pub(crate) fn of_request(mut self) -> ContentError {
        self.0.is_of_request = true;
        self
    }

    /// Returns the status that the peer is answered with (RFC 9110 §15.5.1, §15.5.14, §15.5.16, §15.5.21,
    /// §15.6.1).
    ///
    /// | status | the content of the request |
    /// |---|---|
    /// | 400 | is not text in its charset, not JSON, or a form of too many pairs |
    /// | 413 | has a line or an event beyond the limit |
    /// | 415 | is of another type, in an unknown charset, or in a content coding that was not decoded |
    /// | 422 | is JSON or a form, but not that of the requested type |
    /// | 500 | has not been received |
    ///
    /// The status is 500 for the content of a response, which may be another server's. The same goes for a
    /// [`Body`](crate::Body) apart from its message.
    pub fn status(&self) -> Status {
        match &self.0.fault {
            _ if !self.0.is_of_request => Status::INTERNAL_SERVER_ERROR,
            ContentFault::MediaType(_) | ContentFault::Coding | ContentFault::Charset(..) => {
                Status::UNSUPPORTED_MEDIA_TYPE
            }
            ContentFault::TooLong(_) => Status::CONTENT_TOO_LARGE,
            ContentFault::Unread => Status::INTERNAL_SERVER_ERROR,
            ContentFault::Text(_) | ContentFault::TooManyPairs(_) | ContentFault::Syntax(_) => {
                Status::BAD_REQUEST
            }
            ContentFault::Value(_) => Status::UNPROCESSABLE_CONTENT,
        }
    }

    /// Returns the unknown charset, or the one that the content is not text in. The name is that of the content type,
    /// cut after 40 octets. `None` for other errors, and for content that had to be UTF-8.
    pub fn charset(&self) -> Option<&str> {
        match &self.0.fault {
            ContentFault::Charset(charset, _) | ContentFault::Text(Some(charset)) => Some(charset),
            _ => None,
        }
    }

    /// Returns the path of the wrong value in JSON, or the name of the pair in a form. Both are in quotes, and cut
    /// short if long. `None` if the whole is wrong or something is missing.
    pub fn path(&self) -> Option<&str> {
        match &self.0.fault {
            ContentFault::Syntax(value) | ContentFault::Value(value) => value.path.as_deref(),
            _ => None,
        }
    }
}

impl From<ContentFault> for ContentError {
    fn from(fault: ContentFault) -> ContentError {
        ContentError::new(fault)
    }
}

impl fmt::Display for ContentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.fault {
            ContentFault::MediaType(expected) => {
                write!(f, "the field content-type is missing, or is not {expected}")
            }
            ContentFault::Coding => f.write_str("the content has a content coding, and was not decoded"),
            ContentFault::Charset(charset, reason) => {
                write!(f, "the content is text in the charset {}, {reason}", Excerpt(charset))
            }
            ContentFault::Unread => f.write_str("the content was not read yet"),
            ContentFault::Text(Some(charset)) => {
                write!(f, "the content is not text in the charset {}", Excerpt(charset))
            }
            ContentFault::Text(None) if self.0.is_of_request => {
                f.write_str("the content of the request is not UTF-8")
            }
            ContentFault::Text(None) => f.write_str("the content is not UTF-8"),
            ContentFault::TooManyPairs(max) => write!(f, "the form has more than {max} pairs"),
            ContentFault::TooLong(piece) => write!(f, "{piece} is too long"),
            ContentFault::Syntax(value) | ContentFault::Value(value) => value.fmt(f),
        }
    }
}

impl Error for ContentError {}

impl From<ContentError> for io::Error {
    fn from(error: ContentError) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

impl fmt::Display for ValueFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.whole)?;
        if let Some(path) = &self.path {
            write!(f, " at {path}")?;
        }
        f.write_str(" is wrong: ")?;
        write_reason(f, &self.reason)?;
        match self.place {
            Some((line, column)) => write!(f, " at line {line} column {column}"),
            None => Ok(()),
        }
    }
}

/// Why content cannot be decoded from a charset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CharsetError {
    /// The content is not text in this charset.
    Malformed,
    /// The charset cannot be read, for this reason.
    Unknown(&'static str),
}
