//! Parses a trailer section (RFC 9112 §7.1.2).

use httparse::{EMPTY_HEADER, Status as Progress};

use super::lines::{FIELDS_CEILING, FIELDS_USUAL, record, with_earliest_error};
use crate::message::Headers;
use crate::wire::{Limits, WireError};

/// The treatment of a trailer field that would change how the message is framed, routed or authenticated (RFC 9110
/// §6.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ForbiddenTrailers {
    /// The message is refused: another reader could merge the field into the headers of a request.
    #[default]
    Refused,
    /// The field is discarded, as RFC 9112 §7.1.2 allows: an answer is whole without it.
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
    with_earliest_error(input, |front| parse_section(front, limits, forbidden, into))
}

fn parse_section(
    input: &[u8],
    limits: &Limits,
    forbidden: ForbiddenTrailers,
    into: &mut Headers,
) -> Result<Option<usize>, WireError> {
    let parsed = match limits.trailer_fields_max {
        ..=FIELDS_USUAL => parse_trailers::<FIELDS_USUAL>(input, limits, forbidden, into),
        _ => parse_trailers::<FIELDS_CEILING>(input, limits, forbidden, into),
    }?;
    match parsed.unwrap_or(input.len()) > limits.trailers_max {
        true => Err(WireError::TrailersTooLarge),
        false => Ok(parsed),
    }
}

fn parse_trailers<const N: usize>(
    input: &[u8],
    limits: &Limits,
    forbidden: ForbiddenTrailers,
    into: &mut Headers,
) -> Result<Option<usize>, WireError> {
    let mut room = [EMPTY_HEADER; N];
    let (end, lines) = match httparse::parse_headers(input, &mut room[..limits.trailer_fields_max.min(N)]) {
        Ok(Progress::Complete(section)) => section,
        Ok(Progress::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(WireError::TooManyTrailers),
        Err(_) => return Err(WireError::Trailer),
    };
    let has_forbidden = lines.iter().any(|line| is_no_trailer(line.name.as_bytes()));
    if has_forbidden && forbidden == ForbiddenTrailers::Refused {
        return Err(WireError::Trailer);
    }
    if record(lines, &input[..end], into).is_err() {
        // The lines noted so far point into a text that was not stored.
        into.clear();
        return Err(WireError::Trailer);
    }
    into.text_mut().clear();
    into.text_mut().extend(&input[..end]);
    if has_forbidden {
        into.retain(|name| !is_no_trailer(name));
    }
    Ok(Some(end))
}

/// Whether a field is not allowed in trailers. Fields for framing, routing, authentication, control or content have no
/// meaning after the body, or another one than before it (RFC 9110 §6.5.1).
pub(in crate::wire) fn is_no_trailer(name: &[u8]) -> bool {
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
        "forwarded",
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
