//! Conversions of what start-lines hold: [`Method`], [`Target`], [`Status`] and [`Version`] (RFC 9112 §3, §4).

use http::Uri;
use http::uri::InvalidUri;

use super::conversion_error::ConversionError;
use crate::message::text::percent;
use crate::message::{MessageError, Method, OctetSet, Status, Target, Version};

impl From<Method> for http::Method {
    /// Converts any method, since both types hold any token (RFC 9110 §9.1).
    fn from(method: Method) -> http::Method {
        match method {
            Method::Get => http::Method::GET,
            Method::Head => http::Method::HEAD,
            Method::Post => http::Method::POST,
            Method::Put => http::Method::PUT,
            Method::Delete => http::Method::DELETE,
            Method::Connect => http::Method::CONNECT,
            Method::Options => http::Method::OPTIONS,
            Method::Trace => http::Method::TRACE,
            Method::Patch => http::Method::PATCH,
            // Older versions of `http` have no constant for QUERY.
            Method::Query | Method::Extension(_) => {
                http::Method::from_bytes(method.as_str().as_bytes()).expect("both types hold any token")
            }
        }
    }
}

impl TryFrom<&http::Method> for Method {
    type Error = MessageError;

    /// Converts a method.
    ///
    /// # Errors
    ///
    /// Fails if it is longer than 23 bytes.
    fn try_from(method: &http::Method) -> Result<Method, MessageError> {
        Method::parse(method.as_str().as_bytes())
    }
}

impl TryFrom<http::Method> for Method {
    type Error = MessageError;

    /// Converts a method.
    ///
    /// # Errors
    ///
    /// Fails if it is longer than 23 bytes.
    fn try_from(method: http::Method) -> Result<Method, MessageError> {
        Method::try_from(&method)
    }
}

impl From<Status> for http::StatusCode {
    /// Converts any status, even one beyond 599 that was received.
    fn from(status: Status) -> http::StatusCode {
        http::StatusCode::from_u16(status.as_u16()).expect("a status is from 100 to 999")
    }
}

impl TryFrom<http::StatusCode> for Status {
    type Error = MessageError;

    /// Converts a status.
    ///
    /// # Errors
    ///
    /// Fails if it is beyond 599 (RFC 9110 §15).
    fn try_from(status: http::StatusCode) -> Result<Status, MessageError> {
        Status::try_from(status.as_u16())
    }
}

impl From<Version> for http::Version {
    fn from(version: Version) -> http::Version {
        match version {
            Version::Http10 => http::Version::HTTP_10,
            Version::Http11 => http::Version::HTTP_11,
        }
    }
}

impl TryFrom<http::Version> for Version {
    type Error = ConversionError;

    /// Converts a version.
    ///
    /// # Errors
    ///
    /// Fails if it is neither 1.0 nor 1.1.
    fn try_from(version: http::Version) -> Result<Version, ConversionError> {
        match version {
            http::Version::HTTP_10 => Ok(Version::Http10),
            http::Version::HTTP_11 => Ok(Version::Http11),
            other => Err(ConversionError::Version(other)),
        }
    }
}

impl TryFrom<&Target> for Uri {
    type Error = ConversionError;

    /// Converts a target of any form. A target with one of the octets ``"<>` `` is escaped. User agents leave these few
    /// unescaped, and the crate `http` refuses them. Any other target stays as it is. A user and a password are not part
    /// of the result.
    ///
    /// # Errors
    ///
    /// Fails if the target is longer than 65,534 bytes.
    fn try_from(target: &Target) -> Result<Uri, ConversionError> {
        let target = target.as_str();
        uri(target).map_err(|error| ConversionError::from_target(error, target))
    }
}

impl TryFrom<&Uri> for Target {
    type Error = ConversionError;

    /// Converts a URI. A URI with a scheme is read as by [`Request::new`](crate::Request::new). Its `..` are resolved,
    /// and a user and a password are kept for the field `authorization`. Any other URI is a target as it is sent: a
    /// path with an optional query, `*`, or a host and a port (RFC 9112 §3.2).
    ///
    /// # Errors
    ///
    /// Fails for a scheme other than `http` and `https`, and for a host that cannot be looked up.
    fn try_from(uri: &Uri) -> Result<Target, ConversionError> {
        let mut target = Target::default();
        let text = uri.to_string();
        let parsed = match (uri.scheme(), uri.authority(), &*text) {
            (Some(_), _, url) => target.set_url(url),
            (None, Some(_), authority) => target.parse(&Method::Connect, authority),
            (None, None, "*") => target.parse(&Method::Options, "*"),
            (None, None, path) => target.parse(&Method::Get, path),
        };
        parsed.map_err(|invalid| MessageError::from_url(invalid, &text))?;
        Ok(target)
    }
}

/// Converts a target to a URI. `Uri` refuses some octets that user agents do not escape.
fn uri(target: &str) -> Result<Uri, InvalidUri> {
    Uri::try_from(target).or_else(|_| {
        let mut escaped = String::with_capacity(target.len());
        percent::encode(target.as_bytes(), &OctetSet::PATH_AND_QUERY, &mut escaped);
        Uri::try_from(escaped)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_token_is_a_method_of_both_types_rfc9110_9_1() {
        for octet in 0..=u8::MAX {
            for token in [&[octet][..], &[b'A', octet, b'z']] {
                let theirs = http::Method::from_bytes(token).ok();
                let own = Method::parse(token).ok();
                assert_eq!(own.map(http::Method::from), theirs, "{token:?}");
                assert_eq!(theirs.map(|method| Method::try_from(method).unwrap()), own);
            }
        }
        let long = http::Method::from_bytes(&[b'A'; 24]).unwrap();
        assert!(matches!(Method::try_from(long), Err(MessageError::MethodTooLong(_))));
    }

    #[test]
    fn methods_with_a_name_of_their_own_keep_it_rfc9110_9_3() {
        for name in
            ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY", "get"]
        {
            let method: Method = name.parse().unwrap();
            assert_eq!(http::Method::from(method).as_str(), name);
            assert_eq!(Method::try_from(http::Method::from(method)), Ok(method));
        }
    }

    #[test]
    fn every_status_and_version_has_its_like_rfc9110_15() {
        for code in 0..=1000 {
            let own = Status::from_received(code);
            let theirs = http::StatusCode::from_u16(code).ok();
            assert_eq!(own.map(http::StatusCode::from), theirs, "{code}");
            let back = theirs.and_then(|status| Status::try_from(status).ok());
            assert_eq!(back, Status::new(code), "{code}");
        }
        for version in [Version::Http10, Version::Http11] {
            assert_eq!(Version::try_from(http::Version::from(version)).unwrap(), version);
        }
        for version in [http::Version::HTTP_09, http::Version::HTTP_2, http::Version::HTTP_3] {
            assert!(matches!(Version::try_from(version), Err(ConversionError::Version(_))));
        }
    }

    /// Checks that `target`, as it is sent with `method`, is `expected` as a URI, and the same target again.
    #[track_caller]
    fn check_target(method: Method, target: &str, expected: &str) {
        let mut own = Target::default();
        own.parse(&method, target).unwrap();
        let uri = Uri::try_from(&own).unwrap();
        assert_eq!(uri, expected, "{target}");
        assert_eq!(Target::try_from(&uri).unwrap().as_str(), expected, "{target}");
    }

    #[test]
    fn targets_of_each_form_are_uris_rfc9112_3_2() {
        check_target(Method::Get, "/", "/");
        check_target(Method::Get, "//a/../b?c=d&e", "//a/../b?c=d&e");
        check_target(Method::Get, "/a|b^c{}?q=\\d", "/a|b^c{}?q=\\d");
        check_target(Method::Get, "/<b>`?\"", "/%3Cb%3E%60?%22");
        check_target(Method::Get, "http://example.com/a?b", "http://example.com/a?b");
        check_target(Method::Get, "https://[::1]:8443/", "https://[::1]:8443/");
        check_target(Method::Options, "*", "*");
        check_target(Method::Connect, "example.com:443", "example.com:443");
    }

    #[test]
    fn a_uri_that_cannot_be_requested_is_refused() {
        for uri in ["ftp://a/", "http://a:x@b:99999/", "mailto"] {
            let uri = Uri::try_from(uri).unwrap();
            assert!(matches!(Target::try_from(&uri), Err(ConversionError::Message(_))), "{uri}");
        }
        let long = format!("/{}?secret", "a".repeat(65_534));
        let mut target = Target::default();
        target.parse(&Method::Get, &long).unwrap();
        let error = Uri::try_from(&target).unwrap_err().to_string();
        assert!(error.starts_with("the target `/aaa") && !error.contains("secret"), "{error}");
    }
}
