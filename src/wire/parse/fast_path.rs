//! The fast path: heads as nearly all peers write them, read in one pass (RFC 9112 §2.1, §3, §5).
//!
//! The functions here refuse nothing. A head that is unusual, malformed or incomplete, or whose target is not a path,
//! is left to httparse, which returns the error.

use wide::{i8x16, u8x16};

use crate::memory::Span;
use crate::message::{Headers, Method, NameHash, Request, Status, Version, decimal, is_token, token_len};

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
            let (token, rest) = head.split_at_checked(token_len(head))?;
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
    let rest = &reason[reason.iter().position(|octet| !matches!(octet, b' '..=b'~'))?..];
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
    if head[start..].starts_with(b"\r\n") {
        return Some(start + "\r\n".len());
    }
    let (mut ends, mut start) = (LineEnds::new(head, start), start);
    loop {
        let (colon, end) = ends.next()?;
        let (name, value) = (head.get(start..colon)?, head.get(colon + ": ".len()..end)?);
        // Whitespace around the value, beyond the one space before it, is not part of it.
        let is_trimmed = !matches!(value, [b' ', ..] | [.., b' ']);
        if head[colon + 1] != b' '
            || !is_trimmed
            || into.len() == fields_max
            || !is_name(name, &head[start..])
        {
            return None;
        }
        into.push_spans(NameHash::new(name), Span::from_slices(name, head), Span::from_slices(value, head));
        // The octets are compared as a whole, since a pattern would be compared octet by octet.
        match head[end..].first_chunk()? {
            line_ends if line_ends == b"\r\n\r\n" => return Some(end + line_ends.len()),
            line_ends if line_ends.starts_with(b"\r\n") => start = end + "\r\n".len(),
            _ => return None,
        }
    }
}

/// Whether `name`, at the front of `line`, is a token.
#[inline]
fn is_name(name: &[u8], line: &[u8]) -> bool {
    match line.first_chunk() {
        Some(block) if letters(block) == name.len() => !name.is_empty(),
        _ => is_unusual_name(name),
    }
}

/// Few names are long, or have other octets than letters and hyphens.
#[inline(never)]
fn is_unusual_name(name: &[u8]) -> bool {
    is_token(name)
}

/// The places in a text where names and lines end. Colons and ends are looked for in 64 octets at once, before any of
/// their places is needed: a search from each place for the next one would wait each time until the last one is known.
struct LineEnds<'t> {
    text: &'t [u8],
    /// The place of the first octet that the marks stand for.
    start: usize,
    marks: Marks,
}

impl<'t> LineEnds<'t> {
    /// The ends behind `start`.
    #[inline]
    fn new(text: &'t [u8], start: usize) -> LineEnds<'t> {
        LineEnds { text, start, marks: Marks::from_text(text, start) }
    }

    /// The places of the next colon, and of the next octet behind it that is not printable.
    #[inline]
    fn next(&mut self) -> Option<(usize, usize)> {
        while self.marks.colons == 0 {
            self.go_on()?;
        }
        let bit = self.marks.colons.trailing_zeros();
        let colon = self.start + bit as usize;
        self.marks.non_text &= !1 << bit;
        while self.marks.non_text == 0 {
            self.go_on()?;
        }
        let bit = self.marks.non_text.trailing_zeros();
        self.marks.colons &= !1 << bit;
        Some((colon, self.start + bit as usize))
    }

    /// Marks the next octets. `None` at the end of the text.
    #[inline]
    fn go_on(&mut self) -> Option<()> {
        self.start += MARKED;
        self.marks = Marks::from_text(self.text, self.start);
        (self.start < self.text.len()).then_some(())
    }
}

/// The kinds of 64 octets: a bit for each, the lowest for the first.
#[derive(Clone, Copy, Default)]
struct Marks {
    colons: u64,
    /// Octets that are not printable ASCII.
    non_text: u64,
}

impl Marks {
    /// The marks of the octets from `start` on, if there are that many.
    // Not inlined, since it would be in three places.
    #[inline(never)]
    fn from_text(text: &[u8], start: usize) -> Marks {
        let rest = text.get(start..).unwrap_or_default();
        match rest.first_chunk::<MARKED>() {
            // The compiler unrolls a loop of a constant length.
            Some(octets) => Marks::from_blocks(octets.as_chunks().0),
            None => {
                let (blocks, tail) = rest.as_chunks();
                let marks = Marks::from_blocks(blocks);
                // The last block of the text begins with octets that are marked already. A text that is shorter than a
                // block is no head.
                let last = text.last_chunk().map(Marks::from_block).unwrap_or_default();
                let shift = |bits: u64| bits << tail.len() >> BLOCK_LEN << (blocks.len() * BLOCK_LEN);
                Marks {
                    colons: marks.colons | shift(last.colons),
                    non_text: marks.non_text | shift(last.non_text),
                }
            }
        }
    }

    #[inline(always)]
    fn from_blocks(blocks: &[[u8; BLOCK_LEN]]) -> Marks {
        blocks.iter().enumerate().fold(Marks::default(), |marks, (at, block)| {
            let next = Marks::from_block(block);
            Marks {
                colons: marks.colons | next.colons << (at * BLOCK_LEN),
                non_text: marks.non_text | next.non_text << (at * BLOCK_LEN),
            }
        })
    }

    #[inline(always)]
    fn from_block(block: &[u8; BLOCK_LEN]) -> Marks {
        // As signed numbers, octets beyond ASCII are below control characters.
        let block = i8x16::new(block.map(|octet| octet as i8));
        let is_non_text = block.simd_lt(i8x16::splat(0x20)) | block.simd_eq(i8x16::splat(0x7f));
        let is_colon = block.simd_eq(i8x16::splat(b':' as i8));
        Marks { colons: is_colon.to_bitmask().into(), non_text: is_non_text.to_bitmask().into() }
    }
}

/// How many octets have marks at once.
const MARKED: usize = u64::BITS as usize;
/// How many octets the processor compares at once.
const BLOCK_LEN: usize = 16;

/// How many octets at the front of a block are letters or hyphens, as all are in most names.
#[inline]
fn letters(block: &[u8; BLOCK_LEN]) -> usize {
    let block = u8x16::new(*block);
    let from_a = (block | u8x16::splat(0x20)) - u8x16::splat(b'a');
    let is_letter = from_a.min(u8x16::splat(b'z' - b'a')).simd_eq(from_a);
    (is_letter | block.simd_eq(u8x16::splat(b'-'))).to_bitmask().trailing_ones() as usize
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The same as [`LineEnds::next`], octet by octet.
    fn next(text: &[u8], from: usize) -> Option<(usize, usize)> {
        let colon = from + text.get(from..)?.iter().position(|octet| *octet == b':')?;
        let end = text[colon + 1..].iter().position(|octet| !matches!(octet, b' '..=b'~'))?;
        Some((colon, colon + 1 + end))
    }

    #[test]
    fn lines_are_found_wherever_they_stand() {
        const OCTETS: &[u8] = b": ~ax-AZ09: ~ax-AZ09: ~ax-AZ09: ~ax-AZ09: ~ax-AZ09\t\r\n\x00\x1f\x7f\x80\xff";
        let (mut random, mut found) = (1_u64, 0);
        for len in (16..400).flat_map(|len| [len; 20]) {
            let octet = |_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                OCTETS[(random >> 33) as usize % OCTETS.len()]
            };
            let text = Vec::from_iter((0..len).map(octet));
            let mut from = len % 16;
            let mut ends = LineEnds::new(&text, from);
            while let Some((colon, end)) = ends.next() {
                assert_eq!(next(&text, from), Some((colon, end)), "{}", text.escape_ascii());
                (from, found) = (end + 1, found + 1);
            }
            assert_eq!(next(&text, from), None, "{}", text.escape_ascii());
        }
        assert!(found > 10_000, "{found} lines");
    }

    #[test]
    fn letters_and_hyphens_are_counted_up_to_any_other_octet() {
        for octet in 0..=u8::MAX {
            let is_letter = octet.is_ascii_alphabetic() || octet == b'-';
            for at in 0..BLOCK_LEN {
                let mut block = *b"Sec-ch-UA-azAZ-x";
                block[at] = octet;
                assert_eq!(letters(&block), if is_letter { BLOCK_LEN } else { at }, "{octet:#x} at {at}");
            }
        }
    }
}
