//! The fast path: heads as nearly all peers write them, read in one pass (RFC 9112 §2.1, §3, §5).
//!
//! The functions here refuse nothing. A head that is unusual, malformed or incomplete, or whose target is not a path,
//! is left to httparse, which returns the error.

use wide::{i8x16, u8x16};

use crate::memory::Span;
use crate::message::{
    HeadersDraft, Method, NameHash, RequestLineDraft, Status, Version, decimal, is_token, token_len,
};

/// Reads the request line at the front of `head` into `line`, if its target is a path. Returns its length, including
/// CRLF.
#[inline]
pub(super) fn request_line(head: &[u8], line: &mut RequestLineDraft<'_>) -> Option<usize> {
    let RequestLineDraft { method, target, version } = line;
    let rest = match head.strip_prefix(b"GET ") {
        // Most requests are GET.
        Some(rest) => {
            **method = Method::Get;
            rest
        }
        None => {
            let (token, rest) = head.split_at_checked(token_len(head))?;
            let rest = rest.strip_prefix(b" ")?;
            method.set(token).ok()?;
            // A tunnel leads to a host and a port, and never to a path (RFC 9112 §3.2.3).
            if **method == Method::Connect {
                return None;
            }
            rest
        }
    };
    let rest = &rest[target.take_origin_form(rest)?..];
    // The version is compared as a whole, since a pattern would be compared octet by octet.
    **version = match rest.first_chunk::<VERSION_LEN>()? {
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
pub(super) fn fields(
    head: &[u8],
    start: usize,
    fields_max: usize,
    into: &mut HeadersDraft<'_>,
) -> Option<usize> {
    into.restart();
    // The head is cut to the length that spans can address, which then need not be checked for each span.
    let head = &head[..head.len().min(u32::MAX as usize)];
    if head[start..].starts_with(b"\r\n") {
        return Some(start + "\r\n".len());
    }
    let (mut scanner, mut start) = (FieldScanner::new(head, start), start);
    loop {
        let (colon, end) = scanner.next_line()?;
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
        into.push(NameHash::new(name), Span::from_slices(name, head), Span::from_slices(value, head));
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
        Some(block) if plain_name_len(block) == name.len() => !name.is_empty(),
        _ => is_other_token(name),
    }
}

/// As [`is_token`]. Not inlined, since few names are long or have other octets.
#[inline(never)]
fn is_other_token(name: &[u8]) -> bool {
    is_token(name)
}

/// Finds the colon and the end of one field line after another. Both are looked up in masks of 64 octets, which are made
/// before a place is needed: a search that began where the last one ended would wait for its result.
struct FieldScanner<'t> {
    text: &'t [u8],
    /// The place of the first octet of the masks.
    start: usize,
    masks: Masks,
}

impl<'t> FieldScanner<'t> {
    /// Begins with the line at `start`.
    #[inline]
    fn new(text: &'t [u8], start: usize) -> FieldScanner<'t> {
        FieldScanner { text, start, masks: Masks::from_text(text, start) }
    }

    /// The places of the next colon, and of the next octet behind it that is not printable.
    #[inline]
    fn next_line(&mut self) -> Option<(usize, usize)> {
        while self.masks.colons == 0 {
            self.advance()?;
        }
        let bit = self.masks.colons.trailing_zeros();
        let colon = self.start + bit as usize;
        self.masks.non_printable &= !1 << bit;
        while self.masks.non_printable == 0 {
            self.advance()?;
        }
        let bit = self.masks.non_printable.trailing_zeros();
        self.masks.colons &= !1 << bit;
        Some((colon, self.start + bit as usize))
    }

    /// Moves on to the next 64 octets. `None` at the end of the text.
    #[inline]
    fn advance(&mut self) -> Option<()> {
        self.start += MASK_LEN;
        self.masks = Masks::from_text(self.text, self.start);
        (self.start < self.text.len()).then_some(())
    }
}

/// A bit for each of 64 octets, the lowest for the first: whether it is of a kind.
#[derive(Clone, Copy, Default)]
struct Masks {
    colons: u64,
    /// Octets other than printable ASCII.
    non_printable: u64,
}

impl Masks {
    /// The masks of the 64 octets from `start` on, or of as many as there are.
    // Not inlined, since it has three callers.
    #[inline(never)]
    fn from_text(text: &[u8], start: usize) -> Masks {
        let rest = text.get(start..).unwrap_or_default();
        match rest.first_chunk::<MASK_LEN>() {
            // The compiler unrolls a loop of a constant length.
            Some(octets) => Masks::from_blocks(octets.as_chunks().0),
            None => {
                let (blocks, tail) = rest.as_chunks();
                let masks = Masks::from_blocks(blocks);
                // The last octets of the text fill a vector as well; it begins with some that are in `blocks` already, which
                // are shifted out. A text that is shorter than a vector is no head.
                let last = text.last_chunk().map(Masks::from_block).unwrap_or_default();
                let shift = |bits: u64| bits << tail.len() >> VECTOR_LEN << (blocks.len() * VECTOR_LEN);
                Masks {
                    colons: masks.colons | shift(last.colons),
                    non_printable: masks.non_printable | shift(last.non_printable),
                }
            }
        }
    }

    #[inline(always)]
    fn from_blocks(blocks: &[[u8; VECTOR_LEN]]) -> Masks {
        blocks.iter().enumerate().fold(Masks::default(), |masks, (at, block)| {
            let next = Masks::from_block(block);
            Masks {
                colons: masks.colons | next.colons << (at * VECTOR_LEN),
                non_printable: masks.non_printable | next.non_printable << (at * VECTOR_LEN),
            }
        })
    }

    #[inline(always)]
    fn from_block(block: &[u8; VECTOR_LEN]) -> Masks {
        // As signed numbers, octets beyond ASCII are below control characters.
        let block = i8x16::new(block.map(|octet| octet as i8));
        let is_non_printable = block.simd_lt(i8x16::splat(0x20)) | block.simd_eq(i8x16::splat(0x7f));
        let is_colon = block.simd_eq(i8x16::splat(b':' as i8));
        Masks { colons: is_colon.to_bitmask().into(), non_printable: is_non_printable.to_bitmask().into() }
    }
}

/// How many octets the masks describe.
const MASK_LEN: usize = u64::BITS as usize;
/// How many octets a vector holds, which are compared at once.
const VECTOR_LEN: usize = 16;

/// How many octets at the front of a block are letters, digits or hyphens, as all are in most names.
#[inline]
fn plain_name_len(block: &[u8; VECTOR_LEN]) -> usize {
    let block = u8x16::new(*block);
    let from_a = (block | u8x16::splat(0x20)) - u8x16::splat(b'a');
    let is_letter = from_a.min(u8x16::splat(b'z' - b'a')).simd_eq(from_a);
    let from_0 = block - u8x16::splat(b'0');
    let is_digit = from_0.min(u8x16::splat(9)).simd_eq(from_0);
    (is_letter | is_digit | block.simd_eq(u8x16::splat(b'-'))).to_bitmask().trailing_ones() as usize
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

    /// The same as [`FieldScanner::next_line`], octet by octet.
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
            let mut scanner = FieldScanner::new(&text, from);
            while let Some((colon, end)) = scanner.next_line() {
                assert_eq!(next(&text, from), Some((colon, end)), "{}", text.escape_ascii());
                (from, found) = (end + 1, found + 1);
            }
            assert_eq!(next(&text, from), None, "{}", text.escape_ascii());
        }
        assert!(found > 10_000, "{found} lines");
    }

    #[test]
    fn octets_of_a_plain_name_are_counted_up_to_any_other() {
        for octet in 0..=u8::MAX {
            let is_plain = octet.is_ascii_alphanumeric() || octet == b'-';
            for at in 0..VECTOR_LEN {
                let mut block = *b"Sec-ch-UA-azAZ09";
                block[at] = octet;
                assert_eq!(
                    plain_name_len(&block),
                    if is_plain { VECTOR_LEN } else { at },
                    "{octet:#x} at {at}"
                );
            }
        }
    }
}
