//! Parses the head of a response (RFC 9112 §4, §5).

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Status as Progress};
use memchr::memchr_iter;

use super::fields::{
    FIELDS_CEILING, FIELDS_USUAL, check_incomplete, check_plain, first_head, head_error, record, version,
    with_earliest_error,
};
use super::leniency::{Mended, Section};
use crate::message::{HeadersDraft, Response, Status, Version};
use crate::wire::{Limits, WireError};

/// The parts of a head that the [`Response`] does not store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    /// The length of the head.
    pub(crate) len: usize,
    pub(crate) version: Version,
    status: Status,
    /// Whether a field line is folded.
    is_folded: bool,
}

/// Parses the response head at the front of `input`, and makes it that of `response`. Returns `None` if it is incomplete.
/// The status then stays, and there are no fields.
///
/// # Errors
///
/// Fails as soon as no further bytes could make it a valid head.
pub(crate) fn response(
    input: &[u8],
    limits: &Limits,
    response: &mut Response,
) -> Result<Option<ResponseHead>, WireError> {
    Ok(with_earliest_error(input, |front| take_head(front, limits, response))?)
}

/// Parses a head that [`response`] refuses for `error`, without its faults.
///
/// # Errors
///
/// As [`response`].
#[cold]
pub(crate) fn mended_response(
    input: &[u8],
    limits: &Limits,
    into: &mut Response,
    error: WireError,
) -> Result<Option<ResponseHead>, WireError> {
    let mended = Mended::new(input, Section::Head, limits.fields_max).ok_or(error)?;
    if mended.len.unwrap_or(input.len()) > limits.head_max {
        return Err(WireError::HeadTooLarge);
    }
    let parsed = response(&mended.text, limits, into)?;
    Ok(parsed.zip(mended.len).map(|(head, len)| ResponseHead { len, ..head }))
}

/// Makes the head at the front of `input` that of `response`, if it is complete.
#[inline]
fn take_head(
    input: &[u8],
    limits: &Limits,
    response: &mut Response,
) -> Result<Option<ResponseHead>, WireError> {
    let mut draft = response.headers.draft();
    let parsed = parse_head(input, limits, &mut draft)?;
    if let Some(head) = parsed {
        draft.commit(&input[..head.len]);
        if head.is_folded {
            response.headers.unfold();
        }
        response.status = head.status;
    }
    Ok(parsed)
}

#[inline]
fn parse_head(
    input: &[u8],
    limits: &Limits,
    draft: &mut HeadersDraft<'_>,
) -> Result<Option<ResponseHead>, WireError> {
    if let Some(b'\r' | b'\n') = input.first() {
        return Err(WireError::StatusLine);
    }
    let parsed = match parse_usual(input, limits, draft) {
        Err(WireError::FieldValue) => parse_without_bad_cookies(input, limits, draft)?,
        parsed => parsed?,
    };
    match parsed {
        Some(head) if head.len > limits.head_max => Err(WireError::HeadTooLarge),
        Some(head) => {
            debug_assert!(input[..head.len].ends_with(b"\r\n\r\n"), "a head ends with an empty line");
            Ok(Some(head))
        }
        // The status line has no limit of its own.
        None => check_incomplete(input, usize::MAX, limits).map(|()| None),
    }
}

/// Parses a head, once more if there is something unusual in it.
fn parse_usual(
    input: &[u8],
    limits: &Limits,
    draft: &mut HeadersDraft<'_>,
) -> Result<Option<ResponseHead>, WireError> {
    check_plain(input)?;
    match parse::<FIELDS_USUAL>(input, limits, draft, Folding::Refused) {
        Err(WireError::TooManyFields) if limits.fields_max > FIELDS_USUAL => {
            parse_unusual(input, limits, draft)
        }
        Err(WireError::FieldName) => parse_unusual(input, limits, draft),
        Err(WireError::Version) => parse_later_version(input, limits, draft),
        parsed => parsed,
    }
}

/// Whether a field may be continued on the next line. Servers must not send this, but clients must understand it
/// (§5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folding {
    Refused,
    Read,
}

fn parse<const N: usize>(
    input: &[u8],
    limits: &Limits,
    draft: &mut HeadersDraft<'_>,
    folding: Folding,
) -> Result<Option<ResponseHead>, WireError> {
    let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; N];
    let room = &mut room[..limits.fields_max.min(N)];
    let mut config = ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(folding == Folding::Read);
    let mut parsed = httparse::Response::new(&mut []);
    let len = match config.parse_response_with_uninit_headers(&mut parsed, input, room) {
        Ok(Progress::Complete(len)) => len,
        Ok(Progress::Partial) => return Ok(None),
        Err(httparse::Error::Token | httparse::Error::Status) => return Err(WireError::StatusLine),
        Err(error) => return Err(head_error(error)),
    };
    let status = parsed.code.and_then(Status::from_received).ok_or(WireError::StatusLine)?;
    let is_folded = folding == Folding::Read && is_folded(parsed.headers, &input[..len])?;
    record(parsed.headers, &input[..len], draft)?;
    Ok(Some(ResponseHead { len, version: version(parsed.version), status, is_folded }))
}

/// The same as [`parse`], for the few heads that have many or folded fields. A function of its own, so that the others
/// touch less of the stack.
#[cold]
#[inline(never)]
fn parse_unusual(
    input: &[u8],
    limits: &Limits,
    draft: &mut HeadersDraft<'_>,
) -> Result<Option<ResponseHead>, WireError> {
    parse::<FIELDS_CEILING>(input, limits, draft, Folding::Read)
}

/// Parses a head without each `set-cookie` that contains a control character, as user agents do (RFC 6265bis §5.6): one
/// malformed cookie is no reason to lose a response. An octet that could end a line is an error, as in any field.
#[cold]
#[inline(never)]
fn parse_without_bad_cookies(
    input: &[u8],
    limits: &Limits,
    draft: &mut HeadersDraft<'_>,
) -> Result<Option<ResponseHead>, WireError> {
    let mut masked = first_head(input, 0).to_vec();
    let mut start = 0;
    let mut is_cookie = false;
    for line in first_head(input, 0).split_inclusive(|&octet| octet == b'\n') {
        // A folded line belongs to the field before it.
        is_cookie = match line.first() {
            Some(b' ' | b'\t') => is_cookie,
            _ => line.get(..SET_COOKIE.len()).is_some_and(|name| name.eq_ignore_ascii_case(SET_COOKIE)),
        };
        let octets = &mut masked[start..start + line.len()];
        octets.iter_mut().filter(|octet| is_cookie && is_control(octet)).for_each(|octet| *octet = b'.');
        start += line.len();
    }
    let parsed = parse_usual(&masked, limits, draft)?;
    if parsed.is_some() {
        draft.remove(|value| input[value.range()].iter().any(is_control));
    }
    Ok(parsed)
}

const SET_COOKIE: &[u8] = b"set-cookie:";

/// Whether no field may contain `octet`, though it ends no line (RFC 9110 §5.5).
fn is_control(octet: &u8) -> bool {
    octet.is_ascii_control() && !matches!(octet, b'\t' | b'\r' | b'\n')
}

/// Reads a later 1.x as 1.1 (RFC 9110 §2.5).
#[cold]
fn parse_later_version(
    input: &[u8],
    limits: &Limits,
    draft: &mut HeadersDraft<'_>,
) -> Result<Option<ResponseHead>, WireError> {
    match input {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9', ..] => {
            let mut as_1_1 = first_head(input, 0).to_vec();
            as_1_1["HTTP/1.".len()] = b'1';
            parse_head(&as_1_1, limits, draft)
        }
        _ => Err(WireError::Version),
    }
}

/// Whether a value contains a line end. The whole of `head` is checked, since values were trimmed.
fn is_folded(lines: &[Header<'_>], head: &[u8]) -> Result<bool, WireError> {
    let ends = memchr_iter(b'\n', head).count();
    let ends_well = memchr_iter(b'\n', head).all(|lf| head[..lf].ends_with(b"\r"));
    match ends_well && memchr_iter(b'\r', head).count() == ends {
        true => Ok(lines.iter().any(|line| line.value.contains(&b'\n'))),
        false => Err(WireError::LineEnd),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Headers;

    /// A complete `head` is read as `expected`. Cut at any byte, the head is incomplete, or fails for the same reason.
    #[track_caller]
    fn check(head: &str, expected: Result<(u16, Version, &str), WireError>) {
        let limits = Limits::default();
        let mut into = Response::new();
        for cut in 0..head.len() {
            match response(&head.as_bytes()[..cut], &limits, &mut into) {
                Ok(None) => {}
                cut_short => assert_eq!(cut_short.map(drop), expected.map(drop), "cut at {cut}"),
            }
            assert_eq!((into.status, &into.headers), (Status::OK, &Headers::new()), "cut at {cut}");
        }
        let parsed = response(head.as_bytes(), &limits, &mut into).map(|head| head.expect("it is whole"));
        let read = parsed.map(|parsed| {
            assert_eq!(parsed.len, head.len());
            (into.status.as_u16(), parsed.version, into.headers.get("a").unwrap_or_default())
        });
        assert_eq!(read, expected, "{head:?}");
    }

    /// `head` with each octet changed, doubled by another or dropped, and cut before each.
    fn variations(head: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        const ODD: &[u8] = b"\0\t\n\r !-.0:;@AZ[^_`az{|~\x7f\x80\xc3\xa9\xff";
        (0..head.len()).flat_map(move |at| {
            let (before, rest) = head.split_at(at);
            let changed = ODD.iter().map(move |&odd| [before, &[odd], &rest[1..]].concat());
            let doubled = ODD.iter().map(move |&odd| [before, &[odd], rest].concat());
            changed.chain(doubled).chain([[before, &rest[1..]].concat(), before.to_vec()])
        })
    }

    #[test]
    fn a_status_line_is_version_status_and_perhaps_a_reason_rfc9112_4() {
        use WireError::{StatusLine, Version as Bad};
        check("HTTP/1.1 200 OK\r\na: b\r\n\r\n", Ok((200, Version::Http11, "b")));
        check("HTTP/1.0 404\r\n\r\n", Ok((404, Version::Http10, "")));
        check("HTTP/1.1 299 \r\n\r\n", Ok((299, Version::Http11, "")));
        check("HTTP/1.7 500 a b \t\u{e9}\r\n\r\n", Ok((500, Version::Http11, "")));
        for line in
            ["HTTP/1.1 20 OK", "HTTP/1.1 2000 OK", "HTTP/1.1 2xx OK", "HTTP/1.1 +20 OK", "HTTP/1.1  200 OK"]
        {
            check(&format!("{line}\r\n\r\n"), Err(StatusLine));
        }
        for (line, status) in [("600 high", 600), ("999", 999)] {
            check(&format!("HTTP/1.1 {line}\r\n\r\n"), Ok((status, Version::Http11, "")));
        }
        for line in ["099 low", "000 ", "001", "010 OK"] {
            check(&format!("HTTP/1.1 {line}\r\n\r\n"), Err(StatusLine));
        }
        check("\r\nHTTP/1.1 200 OK\r\n\r\n", Err(StatusLine));
        for line in
            ["HTTP/2.0 200 OK", "http/1.1 200 OK", "ICY 200 OK", "HTTP/11 200 OK", "garbage, not HTTP"]
        {
            check(&format!("{line}\r\n\r\n"), Err(Bad));
        }
        for record in ["\x15\x03\x01\0\x02\x02\x28", "\x16\x03\x03\0\x7a\x02\0\0\x76\x03\x03"] {
            check(record, Err(WireError::TlsRecord));
        }
    }

    /// The other fields of the response are kept.
    #[test]
    fn a_set_cookie_with_a_control_character_is_left_out_rfc6265bis_5_6() {
        use WireError::{FieldName, FieldValue};
        for control in
            (0..=0x7f).map(char::from).filter(|&it| it.is_ascii_control() && !"\t\r\n".contains(it))
        {
            for bad in [
                format!("Set-Cookie: x={control}y"),
                format!("SET-COOKIE:{control}; Path=/"),
                format!("set-cookie: x=y{control}\r\nSet-Cookie:{control}{control}"),
                format!("set-cookie: x=y;\r\n {control}Path=/"),
            ] {
                let head = format!(
                    "HTTP/1.1 200 OK\r\nSet-Cookie: one=1\r\n{bad}\r\na: b\r\nset-cookie: two=2\r\n\r\n"
                );
                check(&head, Ok((200, Version::Http11, "b")));
                let mut into = Response::new();
                response(head.as_bytes(), &Limits::default(), &mut into).expect("it is read");
                assert!(into.headers.all("set-cookie").eq([b"one=1", b"two=2"]), "{head:?}");
                assert_eq!((into.headers.len(), into.headers.as_wire()), (3, None));
            }
            for (bad, error) in [
                (format!("a: {control}"), FieldValue),
                (format!("Set-Cookie2: {control}"), FieldValue),
                (format!("Set-Cookie: x={control}\r\na: {control}"), FieldValue),
                (format!("Set-Cookie : {control}"), FieldName),
                (format!("Set-Cookie: x={control}\ry"), FieldValue),
            ] {
                check(&format!("HTTP/1.1 200 OK\r\n{bad}\r\n\r\n"), Err(error));
            }
        }
    }

    #[test]
    fn folded_lines_are_read_and_other_bad_lines_are_not_rfc9112_5_2() {
        let with = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n");
        check(&with("a: b\r\n c"), Ok((200, Version::Http11, "b   c")));
        check(&with("a: b\r\n\tc\r\n  d\r\ne: f"), Ok((200, Version::Http11, "b   c    d")));
        check(&with("a: b\tc\t\r\n\td\te"), Ok((200, Version::Http11, "b\tc    d\te")));
        check(&with("a:\r\n b"), Ok((200, Version::Http11, "b")));
        check(&with("a: b\r\n "), Ok((200, Version::Http11, "b")));
        check(&with("a: b\n c"), Err(WireError::LineEnd));
        check(&with("a: b\nc: d"), Err(WireError::LineEnd));
        // The blanks around a value are trimmed, and took these bare LFs along if the head came at once.
        check(&with("a:\n b"), Err(WireError::LineEnd));
        check(&with("a:\r\n \n b"), Err(WireError::LineEnd));
        check(&with("a: b\n "), Err(WireError::LineEnd));
        check(&with("a: b\n \r\nc: d"), Err(WireError::LineEnd));
        check(&with("a : b"), Err(WireError::FieldName));
        check(&with(" a: b"), Err(WireError::FieldName));
        check(&with("a b: c"), Err(WireError::FieldName));
        check(&with("a: b\0c"), Err(WireError::FieldValue));
        check(&with("a: b\rc"), Err(WireError::FieldValue));
    }

    /// The error must not depend on where packets end.
    #[test]
    fn of_two_broken_rules_the_first_counts_rfc9112_2_2() {
        use WireError::{FieldName, FieldValue, LineEnd, StatusLine, TooManyFields};
        let with = |lines: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n");
        check(&with("a: b\nc: d\0"), Err(LineEnd));
        check(&with("a: b\n c\r\nd : e"), Err(LineEnd));
        check(&with("a: b\0\nc: d"), Err(FieldValue));
        check(&with("a : b\nc: d"), Err(FieldName));
        check(&with("a: b\r\n c\nd e: f"), Err(LineEnd));
        check("HTTP/1.1 200 OK\na : b\r\n\r\n", Err(LineEnd));
        check("HTTP/1.1 2x0 OK\na : b\r\n\r\n", Err(StatusLine));
        check("HTTP/1.2 200 OK\na : b\r\n\r\n", Err(LineEnd));
        let many = "a: b\r\n".repeat(Limits::default().fields_max);
        check(&with(&format!("{many}c: d\r\ne : f")), Err(TooManyFields));
        check(&with(&format!("{many}c : d\r\ne: f")), Err(FieldName));
        check(&with(&format!("a: b\n{many}c: d")), Err(LineEnd));
    }

    #[test]
    fn a_head_that_begins_badly_fails_for_the_same_reason_rfc9112_2_2() {
        let limits = Limits::default();
        let mut into = Response::new();
        let mut bad = 0;
        for head in variations(b"HTTP/1.1 200\r\na:\r\n b\r\n\t\r\nc: d\r\n\r\n") {
            let whole = response(&head, &limits, &mut into).map(drop);
            let of_a_front = (1..head.len()).find_map(|end| response(&head[..end], &limits, &mut into).err());
            if let Some(error) = of_a_front {
                assert_eq!(whole, Err(error), "{}", head.escape_ascii());
                bad += 1;
            }
        }
        assert!(bad > 500, "{bad}");
    }
}
