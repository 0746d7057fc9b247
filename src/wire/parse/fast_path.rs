//! The fast path: heads as nearly all peers write them, read in one pass (RFC 9112 §2.1, §3, §5).
//!
//! The functions here refuse nothing. A head that is unusual, malformed or incomplete, or whose target is not a path,
//! is left to httparse, which returns the error.

use crate::memory::Span;
use crate::message::{Headers, Method, NameHash, Request, Status, Version, decimal, token_len};

/// Reads the request line at the front of `head` into `request`, if its target is a path. Returns its length, including
/// CRLF.
#[inline]
pub(super) fn request_line(head: &[u8], request: &mut Request) -> Option<usize> {
    let (method, target, version) = request.line_mut();
    let rest = match head.strip_prefix(b"GET ") {
        // Most requests are GET.
        Some(rest) => {
            *method = Method::Get;
            rest
        }
        None => {
            let (token, rest) = head.split_at_checked(prefix_len(head, mark_non_names))?;
            let rest = rest.strip_prefix(b" ")?;
            method.set(token).ok()?;
            // A tunnel leads to a host and a port, and never to a path (RFC 9112 §3.2.3).
            if *method == Method::Connect {
                return None;
            }
            rest
        }
    };
    let rest = &rest[target.take_origin_form(rest)?..];
    // The version is compared as a whole, since a pattern would be compared octet by octet.
    *version = match rest.first_chunk::<VERSION_LEN>()? {
        version if *version == *b" HTTP/1.1\r\n" => Version::Http11,
        version if *version == *b" HTTP/1.0\r\n" => Version::Http10,
        _ => return None,
    };
    Some(head.len() - rest.len() + VERSION_LEN)
}

const VERSION_LEN: usize = " HTTP/1.1\r\n".len();

/// A status line, and its length, including CRLF.
pub(super) struct StatusLine {
    pub(super) version: Version,
    pub(super) status: Status,
    pub(super) len: usize,
}

/// Reads the status line at the front of `head`.
#[inline]
pub(super) fn status_line(head: &[u8]) -> Option<StatusLine> {
    // Most responses begin with this line.
    if head.starts_with(OK_LINE) {
        return Some(StatusLine { version: Version::Http11, status: Status::OK, len: OK_LINE.len() });
    }
    let (version, rest) = head.split_first_chunk()?;
    let version = match version {
        b"HTTP/1.1 " => Version::Http11,
        b"HTTP/1.0 " => Version::Http10,
        _ => return None,
    };
    let (code, rest) = rest.split_first_chunk::<3>()?;
    let status = Status::from_received(decimal(code)?.try_into().ok()?)?;
    let reason = rest.strip_prefix(b" ")?;
    let rest = &reason[prefix_len(reason, mark_non_text)..];
    rest.starts_with(b"\r\n").then_some(StatusLine {
        version,
        status,
        len: head.len() - rest.len() + "\r\n".len(),
    })
}

const OK_LINE: &[u8] = b"HTTP/1.1 200 OK\r\n";

/// Notes the field lines of `head` from `start` on, at most `fields_max`. Returns where the empty line after them ends.
#[inline(never)]
pub(super) fn fields(head: &[u8], start: usize, fields_max: usize, into: &mut Headers) -> Option<usize> {
    into.begin_received();
    // The head is cut to the length that spans can address, which then need not be checked for each span.
    let head = &head[..head.len().min(u32::MAX as usize)];
    let mut rest = &head[start..];
    if let Some(behind) = rest.strip_prefix(b"\r\n") {
        return Some(head.len() - behind.len());
    }
    loop {
        let (name, behind) = split_name(rest)?;
        let (value, end) = behind.split_at_checked(value_len(behind))?;
        // Whitespace around the value, beyond the one space before it, is not part of it.
        let is_trimmed = !matches!(value, [b' ', ..] | [.., b' ']);
        if name.is_empty() || !is_trimmed || into.len() == fields_max {
            return None;
        }
        into.push_spans(NameHash::new(name), Span::from_slices(name, head), Span::from_slices(value, head));
        match end.first_chunk::<4>()? {
            b"\r\n\r\n" => return Some(head.len() - end.len() + "\r\n\r\n".len()),
            [b'\r', b'\n', ..] => rest = &end["\r\n".len()..],
            _ => return None,
        }
    }
}

/// The name at the front of `line`, and what follows its colon and one space.
#[inline]
fn split_name(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = line;
    while let Some((word, behind)) = rest.split_first_chunk() {
        if let Some(at) = first_of(mark_non_names(u64::from_le_bytes(*word))) {
            let (name, colon) = line.split_at_checked(line.len() - rest.len() + at)?;
            match colon.strip_prefix(b": ") {
                Some(behind) => return Some((name, behind)),
                None => break,
            }
        }
        rest = behind;
    }
    let (name, colon) = line.split_at_checked(token_len(line))?;
    Some((name, colon.strip_prefix(b": ")?))
}

/// The length of the value at the front of `text`. The compiler checks sixteen octets at once.
#[inline]
fn value_len(text: &[u8]) -> usize {
    let mut rest = text;
    while let Some((block, behind)) = rest.split_first_chunk::<16>() {
        if block.iter().fold(false, |is_odd, octet| is_odd | !matches!(octet, b' '..=b'~')) {
            return text.len() - rest.len() + prefix_len(block, mark_non_text);
        }
        rest = behind;
    }
    text.len() - rest.len() + prefix_len(rest, mark_non_text)
}

/// How many octets at the front of `text` are not marked by `mark`.
#[inline]
fn prefix_len(text: &[u8], mark: impl Fn(u64) -> u64) -> usize {
    let mut rest = text;
    while let Some((word, behind)) = rest.split_first_chunk() {
        if let Some(at) = first_of(mark(u64::from_le_bytes(*word))) {
            return text.len() - rest.len() + at;
        }
        rest = behind;
    }
    let is_odd = |octet: &u8| mark(u64::from(*octet)) & 0x80 != 0;
    text.len() - rest.len() + rest.iter().position(is_odd).unwrap_or(rest.len())
}

/// The index of the first marked octet, from the lowest.
#[inline]
fn first_of(marks: u64) -> Option<usize> {
    (marks != 0).then(|| marks.trailing_zeros() as usize / 8)
}

/// Sets the high bit of the first octet, from the lowest, that is not printable ASCII. Octets above it may be marked
/// wrongly.
#[inline]
fn mark_non_text(word: u64) -> u64 {
    // The subtraction sets the high bits of octets below space and of 0xff, the addition those of all others from DEL on.
    (word.wrapping_sub(EACH * b' ' as u64) | word.wrapping_add(EACH)) & HIGH_BITS
}

/// The same as [`mark_non_text`], for octets that are neither letter nor hyphen, which are rare in names.
#[inline]
fn mark_non_names(word: u64) -> u64 {
    let lower = word | (EACH * 0x20);
    let from_a = lower.wrapping_add(EACH * (0x80 - b'a') as u64);
    let beyond_z = lower.wrapping_add(EACH * (0x7f - b'z') as u64);
    let hyphen = HIGH_BITS.wrapping_sub(word ^ (EACH * b'-' as u64));
    (word | !(from_a & !beyond_z | hyphen)) & HIGH_BITS
}

/// One in each octet.
const EACH: u64 = u64::MAX / 0xff;
const HIGH_BITS: u64 = EACH * 0x80;

/// `head` with each octet changed, doubled by another or dropped, and cut before each.
#[cfg(test)]
pub(super) fn variations(head: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    const ODD: &[u8] = b"\0\t\n\r !-.0:;@AZ[^_`az{|~\x7f\x80\xc3\xa9\xff";
    (0..head.len()).flat_map(move |at| {
        let (before, rest) = head.split_at(at);
        let changed = ODD.iter().map(move |&odd| [before, &[odd], &rest[1..]].concat());
        let doubled = ODD.iter().map(move |&odd| [before, &[odd], rest].concat());
        changed.chain(doubled).chain([[before, &rest[1..]].concat(), before.to_vec()])
    })
}
