//! [`Boundary`]: where a part ends (RFC 2046 §5.1.1).

use std::fmt;

use memchr::memmem::{self, Finder};

use super::error::MultipartError;
use crate::message::{Headers, Parameters};

/// The boundary of one body. Each part ends at a delimiter: CRLF, two dashes and the boundary.
pub(super) struct Boundary {
    /// Finds the delimiter, and owns it.
    finder: Finder<'static>,
}

/// The result of a scan: how the scanned bytes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// The count of bytes, at least one, that are not part of a delimiter, however the body goes on.
    Data(usize),
    /// A whole delimiter.
    Delimiter,
    /// Possibly the start of a delimiter: more bytes are needed.
    Partial,
}

/// The kind of a delimiter, by the rest of its line (RFC 2046 §5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DelimiterKind {
    /// Another part follows.
    Part,
    /// The last part has ended.
    Close,
}

impl Boundary {
    /// Makes a boundary of 1 to 70 `bchars`, the last of which is not a space.
    pub(super) fn new(text: &[u8]) -> Result<Boundary, MultipartError> {
        let is_good =
            (1..=LEN_MAX).contains(&text.len()) && text.iter().all(is_bchar) && !text.ends_with(b" ");
        match is_good {
            true => Ok(Boundary { finder: Finder::new(&[b"\r\n--", text].concat()).into_owned() }),
            false => Err(MultipartError::Boundary),
        }
    }

    /// Reads the boundary from `headers`, whose content type must be `multipart/form-data`.
    pub(super) fn from_headers(headers: &Headers) -> Result<Boundary, MultipartError> {
        let mut types = headers.all("content-type");
        let (Some(content_type), None) = (types.next(), types.next()) else {
            return Err(MultipartError::ContentType);
        };
        let (kind, parameters) = Parameters::split(content_type);
        if !kind.eq_ignore_ascii_case(b"multipart/form-data") {
            return Err(MultipartError::ContentType);
        }
        match (parameters.get("boundary"), parameters.get("boundary*")) {
            (Ok(text), Ok(None)) => Boundary::new(&text.unwrap_or_default()),
            _ => Err(MultipartError::Boundary),
        }
    }

    /// The length of a delimiter.
    pub(super) fn delimiter_len(&self) -> usize {
        self.finder.needle().len()
    }

    /// Scans `bytes` of a part, up to the first delimiter.
    pub(super) fn scan(&self, bytes: &[u8]) -> Scan {
        let data = self.finder.find(bytes).unwrap_or_else(|| bytes.len() - self.partial_len(bytes));
        match data {
            0 if bytes.len() < self.delimiter_len() => Scan::Partial,
            0 => Scan::Delimiter,
            count => Scan::Data(count),
        }
    }

    /// Scans `bytes` of a preamble, up to the first delimiter.
    ///
    /// # Errors
    ///
    /// Fails on a boundary that does not follow a CRLF. Some programs find a boundary anywhere in a preamble, others
    /// only at the start of a line, and they differ in which octets end a line. No honest client sends such a boundary.
    pub(super) fn scan_preamble(&self, bytes: &[u8]) -> Result<Scan, MultipartError> {
        let delimiter = self.finder.needle();
        match memmem::find(bytes, &delimiter[2..]) {
            Some(2) if bytes.starts_with(b"\r\n") => Ok(Scan::Delimiter),
            Some(at) if bytes[..at].ends_with(b"\r\n") => Ok(Scan::Data(at - 2)),
            Some(_) => Err(MultipartError::Delimiter(0)),
            // The bytes that may be the start of a delimiter are kept for the next scan.
            None => match bytes.len().saturating_sub(delimiter.len() - 1) {
                0 => Ok(Scan::Partial),
                count => Ok(Scan::Data(count)),
            },
        }
    }

    /// How many bytes at the end of `bytes` may be the start of a delimiter. No delimiter begins within another one,
    /// since only the first octet is a CR.
    fn partial_len(&self, bytes: &[u8]) -> usize {
        let needle = self.finder.needle();
        let tail = &bytes[bytes.len().saturating_sub(needle.len() - 1)..];
        let start = memchr::memrchr(b'\r', tail).filter(|&start| needle.starts_with(&tail[start..]));
        start.map_or(0, |start| tail.len() - start)
    }
}

/// `boundary := 0*69<bchars> bcharsnospace`
const LEN_MAX: usize = 70;

fn is_bchar(octet: &u8) -> bool {
    octet.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(octet)
}

/// Reads the rest of the delimiter's line after `part`, and returns its length without CRLF. `None` if it is incomplete.
///
/// # Errors
///
/// RFC 2046 §5.1.1 lets a boundary be the beginning of a longer line. A program that takes such a line for data and one
/// that takes it for a boundary read two different bodies, so such a line is refused.
pub(super) fn parse_delimiter_line(
    rest: &[u8],
    is_end: bool,
    part: usize,
) -> Result<Option<(DelimiterKind, usize)>, MultipartError> {
    let (line, dashes, tail) = match rest {
        [b'-', b'-', tail @ ..] => (DelimiterKind::Close, 2, tail),
        [b'-'] => (DelimiterKind::Close, 1, &[][..]),
        tail => (DelimiterKind::Part, 0, tail),
    };
    let padding = tail.iter().take_while(|octet| matches!(octet, b' ' | b'\t')).count();
    match tail[padding..] {
        _ if padding > PADDING_MAX => Err(MultipartError::Delimiter(part)),
        [b'\r', b'\n', ..] => Ok(Some((line, dashes + padding))),
        [] if is_end && dashes == 2 => Ok(Some((line, dashes + padding))),
        [] | [b'\r'] if is_end => Err(MultipartError::Incomplete(part)),
        [] | [b'\r'] => Ok(None),
        _ => Err(MultipartError::Delimiter(part)),
    }
}

/// How much whitespace, which transports may have added, can follow a boundary. The bound also limits how often a line
/// that arrives in small pieces is scanned again.
const PADDING_MAX: usize = 128;

impl fmt::Debug for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.finder.needle().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content_type: &str, expected: Result<&str, MultipartError>) {
        let mut headers = Headers::new();
        headers.set("content-type", content_type).unwrap();
        let found = Boundary::from_headers(&headers).map(|boundary| format!("{boundary:?}"));
        assert_eq!(found, expected.map(|text| format!("\\r\\n--{text}")), "{content_type:?}");
    }

    #[test]
    fn the_content_type_names_the_boundary_rfc2046_5_1_1() {
        let longest = "b".repeat(70);
        check("multipart/form-data; boundary=b", Ok("b"));
        check("Multipart/FORM-data;x=y;Boundary=\"a b:c\"", Ok("a b:c"));
        check(&format!("multipart/form-data; boundary={longest}"), Ok(&longest));
        check("multipart/form-data; boundary=\"0'()+_,-./:=?z\"", Ok("0\\'()+_,-./:=?z"));
        for content_type in ["", "multipart", "multipart/mixed; boundary=b", "text/plain; boundary=b"] {
            check(content_type, Err(MultipartError::ContentType));
        }
        for parameter in [
            "".into(),
            "; boundary".into(),
            "; boundary=".into(),
            "; boundary=\"\"".into(),
            "; boundary=a:b".into(),
            "; boundary=b; boundary=b".into(),
            "; boundary=b; boundary*=utf-8''c".into(),
            "; Boundary*0=c; boundary=b".into(),
            "; boundary=\"a".into(),
            "; boundary=\"a \"".into(),
            "; boundary=\"a;b\"".into(),
            "; boundary=\"a\tb\"".into(),
            "; boundary=\"a\\\"b\"".into(),
            "; boundary=\"\u{e9}\"".into(),
            "; boundary=a*b".into(),
            ";\u{a0}boundary=b".into(),
            format!("; boundary={longest}b"),
        ] {
            check(&format!("multipart/form-data{parameter}"), Err(MultipartError::Boundary));
        }
    }

    #[test]
    fn data_ends_where_a_delimiter_may_begin() {
        let boundary = Boundary::new(b"b").unwrap();
        for (bytes, scanned) in [
            ("", Scan::Partial),
            ("x", Scan::Data(1)),
            ("--b", Scan::Data(3)),
            ("\r", Scan::Partial),
            ("\r\n--", Scan::Partial),
            ("\r\n--b", Scan::Delimiter),
            ("\r\n--bx", Scan::Delimiter),
            ("\r\n--c", Scan::Data(5)),
            ("\n--b", Scan::Data(4)),
            ("\r--b", Scan::Data(4)),
            ("\r\n-\r\n--b", Scan::Data(3)),
            ("\r\r\n-", Scan::Data(1)),
            ("x\r\n--", Scan::Data(1)),
            ("x\r\n--b", Scan::Data(1)),
            ("\r\n--\r\n-", Scan::Data(4)),
        ] {
            assert_eq!(boundary.scan(bytes.as_bytes()), scanned, "{bytes:?}");
        }
    }

    /// A reader that skips `\n--b--` as preamble reads the parts after it; for Go, undici and others there are none.
    #[test]
    fn a_preamble_contains_no_boundary() {
        let boundary = Boundary::new(b"b").unwrap();
        let check = |bytes: &str, expected| {
            assert_eq!(boundary.scan_preamble(bytes.as_bytes()), expected, "{bytes:?}");
        };
        for (bytes, scanned) in [
            ("", Scan::Partial),
            ("\r\n--", Scan::Partial),
            ("xyz-", Scan::Partial),
            ("xyz--", Scan::Data(1)),
            ("\r\n--b", Scan::Delimiter),
            ("\r\n--bx", Scan::Delimiter),
            ("\r\n\r\n--b", Scan::Data(2)),
            ("x\n\r\n--b", Scan::Data(2)),
            ("-\r\n--b\n--b", Scan::Data(1)),
        ] {
            check(bytes, Ok(scanned));
        }
        for bytes in ["--b", "x--b", "\n--b", "\r--b", "\r\n --b", "\r\n---b", "\r\nx--b\r\n--b"] {
            check(bytes, Err(MultipartError::Delimiter(0)));
        }
    }

    #[test]
    fn nothing_but_padding_follows_a_boundary_rfc2046_5_1_1() {
        let padded = " ".repeat(PADDING_MAX);
        let check = |rest: &str, more, end| {
            assert_eq!(parse_delimiter_line(rest.as_bytes(), false, 3), more, "{rest:?}");
            assert_eq!(parse_delimiter_line(rest.as_bytes(), true, 3), end, "{rest:?}");
        };
        let (wrong, incomplete) =
            (|| Err(MultipartError::Delimiter(3)), || Err(MultipartError::Incomplete(3)));
        let (part, close) =
            (|len| Ok(Some((DelimiterKind::Part, len))), |len| Ok(Some((DelimiterKind::Close, len))));
        for rest in ["", "-", " \t", "\r", " \r", "--\r", "-- \r"] {
            check(rest, Ok(None), incomplete());
        }
        check("--", Ok(None), close(2));
        check("-- \t", Ok(None), close(4));
        check("--\r\nepilogue", close(2), close(2));
        check("-- \t\r\n", close(4), close(4));
        check("\r\nhead", part(0), part(0));
        check(" \t\r\n", part(2), part(2));
        check(&format!("{padded}\r\n"), part(PADDING_MAX), part(PADDING_MAX));
        for rest in
            ["x", "-x", "-\r\n", "--x", "---", "--\n", "\n", " \n", "\rx", "\r\r\n", " x\r\n", "\0", "\x0b"]
        {
            check(rest, wrong(), wrong());
        }
        check(&format!("{padded} "), wrong(), wrong());
        check(&format!("--{padded} \r\n"), wrong(), wrong());
    }
}
