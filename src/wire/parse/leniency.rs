//! [`Leniency`]: whether a client overlooks faults of a response; [`Mended`]: a head, or trailers, without them (RFC 9112
//! §2.2, §5).

use memchr::memmem;

use crate::message::{is_field_value, is_tchar, is_token};

/// Whether those faults of a message are overlooked that leave no doubt about where it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Leniency {
    /// They are errors.
    #[default]
    None,
    /// They are overlooked. There was none yet.
    Allowed,
    /// One was overlooked.
    Used,
}

/// A section of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Head,
    Trailers,
}

/// A section without its faults, for the parser that overlooks none: each line ends with CRLF, and lines that are no
/// fields are left out.
#[derive(Debug)]
pub(super) struct Mended {
    pub(super) text: Vec<u8>,
    /// The length of the section as it was received. `None` if it is incomplete.
    pub(super) len: Option<usize>,
}

impl Mended {
    /// Mends the section at the front of `input`, as far as its lines are complete. Returns `None` if a line that would be
    /// left out may frame the message, and if there are more than `lines_max`.
    pub(super) fn new(input: &[u8], section: Section, lines_max: usize) -> Option<Mended> {
        let mut mended = Mended { text: Vec::new(), len: None };
        let mut end = 0;
        let mut lines_left = lines_max;
        // Where the text of the last field begins, if that was kept.
        let mut field = None;
        for (number, line) in input.split_inclusive(|octet| *octet == b'\n').enumerate() {
            let Some(line) = line.strip_suffix(b"\n") else { break };
            end += line.len() + "\n".len();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let start = mended.text.len();
            mended.text.extend([line, b"\r\n"].concat());
            if number == 0 && section == Section::Head {
                continue;
            }
            if line.is_empty() {
                mended.len = Some(end);
                break;
            }
            lines_left = lines_left.checked_sub(1)?;
            // A folded line belongs to the field before it (§5.2).
            let is_folded = line.starts_with(b" ") || line.starts_with(b"\t");
            let first = if is_folded { field } else { Some(start) };
            let is_usable = if is_folded { is_field_value(line) } else { is_field(line) };
            field = first.filter(|_| is_usable);
            if field.is_none() {
                let unusable = first.unwrap_or(start);
                if may_frame(&mended.text[unusable..]) {
                    return None;
                }
                mended.text.truncate(unusable);
            }
        }
        Some(mended)
    }
}

/// Whether `line` is a field (§5).
fn is_field(line: &[u8]) -> bool {
    let mut parts = line.splitn(2, |octet| *octet == b':');
    parts.next().is_some_and(is_token) && parts.next().is_some_and(is_field_value)
}

/// Whether any reader could find in `lines` a field that frames the message, such as in `Content-Length : 5`: to leave that
/// out would move the end of the message (§11.2).
fn may_frame(lines: &[u8]) -> bool {
    let letters: Vec<u8> =
        lines.iter().filter(|octet| is_tchar(**octet)).map(u8::to_ascii_lowercase).collect();
    let has = |name: &str| memmem::find(&letters, name.as_bytes()).is_some();
    has("content-length") || has("transfer-encoding")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a head are mended to these, or cannot be. Cut at any byte, a head that can be mended is incomplete.
    #[track_caller]
    fn check(lines: &str, expected: Option<&str>) {
        let head = format!("HTTP/1.1 200 OK\n{lines}\n");
        let mended = |input: &[u8]| Mended::new(input, Section::Head, 16);
        let whole = mended(format!("{head}rest\n\n").as_bytes()).map(|mended| {
            assert_eq!(mended.len, Some(head.len()), "{lines:?}");
            String::from_utf8(mended.text).unwrap()
        });
        let expected = expected.map(|lines| format!("HTTP/1.1 200 OK\r\n{lines}\r\n"));
        assert_eq!(whole, expected, "{lines:?}");
        for cut in 0..head.len() {
            match mended(&head.as_bytes()[..cut]) {
                Some(front) => assert_eq!(front.len, None, "{lines:?} cut at {cut}"),
                None => assert_eq!(expected, None, "{lines:?} cut at {cut}"),
            }
        }
    }

    #[test]
    fn each_line_ends_with_crlf_rfc9112_2_2() {
        check("", Some(""));
        check("a: b\n", Some("a: b\r\n"));
        check("a: b\r\nc: d\n", Some("a: b\r\nc: d\r\n"));
        check("a:\n b\r\n\tc\n", Some("a:\r\n b\r\n\tc\r\n"));
    }

    #[test]
    fn lines_that_are_no_fields_are_left_out_rfc9112_5_1() {
        for line in [
            "a b: c", "a : b", ": b", "ab", "a\0: b", "a: \0", "a: b\rc", "a: b\r\r", "a: \x7f", " a: b",
            "\t",
        ] {
            check(&format!("{line}\n"), Some(""));
            check(&format!("{line}\r\nx: y\r\n"), Some("x: y\r\n"));
            check(&format!("{line}\n folded\nx: y\n"), Some("x: y\r\n"));
        }
        for folded in [" b\0", "\tb\rc", " \x1b"] {
            check(&format!("x: y\na: b\n{folded}\n c\nd: e\n"), Some("x: y\r\nd: e\r\n"));
        }
    }

    #[test]
    fn no_line_that_frames_the_message_is_left_out_rfc9112_11_2() {
        for line in [
            "Content-Length : 5",
            "Content-Length 5",
            " Content-Length: 5",
            "content-length: 5\0",
            "Content-\0Length: 5",
            "Content-Length: 5\n \0",
            "X Content-Length: 5",
            "a: b\rContent-Length: 5",
            "a: b\n c\rcontent-length: 5",
            "Transfer-Encoding : chunked",
            "TRANSFER-ENCODING\t: chunked",
            "\u{a0}Transfer-Encoding: chunked",
            "Transfer-Encoding: chunked\n \x01",
        ] {
            check(&format!("{line}\n"), None);
            check(&format!("a b: c\n{line}\n"), None);
        }
        // Such a field that is well-formed stays, and is judged with the others.
        check("Content-Length: 5\nContent-Length: 6\n", Some("Content-Length: 5\r\nContent-Length: 6\r\n"));
    }

    #[test]
    fn there_are_no_more_lines_than_fields_may_be() {
        check(&"a\n".repeat(16), Some(""));
        check(&"a\n".repeat(17), None);
        let trailers = |input: &str| Mended::new(input.as_bytes(), Section::Trailers, 1);
        assert!(
            trailers("a: b\n\n")
                .is_some_and(|mended| mended.text == b"a: b\r\n\r\n" && mended.len == Some(6))
        );
        assert!(trailers("a: b\nc: d\n\n").is_none());
        assert!(trailers("\n").is_some_and(|mended| mended.text == b"\r\n" && mended.len == Some(1)));
    }
}
