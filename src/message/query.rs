//! [`Query`]: the names and values behind the `?` (RFC 3986 §3.4; the URL Standard, §5.1).

use std::borrow::Cow;
use std::iter;

use super::percent::{self, Plus};

/// A view of `application/x-www-form-urlencoded` text: `name=value` pairs between `&`s.
///
/// Nothing is decoded before it is asked for, and nothing is allocated where nothing is escaped. `+` is a
/// space; a bad escape stands for itself; octets that are no UTF-8 become U+FFFD; `name` means `name=`.
///
/// # Examples
///
/// ```
/// use corehttp::Query;
///
/// let query = Query::new("q=rust+lang&tag=fast&tag=safe&debug");
/// assert_eq!(query.get("q").as_deref(), Some("rust lang"));
/// assert!(query.all("tag").eq(["fast", "safe"]));
/// assert_eq!(query.get("debug").as_deref(), Some(""));
/// assert_eq!(query.get("page"), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    raw: &'a str,
}

impl<'a> Query<'a> {
    /// Views `raw`, which has no `?` in front. A form's content is such a text, too.
    #[inline]
    pub fn new(raw: &'a str) -> Query<'a> {
        Query { raw }
    }

    /// The text as it is spelled.
    #[inline]
    pub fn raw(self) -> &'a str {
        self.raw
    }

    /// Is there no pair?
    pub fn is_empty(self) -> bool {
        self.iter().next_raw().is_none()
    }

    /// The first value of `name`.
    pub fn get(self, name: &str) -> Option<Cow<'a, str>> {
        self.all(name).next()
    }

    /// Every value of `name`, in order.
    pub fn all(self, name: &str) -> impl Iterator<Item = Cow<'a, str>> {
        let mut pairs = self.iter();
        iter::from_fn(move || pairs.next_raw())
            .filter(move |(raw, _)| percent::octets(raw, Plus::Space).eq(name.bytes()))
            .map(|(_, value)| decode(value))
    }

    /// Every pair, in order.
    pub fn iter(self) -> Pairs<'a> {
        Pairs { rest: self.raw }
    }
}

impl<'a> IntoIterator for Query<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);
    type IntoIter = Pairs<'a>;

    fn into_iter(self) -> Pairs<'a> {
        self.iter()
    }
}

/// The decoded names and values of a [`Query`].
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    rest: &'a str,
}

impl<'a> Pairs<'a> {
    /// The next pair as it is spelled; empty ones are skipped.
    fn next_raw(&mut self) -> Option<(&'a str, &'a str)> {
        while !self.rest.is_empty() {
            let (pair, rest) = self.rest.split_once('&').unwrap_or((self.rest, ""));
            self.rest = rest;
            if !pair.is_empty() {
                return Some(pair.split_once('=').unwrap_or((pair, "")));
            }
        }
        None
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);

    fn next(&mut self) -> Option<Self::Item> {
        self.next_raw().map(|(name, value)| (decode(name), decode(value)))
    }
}

fn decode(raw: &str) -> Cow<'_, str> {
    percent::decode(raw, Plus::Space)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str, expected: &[(&str, &str)]) {
        let query = Query::new(raw);
        let found: Vec<_> = query.into_iter().collect();
        let expected: Vec<(Cow<str>, Cow<str>)> =
            expected.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        assert_eq!(found, expected, "{raw:?}");
        assert_eq!(query.is_empty(), expected.is_empty(), "{raw:?}");
    }

    #[test]
    fn pairs_are_split_before_they_are_decoded() {
        check("a=1&b=2", &[("a", "1"), ("b", "2")]);
        check("a=1=2", &[("a", "1=2")]);
        check("a&b=", &[("a", ""), ("b", "")]);
        check("=1", &[("", "1")]);
        check("=", &[("", "")]);
        check("a%26b%3D=%26%3d", &[("a&b=", "&=")]);
        check("a=1;b=2", &[("a", "1;b=2")]);
        check("a=?&b=/", &[("a", "?"), ("b", "/")]);
    }

    #[test]
    fn empty_pairs_are_skipped() {
        check("", &[]);
        check("&", &[]);
        check("&&&", &[]);
        check("&&a=1&&&b=2&", &[("a", "1"), ("b", "2")]);
    }

    #[test]
    fn escapes_are_decoded_once_and_bad_ones_kept() {
        check("a+b=c%20d", &[("a b", "c d")]);
        check("a=%2B%2b", &[("a", "++")]);
        check("a=%2541", &[("a", "%41")]);
        check("a=100%&b=%zz&c=%4", &[("a", "100%"), ("b", "%zz"), ("c", "%4")]);
        check("a=%e2%82%ac", &[("a", "€")]);
        check("a=%ff%fe&%c3=x", &[("a", "\u{fffd}\u{fffd}"), ("\u{fffd}", "x")]);
    }

    #[test]
    fn names_are_found_however_they_are_spelled() {
        let query = Query::new("ab=1&a%62=2&%61%62=3&abc=4&a=5&AB=6&a+b=7");
        assert!(query.all("ab").eq(["1", "2", "3"]));
        assert_eq!(query.get("ab").as_deref(), Some("1"));
        assert_eq!(query.get("a b").as_deref(), Some("7"));
        for absent in ["", "b", "a%62", "aB", "abcd", "1", "a+b"] {
            assert_eq!(query.get(absent), None, "{absent}");
        }
    }

    #[test]
    fn nothing_is_allocated_where_nothing_is_escaped() {
        assert!(matches!(Query::new("a=b%20c&q=rust").get("q"), Some(Cow::Borrowed("rust"))));
        assert!(Query::new("q=%72ust").iter().all(|(name, _)| matches!(name, Cow::Borrowed("q"))));
    }
}
