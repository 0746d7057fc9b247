//! Parses the head of a request (RFC 9112 §3, §5).

use std::mem::MaybeUninit;

use httparse::{Header, Status as Progress};
use memchr::{memchr, memchr_iter};

use super::fast_path;
use super::fields::{
    FIELDS_CEILING, FIELDS_USUAL, check_incomplete, check_plain, first_head, head_error,
    is_forbidden_in_trailers, record, version, with_earliest_error,
};
use crate::memory::Span;
use crate::message::{Authority, FieldName, Headers, InvalidMethod, Repeated, Request, Version, members};
use crate::wire::{Limits, WireError};

/// Parses the request head at the front of `input`, including empty lines before it.
///
/// Returns its length, or `None` if it is incomplete. The spans of the fields point into `input`: the caller makes
/// these bytes the text of the headers, and then calls [`check_fields`].
///
/// # Errors
///
/// Fails as soon as no further bytes could make it a valid head.
#[inline]
pub(crate) fn request(
    input: &[u8],
    limits: &Limits,
    request: &mut Request,
) -> Result<Option<usize>, WireError> {
    with_earliest_error(input, |front| parse_head(front, limits, request))
}

#[inline]
fn parse_head(input: &[u8], limits: &Limits, request: &mut Request) -> Result<Option<usize>, WireError> {
    let start = match input {
        [] | [b'\r' | b'\n', ..] => match skip_empty_lines(input, limits.empty_lines_max)? {
            Some(start) => start,
            None => return Ok(None),
        },
        _ => 0,
    };
    let parsed = match parse_fast(input, start, limits, request) {
        Some(end) => Some(end),
        None => parse_with_httparse(input, start, limits, request)?,
    };
    match parsed {
        Some(end) if end - start > limits.head_max => Err(WireError::HeadTooLarge),
        Some(end) => {
            debug_assert!(input[start..end].ends_with(b"\r\n\r\n"), "a head ends with an empty line");
            Ok(Some(end))
        }
        None => check_incomplete(&input[start..], limits.request_line_max, limits).map(|()| None),
    }
}

/// Checks the fields that matter in every request, once they have their text.
///
/// # Errors
///
/// Fails for a Host that two readers could understand differently (RFC 9112 §3.2), and for a Trailer field that
/// announces a field not allowed in trailers.
pub(crate) fn check_fields(request: &Request) -> Result<(), WireError> {
    let headers = &request.headers;
    match headers.single(FieldName::HOST) {
        // The target has no host then, or one of its own, which wins (§3.2.2).
        Ok(Some(b"")) => {}
        Ok(Some(host)) if Authority::names_host(host) => {}
        Ok(None) if request.version() == Version::Http10 => {}
        Ok(_) | Err(Repeated) => return Err(WireError::Host),
    }
    match headers.may_have(FieldName::TRAILER) {
        true => check_announced(headers),
        false => Ok(()),
    }
}

/// Checks the trailer fields that are announced.
#[cold]
fn check_announced(headers: &Headers) -> Result<(), WireError> {
    match headers.named(FieldName::TRAILER).flat_map(members).any(is_forbidden_in_trailers) {
        true => Err(WireError::Trailer),
        false => Ok(()),
    }
}

/// Returns where the request line starts. Some clients send a CRLF after a body, which comes before it (RFC 9112 §2.2).
#[cold]
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

/// Parses a head that is written as usual. `None` does not mean that it is wrong.
#[inline]
fn parse_fast(input: &[u8], start: usize, limits: &Limits, request: &mut Request) -> Option<usize> {
    let line_len = fast_path::request_line(&input[start..], request)?;
    if line_len > limits.request_line_max.saturating_add("\r\n".len()) {
        return None;
    }
    let fields_max = limits.fields_max.min(FIELDS_CEILING);
    fast_path::fields(input, start + line_len, fields_max, &mut request.headers)
}

/// Parses any head, or returns the error in it.
#[cold]
#[inline(never)]
fn parse_with_httparse(
    input: &[u8],
    start: usize,
    limits: &Limits,
    request: &mut Request,
) -> Result<Option<usize>, WireError> {
    check_plain(&input[start..])?;
    match parse_request::<FIELDS_USUAL>(input, start, limits, request) {
        Err(WireError::TooManyFields) if limits.fields_max > FIELDS_USUAL => {
            parse_large_request(input, start, limits, request)
        }
        parsed => parsed,
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
    let line_end = parsed
        .headers
        .first()
        .map_or(end - 2, |first| Span::from_slices(first.name.as_bytes(), input).start());
    set_line(&parsed, line_end - start, limits, request)?;
    record(parsed.headers, &input[..end], &mut request.headers)?;
    Ok(Some(end))
}

/// Takes over a request line that is grammatical, and `len` bytes long, including CRLF.
fn set_line(
    parsed: &httparse::Request<'_, '_>,
    len: usize,
    limits: &Limits,
    request: &mut Request,
) -> Result<(), WireError> {
    if len > limits.request_line_max.saturating_add("\r\n".len()) {
        return Err(WireError::RequestLineTooLong);
    }
    let (method, target, spoken) = request.line_mut();
    *spoken = version(parsed.version);
    method.set(parsed.method.unwrap_or_default().as_bytes()).map_err(|error| match error {
        InvalidMethod::TooLong(_) => WireError::MethodTooLong,
        InvalidMethod::NotToken(_) => WireError::RequestLine,
    })?;
    target.parse(method, parsed.path.unwrap_or_default()).map_err(|_| WireError::Target)
}

/// The same as [`parse_request`], for the few requests that have more fields. A function of its own, so that the others
/// touch less of the stack.
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

/// Handles a version that httparse refuses, which is one of three things: a later 1.x, which is served as 1.1 (RFC 9110
/// §2.5); another version; or none at all. The three differ only at the end of the line.
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
            let mut as_1_1 = first_head(input, start).to_vec();
            as_1_1[start + line_len - 2] = b'1';
            parse_head(&as_1_1, limits, request)
        }
        (b'0'..=b'9', b'0'..=b'9') => Err(WireError::VersionNotSupported),
        _ => Err(WireError::Version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = Result<Option<usize>, WireError>;

    /// The result of `parse` for `head`, with the request if the head is complete.
    fn parsed(
        head: &[u8],
        parse: impl FnOnce(&[u8], &Limits, &mut Request) -> Option<Outcome>,
    ) -> Option<(Outcome, Option<Request>)> {
        let limits = Limits { fields_max: 4, request_line_max: 54, ..Limits::default() };
        let mut request = Request::default();
        let outcome = parse(head, &limits, &mut request)?;
        let is_whole = matches!(outcome, Ok(Some(_)));
        request.headers.text_mut().extend(head);
        Some((outcome, is_whole.then_some(request)))
    }

    fn by_fast_path(head: &[u8]) -> Option<(Outcome, Option<Request>)> {
        parsed(head, |head, limits, request| parse_fast(head, 0, limits, request).map(|end| Ok(Some(end))))
    }

    fn by_httparse(head: &[u8]) -> Option<(Outcome, Option<Request>)> {
        parsed(head, |head, limits, request| Some(parse_with_httparse(head, 0, limits, request)))
    }

    const HEADS: [&str; 7] = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /a%20b?c=d HTTP/1.0\r\nx-b3: 1\r\nContent-Length: 5\r\n\r\nhello",
        "M-SEARCH /? HTTP/1.1\r\nEmpty: \r\nX_y: a longer one, with \"quotes\" ~\r\na: b\r\n\r\n",
        "GET /a/b-c_d.e~f!g$h&i'j(k)l*m+n,o;p=q:r@s[t] HTTP/1.1\r\n\r\n",
        "OPTIONS /a%2Fb|\"<>?{|}^=[?]\\ HTTP/1.1\r\nHost: example.com\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "DELETE /0123456789/0123456789/0123456789/0123 HTTP/1.1\r\na: 1\r\nb: 2\r\nc: 3\r\nd: 4\r\n\r\n",
        "GET /long HTTP/1.1\r\nHost: www.example.com:8080\r\nUpgrade-Insecure-Requests: 1\r\nCookie: a=b; c=\"d\"\r\n\
         Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8, https://a:80\r\n\r\n",
    ];

    #[test]
    fn httparse_reads_alike_what_is_read_in_one_pass() {
        let (mut taken, mut left) = (0, 0);
        for head in HEADS.map(str::as_bytes) {
            assert!(by_fast_path(head).is_some(), "{}", head.escape_ascii());
            for other in fast_path::variations(head) {
                match by_fast_path(&other) {
                    Some(plain) => {
                        assert_eq!(Some(plain), by_httparse(&other), "{}", other.escape_ascii());
                        taken += 1;
                    }
                    None => left += 1,
                }
            }
        }
        assert!(taken > 1000 && left > taken, "{taken} taken, {left} left");
        for other_form in
            ["GET http://a/", "OPTIONS *", "CONNECT a:443", "CONNECT /", "GET a", "GET  /", "GET /é"]
        {
            assert!(
                by_fast_path(format!("{other_form} HTTP/1.1\r\n\r\n").as_bytes()).is_none(),
                "{other_form}"
            );
        }
    }
}
