//! [`escape_html`], [`write_json_string`] and [`attachment`]: texts inside of HTML, of JSON and of a field.

use std::borrow::Cow;
use std::io::{self, Write};

use super::{OctetSet, percent};

/// Escapes `text` for HTML: between tags, or in the value of an attribute that is in quotes. Text that needs no escape
/// is not copied.
///
/// # Examples
///
/// ```
/// use corehttp::{Context, escape_html};
///
/// fn greet(ctx: &mut Context) {
///     let name = ctx.request.query().get("name").unwrap_or_default();
///     ctx.response.set_html(format!("<p>Hello, {}!</p>", escape_html(&name)));
/// }
/// # let service = corehttp::Server::new().service(greet);
/// # let request = corehttp::Request::get("/?name=<b>Ada</b>")?;
/// # let response = corehttp::block_on(service.respond(request))?;
/// # assert_eq!(response.text()?, "<p>Hello, &lt;b&gt;Ada&lt;/b&gt;!</p>");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "html")]
pub fn escape_html(text: &str) -> Cow<'_, str> {
    let is_special = |octet: &u8| matches!(octet, b'&' | b'<' | b'>' | b'"' | b'\'');
    let Some(first) = text.as_bytes().iter().position(is_special) else { return Cow::Borrowed(text) };
    let (plain, rest) = text.split_at(first);
    let mut escaped = String::with_capacity(text.len() + 16);
    escaped.push_str(plain);
    for character in rest.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// Writes `text` as a string of JSON, with its quotes (RFC 8259 §7).
pub(crate) fn write_json_string(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(b"\"")?;
    let is_special = |octet: &u8| matches!(octet, b'"' | b'\\' | ..b' ');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(is_special) {
        out.write_all(&rest[..at])?;
        match rest[at] {
            octet @ (b'"' | b'\\') => out.write_all(&[b'\\', octet])?,
            octet => write!(out, "\\u{octet:04x}")?,
        }
        rest = &rest[at + 1..];
    }
    out.write_all(rest)?;
    out.write_all(b"\"")
}

/// The value of `content-disposition` for content that is to be saved under `name` (RFC 6266 §4).
pub(super) fn attachment(name: &str) -> String {
    let name = replaced(name, |char| char.is_control() || matches!(char, '/' | '\\'));
    // Some recipients decode escapes in a quoted name, and others do not undo a `\` (RFC 6266, appendix D).
    let plain = replaced(&name, |char| !matches!(char, ' '..='~') || matches!(char, '"' | '%'));
    let mut value = format!("attachment; filename=\"{plain}\"");
    if plain != name {
        value.push_str("; filename*=UTF-8''");
        percent::encode(name.as_bytes(), &OctetSet::UNRESERVED, &mut value);
    }
    value
}

fn replaced(name: &str, is_replaced: impl Fn(char) -> bool) -> String {
    name.chars().map(|char| if is_replaced(char) { '_' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_place_in_html() {
        assert_eq!(escape_html(r#"<a href="x">&'é"#), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;é");
        assert!(matches!(escape_html("plain é"), Cow::Borrowed("plain é")));
    }

    #[test]
    fn text_is_read_from_json_as_it_was_written_rfc8259_7() {
        let all = Vec::from_iter((0..=0x2fff).filter_map(char::from_u32).chain(['\u{1f600}']));
        let all = String::from_iter(all);
        for text in ["", "plain", "\"\\\r\n\0\u{7f}\u{2028}é", &all] {
            let mut json = Vec::new();
            write_json_string(&mut json, text).unwrap();
            assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), text);
        }
    }

    #[test]
    fn a_name_is_sent_so_that_all_can_read_it_rfc6266_4_3() {
        for (name, expected) in [
            ("report 1;2.pdf", r#"filename="report 1;2.pdf""#),
            ("", r#"filename="""#),
            ("\u{20ac} rates", r#"filename="_ rates"; filename*=UTF-8''%E2%82%AC%20rates"#),
            ("a\"b", r#"filename="a_b"; filename*=UTF-8''a%22b"#),
            ("50%25", r#"filename="50_25"; filename*=UTF-8''50%2525"#),
            ("../../etc\\a", r#"filename=".._.._etc_a""#),
            ("a\r\nset-cookie: b\u{7f}\u{85}", r#"filename="a__set-cookie: b__""#),
        ] {
            assert_eq!(attachment(name), format!("attachment; {expected}"), "{name:?}");
        }
    }
}
