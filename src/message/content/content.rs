//! [`essence`] and [`decode_text`]: the type and the charset of content (RFC 9110 §8.3).

use std::borrow::Cow;

use super::charset::decode;
use super::content_error::{CharsetError, ContentError, ContentFault};
use crate::message::{FieldName, Headers, Parameters, trim};

/// A media type without its parameters (RFC 9110 §8.3.1).
pub(crate) fn essence(content_type: &[u8]) -> &[u8] {
    trim(content_type.split(|&octet| octet == b';').next().unwrap_or_default())
}

/// Whether the content is a stream of events, by its type (HTML §9.2.5).
pub(crate) fn is_event_stream(headers: &Headers) -> bool {
    const EVENT_STREAM: &[u8] = b"text/event-stream";
    // Most streams have another type, which shows at its beginning.
    headers.first(FieldName::CONTENT_TYPE).is_some_and(|value| {
        let is_like =
            value.get(..EVENT_STREAM.len()).is_some_and(|name| name.eq_ignore_ascii_case(EVENT_STREAM));
        is_like && essence(value).len() == EVENT_STREAM.len()
    })
}

/// Decodes `content` from the charset that its type names, or from UTF-8 if it names none.
/// `content` is `None` if it has not been received.
pub(crate) fn decode_text<'a>(
    headers: &Headers,
    content: Option<&'a [u8]>,
) -> Result<Cow<'a, str>, ContentError> {
    let content_type = headers.single(FieldName::CONTENT_TYPE).ok().flatten().unwrap_or_default();
    let label = charset_parameter(content_type).unwrap_or(Cow::Borrowed(b"utf-8"));
    decode(&label, content.ok_or(ContentFault::Unread)?).map_err(|error| charset_error(&label, error))
}

fn charset_error(label: &[u8], error: CharsetError) -> ContentError {
    let charset = String::from_utf8_lossy(&label[..label.len().min(LABEL_MAX)]).into();
    ContentError::new(match error {
        CharsetError::Malformed => ContentFault::Text(Some(charset)),
        CharsetError::Unknown(reason) => ContentFault::Charset(charset, reason),
    })
}

/// The longest name of a charset (RFC 2978 §2.3).
const LABEL_MAX: usize = 40;

/// The value of the parameter `charset`, the first of that name (RFC 9110 §5.6.6). Parameters behind a malformed one are not
/// read.
fn charset_parameter(content_type: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (_, parameters) = Parameters::split(content_type);
    let mut parameters = parameters.map_while(Result::ok);
    let (_, value) = parameters.find(|(name, _)| name.eq_ignore_ascii_case("charset"))?;
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
            ("text/html ; a=b ; CHARSET=x ; charset=y", Some("x")),
            ("text/html; charset=x, text/html", Some("x")),
            ("text/plain; a=\"b;charset=x\"; charset=y", Some("y")),
            ("text/plain; a=\"b;charset=x\"", None),
            ("text/plain; a=\"\\\";charset=x\"", None),
            ("text/plain; charset=\"a\\\"b\"", Some("a\"b")),
            ("text/plain", None),
            ("text/plain; charset", None),
            ("text/plain; charset=", None),
            ("text/plain; charset=\"\"", None),
            ("text/plain; xcharset=a", None),
            ("charset=a", None),
            ("", None),
        ] {
            let charset = charset_parameter(content_type.as_bytes());
            assert_eq!(charset.as_deref(), expected.map(str::as_bytes), "{content_type}");
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
                assert!(decoded.is_ok() || decoded.is_err_and(|error| error.status() == Status::BAD_REQUEST));
            }
        }
    }

    #[test]
    fn an_unknown_charset_is_named() {
        let mut request = Request::post("/").unwrap();
        let mut response = Response::new();
        let content_type = format!("text/plain; charset=x-{}", "y".repeat(100));
        for headers in [&mut request.headers, &mut response.headers] {
            headers.set("content-type", &content_type).unwrap();
        }
        let (of_request, of_server) =
            (request.text_decoded().unwrap_err(), response.text_decoded().unwrap_err());
        assert_eq!(of_request.status(), Status::UNSUPPORTED_MEDIA_TYPE);
        assert_eq!(of_server.status(), Status::INTERNAL_SERVER_ERROR);
        for error in [of_request, of_server] {
            assert!(
                error.to_string().contains("`x-yyy") && error.charset().map(str::len) == Some(40),
                "{error}"
            );
        }
    }
}
