//! [`WireError`]: how a message can break RFC 9112, and the status for it.

use std::fmt;

use crate::message::Status;

/// How a message broke the rules of RFC 9112, or a limit of [`Limits`](crate::Limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireError {
    /// The request line is not three parts with one space between them (RFC 9112 §3).
    RequestLine,
    /// The status line is not a version, three digits of which the first is not zero, and an optional reason, with one
    /// space between them (§4).
    StatusLine,
    /// The peer began with a TLS record instead of HTTP in the clear (RFC 8446 §5.1). A client wanted `https`, or the
    /// port of a server speaks it.
    TlsRecord,
    /// The peer began with a header of the PROXY protocol, and is none of the sources that `Server::proxy_protocol` names.
    ProxyHeader,
    /// The request line is longer than its limit.
    RequestLineTooLong,
    /// The method is longer than any registered one.
    MethodTooLong,
    /// The target has none of the four forms (§3.2).
    Target,
    /// The version is not a version of HTTP (§2.3).
    Version,
    /// The version is not supported (RFC 9110 §15.6.6).
    VersionNotSupported,
    /// There are more empty lines before the request line than the limit (§2.2).
    EmptyLines,
    /// A line does not end with CRLF (§2.2).
    LineEnd,
    /// A field name is not a token, or not followed by its colon (§5.1).
    FieldName,
    /// A field value contains a control character, or is folded (§5.2, RFC 9110 §5.5).
    FieldValue,
    /// The head is longer than its limit.
    HeadTooLarge,
    /// The head has more fields than its limit.
    TooManyFields,
    /// Host is missing, repeated, or neither empty nor an authority with a host (§3.2).
    Host,
    /// Content-Length is not one decimal number (§6.3).
    ContentLength,
    /// Transfer-Encoding is combined with Content-Length or HTTP/1.0, repeated, or not `chunked` (§6.1).
    TransferEncoding,
    /// Transfer-Encoding names a coding before `chunked` (§6.1).
    CodingNotImplemented,
    /// Expect is something other than `100-continue` (RFC 9110 §10.1.1).
    Expectation,
    /// A chunk size is not `1*HEXDIG` (§7.1).
    ChunkSize,
    /// A chunk extension breaks the grammar (§7.1.1).
    ChunkExtension,
    /// A chunk is longer or shorter than its size (§7.1).
    ChunkData,
    /// The extensions of one chunk are longer than their limit.
    ChunkExtensionTooLong,
    /// All chunk extensions of a body together are longer than their limit.
    ChunkExtensionsTooLong,
    /// The framing of tiny chunks is larger than its limit.
    ChunkOverhead,
    /// A trailer field is malformed, or is a request's and not allowed in trailers (§7.1.2, RFC 9110 §6.5.1). In a
    /// response, such a field is discarded.
    Trailer,
    /// The trailer section is longer than its limit.
    TrailersTooLarge,
    /// The trailer section has more fields than its limit.
    TooManyTrailers,
    /// The body is larger than its limit.
    BodyTooLarge,
}

impl WireError {
    /// Returns the status with which such a request is answered (RFC 9110 §15.5, §15.6).
    pub fn status(self) -> Status {
        use WireError as E;
        match self {
            E::RequestLineTooLong => Status::URI_TOO_LONG,
            E::MethodTooLong | E::CodingNotImplemented => Status::NOT_IMPLEMENTED,
            E::VersionNotSupported => Status::HTTP_VERSION_NOT_SUPPORTED,
            E::HeadTooLarge | E::TooManyFields | E::TrailersTooLarge | E::TooManyTrailers => {
                Status::REQUEST_HEADER_FIELDS_TOO_LARGE
            }
            E::Expectation => Status::EXPECTATION_FAILED,
            E::BodyTooLarge => Status::CONTENT_TOO_LARGE,
            E::RequestLine
            | E::StatusLine
            | E::TlsRecord
            | E::ProxyHeader
            | E::Target
            | E::Version
            | E::EmptyLines
            | E::LineEnd
            | E::FieldName
            | E::FieldValue
            | E::Host
            | E::ContentLength
            | E::TransferEncoding
            | E::ChunkSize
            | E::ChunkExtension
            | E::ChunkData
            | E::ChunkExtensionTooLong
            | E::ChunkExtensionsTooLong
            | E::ChunkOverhead
            | E::Trailer => Status::BAD_REQUEST,
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use WireError as E;
        f.write_str(match self {
            E::RequestLine => "the request line is malformed",
            E::StatusLine => "the status line is malformed",
            E::TlsRecord => "the peer speaks TLS, as for `https`, where plain HTTP was expected",
            E::ProxyHeader => {
                "the peer begins with a PROXY header, which no `Server::proxy_protocol` expects of it"
            }
            E::RequestLineTooLong => "the request line is too long",
            E::MethodTooLong => "the method is too long",
            E::Target => "the request target is malformed",
            E::Version => "the version is malformed",
            E::VersionNotSupported => "the version is not supported",
            E::EmptyLines => "too many empty lines come before the request line",
            E::LineEnd => "a line does not end with CRLF",
            E::FieldName => "a field name is malformed",
            E::FieldValue => "a field value is malformed",
            E::HeadTooLarge => "the head is too large",
            E::TooManyFields => "the head has too many fields",
            E::Host => "the field host is missing, repeated or malformed",
            E::ContentLength => "the field content-length is malformed or repeated",
            E::TransferEncoding => "the field transfer-encoding is malformed or out of place",
            E::CodingNotImplemented => "the transfer coding is not implemented",
            E::Expectation => "the field expect has an unknown expectation",
            E::ChunkSize => "a chunk size is malformed",
            E::ChunkExtension => "a chunk extension is malformed",
            E::ChunkData => "a chunk is not as long as its size says",
            E::ChunkExtensionTooLong => "a chunk has too long extensions",
            E::ChunkExtensionsTooLong => "the chunks have too long extensions",
            E::ChunkOverhead => "the chunks carry too much besides data",
            E::Trailer => "a trailer field is malformed or forbidden",
            E::TrailersTooLarge => "the trailer section is too large",
            E::TooManyTrailers => "the trailer section has too many fields",
            E::BodyTooLarge => "the body is too large",
        })
    }
}

impl std::error::Error for WireError {}
