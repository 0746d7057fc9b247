//! Parses the head of a request (RFC 9112 §3, §5).

use std::mem::MaybeUninit;

use httparse::{Header, Status as Progress};
use memchr::{memchr, memchr_iter, memrchr};

use super::fields::{
    FIELDS_CEILING, FIELDS_USUAL, check_incomplete, check_plain, first_head, head_error,
    is_forbidden_in_trailers, record, version, with_earliest_error,
};
use crate::memory::Span;
use crate::message::{
    Authority, FieldName, Headers, MessageError, Method, Repeated, Request, RequestDraft, RequestLineDraft,
    Version, is_token, members,
};
use crate::wire::{Limits, WireError};

/// Parses the request head at the front of `input`, including empty lines before it, and makes it that of `request`.
///
/// Returns its length, or `None` if it is incomplete. The request is then as new. [`check_fields`] has still to be
/// called.
///
/// # Errors
///
/// Fails as soon as no further bytes could make it a valid head. The request then has the lines before the fault, as
/// after [`request_front`].
#[inline]
pub(crate) fn request(
    input: &[u8],
    limits: &Limits,
    request: &mut Request,
) -> Result<Option<usize>, WireError> {
    with_earliest_error(input, |front| take_head(front, limits, request)).map_err(|fault| {
        request_front(&input[..fault.at], limits, request);
        fault.error
    })
}

/// Makes the lines of `input` that are complete the head of `request`, for reports of a head that is refused, or that
/// does not end. Nothing else may depend on them, since the fields after them are not known. Without a whole request
/// line, the request is as new.
#[cold]
pub(crate) fn request_front(input: &[u8], limits: &Limits, request: &mut Request) {
    // Complete lines are a head as soon as an empty line follows.
    let lines = memrchr(b'\n', input).map_or(&[][..], |lf| &input[..=lf]);
    let limits = Limits { head_max: usize::MAX, ..*limits };
    // The target is checked once the head has ended, so there may be a fault even here.
    let _ = take_head(&[lines, b"\r\n"].concat(), &limits, request);
}

/// Whether `input`, which is no request, begins with a header of the PROXY protocol, of either version. A method
/// may be named `PROXY` as well, but no target is such a word.
pub(crate) fn is_proxy_header(input: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 4] =
        [b"PROXY TCP4 ", b"PROXY TCP6 ", b"PROXY UNKNOWN", b"\r\n\r\n\0\r\nQUIT\n"];
    BEGINNINGS.iter().any(|beginning| input.starts_with(beginning))
}

/// Whether `input` begins with this method, perhaps after empty lines, and a space.
pub(crate) fn begins_with(method: Method, input: &[u8]) -> bool {
    let line = without_empty_lines(input);
    line.strip_prefix(method.as_str().as_bytes()).is_some_and(|rest| rest.starts_with(b" "))
}

fn without_empty_lines(mut input: &[u8]) -> &[u8] {
    while let [b'\r', b'\n', rest @ ..] = input {
        input = rest;
    }
    input
}

/// The method and the target of a request line that is refused, as far as they came: for reports alone. The target is not
/// checked. There is none as long as it may go on; and no method that is too long to be kept.
#[cold]
pub(crate) fn refused_line(input: &[u8], limits: &Limits) -> Option<(Option<Method>, String)> {
    let input = without_empty_lines(input);
    let line = &input[..input.len().min(limits.request_line_max)];
    let (method, rest) = line.split_at(memchr(b' ', line)?);
    let rest = &rest[" ".len()..];
    let end = rest.iter().position(|octet| *octet <= b' ' || *octet == 0x7f);
    let is_cut = line.len() < input.len();
    let target = &rest[..end.or(is_cut.then_some(rest.len()))?];
    let is_known = is_token(method) && !target.is_empty();
    is_known.then(|| (Method::parse(method).ok(), String::from_utf8_lossy(target).into_owned()))
}

/// Makes the head at the front of `input` that of `request`, if it is complete. Otherwise the request is as new.
#[inline]
fn take_head(input: &[u8], limits: &Limits, request: &mut Request) -> Result<Option<usize>, WireError> {
    let mut draft = request.draft();
    let parsed = parse_head(input, limits, &mut draft)?;
    if let Some(end) = parsed {
        draft.commit(&input[..end]);
    }
    Ok(parsed)
}

#[inline]
fn parse_head(
    input: &[u8],
    limits: &Limits,
    draft: &mut RequestDraft<'_>,
) -> Result<Option<usize>, WireError> {
    let start = match input {
        [] | [b'\r' | b'\n', ..] => match skip_empty_lines(input)? {
            Some(start) => start,
            None => return Ok(None),
        },
        _ => 0,
    };
    check_plain(&input[start..])?;
    let parsed = match parse_request::<FIELDS_USUAL>(input, start, limits, draft) {
        Err(WireError::TooManyFields) if limits.fields_max > FIELDS_USUAL => {
            parse_large_request(input, start, limits, draft)
        }
        parsed => parsed,
    };
    match parsed? {
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
fn skip_empty_lines(input: &[u8]) -> Result<Option<usize>, WireError> {
    let mut start = 0;
    let mut lines = 0;
    loop {
        match &input[start..] {
            [] | [b'\r'] => return Ok(None),
            [b'\r', b'\n', ..] if lines == Limits::EMPTY_LINES_MAX => return Err(WireError::EmptyLines),
            [b'\r', b'\n', ..] => (start, lines) = (start + 2, lines + 1),
            [b'\r' | b'\n', ..] => return Err(WireError::LineEnd),
            _ => return Ok(Some(start)),
        }
    }
}

/// Has httparse parse the head that begins at `start`, and takes over its result.
#[inline]
fn parse_request<const N: usize>(
    input: &[u8],
    start: usize,
    limits: &Limits,
    draft: &mut RequestDraft<'_>,
) -> Result<Option<usize>, WireError> {
    let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; N];
    let room = &mut room[..limits.fields_max.min(N)];
    let mut parsed = httparse::Request::new(&mut []);
    let end = match parsed.parse_with_uninit_headers(&input[start..], room) {
        Ok(Progress::Complete(len)) => start + len,
        Ok(Progress::Partial) => return Ok(None),
        Err(httparse::Error::Version) => return other_version(input, start, limits, draft),
        Err(error) => return Err(head_error(error)),
    };
    let line_end = parsed
        .headers
        .first()
        .map_or(end - 2, |first| Span::from_slices(first.name.as_bytes(), input).start());
    set_line(&parsed, line_end - start, limits, &mut draft.line)?;
    record(parsed.headers, &input[..end], &mut draft.fields)?;
    Ok(Some(end))
}

/// Takes over a request line that is grammatical, and `len` bytes long, including CRLF.
fn set_line(
    parsed: &httparse::Request<'_, '_>,
    len: usize,
    limits: &Limits,
    line: &mut RequestLineDraft<'_>,
) -> Result<(), WireError> {
    if len > limits.request_line_max.saturating_add("\r\n".len()) {
        return Err(WireError::RequestLineTooLong);
    }
    let RequestLineDraft { method, target, version: spoken } = line;
    **spoken = version(parsed.version);
    method.set(parsed.method.unwrap_or_default().as_bytes()).map_err(|error| match error {
        MessageError::MethodTooLong(_) => WireError::MethodTooLong,
        _ => WireError::RequestLine,
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
    draft: &mut RequestDraft<'_>,
) -> Result<Option<usize>, WireError> {
    parse_request::<FIELDS_CEILING>(input, start, limits, draft)
}

/// Handles a version that httparse refuses, which is one of three things: a later 1.x, which is served as 1.1 (RFC 9110
/// §2.5); another version; or none at all. The three differ only at the end of the line.
#[cold]
fn other_version(
    input: &[u8],
    start: usize,
    limits: &Limits,
    draft: &mut RequestDraft<'_>,
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
            parse_head(&as_1_1, limits, draft)
        }
        (b'0'..=b'9', b'0'..=b'9') => Err(WireError::VersionNotSupported),
        _ => Err(WireError::Version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request after `head`, which has so many octets in front that are not malformed.
    #[track_caller]
    fn check_front(head: &str, error: Option<WireError>, line: &str, fields: &str) {
        let limits = Limits { request_line_max: 40, head_max: 100, fields_max: 4, ..Limits::default() };
        for cut in 0..=head.len() {
            let mut parsed = Request::get("http://earlier/?a").unwrap();
            parsed.headers.set("earlier", "1").unwrap();
            let found = request(&head.as_bytes()[..cut], &limits, &mut parsed);
            if found == Ok(None) {
                assert_eq!(parsed, Request::default(), "cut at {cut}");
                request_front(&head.as_bytes()[..cut], &limits, &mut parsed);
            }
            let is_line = cut >= line.len() + "\r\n".len() && !line.is_empty();
            assert_eq!(parsed.has_line(), is_line, "cut at {cut}");
            let read = format!("{} {} {}", parsed.method(), parsed.target(), parsed.version());
            assert_eq!(read, if is_line { line } else { "GET / HTTP/1.1" }, "cut at {cut}");
            let shown = Vec::from_iter(parsed.headers.iter().map(|(name, _)| name)).join(" ");
            assert!(fields.starts_with(&shown) && parsed.headers.iter().all(|(_, value)| value == b"v"));
            if cut == head.len() {
                assert_eq!((found.err(), &*shown), (error, fields), "{head:?}");
            }
        }
    }

    #[test]
    fn the_lines_before_a_fault_are_kept_and_no_others_rfc9112_2_2() {
        use WireError::{
            FieldName, FieldValue, HeadTooLarge, LineEnd, RequestLine, RequestLineTooLong, TooManyFields,
        };
        let line = "PUT /a?b HTTP/1.0";
        let check =
            |rest: &str, error, fields| check_front(&format!("{line}\r\n{rest}"), error, line, fields);
        check("a: v\r\nb:v\r\nc", None, "a b");
        check("a: v\r\nb:v\r\n", None, "a b");
        check("a: v\r\nX: \x1b\r\n\r\n", Some(FieldValue), "a");
        check("a: v\r\nX : v\r\nb: v\r\n\r\n", Some(FieldName), "a");
        check("a: v\r\nb: v\n\r\n", Some(LineEnd), "a");
        check("a: v\r\n folded\r\n\r\n", Some(FieldName), "a");
        check("a: v\r\nb: v\r\nc: v\r\nd: v\r\ne: v\r\n\r\n", Some(TooManyFields), "a b c d");
        let long = "v".repeat(100);
        check(&format!("a: v\r\nb: {long}"), Some(HeadTooLarge), "a");
        // The last line ends where the limit is.
        let name = "n".repeat(100 - line.len() - "\r\n: v\r\n".len());
        check(&format!("{name}: v\r\nb: v\r\n\r\n"), Some(HeadTooLarge), &name);
        check_front("PUT /a?b HTTP/1.0\n", Some(LineEnd), "", "");
        check_front("PUT  /a HTTP/1.0\r\na: v\r\n", Some(RequestLine), "", "");
        check_front(&format!("GET /{long}"), Some(RequestLineTooLong), "", "");
        check_front("", None, "", "");
    }

    /// The target is checked once the head has ended, and then there is no request line either.
    #[test]
    fn a_target_that_is_refused_is_not_kept_rfc9112_3_2() {
        let mut parsed = Request::default();
        for head in ["PUT /\x7f HTTP/1.1\r\nhost: a\r\n\r\n", "PUT a HTTP/1.1\r\nhost: a\r\n\r\n"] {
            assert!(request(head.as_bytes(), &Limits::default(), &mut parsed).is_err());
            assert_eq!((&parsed, parsed.has_line()), (&Request::default(), false));
        }
        // The octets that the target is copied with are not always text.
        for end in ["GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n\r\n"] {
            let head = [end.as_bytes(), b"\xff\xff\xff"].concat();
            let _ = request(&head, &Limits::default(), &mut parsed);
            assert_eq!((parsed.path(), parsed.has_line()), ("/", true), "{end:?}");
        }
    }

    /// However the line is cut, as soon as it is known to be wrong.
    #[test]
    fn a_refused_line_is_known_as_far_as_its_target_rfc9112_3() {
        let limits = Limits { request_line_max: 40, ..Limits::default() };
        let (long, longest) = ("M".repeat(32), "x".repeat(80));
        for (line, method, target) in [
            ("GET / HTTP/3.0\r\n", Some("GET"), "/"),
            ("\r\nPUT /a?b=c HTTP\r\n", Some("PUT"), "/a?b=c"),
            ("GET http:/// HTTP/1.1\r\n", Some("GET"), "http:///"),
            ("GET /a\x01b HTTP/1.1\r\n", Some("GET"), "/a"),
            ("GET /a b HTTP/1.1\r\n", Some("GET"), "/a"),
            ("GET /a\n", Some("GET"), "/a"),
            (&format!("{long} / HTTP/1.1\r\n"), None, "/"),
            (&format!("GET /{longest} HTTP/1.1\r\n"), Some("GET"), &format!("/{}", &longest[..35])),
        ] {
            let method = method.map(|name| Method::parse(name.as_bytes()).unwrap());
            assert_eq!(refused_line(line.as_bytes(), &limits), Some((method, target.to_owned())), "{line:?}");
        }
        for unknown in
            ["", "GET", "GET ", "GET /a", "GET  /a HTTP/1.1\r\n", " / HTTP/1.1", "\x16\x03\x01 /a "]
        {
            assert_eq!(refused_line(unknown.as_bytes(), &limits), None, "{unknown:?}");
        }
    }

    #[test]
    fn a_method_is_found_before_a_head_is_whole_rfc9112_3() {
        for (input, expected) in [
            ("HEAD ", true),
            ("\r\n\r\nHEAD /", true),
            ("HEAD", false),
            ("HEADER ", false),
            (" HEAD ", false),
            ("", false),
        ] {
            assert_eq!(begins_with(Method::Head, input.as_bytes()), expected, "{input:?}");
        }
    }
}
