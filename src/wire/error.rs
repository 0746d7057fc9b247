//! [`WireError`]: how a message can break RFC 9112, and the status that is owed for it.

use std::fmt;

use crate::message::Status;

/// How a message broke the rules of the wire, or a bound of [`Limits`](crate::Limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireError {
    /// The request line is not three parts with one space between them (RFC 9112 §3).
    RequestLine,
    /// The request line is longer than its bound.
    RequestLineTooLong,
    /// The method is longer than any that is known.
    MethodTooLong,
    /// The target has none of the four forms (§3.2).
    Target,
    /// The version is no HTTP version (§2.3).
    Version,
    /// The version is one that is not spoken here (RFC 9110 §15.6.6).
    VersionNotSupported,
    /// More empty lines before the request line than are ignored (§2.2).
    EmptyLines,
    /// A line ends with anything but CRLF (§2.2).
    LineEnd,
    /// A field name is not a token, or not followed by its colon (§5.1).
    FieldName,
    /// A field value holds a control, or is folded (§5.2, RFC 9110 §5.5).
    FieldValue,
    /// The head is longer than its bound, or has more fields.
    HeadTooLarge,
    /// Host is missing, given twice, or no authority (§3.2).
    Host,
    /// Content-Length is not one decimal number (§6.3).
    ContentLength,
    /// Transfer-Encoding stands beside Content-Length, in HTTP/1.0, twice, or is not `chunked` (§6.1).
    TransferEncoding,
    /// Transfer-Encoding names a coding before `chunked` (§6.1).
    CodingNotImplemented,
    /// Expect is something other than `100-continue` (RFC 9110 §10.1.1).
    Expectation,
    /// A chunk size is not `1*HEXDIG` (§7.1).
    ChunkSize,
    /// A chunk extension breaks the grammar (§7.1.1).
    ChunkExtension,
    /// A chunk is not as long as its size says (§7.1).
    ChunkData,
    /// Chunk extensions, or the framing of tiny chunks, are larger than their bound.
    ChunkOverhead,
    /// A trailer field is malformed, or may not be a trailer (§7.1.2, RFC 9110 §6.5.1).
    Trailer,
    /// The trailer section is longer than its bound, or has more fields.
    TrailersTooLarge,
    /// The body is larger than its bound.
    BodyTooLarge,
}

impl WireError {
    /// The status that is owed to whoever sent such a request (RFC 9110 §15.5, §15.6).
    pub fn status(self) -> Status {
        use WireError::*;
        match self {
            RequestLineTooLong => Status::URI_TOO_LONG,
            MethodTooLong | CodingNotImplemented => Status::NOT_IMPLEMENTED,
            VersionNotSupported => Status::HTTP_VERSION_NOT_SUPPORTED,
            HeadTooLarge | TrailersTooLarge => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Expectation => Status::EXPECTATION_FAILED,
            BodyTooLarge => Status::CONTENT_TOO_LARGE,
            RequestLine | Target | Version | EmptyLines | LineEnd | FieldName | FieldValue | Host
            | ContentLength | TransferEncoding | ChunkSize | ChunkExtension | ChunkData | ChunkOverhead
            | Trailer => Status::BAD_REQUEST,
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use WireError::*;
        f.write_str(match self {
            RequestLine => "the request line is malformed",
            RequestLineTooLong => "the request line is too long",
            MethodTooLong => "the method is too long",
            Target => "the request target is malformed",
            Version => "the version is malformed",
            VersionNotSupported => "the version is not supported",
            EmptyLines => "too many empty lines come before the request line",
            LineEnd => "a line does not end with CRLF",
            FieldName => "a field name is malformed",
            FieldValue => "a field value is malformed",
            HeadTooLarge => "the head is too large",
            Host => "the host is missing, repeated or malformed",
            ContentLength => "the content length is malformed or repeated",
            TransferEncoding => "the transfer coding is malformed or out of place",
            CodingNotImplemented => "the transfer coding is not implemented",
            Expectation => "the expectation is unknown",
            ChunkSize => "a chunk size is malformed",
            ChunkExtension => "a chunk extension is malformed",
            ChunkData => "a chunk is not as long as its size says",
            ChunkOverhead => "the chunks carry too much besides data",
            Trailer => "a trailer field is malformed or forbidden",
            TrailersTooLarge => "the trailer section is too large",
            BodyTooLarge => "the body is too large",
        })
    }
}

impl std::error::Error for WireError {}
