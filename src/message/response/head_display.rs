//! Heads as texts for logs, without secrets (RFC 9112 §2.1).

use std::fmt::{self, Formatter};

use super::response::Response;
use crate::error_text::write_escaped;
use crate::message::{Headers, Request};

/// The head as HTTP/1.1 writes it, for logs: the request line and the fields, a line each. The values of fields with
/// credentials are left out: `authorization`, `cookie` and `proxy-authorization`. Controls and octets that are not
/// UTF-8 are escaped. So no line passes for another.
///
/// The target is shown with its query, which may contain secrets, too. [`Request::path`] has no query.
///
/// # Examples
///
/// ```
/// use corehttp::Request;
///
/// let mut request = Request::get("http://joe:secret@example.com/items?page=2")?;
/// request.headers.set("cookie", "sid=secret")?;
/// request.headers.set("accept", "*/*")?;
/// let head = "GET http://example.com/items?page=2 HTTP/1.1\ncookie: [redacted]\naccept: */*";
/// assert_eq!(request.to_string(), head);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl fmt::Display for Request {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.method())?;
        write_escaped(f, self.target().as_str())?;
        write!(f, " {}", self.version())?;
        write_fields(f, &self.headers)
    }
}

/// The head as HTTP/1.1 writes it, for logs: the status line and the fields, a line each. The values of `set-cookie`
/// are left out. Controls and octets that are not UTF-8 are escaped. So no line passes for another.
///
/// # Examples
///
/// ```
/// use corehttp::Response;
///
/// let mut response = Response::new();
/// response.set_text("Hello");
/// response.headers.append("set-cookie", "sid=secret")?;
/// let head = "HTTP/1.1 200 OK\ncontent-type: text/plain; charset=utf-8\nset-cookie: [redacted]";
/// assert_eq!(response.to_string(), head);
/// # Ok::<(), corehttp::error::MessageError>(())
/// ```
impl fmt::Display for Response {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP/1.1 {}", self.status)?;
        write_fields(f, &self.headers)
    }
}

fn write_fields(f: &mut Formatter<'_>, headers: &Headers) -> fmt::Result {
    for (name, value) in headers {
        write!(f, "\n{name}: ")?;
        match SECRET_FIELDS.iter().any(|secret| secret.eq_ignore_ascii_case(name)) {
            true => f.write_str("[redacted]")?,
            false => write_value(f, value)?,
        }
    }
    Ok(())
}

fn write_value(f: &mut Formatter<'_>, value: &[u8]) -> fmt::Result {
    for chunk in value.utf8_chunks() {
        write_escaped(f, chunk.valid())?;
        write!(f, "{}", chunk.invalid().escape_ascii())?;
    }
    Ok(())
}

/// The fields that hold credentials, of users or of their sessions (RFC 9110 §11.6.2, §11.7.2, RFC 6265bis §8.3).
const SECRET_FIELDS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "set-cookie"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_passes_for_a_line_and_no_secret_is_shown() {
        let mut request = Request::post("/a?b").unwrap();
        for (name, value) in [
            ("X-A", &b"1\t\xe2\x80\xa8\xc2\x85\xff\xc3\xa9"[..]),
            ("Cookie", b"secret"),
            ("AUTHORIZATION", b"secret"),
            ("proxy-authorization", b"secret"),
            ("x-authorization", b"shown"),
            ("set-cookie", b"secret"),
            ("empty", b""),
        ] {
            request.headers.append(name, value).unwrap();
        }
        let fields = "X-A: 1\\t\\u{2028}\\u{85}\\xffé\nCookie: [redacted]\nAUTHORIZATION: [redacted]\n\
            proxy-authorization: [redacted]\nx-authorization: shown\nset-cookie: [redacted]\nempty: ";
        assert_eq!(request.to_string(), format!("POST /a?b HTTP/1.1\n{fields}"));
        let mut response = Response { headers: request.headers, ..Response::new() };
        response.status = crate::message::Status::new(599).unwrap();
        assert_eq!(response.to_string(), format!("HTTP/1.1 599\n{fields}"));
    }
}
