//! [`WireDetail`]: which field or limit a [`WireError`] is about.

use std::fmt;

use super::parse::is_forbidden_in_trailers;
use super::{Limits, WireError};
use crate::error_text::Excerpt;
use crate::message::{is_field_value, members, token_len};

/// The field of a message against the rules, or the limit that the message exceeds.
///
/// The value of a field is never shown, because it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireDetail {
    /// The name of the field in quotes, or the beginning of an invalid name. Escaped, and at most 64 octets long.
    Field(Box<str>),
    /// The beginning of an answer that is no response of HTTP/1.
    #[non_exhaustive]
    Start {
        /// Its first line in quotes, escaped, and at most 64 octets of it.
        line: Box<str>,
        /// The protocol of the peer, if it is recognized.
        protocol: Option<&'static str>,
    },
    /// A limit.
    #[non_exhaustive]
    Limit {
        /// Its name in [`Limits`](crate::Limits), or in the limits of multipart content.
        name: &'static str,
        /// The unit of `max`, in the plural.
        unit: &'static str,
        /// The most that is allowed.
        max: u64,
        /// The announced size, if any.
        announced: Option<u64>,
    },
}

impl WireDetail {
    /// The detail of `error`, which was found in `text`: a head, or chunks.
    #[cold]
    pub(crate) fn from_error(error: WireError, text: &[u8], limits: &Limits) -> Option<Box<WireDetail>> {
        use WireError as E;
        let limit = |name, unit, max: usize| Some(WireDetail::limit(name, unit, max as u64));
        match error {
            E::RequestLineTooLong => limit("request_line_max", "bytes", limits.request_line_max),
            E::HeadTooLarge => limit("head_max", "bytes", limits.head_max),
            E::TooManyFields => limit("fields_max", "fields", limits.fields_max),
            E::EmptyLines => limit("EMPTY_LINES_MAX", "lines", Limits::EMPTY_LINES_MAX),
            E::ChunkExtensionTooLong => limit("CHUNK_EXTENSION_MAX", "bytes", Limits::CHUNK_EXTENSION_MAX),
            E::ChunkExtensionsTooLong => {
                limit("chunk_extensions_total_max", "bytes", limits.chunk_extensions_total_max)
            }
            E::ChunkOverhead => limit("CHUNK_OVERHEAD_MAX", "bytes", Limits::CHUNK_OVERHEAD_MAX),
            E::TrailersTooLarge => limit("trailers_max", "bytes", limits.trailers_max),
            E::TooManyTrailers => limit("trailer_fields_max", "fields", limits.trailer_fields_max),
            E::BodyTooLarge => limit("body_max", "bytes", limits.body_max),
            E::FieldName | E::FieldValue | E::LineEnd | E::Trailer => {
                let name = field_at_fault(error, text).filter(|name| !name.is_empty())?;
                Some(Box::new(WireDetail::Field(Excerpt::quote_octets(name).into())))
            }
            E::RequestLine
            | E::StatusLine
            | E::TlsRecord
            | E::ProxyHeader
            | E::MethodTooLong
            | E::Target
            | E::Version
            | E::VersionNotSupported
            | E::Host
            | E::ContentLength
            | E::TransferEncoding
            | E::CodingNotImplemented
            | E::Expectation
            | E::ChunkSize
            | E::ChunkExtension
            | E::ChunkData => None,
        }
    }

    /// The detail of `text`, which stands in place of a response. A request may have secrets in its first line, and a
    /// response has none.
    #[cold]
    pub(crate) fn start(text: &[u8]) -> Box<WireDetail> {
        let line = text.split(|&octet| octet == b'\n').next().unwrap_or_default();
        let protocol = is_http2_settings(text).then_some("HTTP/2");
        Box::new(WireDetail::Start { line: Excerpt::quote_octets(without_end(line)).into(), protocol })
    }

    /// The detail of a body of more than `max` bytes, of which so many are `announced`.
    #[cold]
    pub(crate) fn body_too_large(max: usize, announced: Option<u64>) -> Box<WireDetail> {
        Box::new(WireDetail::Limit { name: "body_max", unit: "bytes", max: max as u64, announced })
    }

    /// The detail of a message that exceeds the limit `name`, which allows `max` of its `unit`.
    #[cold]
    pub(crate) fn limit(name: &'static str, unit: &'static str, max: u64) -> Box<WireDetail> {
        Box::new(WireDetail::Limit { name, unit, max, announced: None })
    }
}

impl fmt::Display for WireDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireDetail::Field(name) => f.write_str(name),
            WireDetail::Start { line, protocol: None } => f.write_str(line),
            WireDetail::Start { line, protocol: Some(protocol) } => {
                write!(f, "{line}, with which the peer speaks {protocol}")
            }
            WireDetail::Limit { name, unit, max, announced: None } => {
                write!(f, "more than {max} {unit} (`{name}`)")
            }
            WireDetail::Limit { name, unit, max, announced: Some(announced) } => {
                write!(f, "{announced} {unit}, and at most {max} are allowed (`{name}`)")
            }
        }
    }
}

/// Whether `text` begins with a frame of settings, as a server does that speaks HTTP/2 only (RFC 9113 §3.4, §4.1). As much
/// of the frame is enough as has arrived, up to the number of its stream.
fn is_http2_settings(text: &[u8]) -> bool {
    const SETTINGS: u8 = 4;
    matches!(text, [0, _, _, SETTINGS, rest @ ..] if rest.iter().take(5).all(|&octet| octet == 0))
}

/// The trailer section, if the chunks before it are in `text` as well: their content must not be taken for a name.
fn after_last_chunk(text: &[u8]) -> &[u8] {
    let mut section = text;
    let mut rest = text;
    while let Some(end) = rest.iter().position(|&octet| octet == b'\n') {
        let (line, behind) = rest.split_at(end + 1);
        let size = line.split(|&octet| octet == b';').next().unwrap_or_default().trim_ascii();
        if !size.is_empty() && size.iter().all(|&octet| octet == b'0') {
            section = behind;
        }
        rest = behind;
    }
    section
}

/// The name of the first field in `text` that is wrong as `error` states; or the beginning of a text that should be a
/// name, up to the first octet that is not allowed in one.
fn field_at_fault(error: WireError, text: &[u8]) -> Option<&[u8]> {
    if error == WireError::Trailer
        && let Some(name) = announced_trailer(text)
    {
        return Some(name);
    }
    let (section, start_lines) = match error {
        WireError::Trailer => (after_last_chunk(text), 0),
        _ => (text, 1),
    };
    let lines = section.split_inclusive(|&octet| octet == b'\n');
    let mut last = None;
    for line in lines.skip_while(|line| line.trim_ascii().is_empty()).skip(start_lines) {
        let (name, behind) = line.split_at(token_len(line));
        let value = behind.strip_prefix(b":").map(without_end);
        match (error, value) {
            (WireError::LineEnd, _) if without_end(line).iter().any(|octet| b"\r\n".contains(octet)) => {
                return Some(name);
            }
            (WireError::Trailer, Some(value)) if is_forbidden_in_trailers(name) || !is_field_value(value) => {
                return Some(name);
            }
            (WireError::FieldValue, Some(value)) if !is_field_value(value) => return Some(name),
            (WireError::Trailer, None) if !name.is_empty() => {
                return Some(&line[..line.len().min(name.len() + 1)]);
            }
            // A folded line: the value of the field before it continues here.
            (WireError::FieldName | WireError::FieldValue, None) if matches!(line, [b' ' | b'\t', ..]) => {
                return last;
            }
            (WireError::FieldName, Some(_)) if name.is_empty() => return Some(b":"),
            (WireError::FieldName, None) if !behind.is_empty() => return Some(&line[..name.len() + 1]),
            (_, _) => {}
        }
        last = Some(name);
    }
    None
}

/// The first field that `trailer` announces in a head, and that is not allowed in trailers.
fn announced_trailer(head: &[u8]) -> Option<&[u8]> {
    let lines = head.split(|&octet| octet == b'\n');
    let values = lines.filter_map(|line| {
        let (name, value) = line.split_at(token_len(line));
        name.eq_ignore_ascii_case(b"trailer").then_some(value.strip_prefix(b":")?)
    });
    values.flat_map(|value| members(value.trim_ascii())).find(|name| is_forbidden_in_trailers(name))
}

/// `line` without the CRLF at its end, of which only the CR may have arrived.
fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r\n").or(line.strip_suffix(b"\r")).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The detail of `error` in `text` is written as `expected`.
    #[track_caller]
    fn check(error: WireError, text: &[u8], expected: &str) {
        let detail = WireDetail::from_error(error, text, &Limits::default());
        let found = detail.map(|detail| detail.to_string()).unwrap_or_default();
        assert_eq!(found, expected, "{:?}", text.escape_ascii().to_string());
    }

    #[test]
    fn a_field_at_fault_is_named_and_its_value_is_not() {
        use WireError as E;
        let head = |lines: &str| [b"GET / HTTP/1.1\r\nhost: a\r\n", lines.as_bytes()].concat();
        for (error, lines, expected) in [
            (E::FieldName, "x y: secret\r\n\r\n", "`x `"),
            (E::FieldName, "cookie : secret\r\n", "`cookie `"),
            (E::FieldName, "x\0y: secret", r"`x\x00`"),
            (E::FieldName, "é: secret", r"`\xc3`"),
            (E::FieldName, ": secret", "`:`"),
            (E::FieldName, "authorization:\r\n secret\r\n", "`authorization`"),
            (E::FieldName, "authorization\r\n", r"`authorization\r`"),
            (E::FieldValue, "x-a: b\r\ncookie: se\0cret", "`cookie`"),
            (E::FieldValue, "x-a: secret\r\n\tsecret\r\n", "`x-a`"),
            (E::LineEnd, "x-a: b\r\nx-b: secret\n\r\n", "`x-b`"),
            (E::LineEnd, "x-b: se\rcret", "`x-b`"),
            (E::Trailer, "trailer: x-sum, content-length\r\n\r\n", "`content-length`"),
        ] {
            check(error, &head(lines), expected);
            check(error, &[b"\r\n", &*head(lines)].concat(), expected);
        }
        check(E::LineEnd, b"GET / HTTP/1.1\nx: y\r\n", "");
        check(E::Trailer, b"\r\n0\r\nx: y\r\nset-cookie: secret\r\n\r\n", "`set-cookie`");
        check(E::Trailer, b"0\r\nx y: secret\r\n", "`x `");
        check(E::Trailer, b"2;a=b\r\nok\r\n0\r\nx: y\r\n+\r\n", r"`+\r`");
        check(E::Trailer, b"0;a=\"b:c\"\r\nx-sum: \x01\r\n", "`x-sum`");
        check(
            E::FieldName,
            &head(&format!("{}(: secret", "x".repeat(99))),
            &format!("`{}…`", "x".repeat(64)),
        );
    }

    #[test]
    fn an_answer_that_is_no_response_is_quoted_or_its_protocol_named() {
        for (text, expected) in [
            (&b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n\0\0\x04"[..], "`SSH-2.0-OpenSSH_9.2p1 Debian-2`"),
            (b"220 mail ESMTP", "`220 mail ESMTP`"),
            (b"\x1b[2J\r\n", r"`\x1b[2J`"),
            (b"", "``"),
            (b"\0\0\x12\x04", r"`\x00\x00\x12\x04`, with which the peer speaks HTTP/2"),
            (
                b"\0\0\0\x04\0\0\0\0\0\n",
                r"`\x00\x00\x00\x04\x00\x00\x00\x00\x00`, with which the peer speaks HTTP/2",
            ),
            (b"\0\0\x12\x04\0\0\0\0\x01", r"`\x00\x00\x12\x04\x00\x00\x00\x00\x01`"),
            (b"\0\0\x12", r"`\x00\x00\x12`"),
        ] {
            assert_eq!(WireDetail::start(text).to_string(), expected);
        }
        let long = WireDetail::start(&[b'x'; 99]).to_string();
        assert_eq!(long, format!("`{}…`", "x".repeat(64)));
    }

    #[test]
    fn a_limit_is_named_with_its_value() {
        use WireError as E;
        for (error, expected) in [
            (E::RequestLineTooLong, "more than 16384 bytes (`request_line_max`)"),
            (E::HeadTooLarge, "more than 65536 bytes (`head_max`)"),
            (E::TooManyFields, "more than 128 fields (`fields_max`)"),
            (E::EmptyLines, "more than 1 lines (`EMPTY_LINES_MAX`)"),
            (E::ChunkExtensionTooLong, "more than 4096 bytes (`CHUNK_EXTENSION_MAX`)"),
            (E::ChunkExtensionsTooLong, "more than 16384 bytes (`chunk_extensions_total_max`)"),
            (E::ChunkOverhead, "more than 16384 bytes (`CHUNK_OVERHEAD_MAX`)"),
            (E::TrailersTooLarge, "more than 16384 bytes (`trailers_max`)"),
            (E::TooManyTrailers, "more than 64 fields (`trailer_fields_max`)"),
            (E::BodyTooLarge, "more than 4194304 bytes (`body_max`)"),
            (E::Host, ""),
        ] {
            check(error, b"", expected);
        }
        let announced = WireDetail::body_too_large(10, Some(11)).to_string();
        assert_eq!(announced, "11 bytes, and at most 10 are allowed (`body_max`)");
    }
}
