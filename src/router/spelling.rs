//! [`Spelling`]: how a path is spelled, and its normal form, by which two spellings of one path are recognized (RFC 3986
//! §6.2.2).
//!
//! In the normal form, only those octets are escaped that must be, in upper case. There are no segments `.` and `..`. Only the
//! last segment may be empty. Empty segments count because many programs skip them.

use crate::message::OctetSet;
use crate::message::text::percent;

/// How a path is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    Normal,
    /// With other escapes, or with empty segments. There are programs that tell such a path from its normal form.
    Other,
    /// With segments `.` or `..`, which clients resolve before they send a path (RFC 3986 §5.2.4).
    DotSegments,
}

impl Spelling {
    #[inline]
    pub(super) fn from_path(path: &str) -> Spelling {
        let mut before = 0;
        let is_plain = path.bytes().all(|octet| {
            let is_plain = PATH.contains(octet) && (before != b'/' || !matches!(octet, b'/' | b'.'));
            before = octet;
            is_plain
        });
        if is_plain { Spelling::Normal } else { Spelling::from_segments(path) }
    }

    fn from_segments(path: &str) -> Spelling {
        let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
        let mut spelling = Spelling::Normal;
        while let Some(segment) = segments.next() {
            if dots(segment).is_some() {
                return Spelling::DotSegments;
            }
            let is_skipped = segment.is_empty() && segments.peek().is_some();
            if is_skipped || !is_escaped_as_needed(segment) {
                spelling = Spelling::Other;
            }
        }
        spelling
    }
}

/// The normal form of a path. It begins with one slash.
pub(super) fn normal_form(path: &str) -> String {
    let mut normal = String::with_capacity(path.len());
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match dots(segment) {
            Some(Dots::Parent) => normal.truncate(normal.rfind('/').unwrap_or(0)),
            Some(Dots::Same) => {}
            None if segment.is_empty() => {}
            None => {
                normal.push('/');
                push_segment(segment, &mut normal);
                continue;
            }
        }
        if is_last {
            normal.push('/');
        }
    }
    normal
}

/// A segment that stands for another directory.
enum Dots {
    Same,
    Parent,
}

/// Reads `.` and `..`, however they are escaped.
fn dots(segment: &str) -> Option<Dots> {
    let mut rest = segment.as_bytes();
    let mut count = 0;
    while !rest.is_empty() && count < 3 {
        rest = match (rest, percent::decode_escape(rest)) {
            ([b'.', behind @ ..], _) | ([_, _, _, behind @ ..], Some(b'.')) => behind,
            _ => return None,
        };
        count += 1;
    }
    match count {
        1 => Some(Dots::Same),
        2 => Some(Dots::Parent),
        _ => None,
    }
}

/// Whether a segment is escaped as it is in the normal form. A `%` without digits stands for itself, and is escaped there,
/// as are the octets that user agents send though they are none of a URI: `|`, `[`, UTF-8 and others.
fn is_escaped_as_needed(segment: &str) -> bool {
    let mut rest = segment.as_bytes();
    while let [octet, behind @ ..] = rest {
        rest = match (percent::decode_escape(rest), rest) {
            (Some(octet), [_, high, low, behind @ ..]) if is_escape_needed(octet, [*high, *low]) => behind,
            (None, _) if SEGMENT.contains(*octet) => behind,
            _ => return false,
        };
    }
    true
}

/// Whether the normal form has the escape of `octet` with these digits.
fn is_escape_needed(octet: u8, digits: [u8; 2]) -> bool {
    !OctetSet::UNRESERVED.contains(octet) && !digits.iter().any(u8::is_ascii_lowercase)
}

fn push_segment(segment: &str, normal: &mut String) {
    let mut rest = segment.as_bytes();
    while let [octet, behind @ ..] = rest {
        rest = match percent::decode_escape(rest) {
            Some(octet) => {
                percent::encode(&[octet], &OctetSet::UNRESERVED, normal);
                &rest["%XX".len()..]
            }
            None => {
                percent::encode(&[*octet], &SEGMENT, normal);
                behind
            }
        };
    }
}

/// The octets of a segment that are not escaped.
static SEGMENT: OctetSet = OctetSet::PCHAR;

static PATH: OctetSet = OctetSet::PCHAR.with(b"/");

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, spelling: Spelling, normal: &str) {
        assert_eq!((Spelling::from_path(path), &*normal_form(path)), (spelling, normal), "{path}");
        assert_eq!(
            (Spelling::from_path(normal), &*normal_form(normal)),
            (Spelling::Normal, normal),
            "{path}"
        );
    }

    #[test]
    fn each_spelling_has_one_normal_form_rfc3986_6_2_2() {
        for path in
            ["/", "/a", "/a/", "/a/b.c", "/.well-known/x", "/...", "/a%20b", "/a%2Fb", "/%25", "/a/..b"]
        {
            check(path, Spelling::Normal, path);
        }
        check("//", Spelling::Other, "/");
        check("//a", Spelling::Other, "/a");
        check("/a//b///", Spelling::Other, "/a/b/");
        check("/%61", Spelling::Other, "/a");
        check("/%7ejoe", Spelling::Other, "/~joe");
        check("/a%2fb", Spelling::Other, "/a%2Fb");
        check("/%2541", Spelling::Normal, "/%2541");
        check("/%2%35", Spelling::Other, "/%2525");
        check("/a|b[c]", Spelling::Other, "/a%7Cb%5Bc%5D");
        check("/caf\u{e9}", Spelling::Other, "/caf%C3%A9");
        check("/\"<>^`{}", Spelling::Other, "/%22%3C%3E%5E%60%7B%7D");
        check("/a!$&'()*+,;=:@-._~", Spelling::Normal, "/a!$&'()*+,;=:@-._~");
        check("/a%21%3b", Spelling::Other, "/a%21%3B");
        check("/.", Spelling::DotSegments, "/");
        check("/a/.", Spelling::DotSegments, "/a/");
        check("/a/./b", Spelling::DotSegments, "/a/b");
        check("/a/..", Spelling::DotSegments, "/");
        check("/a/../b", Spelling::DotSegments, "/b");
        check("/../../b", Spelling::DotSegments, "/b");
        check("/a/%2e%2E/b", Spelling::DotSegments, "/b");
        check("/a//../b", Spelling::DotSegments, "/b");
        check("/a/.%2e", Spelling::DotSegments, "/");
    }

    #[test]
    fn a_malformed_escape_stands_for_itself() {
        for path in ["/%", "/%4", "/%zz", "/%%", "/a%/b"] {
            check(path, Spelling::Other, &path.replace('%', "%25"));
        }
    }
}
