//! [`decode`] and [`encode`] for the octets `%XX` of a URI (RFC 3986 §2.1). [`encode_reference`] for a URI reference in
//! a field (RFC 3986 §4.1, RFC 9110 §10.2.2).

use std::borrow::Cow;
use std::string::FromUtf8Error;

use super::octet_set::{OctetSet, find_octet};

/// The octet that the escape at the front of `text` denotes, if there is one.
#[inline]
pub(crate) fn decode_escape(text: &[u8]) -> Option<u8> {
    match *text {
        [b'%', high, low, ..] => Some(hex_digit(high)? << 4 | hex_digit(low)?),
        _ => None,
    }
}

/// Decodes `text` once, without copying if it contains no escape. A malformed escape stands for itself.
#[inline]
pub(crate) fn decode(text: &str, plus: Plus) -> Result<Cow<'_, str>, FromUtf8Error> {
    let is_plain = match plus {
        Plus::Literal => find_octet(text.as_bytes(), b'%') == text.len(),
        Plus::Space => memchr::memchr2(b'%', b'+', text.as_bytes()).is_none(),
    };
    if is_plain { Ok(Cow::Borrowed(text)) } else { decode_escapes(text, plus) }
}

fn decode_escapes(text: &str, plus: Plus) -> Result<Cow<'_, str>, FromUtf8Error> {
    let mut decoded = Vec::with_capacity(text.len());
    decoded.extend(octets(text, plus));
    String::from_utf8(decoded).map(Cow::Owned)
}

/// The decoded octets of `text`, which is part of a URI and need not be UTF-8.
pub(crate) fn decode_octets(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    decoded.extend(octets(text, Plus::Literal));
    decoded
}

/// The decoded octets of `text`, one by one.
pub(crate) fn octets(text: &str, plus: Plus) -> impl Iterator<Item = u8> {
    let mut rest = text.as_bytes();
    std::iter::from_fn(move || {
        let (octet, used) = match (decode_escape(rest), *rest.first()?) {
            (Some(octet), _) => (octet, 3),
            (None, b'+') if plus == Plus::Space => (b' ', 1),
            (None, octet) => (octet, 1),
        };
        rest = &rest[used..];
        Some(octet)
    })
}

/// Whether each `%` is followed by two digits.
pub(crate) fn is_well_formed(text: &str) -> bool {
    let text = text.as_bytes();
    memchr::memchr_iter(b'%', text).all(|at| decode_escape(&text[at..]).is_some())
}

/// Appends `octets` to `text`, escaped except for those in `plain`, which is ASCII.
pub(crate) fn encode(octets: &[u8], plain: &OctetSet, text: &mut String) {
    debug_assert!(plain.is_ascii(), "octets beyond ASCII are not text by themselves");
    let digit = |half: u8| char::from(b"0123456789ABCDEF"[usize::from(half)]);
    for &octet in octets {
        match plain.contains(octet) {
            true => text.push(char::from(octet)),
            false => text.extend(['%', digit(octet >> 4), digit(octet & 15)]),
        }
    }
}

/// Escapes `octets` as one segment of a path (RFC 3986 §3.3), except for those that are unreserved.
pub(crate) fn encode_segment(octets: &[u8]) -> String {
    let mut segment = String::with_capacity(octets.len() + 8);
    encode(octets, &OctetSet::UNRESERVED, &mut segment);
    segment
}

/// As [`encode`], except that what is an escape already stays as it is. `plain` has no `%`.
pub(crate) fn encode_once(octets: &[u8], plain: &OctetSet, text: &mut String) {
    debug_assert!(!plain.contains(b'%'), "an escape is recognized as such");
    let mut rest = octets;
    while let Some((octet, behind)) = rest.split_first() {
        let kept = if decode_escape(rest).is_some() { "%XX".len() } else { plain.prefix_len(rest) };
        text.extend(rest[..kept].iter().copied().map(char::from));
        rest = match kept {
            0 => {
                encode(&[*octet], plain, text);
                behind
            }
            kept => &rest[kept..],
        };
    }
}

/// A reference in which all is escaped that no URI has: octets beyond ASCII, spaces, those at its ends included, quotation
/// marks, and a `%` without its digits. Escapes stay as they are, and so do `[` and `]`, which browsers do not escape either.
///
/// # Errors
///
/// Fails if browsers would read another reference. They drop tabs and ends of lines, and take a `\` for a `/`: in `/\a`,
/// and in `/a` with a tab after the slash, `a` is a host.
pub(crate) fn encode_reference(text: &str) -> Result<String, InvalidReference> {
    if text.chars().any(char::is_control) {
        return Err(InvalidReference::Control);
    }
    let (scheme, rest) = text.split_at(scheme_len(text));
    let (hierarchy, fragment) = match rest.split_once('#') {
        Some((hierarchy, fragment)) => (hierarchy, Some(fragment)),
        None => (rest, None),
    };
    let is_separated = hierarchy.starts_with('\\') || hierarchy.starts_with("/\\");
    let authority = hierarchy.strip_prefix("//").and_then(|rest| rest.split(['/', '?']).next());
    if is_separated || authority.is_some_and(|authority| authority.contains('\\')) {
        return Err(InvalidReference::Backslash);
    }
    let mut encoded = String::with_capacity(text.len());
    encoded.push_str(scheme);
    encode_once(hierarchy.as_bytes(), &PLAIN, &mut encoded);
    if let Some(fragment) = fragment {
        encoded.push('#');
        encode_once(fragment.as_bytes(), &PLAIN, &mut encoded);
    }
    Ok(encoded)
}

/// Why a text is no reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidReference {
    Control,
    Backslash,
}

/// The octets that need not be escaped in any part of a reference.
static PLAIN: OctetSet = OctetSet::PATH_AND_QUERY.without(b"%");

/// The length of a scheme with its colon; 0, if there is none (RFC 3986 §3.1).
fn scheme_len(text: &str) -> usize {
    static OCTET: OctetSet = OctetSet::ALPHANUMERIC.with(b"+-.");
    let is_scheme = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic()) && OCTET.contains_all(name.as_bytes())
    };
    text.find(':').filter(|colon| is_scheme(&text[..*colon])).map_or(0, |colon| colon + ":".len())
}

/// The meaning of a bare `+`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    /// Itself, as everywhere in a URI.
    Literal,
    /// A space, as in `application/x-www-form-urlencoded`.
    Space,
}

pub(crate) fn hex_digit(octet: u8) -> Option<u8> {
    char::from(octet).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(decode(text, Plus::Literal).as_deref(), Ok(expected));
    }

    #[test]
    fn escapes_are_decoded_once_rfc3986_2_4() {
        check("", "");
        check("plain", "plain");
        check("%41%7a", "Az");
        check("%e2%82%AC", "€");
        check("%2541", "%41");
        check("%00", "\0");
        check("a+b", "a+b");
        assert_eq!(decode("a+%2B", Plus::Space).as_deref(), Ok("a +"));
    }

    #[test]
    fn malformed_escapes_stand_for_themselves() {
        for text in ["%", "%4", "%%", "a%", "%4g", "%g4", "%+1", "%-1", "% 1", "%é", "%x41", "100%"] {
            check(text, text);
        }
        check("%%41", "%A");
        check("%4%41", "%4A");
    }

    #[test]
    fn octets_that_are_not_utf8_are_an_error() {
        for text in ["%ff", "%c3", "%c3%28", "%c0%af", "%ed%a0%80", "ok%80"] {
            assert!(decode(text, Plus::Literal).is_err(), "{text}");
        }
    }

    #[test]
    fn octets_outside_of_the_set_are_escaped_rfc3986_2_1() {
        let mut text = String::from("./");
        encode("a b/%\u{e9}:?~\0".as_bytes(), &OctetSet::UNRESERVED, &mut text);
        assert_eq!(text, "./a%20b%2F%25%C3%A9%3A%3F~%00");
        let octets = Vec::from_iter(0..=u8::MAX);
        text.clear();
        encode(&octets, &OctetSet::UNRESERVED, &mut text);
        assert!(super::octets(&text, Plus::Literal).eq(octets), "each comes back");
    }

    #[test]
    fn escapes_stay_as_they_are_rfc3986_2_4() {
        for (octets, expected) in [
            (&b""[..], ""),
            (b"plain", "plain"),
            (b"a%20b%2f%2F", "a%20b%2f%2F"),
            (b"%", "%25"),
            (b"100%", "100%25"),
            (b"%4", "%254"),
            (b"%4g%41", "%254g%41"),
            (b"%%41", "%25%41"),
            (b"a b\xe9\0", "a%20b%E9%00"),
            ("\u{e9}%".as_bytes(), "%C3%A9%25"),
        ] {
            let mut text = String::from("./");
            encode_once(octets, &OctetSet::UNRESERVED, &mut text);
            assert_eq!(text.strip_prefix("./"), Some(expected));
            let once = text.clone();
            text.clear();
            encode_once(once.as_bytes(), &OctetSet::UNRESERVED.with(b"/"), &mut text);
            assert_eq!(text, once, "nothing is left to be escaped");
        }
    }

    #[test]
    fn nothing_is_allocated_where_nothing_is_escaped() {
        assert!(matches!(decode("a+b", Plus::Literal), Ok(Cow::Borrowed("a+b"))));
        assert!(matches!(decode("ab", Plus::Space), Ok(Cow::Borrowed("ab"))));
    }
    #[test]
    fn octets_of_no_uri_are_escaped_rfc3986_2() {
        for (text, expected) in [
            ("", ""),
            ("/a/b?c=d&e[]=f#g", "/a/b?c=d&e[]=f#g"),
            ("/caf\u{e9}?q=\u{20ac}#\u{fc}", "/caf%C3%A9?q=%E2%82%AC#%C3%BC"),
            ("/a b\"<>^`{|}", "/a%20b%22%3C%3E%5E%60%7B%7C%7D"),
            (" /a ", "%20/a%20"),
            (" //evil.example", "%20//evil.example"),
            (" /\\evil.example", "%20/%5Cevil.example"),
            (" https://evil.example", "%20https://evil.example"),
            ("/a%20b%2fc", "/a%20b%2fc"),
            ("/100%", "/100%25"),
            ("/%4g", "/%254g"),
            ("/a#b#c", "/a#b%23c"),
            ("/a\\b", "/a%5Cb"),
            ("a\\b", "a%5Cb"),
            ("/?a\\b", "/?a%5Cb"),
            ("../\u{e9}", "../%C3%A9"),
            ("?page=2", "?page=2"),
            ("//a.example/b", "//a.example/b"),
            ("https://[::1]:8443/\u{e9}", "https://[::1]:8443/%C3%A9"),
            ("https://b\u{fc}cher.example", "https://b%C3%BCcher.example"),
            ("https://a/\\b", "https://a/%5Cb"),
            ("mailto:a@b.example", "mailto:a@b.example"),
        ] {
            assert_eq!(encode_reference(text).as_deref(), Ok(expected), "{text}");
            assert_eq!(encode_reference(expected).as_deref(), Ok(expected), "nothing is left to be escaped");
        }
    }

    #[test]
    fn a_reference_that_browsers_read_otherwise_is_refused() {
        use InvalidReference::{Backslash, Control};
        for (text, expected) in [
            ("/\t/evil.example", Control),
            ("\t//evil.example", Control),
            ("/a\r\nset-cookie: a=b", Control),
            ("/\n/evil.example", Control),
            ("/\0", Control),
            ("/\x7f", Control),
            ("/\u{9b}", Control),
            ("/\\evil.example", Backslash),
            ("\\/evil.example", Backslash),
            ("\\\\evil.example", Backslash),
            ("\\evil", Backslash),
            ("https:\\\\evil.example", Backslash),
            ("https:/\\evil.example", Backslash),
            ("//a.example\\@evil.example", Backslash),
            ("https://a.example\\.evil.example/", Backslash),
        ] {
            assert_eq!(encode_reference(text), Err(expected), "{text:?}");
        }
    }
}
