//! [`PartHead`]: the fields of a part, and what they say about it (RFC 2046 §5.1, RFC 7578 §4).

use std::borrow::Cow;

use memchr::{memchr, memmem};

use super::MultipartError;
use super::disposition::Disposition;
use crate::message::Headers;
use crate::wire::WireDetail;

/// The head of a part. Its memory is used again for the next one.
#[derive(Default)]
pub(super) struct PartHead {
    pub(super) headers: Headers,
    pub(super) disposition: Disposition,
}

impl PartHead {
    /// Parses the lines of the head of part number `part`, each with its CRLF. A line may be folded (RFC 5322 §2.2.3).
    ///
    /// [`Headers`] refuses names that are not tokens, and with them whitespace around names; and values that contain CR,
    /// LF or another control character.
    pub(super) fn parse(
        &mut self,
        part: usize,
        mut lines: &[u8],
        fields_max: usize,
    ) -> Result<(), MultipartError> {
        let malformed = || MultipartError::PartHead(part);
        self.headers.clear();
        while !lines.is_empty() {
            let (line, rest) = unfolded(lines).ok_or_else(malformed)?;
            let colon = memchr(b':', &line).ok_or_else(malformed)?;
            let name = std::str::from_utf8(&line[..colon]).map_err(|_| malformed())?;
            if self.headers.len() == fields_max {
                let limit = WireDetail::limit("fields_max", "fields", fields_max as u64);
                return Err(MultipartError::PartHeadTooLarge(part, limit));
            }
            self.headers.append(name, &line[colon + 1..]).map_err(|_| malformed())?;
            lines = rest;
        }
        self.disposition = disposition(part, &self.headers)?;
        Ok(())
    }
}

/// The field at the front of `lines` without the ends of its lines, and what follows it. `None` if one of its lines has
/// nothing but whitespace: others could take that one for the end of the head.
fn unfolded(lines: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let (mut field, mut rest) = (Cow::Borrowed(&b""[..]), lines);
    loop {
        let (line, next) = rest.split_at(memmem::find(rest, b"\r\n")?);
        if line.trim_ascii().is_empty() {
            return None;
        }
        match rest.len() == lines.len() {
            true => field = Cow::Borrowed(line),
            false => field.to_mut().extend_from_slice(line),
        }
        rest = &next["\r\n".len()..];
        if !matches!(rest, [b' ' | b'\t', ..]) {
            return Some((field, rest));
        }
    }
}

/// Reads the only content disposition.
fn disposition(part: usize, headers: &Headers) -> Result<Disposition, MultipartError> {
    // Content in base64 or quoted-printable would be misread (RFC 7578 §4.7).
    let is_plain = |coding: &[u8]| PLAIN_CODINGS.iter().any(|plain| coding.eq_ignore_ascii_case(plain));
    if !headers.all("content-transfer-encoding").all(is_plain) {
        return Err(MultipartError::TransferEncoding(part));
    }
    let mut dispositions = headers.all("content-disposition");
    match (dispositions.next(), dispositions.next()) {
        (Some(disposition), None) => Disposition::parse(disposition).ok(),
        _ => None,
    }
    .ok_or(MultipartError::Disposition(part))
}

/// The transfer encodings that change nothing (RFC 2045 §6.2).
const PLAIN_CODINGS: &[&[u8]] = &[b"7bit", b"8bit", b"binary"];
