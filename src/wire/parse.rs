//! Parses the head of a request, and a trailer section (RFC 9112 §2 to §5, §7.1.2).
//!
//! httparse brings the grammar. The policy is here: every line ends with CRLF, every bound holds, and the host
//! is one that all readers agree on.

use std::mem::MaybeUninit;

use httparse::{EMPTY_HEADER, Header, Status as Progress};
use memchr::{memchr, memchr_iter};

use super::{Limits, WireError};
use crate::memory::Span;
use crate::message::{Authority, Headers, InvalidMethod, Name, Request, Tag, Version, members};

/// Parses the request head at the front of `input`, empty lines before it included.
///
/// Answers how long it is, or `None` if it is not all there. The fields' spans point into `input`: whoever calls
/// makes these bytes the text of the headers, and then asks [`check_fields`].
///
/// # Errors
///
/// As soon as no bytes to come could make it a head that is served.
#[inline]
pub(crate) fn request(
    input: &[u8],
    limits: &Limits,
    request: &mut Request,
) -> Result<Option<usize>, WireError> {
    let Some(start) = skip_empty_lines(input, limits.empty_lines_max)? else { return Ok(None) };
    let parsed = match parse_request::<FIELDS_USUAL>(input, start, limits, request) {
        Err(WireError::HeadTooLarge) if limits.fields_max > FIELDS_USUAL => {
            parse_large_request(input, start, limits, request)
        }
        parsed => parsed,
    };
    match parsed? {
        Some(end) if end - start > limits.head_max => Err(WireError::HeadTooLarge),
        Some(end) => Ok(Some(end)),
        None => still_good(&input[start..], limits).map(|()| None),
    }
}

/// How many fields are parsed without touching much of the stack. Few messages have more.
const FIELDS_USUAL: usize = 64;
/// The most that [`Limits::fields_max`] and [`Limits::trailer_fields_max`] can allow.
const FIELDS_CEILING: usize = 1024;

/// Checks what a request's fields must say whatever is asked for, once they have their text.
///
/// # Errors
///
/// A Host that two readers could read differently (RFC 9112 §3.2), or a Trailer field that announces what may
/// not be one.
pub(crate) fn check_fields(request: &Request) -> Result<(), WireError> {
    let headers = &request.headers;
    let mut hosts = headers.named(Name::HOST);
    match (hosts.next(), hosts.next()) {
        // An absolute target's authority is what the field must repeat, so then it cannot be empty.
        (Some(b""), None) if request.target().authority().is_none() => {}
        (Some(b""), None) => return Err(WireError::Host),
        (Some(host), None) if Authority::is_valid(host) => {}
        (None, _) if request.version() == Version::Http10 => {}
        _ => return Err(WireError::Host),
    }
    match headers.named(Name::TRAILER).flat_map(members).any(is_no_trailer) {
        true => Err(WireError::Trailer),
        false => Ok(()),
    }
}

/// Parses the trailer section at the front of `input`, with the empty line that ends it.
///
/// Answers how long it is, or `None` if it is not all there.
///
/// # Errors
///
/// A malformed line, a field that would change how the message is framed, routed or authenticated (RFC 9110
/// §6.5.1), or more than the limits allow.
pub(crate) fn trailers(
    input: &[u8],
    limits: &Limits,
    into: &mut Headers,
) -> Result<Option<usize>, WireError> {
    let parsed = match limits.trailer_fields_max {
        ..=FIELDS_USUAL => parse_trailers::<FIELDS_USUAL>(input, limits, into),
        _ => parse_trailers::<FIELDS_CEILING>(input, limits, into),
    }?;
    match parsed.unwrap_or(input.len()) > limits.trailers_max {
        true => Err(WireError::TrailersTooLarge),
        false => Ok(parsed),
    }
}

/// Where the request line starts. A CRLF before it is what some clients send behind a body (RFC 9112 §2.2).
fn skip_empty_lines(input: &[u8], lines_max: usize) -> Result<Option<usize>, WireError> {
    let (mut start, mut lines) = (0, 0);
    loop {
        match &input[start..] {
            [] | [b'\r'] => return Ok(None),
            [b'\r', b'\n', ..] if lines == lines_max => return Err(WireError::EmptyLines),
            [b'\r', b'\n', ..] => (start, lines) = (start + 2, lines + 1),
            [b'\r' | b'\n', ..] => return Err(WireError::LineEnd),
            _ => return Ok(Some(start)),
        }
    }
}

fn parse_request<const N: usize>(
    input: &[u8],
    start: usize,
    limits: &Limits,
    request: &mut Request,
) -> Result<Option<usize>, WireError> {
    let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; N];
    let room = &mut room[..limits.fields_max.min(N)];
    let mut parsed = httparse::Request::new(&mut []);
    let end = match parsed.parse_with_uninit_headers(&input[start..], room) {
        Ok(Progress::Complete(len)) => start + len,
        Ok(Progress::Partial) => return Ok(None),
        Err(httparse::Error::Version) => return other_version(input, start, limits, request),
        Err(error) => return Err(head_error(error)),
    };
    let line_end =
        parsed.headers.first().map_or(end - 2, |first| Span::of(first.name.as_bytes(), input).start());
    if line_end - start > limits.request_line_max.saturating_add("\r\n".len()) {
        return Err(WireError::RequestLineTooLong);
    }
    let (method, target, version) = request.line_mut();
    *version = if parsed.version == Some(0) { Version::Http10 } else { Version::Http11 };
    method.set(parsed.method.unwrap_or_default().as_bytes()).map_err(|error| match error {
        InvalidMethod::TooLong => WireError::MethodTooLong,
        InvalidMethod::NotToken => WireError::RequestLine,
    })?;
    target.parse(*method, parsed.path.unwrap_or_default()).map_err(|_| WireError::Target)?;
    record(parsed.headers, &input[..end], &mut request.headers)?;
    Ok(Some(end))
}

/// As [`parse_request`], for the few that have more fields; apart, so that the others touch less of the stack.
#[cold]
#[inline(never)]
fn parse_large_request(
    input: &[u8],
    start: usize,
    limits: &Limits,
    request: &mut Request,
) -> Result<Option<usize>, WireError> {
    parse_request::<FIELDS_CEILING>(input, start, limits, request)
}

/// Notes the lines that httparse found in `section`, which they end, and checks that CRLF ends each of them.
#[inline]
fn record(lines: &[Header<'_>], section: &[u8], into: &mut Headers) -> Result<(), WireError> {
    // A lone LF would do for a lenient reader. A proxy in front of us may disagree, and two readings of one stream
    // are how requests are smuggled (RFC 9112 §11.2).
    let mut ends_well = matches!(section, b"\r\n" | [.., b'\r', b'\n', b'\r', b'\n']);
    into.record(lines.iter().map(|line| {
        let name = Span::of(line.name.as_bytes(), section);
        ends_well &= matches!(section[..name.start()], [] | [.., b'\r', b'\n']);
        (Tag::of(line.name.as_bytes()), name, Span::of(line.value, section))
    }));
    match ends_well {
        true => Ok(()),
        false => Err(WireError::LineEnd),
    }
}

/// What httparse calls a bad version is one of three things: a later 1.x, which is served as 1.1 (RFC 9110
/// §2.5), another version, or none at all. The whole line must be there to tell.
#[cold]
fn other_version(
    input: &[u8],
    start: usize,
    limits: &Limits,
    request: &mut Request,
) -> Result<Option<usize>, WireError> {
    let Some(line_len) = memchr(b'\n', &input[start..]) else {
        let version = input[start..].splitn(3, |&byte| byte == b' ').nth(2).unwrap_or_default();
        return match version.len() <= "HTTP/1.1\r".len() && !version.contains(&b' ') {
            true => Ok(None),
            false => Err(WireError::Version),
        };
    };
    let line = &input[start..start + line_len + 1];
    let Some((before, [b' ', b'H', b'T', b'T', b'P', b'/', major, b'.', minor, b'\r', b'\n'])) =
        line.split_last_chunk()
    else {
        return Err(WireError::Version);
    };
    if memchr_iter(b' ', before).count() != 1 {
        return Err(WireError::RequestLine);
    }
    match (major, minor) {
        (b'1', b'2'..=b'9') => {
            let mut as_1_1 = input.to_vec();
            as_1_1[start + line_len - 2] = b'1';
            self::request(&as_1_1, limits, request)
        }
        (b'0'..=b'9', b'0'..=b'9') => Err(WireError::VersionNotSupported),
        _ => Err(WireError::Version),
    }
}

/// A head that is not all there may be too long already, or hold a line that ends wrong.
fn still_good(head: &[u8], limits: &Limits) -> Result<(), WireError> {
    let line = memchr(b'\n', head).unwrap_or(head.len());
    if line > limits.request_line_max.saturating_add("\r".len()) {
        return Err(WireError::RequestLineTooLong);
    }
    if head.len() > limits.head_max {
        return Err(WireError::HeadTooLarge);
    }
    match memchr_iter(b'\n', head).all(|lf| head[..lf].ends_with(b"\r")) {
        true => Ok(()),
        false => Err(WireError::LineEnd),
    }
}

fn parse_trailers<const N: usize>(
    input: &[u8],
    limits: &Limits,
    into: &mut Headers,
) -> Result<Option<usize>, WireError> {
    let mut room = [EMPTY_HEADER; N];
    let (end, lines) = match httparse::parse_headers(input, &mut room[..limits.trailer_fields_max.min(N)]) {
        Ok(Progress::Complete(section)) => section,
        Ok(Progress::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(WireError::TrailersTooLarge),
        Err(_) => return Err(WireError::Trailer),
    };
    if lines.iter().any(|line| is_no_trailer(line.name.as_bytes())) {
        return Err(WireError::Trailer);
    }
    if record(lines, &input[..end], into).is_err() {
        // What was noted so far points to a text that will never be there.
        into.clear();
        return Err(WireError::Trailer);
    }
    into.text_mut().clear();
    into.text_mut().extend(&input[..end]);
    Ok(Some(end))
}

/// Fields for framing, routing, authentication or content mean nothing behind the body, or something else than
/// before it (RFC 9110 §6.5.1).
fn is_no_trailer(name: &[u8]) -> bool {
    const FORBIDDEN: &[&str] = &[
        "authorization",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-range",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "location",
        "max-forwards",
        "pragma",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "range",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "www-authenticate",
        "x-real-ip",
    ];
    let forwarded =
        name.get(.."x-forwarded".len()).is_some_and(|start| start.eq_ignore_ascii_case(b"x-forwarded"));
    forwarded || FORBIDDEN.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}

fn head_error(error: httparse::Error) -> WireError {
    match error {
        httparse::Error::HeaderName => WireError::FieldName,
        httparse::Error::HeaderValue => WireError::FieldValue,
        httparse::Error::NewLine => WireError::LineEnd,
        httparse::Error::TooManyHeaders => WireError::HeadTooLarge,
        httparse::Error::Token | httparse::Error::Status => WireError::RequestLine,
        httparse::Error::Version => WireError::Version,
    }
}
