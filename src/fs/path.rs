//! [`RelativePath`]: a path that cannot leave the directory it is looked up in (RFC 3986 §3.3, §5.2.4).

use std::borrow::Cow;

use memchr::{memchr, memmem};

#[cfg(windows)]
use crate::message::is_file_name;
use crate::message::text::percent;

/// A path below a root: names separated by one `/`, decoded once. The path of the root itself is empty. A path that
/// ends with a `/`, or is empty, denotes a directory.
///
/// No name is `.` or `..`, none is empty, and none contains an octet that the system could interpret: NUL, and on
/// Windows all that is special there, such as a backslash. Elsewhere a name is any octets, and need not be text.
/// [`RelativePath::new`] is the only way to make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RelativePath<'a>(Cow<'a, [u8]>);

impl<'a> RelativePath<'a> {
    /// Checks a path, which is not decoded any further.
    pub(super) fn new(path: impl Into<Cow<'a, [u8]>>) -> Option<RelativePath<'a>> {
        let path = path.into();
        let names = path.strip_suffix(b"/").unwrap_or(&path);
        let is_fit = path.is_empty() || names.split(|octet| *octet == b'/').all(is_valid_name);
        is_fit.then_some(RelativePath(path))
    }

    /// A copy that owns its octets.
    pub(super) fn to_owned(&self) -> RelativePath<'static> {
        RelativePath(Cow::Owned(self.0.clone().into_owned()))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path without the `/` at its end.
    pub(super) fn without_trailing_slash(&self) -> &[u8] {
        self.0.strip_suffix(b"/").unwrap_or(&self.0)
    }

    /// Whether the path denotes a directory.
    pub(super) fn is_directory(&self) -> bool {
        self.0.is_empty() || self.0.ends_with(b"/")
    }

    /// Whether a name in the path begins with a dot.
    pub(super) fn is_dotted(&self) -> bool {
        self.0.starts_with(b".") || memmem::find(&self.0, b"/.").is_some()
    }
}

/// How symbolic links are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    Refused,
    /// Followed as long as they stay below the root.
    Followed,
}

/// The path of a target, or the part of it below a mount, without its first `/`, decoded once. [`RelativePath::new`]
/// must still check the path.
///
/// An escaped `/` would be part of a name, and no name has one.
pub(super) fn decode_path(path: &str) -> Option<Cow<'_, [u8]>> {
    let raw = path.strip_prefix('/')?;
    if memchr(b'%', raw.as_bytes()).is_none() {
        return Some(Cow::Borrowed(raw.as_bytes()));
    }
    let decoded = percent::decode_octets(raw);
    let slashes = |path: &[u8]| path.iter().filter(|octet| **octet == b'/').count();
    (slashes(&decoded) == slashes(raw.as_bytes())).then_some(Cow::Owned(decoded))
}

/// The rest of a path after `prefix`, which consists of whole names.
pub(super) fn strip_prefix<'a>(path: Cow<'a, [u8]>, prefix: &str) -> Option<Cow<'a, [u8]>> {
    debug_assert!(!prefix.starts_with('/') && !prefix.ends_with('/'), "a prefix has no `/` at either end");
    if prefix.is_empty() {
        return Some(path);
    }
    let len = path.len() - path.strip_prefix(prefix.as_bytes())?.strip_prefix(b"/")?.len();
    Some(match path {
        Cow::Borrowed(path) => Cow::Borrowed(&path[len..]),
        Cow::Owned(path) => Cow::Owned(path[len..].to_owned()),
    })
}

/// The path of `name` in a directory.
pub(super) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    debug_assert!(!directory.ends_with(b"/") && !name.contains(&b'/'), "one `/` separates two names");
    if directory.is_empty() { name.to_owned() } else { [directory, b"/", name].concat() }
}

/// Whether a file may be requested by this name.
#[cfg(not(windows))]
pub(super) fn is_valid_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|octet| matches!(octet, 0 | b'/'))
}

/// Whether a file may be requested by this name. A name with a `~` may be the short name (8.3) of another file, even of
/// a hidden one.
#[cfg(windows)]
pub(super) fn is_valid_name(name: &[u8]) -> bool {
    str::from_utf8(name).is_ok_and(|name| is_file_name(name) && !name.contains('~'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Method, Target};

    #[track_caller]
    fn check(path: &str, expected: Option<&str>) {
        check_octets(path, expected.map(str::as_bytes));
    }

    #[track_caller]
    fn check_octets(path: &str, expected: Option<&[u8]>) {
        // Parsed as received: `Request::get` would remove dot segments.
        let mut target = Target::default();
        target.parse(&Method::Get, path).unwrap();
        let found = decode_path(target.path()).and_then(RelativePath::new);
        assert_eq!(found.as_ref().map(RelativePath::as_bytes), expected, "{path}");
    }

    #[test]
    fn paths_are_decoded_once() {
        check("/", Some(""));
        check("/a", Some("a"));
        check("/a/", Some("a/"));
        check("/a/b.txt?q", Some("a/b.txt"));
        check("/a%20b/%c3%a9", Some("a b/é"));
        check("/%2561", Some("%61"));
        check("/%252e%252e/", Some("%2e%2e/"));
        check("/%252fa", Some("%2fa"));
        check("/PROGRA~1", (!cfg!(windows)).then_some("PROGRA~1"));
        // Windows ignores dots at the end of a name.
        check("/...", (!cfg!(windows)).then_some("..."));
        check("/..a/a..", (!cfg!(windows)).then_some("..a/a.."));
        check("/100%", Some("100%"));
        check("http://host/a", Some("a"));
        check("http://host", Some(""));
    }

    #[test]
    fn nothing_leads_out_of_the_root() {
        let bad = [
            "/..",
            "/../",
            "/../a",
            "/a/..",
            "/a/../",
            "/a/../../x",
            "/.",
            "/./a",
            "/a/.",
            "/%2e%2e/",
            "/%2E%2e",
            "/.%2e/a",
            "/%2e./a",
            "/..%2f..%2fetc/passwd",
            "/a%2fb",
            "/%2f",
            "/%2fetc/passwd",
            "/%00",
            "/a%00.txt",
            "//",
            "//a",
            "/a//b",
            "/a//",
            "//etc/passwd",
        ];
        bad.iter().for_each(|path| check(path, None));
    }

    /// On Unix these are names like any other: `%c0%ae` is no dot, and `%c0%af` no slash, to anything that reads them.
    #[test]
    fn octets_that_only_windows_interprets_are_names_elsewhere() {
        let rows: [(&str, &[u8]); 10] = [
            ("/..%5c..%5cx", b"..\\..\\x"),
            ("/..%5C", b"..\\"),
            ("/a%5cb", b"a\\b"),
            ("/%5c", b"\\"),
            ("/a%0a", b"a\n"),
            ("/a%7f", b"a\x7f"),
            ("/%ff", b"\xff"),
            ("/a/%c0%ae%c0%ae/", b"a/\xc0\xae\xc0\xae/"),
            ("/%c0%af", b"\xc0\xaf"),
            ("/%ed%a0%80", b"\xed\xa0\x80"),
        ];
        rows.iter().for_each(|(path, name)| check_octets(path, (!cfg!(windows)).then_some(*name)));
    }

    #[test]
    fn a_target_without_a_path_has_no_file() {
        for (method, target) in [("OPTIONS", "*"), ("CONNECT", "a:1")] {
            let mut parsed = Target::default();
            parsed.parse(&method.try_into().unwrap(), target).unwrap();
            assert_eq!(decode_path(parsed.path()), None);
        }
    }

    #[test]
    fn a_prefix_ends_with_a_whole_name() {
        let strip = |path: &'static str, prefix| strip_prefix(path.as_bytes().into(), prefix);
        for (path, left) in [("a/b", "b"), ("a/", ""), ("a/b/", "b/"), ("a//b", "/b")] {
            assert_eq!(strip(path, "a").as_deref(), Some(left.as_bytes()), "{path}");
        }
        assert_eq!(strip("x", "").as_deref(), Some(&b"x"[..]));
        for path in ["a", "ab", "ab/c", "b/a", "", "/a/b"] {
            assert_eq!(strip(path, "a"), None, "{path}");
        }
    }
}
