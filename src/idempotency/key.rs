//! How an `idempotency-key` is spelled: a string (RFC 8941 §3.3.3).

use std::borrow::Cow;

use crate::message::{FieldName, Headers};

/// The key of a request; `None` without one.
///
/// Many clients leave out the quotes, which does no harm: such a key has the octets of a token, and `/`, `:`, `=`.
///
/// # Errors
///
/// Fails if there are several, and if the key is malformed, empty or longer than 255 octets.
pub(super) fn idempotency_key(headers: &Headers) -> Result<Option<Cow<'_, str>>, Malformed> {
    let Some(value) = headers.single(FieldName::new("idempotency-key")).map_err(|_| Malformed)? else {
        return Ok(None);
    };
    let value = str::from_utf8(value).map_err(|_| Malformed)?;
    let key = match value.strip_prefix('"') {
        Some(rest) => unquoted(rest.strip_suffix('"').ok_or(Malformed)?).ok_or(Malformed)?,
        None if value.bytes().all(is_plain) => Cow::Borrowed(value),
        None => return Err(Malformed),
    };
    if key.is_empty() || key.len() > LEN_MAX { Err(Malformed) } else { Ok(Some(key)) }
}

/// A key that is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

const LEN_MAX: usize = 255;

fn is_plain(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/:=".contains(&octet)
}

/// The string between quotes, in which `\` escapes a quote or itself.
fn unquoted(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['\\', '"']) {
        return text.bytes().all(|octet| matches!(octet, b' '..=b'~')).then_some(Cow::Borrowed(text));
    }
    let mut key = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => key.push(characters.next().filter(|escaped| matches!(escaped, '"' | '\\'))?),
            ' '..='~' if character != '"' => key.push(character),
            _ => return None,
        }
    }
    Some(Cow::Owned(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a request have this key.
    #[track_caller]
    fn check(lines: &[&str], expected: Result<Option<&str>, Malformed>) {
        let mut headers = Headers::new();
        lines.iter().for_each(|line| headers.append("idempotency-key", *line).unwrap());
        assert_eq!(
            idempotency_key(&headers).as_ref().map(Option::as_deref),
            expected.as_ref().map(|key| *key),
            "{lines:?}"
        );
    }

    #[test]
    fn a_key_is_a_string_with_or_without_quotes_rfc8941_3_3_3() {
        check(&[], Ok(None));
        check(&["\"8e03978e-40d5\""], Ok(Some("8e03978e-40d5")));
        check(&["8e03978e-40d5"], Ok(Some("8e03978e-40d5")));
        check(&["a:b/c="], Ok(Some("a:b/c=")));
        check(&["\"a \\\\ \\\" b\""], Ok(Some("a \\ \" b")));
        check(&[&"x".repeat(255)], Ok(Some(&"x".repeat(255))));
        let long = "x".repeat(256);
        for line in [
            "",
            "\"\"",
            "\"a",
            "a\"",
            "\"",
            "a b",
            "a,b",
            "a;b=c",
            "\"a\", \"b\"",
            "\"a\";x",
            "\"a\\b\"",
            "\"a\\\"",
            "ä",
            &long,
        ] {
            check(&[line], Err(Malformed));
        }
        check(&["a", "a"], Err(Malformed));
    }
}
