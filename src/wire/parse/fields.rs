//! Field lines that end with CRLF, of heads and of trailer sections (RFC 9112 §2.2, §5, §7.1.2).

use httparse::{EMPTY_HEADER, Header, Status as Progress};
use memchr::{memchr, memchr_iter, memmem};

use super::leniency::{Mended, Section};
use crate::memory::Span;
use crate::message::{Headers, HeadersDraft, Version, describes_client};
use crate::wire::{Limits, WireError};

/// How many fields are parsed without touching much of the stack. Few messages have more.
pub(super) const FIELDS_USUAL: usize = 64;
/// The most that [`Limits::fields_max`] and [`Limits::trailer_fields_max`] can allow.
pub(super) const FIELDS_CEILING: usize = 1024;

/// Takes over the lines that httparse found in `section`, which ends where it does, and checks that each ends with CRLF.
#[inline]
pub(super) fn record(
    lines: &[Header<'_>],
    section: &[u8],
    into: &mut HeadersDraft<'_>,
) -> Result<(), WireError> {
    // A lone LF would do for a lenient reader. A proxy in front of us may disagree, and two readings of one stream
    // are how requests are smuggled (RFC 9112 §11.2).
    let mut ends_well = matches!(section, b"\r\n" | [.., b'\r', b'\n', b'\r', b'\n']);
    into.set_lines(
        section,
        lines.iter().map(|line| {
            let name = line.name.as_bytes();
            let before = &section[..Span::from_slices(name, section).start()];
            ends_well &= matches!(before.last_chunk(), None | Some(b"\r\n"));
            (name, line.value)
        }),
    );
    match ends_well {
        true => Ok(()),
        false => Err(WireError::LineEnd),
    }
}

/// Checks that an incomplete head is not yet too long, and that each of its lines ends with CRLF.
pub(super) fn check_incomplete(head: &[u8], line_max: usize, limits: &Limits) -> Result<(), WireError> {
    let line = memchr(b'\n', head).unwrap_or(head.len());
    if line > line_max.saturating_add("\r".len()) {
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

/// Checks that `input` does not begin with a TLS record: an alert or a handshake (RFC 8446 §5.1).
pub(super) fn check_plain(input: &[u8]) -> Result<(), WireError> {
    const ALERT: u8 = 21;
    const HANDSHAKE: u8 = 22;
    match input.first() {
        Some(&(ALERT | HANDSHAKE)) => Err(WireError::TlsRecord),
        Some(_) | None => Ok(()),
    }
}

/// `input` up to the end of the head that begins at `start`, or all of it if the head does not end. So a copy of the head
/// does not include all that is pipelined after it.
pub(super) fn first_head(input: &[u8], start: usize) -> &[u8] {
    const END: &[u8] = b"\r\n\r\n";
    memmem::find(&input[start..], END).map_or(input, |end| &input[..start + end + END.len()])
}

/// The first fault of an input.
pub(super) struct Fault {
    pub(super) error: WireError,
    /// The length of the longest prefix without a fault.
    pub(super) at: usize,
}

impl From<Fault> for WireError {
    fn from(fault: Fault) -> WireError {
        fault.error
    }
}

/// Parses `input`. The error is that of the shortest prefix that is malformed: if two rules are broken, the rule broken
/// first counts; otherwise the error would depend on where packets end.
#[inline]
pub(super) fn with_earliest_error<T>(
    input: &[u8],
    mut parse: impl FnMut(&[u8]) -> Result<T, WireError>,
) -> Result<T, Fault> {
    parse(input).map_err(|error| first_fault(input, error, parse))
}

/// The error of the shortest prefix of `input` that is malformed, found by bisection. `error` is that of all of `input`.
#[cold]
#[inline(never)]
fn first_fault<T>(
    input: &[u8],
    mut error: WireError,
    mut parse: impl FnMut(&[u8]) -> Result<T, WireError>,
) -> Fault {
    // A malformed prefix stays malformed when more octets follow, so the prefixes are ordered.
    let (mut good, mut bad) = (0, input.len());
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        match parse(&input[..middle]) {
            Ok(_) => good = middle,
            Err(earlier) => (bad, error) = (middle, earlier),
        }
    }
    Fault { error, at: good }
}

/// The version 1.`minor` that httparse has read.
pub(super) fn version(minor: Option<u8>) -> Version {
    if minor == Some(0) { Version::Http10 } else { Version::Http11 }
}

pub(super) fn head_error(error: httparse::Error) -> WireError {
    match error {
        httparse::Error::HeaderName => WireError::FieldName,
        httparse::Error::HeaderValue => WireError::FieldValue,
        httparse::Error::NewLine => WireError::LineEnd,
        httparse::Error::TooManyHeaders => WireError::TooManyFields,
        httparse::Error::Token | httparse::Error::Status => WireError::RequestLine,
        httparse::Error::Version => WireError::Version,
    }
}

/// The treatment of a trailer field that would change how the message is framed, routed or authenticated (RFC 9110
/// §6.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ForbiddenTrailers {
    /// The message is refused: another reader could merge the field into the headers of a request.
    #[default]
    Refused,
    /// The field is discarded, as RFC 9112 §7.1.2 allows: a response is complete without it.
    Discarded,
}

/// Parses the trailer section at the front of `input`, including the empty line that ends it.
///
/// Returns its length, or `None` if it is incomplete.
///
/// # Errors
///
/// Fails for a malformed line, for a forbidden field unless it is discarded, and for more than the limits allow.
pub(crate) fn trailers(
    input: &[u8],
    limits: &Limits,
    forbidden: ForbiddenTrailers,
    into: &mut Headers,
) -> Result<Option<usize>, WireError> {
    Ok(with_earliest_error(input, |front| parse_section(front, limits, forbidden, into))?)
}

/// Parses trailers that [`trailers`] refuses for `error`, without their faults.
///
/// # Errors
///
/// As [`trailers`].
#[cold]
pub(crate) fn mended_trailers(
    input: &[u8],
    limits: &Limits,
    forbidden: ForbiddenTrailers,
    into: &mut Headers,
    error: WireError,
) -> Result<Option<usize>, WireError> {
    let mended = Mended::new(input, Section::Trailers, limits.trailer_fields_max).ok_or(error)?;
    if mended.len.unwrap_or(input.len()) > limits.trailers_max {
        return Err(WireError::TrailersTooLarge);
    }
    Ok(trailers(&mended.text, limits, forbidden, into)?.and(mended.len))
}

fn parse_section(
    input: &[u8],
    limits: &Limits,
    forbidden: ForbiddenTrailers,
    into: &mut Headers,
) -> Result<Option<usize>, WireError> {
    let mut draft = into.draft();
    let parsed = match limits.trailer_fields_max {
        ..=FIELDS_USUAL => parse_trailers::<FIELDS_USUAL>(input, limits, forbidden, &mut draft),
        _ => parse_trailers::<FIELDS_CEILING>(input, limits, forbidden, &mut draft),
    }?;
    if parsed.unwrap_or(input.len()) > limits.trailers_max {
        return Err(WireError::TrailersTooLarge);
    }
    if let Some(end) = parsed {
        draft.commit(&input[..end]);
        if forbidden == ForbiddenTrailers::Discarded {
            into.retain(|name| !is_forbidden_in_trailers(name));
        }
    }
    Ok(parsed)
}

fn parse_trailers<const N: usize>(
    input: &[u8],
    limits: &Limits,
    forbidden: ForbiddenTrailers,
    draft: &mut HeadersDraft<'_>,
) -> Result<Option<usize>, WireError> {
    let mut room = [EMPTY_HEADER; N];
    let (end, lines) = match httparse::parse_headers(input, &mut room[..limits.trailer_fields_max.min(N)]) {
        Ok(Progress::Complete(section)) => section,
        Ok(Progress::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(WireError::TooManyTrailers),
        Err(_) => return Err(WireError::Trailer),
    };
    let is_forbidden = |line: &Header<'_>| is_forbidden_in_trailers(line.name.as_bytes());
    if forbidden == ForbiddenTrailers::Refused && lines.iter().any(is_forbidden) {
        return Err(WireError::Trailer);
    }
    debug_assert!(input[..end].ends_with(b"\n"), "a section ends with a line");
    record(lines, &input[..end], draft).map_err(|_| WireError::Trailer)?;
    Ok(Some(end))
}

/// Whether a field is not allowed in trailers. Fields for framing, routing, authentication, control or content have no
/// meaning after the body, or another one than before it (RFC 9110 §6.5.1). A server that takes trailers for fields would
/// believe those that describe its client.
pub(in crate::wire) fn is_forbidden_in_trailers(name: &[u8]) -> bool {
    const FORBIDDEN: &[&str] = &[
        "authorization",
        "cache-control",
        "connection",
        "content-encoding",
        "content-language",
        "content-length",
        "content-location",
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
    ];
    describes_client(name) || FORBIDDEN.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_head_ends_where_another_may_begin() {
        let (one, two) = ("GET / HTTP/1.2\r\n\r\n", "GET /2 HTTP/1.2\r\nhost: a\r\n\r\n");
        let input = ["\r\n", one, two, one].concat();
        let check = |start: usize, end: usize| {
            assert_eq!(first_head(input.as_bytes(), start), &input.as_bytes()[..end], "{start}");
        };
        check("\r\n".len(), "\r\n".len() + one.len());
        check("\r\n".len() + one.len(), "\r\n".len() + one.len() + two.len());
        check(input.len() - 3, input.len());
    }
}
