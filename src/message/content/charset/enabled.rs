//! The charsets of browsers, by the crate `encoding_rs` (WHATWG Encoding).

use std::borrow::Cow;

use encoding_rs::Encoding;

use super::invalid_charset::CharsetError;

/// Decodes `content` from the charset with this `label`, or that of its byte order mark.
pub(in crate::message) fn decode<'a>(label: &[u8], content: &'a [u8]) -> Result<Cow<'a, str>, CharsetError> {
    let encoding = Encoding::for_label(label).ok_or(UNKNOWN)?;
    let (encoding, mark_len) = Encoding::for_bom(content).unwrap_or((encoding, 0));
    let text = encoding.decode_without_bom_handling_and_without_replacement(&content[mark_len..]);
    text.ok_or(CharsetError::Malformed)
}

const UNKNOWN: CharsetError = CharsetError::Unknown("which is not known");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_other_charsets_is_decoded() {
        for (label, content, expected) in [
            ("ISO-8859-1", &b"caf\xe9"[..], Ok("café")),
            ("latin1", b"", Ok("")),
            ("us-ascii", b"a", Ok("a")),
            ("windows-1252", b"\x80", Ok("€")),
            ("Shift_JIS", b"\x93\xfa\x96\x7b", Ok("日本")),
            ("euc-kr", b"\xc7\xd1", Ok("한")),
            ("gb2312", b"\xd6\xd0", Ok("中")),
            ("koi8-r", b"\xcd", Ok("м")),
            ("utf-16le", b"a\0\xe9\0", Ok("aé")),
            ("utf-16be", b"\0a", Ok("a")),
            // A byte order mark takes precedence over the label.
            ("iso-8859-1", b"\xef\xbb\xbf\xc3\xa9", Ok("é")),
            ("utf-8", b"\xff\xfea\0", Ok("a")),
            ("iso-8859-1", b"\xfe\xff\0a", Ok("a")),
            ("Shift_JIS", b"\x93", Err(CharsetError::Malformed)),
            ("utf-8", b"\xe9", Err(CharsetError::Malformed)),
            ("utf-16le", b"a", Err(CharsetError::Malformed)),
            ("x-nothing", b"a", Err(UNKNOWN)),
            ("", b"a", Err(UNKNOWN)),
        ] {
            assert_eq!(decode(label.as_bytes(), content).as_deref(), expected.as_ref().copied(), "{label}");
        }
    }
}
