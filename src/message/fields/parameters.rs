//! [`Parameters`]: names and values behind the semicolons of a value (RFC 9110 §5.6.6, RFC 2183 §2).

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;

use super::name::{is_tchar, is_token, token_len};
use super::value::trim;

/// The parameters of a field's value, or of a member of a list, in order: `; name=token; name="quoted string"` (RFC 9110
/// §5.6.6).
///
/// The iterator yields names, in the case in which they were sent, and values without quotes. A malformed parameter is
/// an error, and ends the list. The values are views of the field. Only values with escapes are copied.
/// [`Headers::parameter`](crate::Headers::parameter) reads a single one.
///
/// # Examples
///
/// ```
/// use corehttp::Headers;
/// use corehttp::message::Parameters;
///
/// let mut headers = Headers::new();
/// headers.set("forwarded", "for=192.0.2.1;proto=https, for=\"[2001:db8::1]:80\"")?;
/// let mut clients = headers.members("forwarded").map(|hop| Parameters::new(hop).get("for"));
/// assert_eq!(clients.next().unwrap()?.as_deref(), Some(&b"192.0.2.1"[..]));
/// assert_eq!(clients.next().unwrap()?.as_deref(), Some(&b"[2001:db8::1]:80"[..]));
///
/// let (media_type, parameters) = Parameters::split(b"text/html; charset=utf-8");
/// assert_eq!(media_type, b"text/html");
/// assert_eq!(parameters.get("charset")?.as_deref(), Some(&b"utf-8"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Parameters<'a> {
    /// Empty, or with a semicolon in front of each parameter that is left, but perhaps the first.
    rest: &'a [u8],
    /// Whether a parameter may come without a semicolon in front of it.
    is_first: bool,
}

/// A name and its value, without quotes.
type Parameter<'a> = (&'a str, Cow<'a, [u8]>);

impl<'a> Parameters<'a> {
    /// Reads a text that consists of parameters alone, such as a member of `forwarded` (RFC 7239 §4).
    pub fn new(text: &'a [u8]) -> Parameters<'a> {
        Parameters { rest: text, is_first: true }
    }

    /// Splits a value into the part before its parameters, without surrounding whitespace, and the parameters.
    pub fn split(value: &'a [u8]) -> (&'a [u8], Parameters<'a>) {
        let end = memchr(b';', value).unwrap_or(value.len());
        let (front, rest) = value.split_at(end);
        (trim(front), Parameters { rest, is_first: false })
    }

    /// Returns the value of the parameter `name`, in any case.
    ///
    /// `name*` is another parameter than `name`. Its value is encoded (RFC 8187 §3.2), and is not decoded here.
    ///
    /// # Errors
    ///
    /// Fails if a parameter is malformed, repeated, or in pieces, as `name*0` (RFC 2231 §3). Some programs join the
    /// pieces, others ignore them, and so read another value. In a handler, `?` turns that into 400. For a field of
    /// another server's response, that is wrong.
    pub fn get(&self, name: &str) -> Result<Option<Cow<'a, [u8]>>, ParametersError> {
        let base = name.trim_end_matches('*').as_bytes();
        let name = name.as_bytes();
        let mut found = None;
        for parameter in self.clone() {
            let (other, value) = parameter?;
            let other = other.as_bytes();
            let (plain, form) = other.split_at(memchr(b'*', other).unwrap_or(other.len()));
            match form {
                _ if !plain.eq_ignore_ascii_case(base) => {}
                _ if other.eq_ignore_ascii_case(name) && found.is_none() => found = Some(value),
                b"" | b"*" if !other.eq_ignore_ascii_case(name) => {}
                _ => return Err(ParametersError),
            }
        }
        Ok(found)
    }

    fn parse(&mut self) -> Result<Option<Parameter<'a>>, ParametersError> {
        loop {
            match trim(self.rest) {
                [] => return Ok(None),
                [b';', rest @ ..] => self.rest = trim(rest),
                rest if self.is_first => self.rest = rest,
                _ => return Err(ParametersError),
            }
            self.is_first = false;
            // There may be no parameter between two semicolons, or after the last.
            if !matches!(self.rest, [] | [b';', ..]) {
                break;
            }
        }
        let equals = self.rest.iter().position(|&octet| octet == b'=').ok_or(ParametersError)?;
        let (name, value) = (&self.rest[..equals], &self.rest[equals + 1..]);
        let (value, used) = match value {
            [b'"', text @ ..] => quoted(text)?,
            _ => token(value),
        };
        self.rest = &self.rest[equals + 1 + used..];
        match str::from_utf8(name) {
            Ok(text) if is_token(name) && used > 0 => Ok(Some((text, value))),
            _ => Err(ParametersError),
        }
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<Parameter<'a>, ParametersError>;

    fn next(&mut self) -> Option<Self::Item> {
        let parsed = self.parse();
        if parsed.is_err() {
            self.rest = &[];
        }
        parsed.transpose()
    }
}

impl fmt::Debug for Parameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone().map(|parameter| parameter.map(|(name, _)| name))).finish()
    }
}

/// The parameters of a field are malformed, or one is there twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ParametersError;

impl fmt::Display for ParametersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the parameters of a field are malformed or repeated")
    }
}

impl std::error::Error for ParametersError {}

/// The token at the front, and its length.
fn token(text: &[u8]) -> (Cow<'_, [u8]>, usize) {
    let len = token_len(text);
    (Cow::Borrowed(&text[..len]), len)
}

/// The string up to the closing quote, and its length with both quotes.
///
/// A backslash quotes an octet that no token has, and otherwise stands for itself: some clients send `C:\dir\file`.
fn quoted(text: &[u8]) -> Result<(Cow<'_, [u8]>, usize), ParametersError> {
    let mut at = 0;
    let mut quotes = 0;
    loop {
        match text[at..] {
            [b'\\', quoted, ..] if needs_quoting(quoted) => (at, quotes) = (at + 2, quotes + 1),
            [b'"', ..] => break,
            [_, ..] => at += 1,
            [] => return Err(ParametersError),
        }
    }
    let string = &text[..at];
    let used = at + 2;
    match quotes {
        0 => Ok((Cow::Borrowed(string), used)),
        _ => Ok((Cow::Owned(unquoted(string)), used)),
    }
}

fn needs_quoting(octet: u8) -> bool {
    octet.is_ascii() && !is_tchar(octet)
}

/// Removes the backslashes that quote.
fn unquoted(mut string: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(string.len());
    loop {
        let (octet, rest) = match string {
            [b'\\', quoted, rest @ ..] if needs_quoting(*quoted) => (*quoted, rest),
            [octet, rest @ ..] => (*octet, rest),
            [] => return plain,
        };
        plain.push(octet);
        string = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(field: &str, expected: Result<&[(&str, &str)], ParametersError>) {
        let (value, parameters) = Parameters::split(field.as_bytes());
        assert_eq!(value, b"v", "{field:?}");
        let found: Result<Vec<_>, _> = parameters.collect();
        let expected: Result<Vec<_>, _> = expected.map(|pairs| {
            pairs.iter().map(|(name, value)| (*name, Cow::Borrowed(value.as_bytes()))).collect()
        });
        assert_eq!(found, expected, "{field:?}");
    }

    #[test]
    fn parameters_are_tokens_or_quoted_strings_rfc9110_5_6_6() {
        check("v", Ok(&[]));
        check(" v ; ", Ok(&[]));
        check("v;;a=1;", Ok(&[("a", "1")]));
        check("v; a=1\t;\tB=\"2\"", Ok(&[("a", "1"), ("B", "2")]));
        check("v; a=\"\"; a=\"x;y=z\"", Ok(&[("a", ""), ("a", "x;y=z")]));
    }

    #[test]
    fn a_backslash_quotes_only_what_needs_it() {
        check(r#"v; a="x\"y\\z""#, Ok(&[("a", r#"x"y\z"#)]));
        check(r#"v; a="C:\dir\file""#, Ok(&[("a", r"C:\dir\file")]));
        check(r#"v; a="\\\"""#, Ok(&[("a", r#"\""#)]));
        check(r#"v; a="a\ b\(c\)""#, Ok(&[("a", "a b(c)")]));
        check(r#"v; a="C:\été\.git\_x""#, Ok(&[("a", r"C:\été\.git\_x")]));
    }

    #[test]
    fn any_other_parameter_is_malformed() {
        for field in [
            "v; a",
            "v; a=",
            "v; =1",
            "v; a =1",
            "v; a= 1",
            "v; a=1 2",
            "v; a=\u{e9}",
            "v; \u{e9}=1",
            "v; a=b=c",
            "v; a=\"",
            "v; a=\"1",
            r#"v; a="1\""#,
            "v; a=\"1\"2",
            "v; a=\"1\" b=2",
            "v; a=1, b=2",
            "v; a='1 2'",
        ] {
            check(field, Err(ParametersError));
        }
    }

    #[test]
    fn a_text_of_parameters_alone_needs_no_semicolon_in_front_rfc7239_4() {
        for (text, expected) in [
            ("", Ok(&[][..])),
            (" a=1; b=2", Ok(&[("a", "1"), ("b", "2")])),
            (";a=1", Ok(&[("a", "1")])),
            ("a=1 b=2", Err(ParametersError)),
            ("a", Err(ParametersError)),
        ] {
            let found: Result<Vec<_>, _> = Parameters::new(text.as_bytes()).collect();
            let expected = expected.map(|pairs| {
                let pair =
                    |(name, value): &(&'static str, &str)| (*name, Cow::Owned(value.as_bytes().to_vec()));
                pairs.iter().map(pair).collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn a_parameter_may_stand_only_once() {
        let unique = |field: &'static str| Parameters::split(field.as_bytes()).1.get("a");
        assert_eq!(unique("v; b=2; A=1"), Ok(Some(Cow::Borrowed(&b"1"[..]))));
        assert_eq!(unique("v; b=a; aa*=2; *=3; *a=4"), Ok(None));
        assert_eq!(unique("v; a*=2; a=1"), Ok(Some(Cow::Borrowed(&b"1"[..]))));
        assert_eq!(unique("v; a*=1"), Ok(None));
        for field in ["v; a=1; a=1", "v; a=1; A=2", "v; a=1; b", "v; b; a=1", "v; a*0=1", "v; a=1; A*0*=2"] {
            assert_eq!(unique(field), Err(ParametersError), "{field:?}");
        }
        let extended = |field: &'static str| Parameters::split(field.as_bytes()).1.get("a*");
        assert_eq!(extended("v; a=1; A*=u''2"), Ok(Some(Cow::Borrowed(&b"u''2"[..]))));
        for field in ["v; a*=1; a*=1", "v; a*=1; A*=2", "v; a*=1; a*0=1", "v; a*=1; a*0*=1"] {
            assert_eq!(extended(field), Err(ParametersError), "{field:?}");
        }
    }
}
