//! [`Cookies`]: the cookies that a user agent sends back (RFC 6265bis §4.2).

use std::fmt;

use crate::message::{FieldName, FromText, Headers, InvalidForm, trim};

/// A view of the cookies of a request.
///
/// It accepts what browsers send, which is more than the standard lets a server set. A value ends at the next `;`, and
/// may contain spaces, commas and quotes. Quotes around a value are part of it, as they are for browsers, and nothing
/// is decoded. A piece without `=` is a value without a name. BodyChain that are not UTF-8 are skipped, as no server that
/// uses [`SetCookie`](crate::SetCookie) has set them, except by [`Cookies::bytes`] and [`Cookies::octets`].
///
/// Only the first [`Cookies::PAIRS_MAX`] pieces are looked at; browsers send back fewer than 200.
///
/// # Examples
///
/// ```
/// use corehttp::Request;
///
/// let mut request = Request::get("/")?;
/// request.headers.set("cookie", "sid=8f14e45f; theme=dark; theme=light")?;
/// assert_eq!(request.cookies().get("sid"), Some("8f14e45f"));
/// assert_eq!(request.cookies().get("SID"), None);
/// assert_eq!(request.cookies().get_as::<u32>("visits")?, None);
/// assert!(request.cookies().all("theme").eq(["dark", "light"]));
/// assert_eq!(request.cookies().iter().count(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Cookies<'a> {
    headers: &'a Headers,
}

impl<'a> Cookies<'a> {
    /// How many pieces are looked at: 1,024.
    pub const PAIRS_MAX: usize = 1024;

    pub(in crate::message) fn new(headers: &'a Headers) -> Cookies<'a> {
        Cookies { headers }
    }

    /// Returns whether there is a cookie with this name.
    pub fn contains(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the value of the first cookie with this name, which is case-sensitive.
    ///
    /// Of several with one name, browsers send those with longer paths first.
    pub fn get(self, name: &str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// Returns the value of the first cookie with this name as a number, a `bool`, or any other type that is
    /// [`FromText`]; `None` if there is no such cookie.
    ///
    /// # Errors
    ///
    /// Fails with [`InvalidForm::Value`] if the value is not a `T`; an empty one usually is not. In a handler, `?`
    /// turns that into 400. As a browser sends a bad cookie again each time, `.unwrap_or_default()` is kinder if the
    /// value is not essential.
    pub fn get_as<T: FromText>(self, name: &str) -> Result<Option<T>, InvalidForm> {
        self.get(name)
            .map(|value| T::from_text(value).ok_or_else(|| InvalidForm::for_value::<T>(name)))
            .transpose()
    }

    /// Returns the values of all cookies with this name, in order.
    pub fn all(self, name: &str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Returns all names and values, in order.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.octets()
            .filter_map(|(name, value)| Some((str::from_utf8(name).ok()?, str::from_utf8(value).ok()?)))
    }

    /// Returns the octets of the first cookie with this name, whose value need not be UTF-8 (RFC 6265bis §5.6).
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    ///
    /// let mut request = Request::get("/")?;
    /// request.headers.set("cookie", b"name=caf\xe9")?;
    /// assert_eq!(request.cookies().bytes("name"), Some(&b"caf\xe9"[..]));
    /// assert_eq!(request.cookies().get("name"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bytes(self, name: &str) -> Option<&'a [u8]> {
        self.octets().find(|(found, _)| *found == name.as_bytes()).map(|(_, value)| value)
    }

    /// Returns the octets of all names and values, in order, whether they are UTF-8 or not.
    pub fn octets(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        // A browser sends one line, but a proxy that speaks HTTP/2 may have split it (RFC 9113 §8.2.3).
        self.headers
            .named(FieldName::COOKIE)
            .flat_map(cookie_pairs)
            .take(Cookies::PAIRS_MAX)
            .filter_map(parse_pair)
    }

    /// Returns whether there are no cookies that are text.
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }
}

impl fmt::Debug for Cookies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The pieces between semicolons.
fn cookie_pairs(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    memchr::memchr_iter(b';', line).chain([line.len()]).map(move |end| {
        let piece = &line[start..end];
        start = end + 1;
        piece
    })
}

fn parse_pair(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    match (trim(pair), memchr::memchr(b'=', trim(pair))) {
        (b"", _) => None,
        (pair, Some(equals)) => Some((&pair[..equals], &pair[equals + 1..])),
        (pair, None) => Some((b"", pair)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lines: &[&[u8]], expected: &[(&str, &str)]) {
        let mut headers = Headers::new();
        headers.append("accept", "x=y").unwrap();
        lines.iter().for_each(|line| headers.append("Cookie", *line).unwrap());
        let cookies = Cookies::new(&headers);
        assert_eq!(Vec::from_iter(cookies.iter()), expected);
        assert_eq!(cookies.is_empty(), expected.is_empty());
        for (name, _) in expected {
            let values = expected.iter().filter(|(other, _)| other == name).map(|(_, value)| *value);
            assert!(cookies.all(name).eq(values.clone()) && values.take(1).eq(cookies.get(name)));
            assert!(cookies.contains(name));
        }
        assert!(!cookies.contains("absent"));
    }

    #[test]
    fn cookies_are_pairs_between_semicolons_rfc6265bis_4_2() {
        check(&[b"a=1"], &[("a", "1")]);
        check(&[b"a=1; b=2"], &[("a", "1"), ("b", "2")]);
        check(&[b"a=1; a=2; A=3"], &[("a", "1"), ("a", "2"), ("A", "3")]);
        check(&[b"a=b=c; d="], &[("a", "b=c"), ("d", "")]);
        check(&[b"a=1", b"b=2; c=3"], &[("a", "1"), ("b", "2"), ("c", "3")]);
    }

    #[test]
    fn cookies_beyond_the_grammar_are_read_as_browsers_send_them() {
        check(&[b"a=1;b=2 ;\t;; c=3;"], &[("a", "1"), ("b", "2"), ("c", "3")]);
        check(&[b"a=\"1 2\"; b=\"x; c=y\""], &[("a", "\"1 2\""), ("b", "\"x"), ("c", "y\"")]);
        check(&[b"a=1, b=2"], &[("a", "1, b=2")]);
        check(&["näme=välue; a={\"b\":1}".as_bytes()], &[("näme", "välue"), ("a", "{\"b\":1}")]);
        check(&[b"alone; =nameless; ="], &[("", "alone"), ("", "nameless"), ("", "")]);
        check(&[b"a=%3B\\x; $Version=1"], &[("a", "%3B\\x"), ("$Version", "1")]);
    }

    #[test]
    fn an_absent_value_is_none_and_a_malformed_one_an_error() {
        let mut headers = Headers::new();
        headers
            .set("cookie", "page=12; size=; sort=up; far=+5; twice=1; twice=x; quoted=\"1\"; on=true")
            .unwrap();
        let cookies = Cookies::new(&headers);
        assert_eq!(
            (cookies.get_as::<u32>("page"), cookies.get_as::<u8>("twice")),
            (Ok(Some(12)), Ok(Some(1)))
        );
        assert_eq!((cookies.get_as::<bool>("on"), cookies.get_as::<u32>("Page")), (Ok(Some(true)), Ok(None)));
        for name in ["size", "sort", "far", "quoted", "on"] {
            assert!(matches!(cookies.get_as::<u32>(name), Err(InvalidForm::Value(_))), "{name}");
        }
    }

    #[test]
    fn empty_and_unreadable_pieces_are_skipped() {
        check(&[], &[]);
        check(&[b""], &[]);
        check(&[b";", b" ; \t;"], &[]);
        check(&[b"a=\xff; b=2; \xc3=3"], &[("b", "2")]);
    }

    #[test]
    fn octets_that_are_not_utf8_are_found_as_such() {
        let mut headers = Headers::new();
        headers.set("cookie", b"a=\xff; b=2; \xc3=3; a=4; \xfe").unwrap();
        let cookies = Cookies::new(&headers);
        let all: [(&[u8], &[u8]); 5] =
            [(b"a", b"\xff"), (b"b", b"2"), (b"\xc3", b"3"), (b"a", b"4"), (b"", b"\xfe")];
        assert!(cookies.octets().eq(all));
        assert_eq!(
            ["a", "b", "", "c"].map(|name| cookies.bytes(name)),
            [Some(&b"\xff"[..]), Some(b"2"), Some(b"\xfe"), None]
        );
        assert_eq!((cookies.get("a"), cookies.iter().count()), (Some("4"), 2));
    }

    #[test]
    fn pieces_beyond_the_bound_are_not_looked_at() {
        let line = |pieces: usize| format!("{}; last=1", vec!["a=1"; pieces - 1].join("; "));
        for (pieces, expected) in [(1024, Some("1")), (1025, None), (5000, None)] {
            let mut headers = Headers::new();
            headers.set("cookie", line(pieces)).unwrap();
            assert_eq!(Cookies::new(&headers).get("last"), expected, "{pieces}");
            assert_eq!(Cookies::new(&headers).iter().count(), pieces.min(1024));
        }
    }
}
