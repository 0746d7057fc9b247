//! UTF-8 only.

use std::borrow::Cow;

use super::invalid_charset::CharsetError;

/// Checks `content`, if its charset is UTF-8, or ASCII, which is a part of it.
pub(in crate::message) fn decode<'a>(label: &[u8], content: &'a [u8]) -> Result<Cow<'a, str>, CharsetError> {
    let is = |names: &[&str]| names.iter().any(|name| label.eq_ignore_ascii_case(name.as_bytes()));
    let is_utf8 = is(&["utf-8", "utf8"]) || (is(&["us-ascii", "ascii"]) && content.is_ascii());
    if !is_utf8 {
        return Err(UNKNOWN);
    }
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    str::from_utf8(content).map(Cow::Borrowed).map_err(|_| CharsetError::Malformed)
}

const UNKNOWN: CharsetError = CharsetError::Unknown("and this crate was built without its feature `charset`");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_utf8_is_decoded() {
        for (label, content, expected) in [
            ("UTF-8", &b"caf\xc3\xa9"[..], Ok("café")),
            ("utf8", b"\xef\xbb\xbfa", Ok("a")),
            ("us-ascii", b"a", Ok("a")),
            ("us-ascii", b"\xe9", Err(UNKNOWN)),
            ("utf-8", b"\xe9", Err(CharsetError::Malformed)),
            ("iso-8859-1", b"a", Err(UNKNOWN)),
            ("utf-16", b"a\0", Err(UNKNOWN)),
            ("", b"", Err(UNKNOWN)),
        ] {
            assert_eq!(decode(label.as_bytes(), content).as_deref(), expected.as_ref().copied(), "{label}");
        }
    }
}
