//! [`Parameters`]: what follows the first semicolon of a value (RFC 9110 §5.6.6, RFC 2183 §2).

use std::borrow::Cow;

use memchr::memchr;

use crate::message::{is_token, token_len, trim};

/// Splits a field into the value before the parameters, without surrounding whitespace, and the parameters.
pub(super) fn split_parameters(field: &[u8]) -> (&[u8], Parameters<'_>) {
    let end = field.iter().position(|&octet| octet == b';').unwrap_or(field.len());
    let (value, rest) = field.split_at(end);
    (trim(value), Parameters { rest })
}

/// Names and values, in order: `; name=token; name="quoted string"`. A malformed one is an error, and ends the list.
#[derive(Clone)]
pub(super) struct Parameters<'a> {
    rest: &'a [u8],
}

/// A name and its value, without quotes.
type Parameter<'a> = (&'a [u8], Cow<'a, [u8]>);

/// The text is not a list of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl<'a> Parameters<'a> {
    /// The value of the parameter `name`, in any case, which must not be repeated. Nor may it be in pieces, as `name*0`
    /// (RFC 2231 §3): some programs join the pieces, others ignore them, and so read another value.
    ///
    /// `name*` is another parameter, with an encoded value (RFC 8187 §3.2).
    pub(super) fn unique(&self, name: &str) -> Result<Option<Cow<'a, [u8]>>, Malformed> {
        let base = name.trim_end_matches('*').as_bytes();
        let mut found = None;
        for parameter in self.clone() {
            let (other, value) = parameter?;
            let (plain, form) = other.split_at(memchr(b'*', other).unwrap_or(other.len()));
            match form {
                _ if !plain.eq_ignore_ascii_case(base) => {}
                _ if other.eq_ignore_ascii_case(name.as_bytes()) && found.is_none() => found = Some(value),
                b"" | b"*" if !other.eq_ignore_ascii_case(name.as_bytes()) => {}
                _ => return Err(Malformed),
            }
        }
        Ok(found)
    }

    fn parse(&mut self) -> Result<Option<Parameter<'a>>, Malformed> {
        loop {
            match trim(self.rest) {
                [] => return Ok(None),
                [b';', rest @ ..] => self.rest = trim(rest),
                _ => return Err(Malformed),
            }
            // There may be no parameter between two semicolons, or after the last.
            if !matches!(self.rest, [] | [b';', ..]) {
                break;
            }
        }
        let equals = self.rest.iter().position(|&octet| octet == b'=').ok_or(Malformed)?;
        let (name, value) = (&self.rest[..equals], &self.rest[equals + 1..]);
        let (value, used) = match value {
            [b'"', text @ ..] => quoted(text)?,
            _ => token(value),
        };
        self.rest = &self.rest[equals + 1 + used..];
        match is_token(name) && used > 0 {
            true => Ok(Some((name, value))),
            false => Err(Malformed),
        }
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<Parameter<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let parsed = self.parse();
        if parsed.is_err() {
            self.rest = &[];
        }
        parsed.transpose()
    }
}

/// The token at the front, and its length.
fn token(text: &[u8]) -> (Cow<'_, [u8]>, usize) {
    let len = token_len(text);
    (Cow::Borrowed(&text[..len]), len)
}

/// The string up to the closing quote, and its length with both quotes.
///
/// A backslash escapes a quote or a backslash, and otherwise stands for itself: some browsers send `C:\dir\file`.
fn quoted(text: &[u8]) -> Result<(Cow<'_, [u8]>, usize), Malformed> {
    let (mut at, mut quotes) = (0, 0);
    loop {
        match text[at..] {
            [b'\\', b'"' | b'\\', ..] => (at, quotes) = (at + 2, quotes + 1),
            [b'"', ..] => break,
            [_, ..] => at += 1,
            [] => return Err(Malformed),
        }
    }
    let (string, used) = (&text[..at], at + 2);
    match quotes {
        0 => Ok((Cow::Borrowed(string), used)),
        _ => Ok((Cow::Owned(unquoted(string)), used)),
    }
}

/// Removes the backslashes that escape.
fn unquoted(mut string: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(string.len());
    loop {
        let (octet, rest) = match string {
            [b'\\', octet @ (b'"' | b'\\'), rest @ ..] | [octet, rest @ ..] => (*octet, rest),
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
    fn check(field: &str, expected: Result<&[(&str, &str)], Malformed>) {
        let (value, parameters) = split_parameters(field.as_bytes());
        assert_eq!(value, b"v", "{field:?}");
        let found: Result<Vec<_>, _> = parameters.collect();
        let expected: Result<Vec<_>, _> = expected.map(|pairs| {
            pairs.iter().map(|(name, value)| (name.as_bytes(), Cow::Borrowed(value.as_bytes()))).collect()
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
            check(field, Err(Malformed));
        }
    }

    #[test]
    fn a_parameter_may_stand_only_once() {
        let unique = |field: &'static str| split_parameters(field.as_bytes()).1.unique("a");
        assert_eq!(unique("v; b=2; A=1"), Ok(Some(Cow::Borrowed(&b"1"[..]))));
        assert_eq!(unique("v; b=a; aa*=2; *=3; *a=4"), Ok(None));
        assert_eq!(unique("v; a*=2; a=1"), Ok(Some(Cow::Borrowed(&b"1"[..]))));
        assert_eq!(unique("v; a*=1"), Ok(None));
        for field in ["v; a=1; a=1", "v; a=1; A=2", "v; a=1; b", "v; b; a=1", "v; a*0=1", "v; a=1; A*0*=2"] {
            assert_eq!(unique(field), Err(Malformed), "{field:?}");
        }
        let extended = |field: &'static str| split_parameters(field.as_bytes()).1.unique("a*");
        assert_eq!(extended("v; a=1; A*=u''2"), Ok(Some(Cow::Borrowed(&b"u''2"[..]))));
        for field in ["v; a*=1; a*=1", "v; a*=1; A*=2", "v; a*=1; a*0=1", "v; a*=1; a*0*=1"] {
            assert_eq!(extended(field), Err(Malformed), "{field:?}");
        }
    }
}
