//! [`ContentError`] and [`decode_text`]: the type and the charset of content (RFC 9110 §8.3, §8.4).

use std::borrow::Cow;

use super::charset::{CharsetError, InvalidCharset, decode};
use super::form::InvalidForm;
use crate::message::{FieldName, Headers, trim};

/// Why the content of a request cannot be read as the type that the handler requires.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ContentError {
    /// The content type is missing, repeated, or another one.
    MediaType,
    /// The content has a content coding, and was not decoded.
    Coding,
    /// The content has not been received.
    NotReceived,
}

impl From<ContentError> for InvalidForm {
    fn from(error: ContentError) -> InvalidForm {
        match error {
            ContentError::MediaType => InvalidForm::ContentType,
            ContentError::Coding => InvalidForm::ContentCoding,
            ContentError::NotReceived => InvalidForm::Unread,
        }
    }
}

/// A media type without its parameters (RFC 9110 §8.3.1).
pub(crate) fn essence(content_type: &[u8]) -> &[u8] {
    trim(content_type.split(|&octet| octet == b';').next().unwrap_or_default())
}

/// Decodes `content` from the charset that its type names, or from UTF-8 if it names none.
/// `content` is `None` if it has not been received.
pub(crate) fn decode_text<'a>(
    headers: &Headers,
    content: Option<&'a [u8]>,
) -> Result<Cow<'a, str>, InvalidCharset> {
    let content_type = headers.single(FieldName::CONTENT_TYPE).ok().flatten().unwrap_or_default();
    let label = charset_parameter(content_type).unwrap_or(b"utf-8");
    let decoded = content.ok_or(CharsetError::Unread).and_then(|content| decode(label, content));
    decoded.map_err(|error| InvalidCharset::new(label, error))
}

/// The value of the parameter `charset`, the first of that name (RFC 9110 §5.6.6). No name of a charset has a `;`, a
/// `"` or a `\`, so a quoted one needs no unescaping.
fn charset_parameter(content_type: &[u8]) -> Option<&[u8]> {
    let parameters = content_type.split(|octet| *octet == b';').skip(1);
    let mut values = parameters.filter_map(|parameter| {
        let (name, value) = parameter.split_at(memchr::memchr(b'=', parameter)?);
        name.trim_ascii().eq_ignore_ascii_case(b"charset").then(|| value[1..].trim_ascii())
    });
    let value = values.next()?;
    let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Request, Response, Status};

    #[test]
    fn the_charset_is_a_parameter_rfc9110_8_3_2() {
        for (content_type, expected) in [
            ("text/plain; charset=utf-8", Some("utf-8")),
            ("text/plain;charset=\"ISO-8859-1\"", Some("ISO-8859-1")),
            ("text/html ; a=b ; CHARSET = x ; charset=y", Some("x")),
            ("text/plain", None),
            ("text/plain; charset", None),
            ("text/plain; charset=", None),
            ("text/plain; charset=\"\"", None),
            ("text/plain; xcharset=a", None),
            ("charset=a", None),
            ("", None),
        ] {
            assert_eq!(
                charset_parameter(content_type.as_bytes()),
                expected.map(str::as_bytes),
                "{content_type}"
            );
        }
    }

    #[test]
    fn text_without_a_charset_is_utf8() {
        for content_type in ["", "text/plain", "text/plain; charset=UTF-8", "text/html; charset=\"utf8\""] {
            let mut request = Request::post("/").unwrap();
            request.headers.set("content-type", content_type).unwrap();
            for (content, expected) in [
                (&b"caf\xc3\xa9"[..], Some("café")),
                (b"\xef\xbb\xbfa", Some("a")),
                (b"", Some("")),
                (b"\xe9", None),
            ] {
                request.body.set_bytes(content);
                let decoded = request.text_decoded();
                assert_eq!(decoded.as_deref().ok(), expected, "{content_type} {content:?}");
                assert!(
                    decoded.is_ok()
                        || decoded.is_err_and(|error| error.status() == Some(Status::BAD_REQUEST))
                );
            }
        }
    }

    #[test]
    fn an_unknown_charset_is_named() {
        let (mut request, mut response) = (Request::post("/").unwrap(), Response::new());
        let content_type = format!("text/plain; charset=x-{}", "y".repeat(100));
        for headers in [&mut request.headers, &mut response.headers] {
            headers.set("content-type", &content_type).unwrap();
        }
        let (of_request, of_server) =
            (request.text_decoded().unwrap_err(), response.text_decoded().unwrap_err());
        assert_eq!((of_request.status(), of_server.status()), (Some(Status::UNSUPPORTED_MEDIA_TYPE), None));
        for error in [of_request, of_server] {
            assert!(error.to_string().contains("`x-yyy") && error.charset().len() == 40, "{error}");
        }
    }
}
