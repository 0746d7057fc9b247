//! What all heads have in common: field lines that end with CRLF (RFC 9112 §2.2, §5).

use httparse::Header;
use memchr::{memchr, memchr_iter, memmem};

use crate::memory::Span;
use crate::message::{Headers, NameHash, Version};
use crate::wire::{Limits, WireError};

/// How many fields are parsed without touching much of the stack. Few messages have more.
pub(super) const FIELDS_USUAL: usize = 64;
/// The most that [`Limits::fields_max`] and [`Limits::trailer_fields_max`] can allow.
pub(super) const FIELDS_CEILING: usize = 1024;

/// Notes the lines that httparse found in `section`, up to its end, and checks that each ends with CRLF.
#[inline]
pub(super) fn record(lines: &[Header<'_>], section: &[u8], into: &mut Headers) -> Result<(), WireError> {
    // A lone LF would do for a lenient reader. A proxy in front of us may disagree, and two readings of one stream
    // are how requests are smuggled (RFC 9112 §11.2).
    let mut ends_well = matches!(section, b"\r\n" | [.., b'\r', b'\n', b'\r', b'\n']);
    into.begin_received();
    for line in lines {
        let name = Span::from_slices(line.name.as_bytes(), section);
        ends_well &= matches!(section[..name.start()].last_chunk(), None | Some(b"\r\n"));
        into.push_received(NameHash::new(line.name.as_bytes()), name, Span::from_slices(line.value, section));
    }
    match ends_well {
        true => Ok(()),
        false => Err(WireError::LineEnd),
    }
}

/// Checks that an incomplete head is not yet too long, and has no line that ends wrong.
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

/// `input` up to the end of the head that begins at `start`, or all of it if the head does not end. So a copy of the head
/// does not include all that is pipelined behind it.
pub(super) fn first_head(input: &[u8], start: usize) -> &[u8] {
    const END: &[u8] = b"\r\n\r\n";
    memmem::find(&input[start..], END).map_or(input, |end| &input[..start + end + END.len()])
}

/// Judges `input`. If it is bad, the error is that of its shortest bad prefix: if two rules are broken, the one broken
/// first counts; otherwise the answer would depend on where packets end.
#[inline]
pub(super) fn with_earliest_error<T>(
    input: &[u8],
    mut parse: impl FnMut(&[u8]) -> Result<T, WireError>,
) -> Result<T, WireError> {
    match parse(input) {
        Err(error) => Err(first_error(input, error, parse)),
        good => good,
    }
}

/// Finds out why `input`, which is known to be bad, is bad.
#[cold]
#[inline(never)]
fn first_error<T>(
    input: &[u8],
    mut error: WireError,
    mut parse: impl FnMut(&[u8]) -> Result<T, WireError>,
) -> WireError {
    // A bad prefix stays bad, whatever follows it.
    let (mut good, mut bad) = (0, input.len());
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        match parse(&input[..middle]) {
            Ok(_) => good = middle,
            Err(earlier) => (bad, error) = (middle, earlier),
        }
    }
    error
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
