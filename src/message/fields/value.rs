//! [`FieldValue`]: values of fields, as they are set, checked, and read as lists (RFC 9110 §5.5, §5.6.1).

use std::borrow::Cow;
use std::iter;

use bytes::Bytes;

use crate::error_text::Excerpt;
use crate::message::MessageError;

/// A type that a field can be set to: text, bytes, an integer, a `char`, or a `bool` (`true` or `false`).
///
/// The bytes are checked when they are set (RFC 9110 §5.5).
pub trait FieldValue {
    /// Calls `then` with the bytes of the value.
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R;
}

impl<V: FieldValue + ?Sized> FieldValue for &V {
    #[inline]
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        (**self).with_bytes(then)
    }
}

macro_rules! bytes_are_values {
    ($($type:ty),*) => {$(
        impl FieldValue for $type {
            #[inline]
            fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
                then(self.as_ref())
            }
        }
    )*};
}

macro_rules! integers_are_values {
    ($($type:ty),*) => {$(
        impl FieldValue for $type {
            #[inline]
            fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
                then(itoa::Buffer::new().format(*self).as_bytes())
            }
        }
    )*};
}

bytes_are_values!(str, String, Vec<u8>, [u8], Bytes);
integers_are_values!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl FieldValue for bool {
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(if *self { b"true" } else { b"false" })
    }
}

impl FieldValue for char {
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(self.encode_utf8(&mut [0; 4]).as_bytes())
    }
}

impl<const N: usize> FieldValue for [u8; N] {
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(self)
    }
}

impl FieldValue for Cow<'_, str> {
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(self.as_bytes())
    }
}

impl FieldValue for Cow<'_, [u8]> {
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(self)
    }
}

/// The error of a name with several lines, where there may be one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Repeated;

/// Returns `value` without the whitespace around it.
///
/// # Errors
///
/// Fails if no field can have it.
#[inline]
pub(super) fn valid_value<'a>(name: &str, value: &'a [u8]) -> Result<&'a [u8], MessageError> {
    let value = trim(value);
    if is_field_value(value) { Ok(value) } else { Err(invalid_value(name)) }
}

#[cold]
fn invalid_value(name: &str) -> MessageError {
    MessageError::FieldValue(name.into())
}

/// The error for a name that is not a token.
#[cold]
pub(super) fn invalid_name(name: &str) -> MessageError {
    MessageError::FieldName(Excerpt(name).to_string().into())
}

/// Whether `text` is a valid field value. Control characters other than HTAB are not allowed; obs-text is (RFC 9110
/// §5.5).
#[inline]
pub(crate) fn is_field_value(text: &[u8]) -> bool {
    let is_valid = |octet| (octet >= b' ' && octet != 0x7f) || octet == b'\t';
    // Without an early exit the compiler checks sixteen octets at once.
    text.iter().fold(true, |valid, &octet| valid & is_valid(octet))
}

/// The members of a list, without surrounding whitespace; empty ones are skipped (§5.6.1.2).
///
/// A comma within a quoted-string does not separate members. A quoted-string that is never closed runs to the end.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = value;
    iter::from_fn(move || {
        while !rest.is_empty() {
            let (member, after) = rest.split_at(member_len(rest));
            rest = after.get(1..).unwrap_or_default();
            match trim(member) {
                [] => continue,
                member => return Some(member),
            }
        }
        None
    })
}

/// Whether `token` is a member of the list, in any case.
pub(crate) fn contains_token(value: &[u8], token: &[u8]) -> bool {
    members(value).any(|member| member.eq_ignore_ascii_case(token))
}

/// `text` without surrounding optional whitespace, which is SP and HTAB only (§5.6.3).
#[inline]
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// The position of the first comma that separates members, or else the end.
fn member_len(list: &[u8]) -> usize {
    match list.iter().position(|octet| matches!(octet, b',' | b'"')) {
        None => list.len(),
        Some(comma) if list[comma] == b',' => comma,
        Some(_) => quoting_member_len(list),
    }
}

/// The same as [`member_len`], where some commas may be quoted.
fn quoting_member_len(list: &[u8]) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    let splits = |&octet: &u8| {
        match octet {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            _ => {}
        }
        octet == b',' && !quoted
    };
    list.iter().position(splits).unwrap_or(list.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Headers;

    #[track_caller]
    fn check(value: impl FieldValue, expected: Result<&str, MessageError>) {
        let mut headers = Headers::new();
        let found = headers.set("a", value).map(|()| headers.get("a").unwrap());
        assert_eq!(found, expected);
    }

    #[test]
    fn bool_and_char_are_field_values_rfc9110_5_5() {
        check(true, Ok("true"));
        check(false, Ok("false"));
        check('c', Ok("c"));
        check('\u{20ac}', Ok("\u{20ac}"));
        check(' ', Ok(""));
        for control in ['\0', '\r', '\n', '\x1f', '\x7f'] {
            check(control, Err(MessageError::FieldValue("a".into())));
        }
    }

    #[test]
    fn values_hold_no_controls_rfc9110_5_5() {
        for value in ["", "a", "a\tb c", "\u{e9}", "!~"] {
            assert!(is_field_value(value.as_bytes()), "{value}");
        }
        for value in ["\0", "a\rb", "a\nb", "\x7f", "\x01", "\x1f", "\x0b", "\x0c"] {
            assert!(!is_field_value(value.as_bytes()), "{value:?}");
        }
    }

    #[track_caller]
    fn check_members(value: &str, expected: &[&str]) {
        let found: Vec<_> = members(value.as_bytes()).map(|member| str::from_utf8(member).unwrap()).collect();
        assert_eq!(found, expected, "{value:?}");
    }

    #[test]
    fn members_are_trimmed_and_empty_ones_skipped_rfc9110_5_6_1_2() {
        check_members("", &[]);
        check_members(" \t ", &[]);
        check_members(",, ,\t,", &[]);
        check_members("foo", &["foo"]);
        check_members("foo ,bar,", &["foo", "bar"]);
        check_members("\tfoo , ,bar\t,charlie ", &["foo", "bar", "charlie"]);
        check_members("gzip;q=0.5, br", &["gzip;q=0.5", "br"]);
        check_members("two words,x", &["two words", "x"]);
        check_members("\u{b}a\u{c},b", &["\u{b}a\u{c}", "b"]);
    }

    #[test]
    fn commas_in_quoted_strings_do_not_split_rfc9110_5_6_4() {
        check_members(r#""a,b",c"#, &[r#""a,b""#, "c"]);
        check_members(r#"x="a,\",b" , c"#, &[r#"x="a,\",b""#, "c"]);
        check_members(r#""a\\",b"#, &[r#""a\\""#, "b"]);
        check_members(r#"a\,b"#, &[r"a\", "b"]);
        check_members(r#"a\"b,c""#, &[r#"a\"b,c""#]);
        check_members(r#""never closed, chunked"#, &[r#""never closed, chunked"#]);
        check_members(r#"a,"b\"#, &["a", r#""b\"#]);
    }

    #[test]
    fn tokens_are_found_in_any_case_and_only_whole() {
        assert!(contains_token(b"Keep-Alive, CLOSE", b"close"));
        assert!(contains_token(b"close", b"close"));
        for value in ["", "closed", "clos", "x-close", "close;x", "\"close\"", "clo se", "\"a, close"] {
            assert!(!contains_token(value.as_bytes(), b"close"), "{value:?}");
        }
    }
}
