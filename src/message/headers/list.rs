//! [`members`]: values that are comma-separated lists (RFC 9110 §5.6.1).

use std::iter;

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

    #[track_caller]
    fn check(value: &str, expected: &[&str]) {
        let found: Vec<_> = members(value.as_bytes()).map(|member| str::from_utf8(member).unwrap()).collect();
        assert_eq!(found, expected, "{value:?}");
    }

    #[test]
    fn members_are_trimmed_and_empty_ones_skipped_rfc9110_5_6_1_2() {
        check("", &[]);
        check(" \t ", &[]);
        check(",, ,\t,", &[]);
        check("foo", &["foo"]);
        check("foo ,bar,", &["foo", "bar"]);
        check("\tfoo , ,bar\t,charlie ", &["foo", "bar", "charlie"]);
        check("gzip;q=0.5, br", &["gzip;q=0.5", "br"]);
        check("two words,x", &["two words", "x"]);
        check("\u{b}a\u{c},b", &["\u{b}a\u{c}", "b"]);
    }

    #[test]
    fn commas_in_quoted_strings_do_not_split_rfc9110_5_6_4() {
        check(r#""a,b",c"#, &[r#""a,b""#, "c"]);
        check(r#"x="a,\",b" , c"#, &[r#"x="a,\",b""#, "c"]);
        check(r#""a\\",b"#, &[r#""a\\""#, "b"]);
        check(r#"a\,b"#, &[r"a\", "b"]);
        check(r#"a\"b,c""#, &[r#"a\"b,c""#]);
        check(r#""never closed, chunked"#, &[r#""never closed, chunked"#]);
        check(r#"a,"b\"#, &["a", r#""b\"#]);
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
