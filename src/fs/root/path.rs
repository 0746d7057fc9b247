//! [`Below`]: a path that cannot leave the directory it is looked up in (RFC 3986 §3.3, §5.2.4).

use std::borrow::Cow;

use memchr::memchr;

use crate::message::{Target, is_file_name};

/// A path below a root: names separated by one `/`, decoded once. The path of the root itself is empty. A path that
/// ends with a `/`, or is empty, denotes a directory.
///
/// No name is `.` or `..`, none is empty, and none contains a byte that some system could interpret: a control
/// character such as NUL, or a backslash. [`Below::new`] is the only way to make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fs) struct Below<'a>(Cow<'a, str>);

impl<'a> Below<'a> {
    /// Checks a path, in which nothing is decoded.
    pub(in crate::fs) fn new(path: impl Into<Cow<'a, str>>) -> Option<Below<'a>> {
        let path = path.into();
        let names = path.strip_suffix('/').unwrap_or(&path);
        let is_fit = path.is_empty() || names.split('/').all(is_name);
        is_fit.then_some(Below(path))
    }

    /// A copy that owns its text.
    pub(in crate::fs) fn to_owned(&self) -> Below<'static> {
        Below(Cow::Owned(self.0.clone().into_owned()))
    }

    pub(in crate::fs) fn as_str(&self) -> &str {
        &self.0
    }

    /// The path without the `/` at its end.
    pub(in crate::fs) fn name(&self) -> &str {
        self.0.strip_suffix('/').unwrap_or(&self.0)
    }

    /// Whether it denotes a directory.
    pub(in crate::fs) fn is_directory(&self) -> bool {
        self.0.is_empty() || self.0.ends_with('/')
    }

    /// Whether a name in it begins with a dot.
    pub(in crate::fs) fn is_dotted(&self) -> bool {
        self.0.starts_with('.') || self.0.contains("/.")
    }
}

/// The path of a target, without its first `/`, decoded once. It must still be checked by [`Below::new`].
///
/// An escaped `/` would be part of a name, and no name has one.
pub(in crate::fs) fn decode(target: &Target) -> Option<Cow<'_, str>> {
    let raw = target.path().strip_prefix('/')?;
    if memchr(b'%', raw.as_bytes()).is_none() {
        return Some(Cow::Borrowed(raw));
    }
    let mut decoded = String::with_capacity(raw.len());
    for (index, segment) in target.segments().enumerate() {
        let segment = segment.ok().filter(|segment| !segment.contains('/'))?;
        if index > 0 {
            decoded.push('/');
        }
        decoded.push_str(&segment);
    }
    Some(Cow::Owned(decoded))
}

/// What remains of a path after `prefix`, which consists of whole names.
pub(in crate::fs) fn strip_prefix<'a>(path: Cow<'a, str>, prefix: &str) -> Option<Cow<'a, str>> {
    if prefix.is_empty() {
        return Some(path);
    }
    let len = path.len() - path.strip_prefix(prefix)?.strip_prefix('/')?.len();
    Some(match path {
        Cow::Borrowed(path) => Cow::Borrowed(&path[len..]),
        Cow::Owned(path) => Cow::Owned(path[len..].to_owned()),
    })
}

/// Whether a file may be asked for by this name. On Windows one with a `~` may be a second name of a file, even of one
/// that is hidden.
pub(in crate::fs) fn is_name(name: &str) -> bool {
    is_file_name(name) && !(cfg!(windows) && name.contains('~'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Request;

    #[track_caller]
    fn check(path: &str, expected: Option<&str>) {
        let request = Request::get(path).unwrap();
        let found = decode(request.target()).and_then(Below::new);
        assert_eq!(found.as_ref().map(Below::as_str), expected, "{path}");
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
            "/..%5c..%5cx",
            "/..%5C",
            "/a%5cb",
            "/%5c",
            "/%00",
            "/a%00.txt",
            "/a%0a",
            "/a%7f",
            "//",
            "//a",
            "/a//b",
            "/a//",
            "//etc/passwd",
            "/%ff",
            "/a/%c0%ae%c0%ae/",
            "/%c0%af",
            "/%ed%a0%80",
        ];
        bad.iter().for_each(|path| check(path, None));
    }

    #[test]
    fn a_target_without_a_path_is_below_nothing() {
        for (method, target) in [("OPTIONS", "*"), ("CONNECT", "a:1")] {
            let mut parsed = Target::default();
            parsed.parse(&method.try_into().unwrap(), target).unwrap();
            assert_eq!(decode(&parsed), None);
        }
    }

    #[test]
    fn a_prefix_ends_with_a_whole_name() {
        let strip = |path: &'static str, prefix| strip_prefix(path.into(), prefix);
        for (path, left) in [("a/b", "b"), ("a/", ""), ("a/b/", "b/"), ("a//b", "/b")] {
            assert_eq!(strip(path, "a").as_deref(), Some(left), "{path}");
        }
        assert_eq!(strip("x", "").as_deref(), Some("x"));
        for path in ["a", "ab", "ab/c", "b/a", "", "/a/b"] {
            assert_eq!(strip(path, "a"), None, "{path}");
        }
    }
}
