//! [`Request::text_decoded`] and [`Response::text_decoded`].

use std::borrow::Cow;

use super::{InvalidCharset, decode};
use crate::message::{FieldName, Headers, Request, Response};

impl Request {
    /// Returns the content as text, decoded from the charset that `content-type` names, which is UTF-8 if it names none.
    ///
    /// The body must have been received, as for [`Request::form`]. A byte order mark is removed; it counts more than the
    /// name of a charset. Other charsets than UTF-8, those that browsers read, need the feature `charset`. What a page
    /// names in a `<meta>` is not read.
    ///
    /// # Errors
    ///
    /// Fails if the content is not text in that charset, which is then 400 in a handler with `?`, or if the charset is
    /// not known, which is 415.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    ///
    /// fn shout(ctx: &mut Context) -> corehttp::Result {
    ///     let Context { request, response, .. } = ctx;
    ///     response.set_text(request.text_decoded()?.to_uppercase());
    ///     Ok(())
    /// }
    /// ```
    pub fn text_decoded(&self) -> Result<Cow<'_, str>, InvalidCharset> {
        text(&self.headers, self.body.bytes()).map_err(InvalidCharset::of_request)
    }
}

impl Response {
    /// Returns the content as text, decoded from the charset that `content-type` names, which is UTF-8 if it names none.
    ///
    /// A byte order mark is removed; it counts more than the name of a charset. Other charsets than UTF-8, those that
    /// browsers read, need the feature `charset`. What a page names in a `<meta>` is not read.
    ///
    /// # Errors
    ///
    /// Fails if the content is not text in that charset, or if the charset is not known. In a handler, `?` turns that
    /// into 500, because it is not the peer's fault.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Response;
    ///
    /// let mut response = Response::new(); // or one that a client received
    /// response.set_shared("text/plain; charset=ISO-8859-1", &b"caf\xe9"[..])?;
    /// match response.text_decoded() {
    ///     Ok(text) => assert_eq!(text, "café"), // with the feature `charset`
    ///     Err(error) => assert_eq!(error.charset(), "ISO-8859-1"),
    /// }
    /// # Ok::<(), corehttp::InvalidField>(())
    /// ```
    #[doc(alias = "text_with_charset")]
    pub fn text_decoded(&self) -> Result<Cow<'_, str>, InvalidCharset> {
        text(&self.headers, self.body.bytes())
    }
}

fn text<'a>(headers: &Headers, content: &'a [u8]) -> Result<Cow<'a, str>, InvalidCharset> {
    let content_type = headers.single(FieldName::CONTENT_TYPE).ok().flatten().unwrap_or_default();
    let label = charset(content_type).unwrap_or(b"utf-8");
    decode(label, content).map_err(|error| InvalidCharset::new(label, error))
}

/// The value of the parameter `charset`, the first of that name (RFC 9110 §5.6.6). No name of a charset has a `;`, a `"` or
/// a `\`.
fn charset(content_type: &[u8]) -> Option<&[u8]> {
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
    use crate::message::Status;

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
            assert_eq!(charset(content_type.as_bytes()), expected.map(str::as_bytes), "{content_type}");
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
                    decoded.is_ok() || decoded.is_err_and(|error| error.owed() == Some(Status::BAD_REQUEST))
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
        assert_eq!((of_request.owed(), of_server.owed()), (Some(Status::UNSUPPORTED_MEDIA_TYPE), None));
        for error in [of_request, of_server] {
            assert!(error.to_string().contains("`x-yyy") && error.charset().len() == 40, "{error}");
        }
    }
}
