//! [`escape_html`], [`escape_json`], [`escape_log`] and [`attachment`]: texts inside of HTML, of JSON, of a line of a log
//! and of a field.

use std::array;
use std::borrow::Cow;
use std::io::{self, Write};

use super::octet_set::OctetSet;
use super::percent;

/// Escapes `text` for HTML: between tags, or in the value of an attribute that is in quotes. Text that needs no escape
/// is not copied.
///
/// # Examples
///
/// ```
/// use corehttp::Context;
/// use corehttp::message::escape_html;
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

/// Escapes `text` for a string of JSON, between its quotes (RFC 8259 §7). Text that needs no escape is not copied.
///
/// # Examples
///
/// ```
/// use corehttp::message::escape_json;
///
/// let agent = "curl\",\"admin\":\"yes\r\n";
/// let line = format!(r#"{{"agent":"{}"}}"#, escape_json(agent));
/// assert_eq!(line, r#"{"agent":"curl\",\"admin\":\"yes\u000d\u000a"}"#);
/// ```
#[doc(alias = "json")]
pub fn escape_json(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(is_special_in_json) {
        return Cow::Borrowed(text);
    }
    let mut escaped = Vec::with_capacity(text.len() + 16);
    // A vector takes all that is written to it.
    let _ = write_json_text(&mut escaped, text);
    Cow::Owned(String::from_utf8_lossy(&escaped).into_owned())
}

/// Writes `text` as a string of JSON, with its quotes (RFC 8259 §7).
pub(crate) fn write_json_string(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(b"\"")?;
    write_json_text(out, text)?;
    out.write_all(b"\"")
}

fn write_json_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|octet| is_special_in_json(*octet)) {
        out.write_all(&rest[..at])?;
        match rest[at] {
            octet @ (b'"' | b'\\') => out.write_all(&[b'\\', octet])?,
            octet => write!(out, "\\u{octet:04x}")?,
        }
        rest = &rest[at + 1..];
    }
    out.write_all(rest)
}

fn is_special_in_json(octet: u8) -> bool {
    matches!(octet, b'"' | b'\\' | ..b' ')
}

/// Escapes text of a peer for a line of a log, between quotes, as nginx and Apache do. Octets that are not printable
/// ASCII, quotes and backslashes become `\xHH`. Text that needs no escape is not copied.
///
/// # Examples
///
/// ```
/// use corehttp::message::escape_log;
///
/// assert_eq!(escape_log(b"curl/8.0"), "curl/8.0");
/// assert_eq!(escape_log(b"a\"\r\nb"), r"a\x22\x0D\x0Ab");
/// ```
#[doc(alias = "log")]
pub fn escape_log(text: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(text) {
        Ok(plain) if is_plain_in_log(text) => Cow::Borrowed(plain),
        _ => {
            let mut escaped = Vec::with_capacity(text.len() + 16);
            write_log_text(&mut escaped, text);
            Cow::Owned(String::from_utf8_lossy(&escaped).into_owned())
        }
    }
}

/// Writes text of a peer to a line of a log, escaped as by [`escape_log`].
#[inline]
pub(crate) fn write_log_text(line: &mut Vec<u8>, text: &[u8]) {
    match is_plain_in_log(text) {
        true => line.extend_from_slice(text),
        false => write_escaped_in_log(line, text),
    }
}

/// As [`write_log_text`], octet by octet.
#[cold]
#[inline(never)]
fn write_escaped_in_log(line: &mut Vec<u8>, text: &[u8]) {
    for octet in text {
        match is_special_in_log(*octet) {
            true => drop(write!(line, "\\x{octet:02X}")),
            false => line.push(*octet),
        }
    }
}

/// Whether no octet needs an escape. The compiler compares sixteen octets at a time.
// Not inlined, since a line has three texts.
#[inline(never)]
fn is_plain_in_log(text: &[u8]) -> bool {
    let Some(last) = text.last_chunk() else { return is_short_plain_in_log(text) };
    let mut rest = text;
    loop {
        // The last block overlaps the one before, so that blocks are compared in one place.
        let (block, behind) = rest.split_first_chunk().unwrap_or((last, &[]));
        if has_special_in_log(block) {
            return false;
        }
        if behind.is_empty() {
            return true;
        }
        rest = behind;
    }
}

/// As [`is_plain_in_log`], for fewer than sixteen octets: the first and the last eight as one block, or one by one.
fn is_short_plain_in_log(text: &[u8]) -> bool {
    match (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        (Some(first), Some(last)) => {
            !has_special_in_log(&array::from_fn(|at| if at < 8 { first[at] } else { last[at - 8] }))
        }
        _ => !text.iter().any(|octet| is_special_in_log(*octet)),
    }
}

#[inline(always)]
fn has_special_in_log(octets: &[u8; 16]) -> bool {
    octets.iter().fold(false, |found, octet| found | is_special_in_log(*octet))
}

fn is_special_in_log(octet: u8) -> bool {
    !(b' '..=b'~').contains(&octet) | (octet == b'"') | (octet == b'\\')
}

/// The value of `content-disposition` for content that is to be saved under `name` (RFC 6266 §4).
pub(crate) fn attachment(name: &str) -> String {
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
            assert_eq!(format!("\"{}\"", escape_json(text)).as_bytes(), json);
        }
        assert!(matches!(escape_json("plain é"), Cow::Borrowed("plain é")));
    }

    #[test]
    fn each_octet_is_escaped_in_a_log_wherever_it_stands_or_nowhere() {
        for octet in 0..=u8::MAX {
            let needs_escape = !(b' '..=b'~').contains(&octet) || matches!(octet, b'"' | b'\\');
            for at in 0..20 {
                let mut text = [b'~'; 20];
                text[at] = octet;
                assert_eq!(is_plain_in_log(&text[..=at]), !needs_escape, "{octet:#x} at {at}");
                assert_eq!(
                    matches!(escape_log(&text), Cow::Borrowed(_)),
                    !needs_escape,
                    "{octet:#x} at {at}"
                );
            }
        }
        assert_eq!(escape_log(b"a\"b\\c\r\nd\x7f\xc3\xa9 e"), "a\\x22b\\x5Cc\\x0D\\x0Ad\\x7F\\xC3\\xA9 e");
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
