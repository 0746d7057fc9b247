//! [`PartHead`]: the fields of a part, its name, and the name of its file (RFC 2046 §5.1, RFC 7578 §4).

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use memchr::{memchr, memmem};

use super::error::MultipartError;
use crate::message::text::percent;
use crate::message::{Headers, Parameters, ParametersError};
use crate::wire::WireDetail;

/// The head of a part. Its memory is used again for the next one.
#[derive(Default)]
pub(super) struct PartHead {
    pub(super) headers: Headers,
    pub(super) disposition: Disposition,
}

impl PartHead {
    /// Parses the lines of the head of part number `part`, each with its CRLF. A line may be folded (RFC 5322 §2.2.3).
    ///
    /// [`Headers`] refuses names that are not tokens, and with them whitespace around names; and values that contain CR,
    /// LF or another control character.
    pub(super) fn parse(
        &mut self,
        part: usize,
        mut lines: &[u8],
        fields_max: usize,
    ) -> Result<(), MultipartError> {
        let malformed = || MultipartError::PartHead(part);
        debug_assert!(lines.is_empty() || lines.ends_with(b"\r\n"), "each line has its CRLF");
        self.headers.clear();
        while !lines.is_empty() {
            let (line, rest) = unfolded(lines).ok_or_else(malformed)?;
            let colon = memchr(b':', &line).ok_or_else(malformed)?;
            let name = std::str::from_utf8(&line[..colon]).map_err(|_| malformed())?;
            if self.headers.len() == fields_max {
                let limit = WireDetail::limit("fields_max", "fields", fields_max as u64);
                return Err(MultipartError::PartHeadTooLarge(part, limit));
            }
            self.headers.append(name, &line[colon + 1..]).map_err(|_| malformed())?;
            lines = rest;
        }
        self.disposition = disposition(part, &self.headers)?;
        Ok(())
    }
}

/// The field at the front of `lines` without the ends of its lines, and what follows it. `None` if one of its lines has
/// nothing but whitespace: other programs could take that line for the end of the head.
fn unfolded(lines: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let mut field = Cow::Borrowed(&b""[..]);
    let mut rest = lines;
    loop {
        let (line, next) = rest.split_at(memmem::find(rest, b"\r\n")?);
        if line.trim_ascii().is_empty() {
            return None;
        }
        match rest.len() == lines.len() {
            true => field = Cow::Borrowed(line),
            false => field.to_mut().extend_from_slice(line),
        }
        rest = &next["\r\n".len()..];
        if !matches!(rest, [b' ' | b'\t', ..]) {
            return Some((field, rest));
        }
    }
}

/// Parses the content disposition, of which there must be exactly one.
fn disposition(part: usize, headers: &Headers) -> Result<Disposition, MultipartError> {
    // Content in base64 or quoted-printable would be misread (RFC 7578 §4.7).
    let is_plain = |coding: &[u8]| PLAIN_CODINGS.iter().any(|plain| coding.eq_ignore_ascii_case(plain));
    if !headers.all("content-transfer-encoding").all(is_plain) {
        return Err(MultipartError::TransferEncoding(part));
    }
    let mut dispositions = headers.all("content-disposition");
    match (dispositions.next(), dispositions.next()) {
        (Some(disposition), None) => Disposition::parse(disposition).ok(),
        _ => None,
    }
    .ok_or(MultipartError::Disposition(part))
}

/// The transfer encodings that change nothing (RFC 2045 §6.2).
const PLAIN_CODINGS: &[&[u8]] = &[b"7bit", b"8bit", b"binary"];

/// The field `content-disposition` of a part. The peer chooses both names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Disposition {
    pub(super) name: String,
    pub(super) file_name: Option<String>,
}

impl Disposition {
    /// Parses the value of the field.
    ///
    /// RFC 7578 §4.2 forbids `filename*`, yet some clients send it instead of `filename`, and .NET in addition to it. As
    /// a program that inspects `filename` must see the name that is used, `filename*` counts only where it is alone.
    /// aiohttp sends `name*` instead of a `name` that is not ASCII. With both, a form is refused: they are two names.
    fn parse(field: &[u8]) -> Result<Disposition, ParametersError> {
        let (kind, parameters) = Parameters::split(field);
        if !kind.eq_ignore_ascii_case(b"form-data") {
            return Err(ParametersError);
        }
        let plain = |name| Ok(parameters.get(name)?.map(|value| text(&value)));
        let extended = |name| parameters.get(name)?.map(|value| extended_text(&value)).transpose();
        let name = match (plain("name")?, extended("name*")?) {
            (Some(name), None) | (None, Some(name)) => name,
            (None, None) | (Some(_), Some(_)) => return Err(ParametersError),
        };
        let file_name = match plain("filename")? {
            Some(file_name) => Some(file_name),
            None => extended("filename*")?,
        };
        Ok(Disposition { name, file_name })
    }
}

/// The text that a client spells as `value`: as browsers do, or in encoded words.
fn text(value: &[u8]) -> String {
    match encoded_words(value) {
        // .NET encodes only names that need it. Encoded ASCII would be hidden from a program that does not decode, so
        // it stays as it is.
        Some(text) if !text.is_ascii() => text,
        _ => unescaped(value),
    }
}

/// Undoes the escapes of browsers in a name: `%22` for a quote, `%0D` and `%0A` for the end of a line (HTML,
/// "multipart/form-data encoding algorithm"). Browsers escape nothing else, not even `%`.
///
/// They write a name in the charset of their page, which is stated nowhere (RFC 7578 §5.1.2). Octets that are not UTF-8
/// become U+FFFD, as in a [`Form`](crate::Form).
fn unescaped(mut name: &[u8]) -> String {
    let mut plain = Vec::with_capacity(name.len());
    loop {
        let (octet, rest) = match name {
            [b'%', b'2', b'2', rest @ ..] => (b'"', rest),
            [b'%', b'0', b'D' | b'd', rest @ ..] => (b'\r', rest),
            [b'%', b'0', b'A' | b'a', rest @ ..] => (b'\n', rest),
            [octet, rest @ ..] => (*octet, rest),
            [] => return String::from_utf8_lossy(&plain).into_owned(),
        };
        plain.push(octet);
        name = rest;
    }
}

/// The text of `charset'language'octets`, where octets may be escaped (RFC 8187 §3.2.1).
fn extended_text(value: &[u8]) -> Result<String, ParametersError> {
    let mut parts = value.splitn(3, |&octet| octet == b'\'');
    let (Some(charset), Some(_), Some(escaped)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(ParametersError);
    };
    let octets = percent_decoded(escaped).ok_or(ParametersError)?;
    decoded(charset, octets).ok_or(ParametersError)
}

/// The text of one or more encoded words, which are separated by spaces (RFC 2047 §2); `None` if there is anything else.
fn encoded_words(value: &[u8]) -> Option<String> {
    let words = value.split(|octet| matches!(octet, b' ' | b'\t')).filter(|word| !word.is_empty());
    let mut charset = None;
    let mut octets = Vec::new();
    for word in words {
        let mut parts = word.strip_prefix(b"=?")?.strip_suffix(b"?=")?.split(|&octet| octet == b'?');
        let (named, encoding, content) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || !charset.get_or_insert(named).eq_ignore_ascii_case(named) {
            return None;
        }
        // A character may begin in one word and end in the next, though it should not.
        match encoding {
            b"B" | b"b" => octets.extend(BASE64_STANDARD.decode(content).ok()?),
            b"Q" | b"q" => octets.extend(q_decoded(content)?),
            _ => return None,
        }
    }
    decoded(charset?, octets)
}

/// The octets of the encoding `Q` (RFC 2047 §4.2).
fn q_decoded(content: &[u8]) -> Option<Vec<u8>> {
    let spelled: Vec<u8> = content
        .iter()
        .map(|octet| match octet {
            b'_' => b' ',
            b'=' => b'%',
            octet => *octet,
        })
        .collect();
    if content.contains(&b'%') { None } else { percent_decoded(&spelled) }
}

/// The text in the only charsets that are in use (RFC 8187 §3.2.1). Control characters are refused: no plain name can
/// contain them.
fn decoded(charset: &[u8], octets: Vec<u8>) -> Option<String> {
    let is = |name: &str| charset.eq_ignore_ascii_case(name.as_bytes());
    let text = if is("utf-8") || is("us-ascii") {
        String::from_utf8(octets).ok()?
    } else if is("iso-8859-1") {
        octets.into_iter().map(char::from).collect()
    } else {
        return None;
    };
    Some(text).filter(|text| !text.contains(char::is_control))
}

/// `None` if an escape lacks its digits.
fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let text = str::from_utf8(text).ok().filter(|text| percent::is_well_formed(text))?;
    Some(percent::decode_octets(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(field: &str, name: &str, file_name: Option<&str>) {
        let expected = Disposition { name: name.into(), file_name: file_name.map(Into::into) };
        assert_eq!(Disposition::parse(field.as_bytes()), Ok(expected), "{field:?}");
    }

    #[test]
    fn names_are_read_as_browsers_and_tools_send_them_rfc7578_4_2() {
        check(r#"form-data; name="a""#, "a", None);
        check(r#"form-data; name="a"; filename="""#, "a", Some(""));
        check(r#"Form-Data;name=a;FILENAME=b.txt"#, "a", Some("b.txt"));
        check(r#"form-data; filename="b"; name="a""#, "a", Some("b"));
        check(r#"form-data; name=""; filename="ü 猫.txt""#, "", Some("ü 猫.txt"));
        check(r#"form-data; name="a%22b%0D%0ac%41%2"; filename="%%22""#, "a\"b\r\nc%41%2", Some("%\""));
        check(r#"form-data; name="a\"b"; filename="C:\dir\b.txt""#, "a\"b", Some(r"C:\dir\b.txt"));
        check(r#"form-data; name="a"; x=y; filename="../../etc/passwd""#, "a", Some("../../etc/passwd"));
    }

    #[test]
    fn filename_with_an_asterisk_counts_only_alone_rfc8187_3_2() {
        check("form-data; name=a; filename=b; filename*=utf-8''c", "a", Some("b"));
        check("form-data; name=a; filename=b; filename*=c", "a", Some("b"));
        check("form-data; name=a; FileName*=utf-8''c", "a", Some("c"));
        check("form-data; name=a; filename*=UTF-8''caf%C3%a9%20%22.txt", "a", Some("caf\u{e9} \".txt"));
        check("form-data; filename*=UTF-8'fr'%e2%82%ac; name=\"a\"", "a", Some("\u{20ac}"));
        check("form-data; name=a; filename*=iso-8859-1'en'caf%E9", "a", Some("caf\u{e9}"));
        check("form-data; name=a; filename*=utf-8''", "a", Some(""));
        check("form-data; name=a; filename*=utf-8''..%2f..%2Fetc", "a", Some("../../etc"));
    }

    /// As aiohttp sends it.
    #[test]
    fn name_with_an_asterisk_counts_only_alone_rfc8187_3_2() {
        check("form-data; name*=utf-8''caf%C3%A9", "caf\u{e9}", None);
        check("form-data; name*=utf-8''%E7%8C%AB; filename=\"a\"", "\u{732b}", Some("a"));
    }

    /// As .NET sends it, and mailers do.
    #[test]
    fn encoded_words_are_read_rfc2047_2() {
        check(
            "form-data; name=file; filename=\"=?utf-8?B?Y2Fmw6kudHh0?=\"; filename*=utf-8''caf%C3%A9.txt",
            "file",
            Some("caf\u{e9}.txt"),
        );
        check("form-data; name=\"=?utf-8?B?w7w=?=\"", "\u{fc}", None);
        check("form-data; name=a; filename=\"=?UTF-8?q?caf=C3=A9_1.txt?=\"", "a", Some("caf\u{e9} 1.txt"));
        check("form-data; name=a; filename=\"=?iso-8859-1?Q?caf=e9?=\"", "a", Some("caf\u{e9}"));
        check(
            "form-data; name=a; filename=\"=?utf-8?B?Y2Fmww==?= =?UTF-8?b?qS50eHQ=?=\"",
            "a",
            Some("caf\u{e9}.txt"),
        );
        // ASCII needs no encoding, and a program that looks for it may not decode.
        for word in [
            "=?utf-8?B?cGFzc3dvcmQ=?=",
            "=?utf-8?Q?a?=",
            "=?utf-8?B?w7w?=",
            "=?utf-8?B?w7w=?",
            "=?utf-8?B??w7w=?=",
            "=?utf-16?B?w7w=?=",
            "=?utf-8?X?w7w=?=",
            "=?utf-8?B?w7w=?= x",
            "=?utf-8?Q?=C3=A9=0A?=",
            "=?utf-8?Q?=C3?=",
            "=?utf-8?Q?=C3=A9=2?=",
            "=?",
            "=??=",
            "=????=",
        ] {
            check(&format!("form-data; name=\"{word}\"; filename=\"{word}\""), word, Some(word));
        }
    }

    #[test]
    fn octets_of_another_charset_are_replaced_rfc7578_5_1_2() {
        for (field, name, file_name) in [
            (&b"form-data; name=\"caf\xe9\""[..], "caf\u{fffd}", None),
            (b"form-data; name=a; filename=\"\x94L.txt\"", "a", Some("\u{fffd}L.txt")),
            (b"form-data; name=a; filename=\"\xc3%22\"", "a", Some("\u{fffd}\"")),
        ] {
            let expected = Disposition { name: name.into(), file_name: file_name.map(Into::into) };
            assert_eq!(Disposition::parse(field), Ok(expected), "{}", field.escape_ascii());
        }
    }

    #[test]
    fn any_other_disposition_is_refused() {
        for field in [
            &b""[..],
            b";name=a",
            b"form-data",
            b"form-data name=a",
            b"form-data; filename=b",
            b"form-data; name",
            b"form-data; name=",
            b"attachment; name=a",
            b"form-data-x; name=a",
            b"form-data; name=a; name=a",
            b"form-data; name=a; Name=b",
            b"form-data; name=a; filename=b; filename=c",
            b"form-data; name=\"a",
            b"form-data; name=\"a\"b",
            b"form-data; name=a b",
            b"form-data; name=a, form-data; name=b",
            b"form-data; name=\"a\"; filename=\"b\\\"",
            b"form-data; name=a; name*=utf-8''a",
            b"form-data; name=a; name*=utf-8''c",
            b"form-data; name*=utf-8''a; Name*=utf-8''c",
            b"form-data; name*=c",
            b"form-data; name*=utf-8'c",
            b"form-data; name*=utf-8''%C3",
            b"form-data; name*=utf-8''%4",
            b"form-data; name*=utf-8''%zz",
            b"form-data; name*=utf-8''a%0D%0Ab",
            b"form-data; name*=koi8-r''c",
            b"form-data; name*0=c",
            b"form-data; name*0*=utf-8''c",
            b"form-data; name=a; filename*=c",
            b"form-data; name=a; filename*=utf-8''%",
            b"form-data; name=a; filename*=utf-16''c",
            b"form-data; name=a; filename*=utf-8''b; filename*=utf-8''b",
            b"form-data; name*0=c; name=a",
            b"form-data; name=a; filename*0=b",
            b"form-data; name=a; filename=b; filename*0*=utf-8''c",
        ] {
            assert_eq!(Disposition::parse(field), Err(ParametersError), "{}", field.escape_ascii());
        }
    }
}
