//! [`Disposition`]: the name of a part, and of its file (RFC 7578 §4.2).

use super::MultipartError;
use super::parameter;

/// What `content-disposition` says about a part. The peer chooses both names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Disposition {
    pub(super) name: String,
    pub(super) file_name: Option<String>,
}

impl Disposition {
    /// Parses the value of the field.
    ///
    /// `filename*` is ignored like any unknown parameter: RFC 7578 §4.2 forbids it, yet .NET sends it in addition to
    /// `filename`. So a program that inspects `filename` and one that uses it here agree on the name.
    pub(super) fn parse(field: &[u8]) -> Result<Disposition, MultipartError> {
        let (kind, parameters) = parameter::split(field);
        let text = |name| {
            let value = parameters.once(name).map_err(|_| MultipartError::Disposition)?;
            value.map(|value| unescaped(&value)).transpose()
        };
        if !kind.eq_ignore_ascii_case(b"form-data") {
            return Err(MultipartError::Disposition);
        }
        Ok(Disposition {
            name: text("name")?.ok_or(MultipartError::Disposition)?,
            file_name: text("filename")?,
        })
    }
}

/// Undoes the escapes of browsers in a name: `%22` for a quote, `%0D` and `%0A` for the end of a line (HTML,
/// "multipart/form-data encoding algorithm"). They escape nothing else, not even `%`.
fn unescaped(mut name: &[u8]) -> Result<String, MultipartError> {
    let mut plain = Vec::with_capacity(name.len());
    loop {
        let (octet, rest) = match name {
            [b'%', b'2', b'2', rest @ ..] => (b'"', rest),
            [b'%', b'0', b'D' | b'd', rest @ ..] => (b'\r', rest),
            [b'%', b'0', b'A' | b'a', rest @ ..] => (b'\n', rest),
            [octet, rest @ ..] => (*octet, rest),
            [] => return String::from_utf8(plain).map_err(|_| MultipartError::Disposition),
        };
        plain.push(octet);
        name = rest;
    }
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
    fn names_are_read_as_browsers_and_tools_send_them_4_2() {
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
    fn filename_with_an_asterisk_is_ignored_4_2() {
        check("form-data; name=a; filename=b; filename*=utf-8''c", "a", Some("b"));
        check("form-data; name=a; FileName*=utf-8''c", "a", None);
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
            b"form-data; name=\"\xff\"",
            b"form-data; name=a; filename=\"\xc3\"",
            b"form-data; name*=utf-8''c",
            b"form-data; name=a; name*=utf-8''c",
            b"form-data; name*0=c; name=a",
            b"form-data; name=a; filename*0=b",
            b"form-data; name=a; filename=b; filename*0*=utf-8''c",
        ] {
            assert_eq!(
                Disposition::parse(field),
                Err(MultipartError::Disposition),
                "{}",
                field.escape_ascii()
            );
        }
    }
}
