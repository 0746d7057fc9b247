//! [`Spelling`]: how a path is spelled, and its normal form, by which two spellings of one path are recognized (RFC 3986
//! §6.2.2).
//!
//! In the normal form, no octet is escaped that need not be, escapes are in upper case, and there are no segments `.` and
//! `..`, and no empty ones but at the end. Empty segments count because many programs skip them.

use crate::message::{OctetSet, percent};

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
            let is_plain = octet != b'%' && (before != b'/' || !matches!(octet, b'/' | b'.'));
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
            if is_skipped || !has_needed_escapes(segment) {
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

/// Whether each escape in a segment is one that the normal form has. A `%` without digits stands for itself, and is
/// escaped there.
fn has_needed_escapes(segment: &str) -> bool {
    let text = segment.as_bytes();
    memchr::memchr_iter(b'%', text).all(|at| match percent::decode_escape(&text[at..]) {
        Some(octet) => {
            let is_upper = !text[at + 1..at + 3].iter().any(u8::is_ascii_lowercase);
            is_upper && !OctetSet::UNRESERVED.contains(octet)
        }
        None => false,
    })
}

fn push_segment(segment: &str, normal: &mut String) {
    let mut rest = segment;
    while let Some(at) = rest.find('%') {
        let (before, escape) = rest.split_at(at);
        normal.push_str(before);
        let taken = match percent::decode_escape(escape.as_bytes()) {
            Some(octet) if OctetSet::UNRESERVED.contains(octet) => {
                normal.push(char::from(octet));
                3
            }
            Some(_) => {
                normal.extend(escape.chars().take(3).map(|digit| digit.to_ascii_uppercase()));
                3
            }
            None => {
                normal.push_str("%25");
                1
            }
        };
        rest = &escape[taken..];
    }
    normal.push_str(rest);
}

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
