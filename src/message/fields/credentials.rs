//! [`BasicAuth`] (RFC 7617) and bearer tokens (RFC 6750): credentials in the field `authorization` (RFC 9110 §11.6.2).

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::message::{MessageError, OctetSet};

/// The user-id and password of the scheme Basic (RFC 7617): see [`Request::basic_auth`](crate::Request::basic_auth).
///
/// Everyone who sees the request can read both. Use them over TLS only. Compare passwords in constant time. A
/// comparison that ends at the first difference reveals the length of the right part.
///
/// `{:?}` does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// The user-id, which contains no colon.
    pub user_id: String,
    /// The password.
    pub password: String,
}

impl BasicAuth {
    /// The user-id and the password that the credentials of the scheme Basic stand for.
    pub(crate) fn parse(credentials: &str) -> Option<BasicAuth> {
        let octets = BASE64_STANDARD.decode(credentials).ok()?;
        let text = String::from_utf8(octets).ok()?;
        let (user_id, password) = text.split_once(':')?;
        let is_good = !text.bytes().any(|octet| octet.is_ascii_control());
        is_good.then(|| BasicAuth { user_id: user_id.to_owned(), password: password.to_owned() })
    }
}

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicAuth").field("user_id", &self.user_id).finish_non_exhaustive()
    }
}

/// The value of `authorization` for the scheme Basic (RFC 7617 §2).
pub(crate) fn basic_credentials(user_id: &[u8], password: &[u8]) -> Result<String, MessageError> {
    if user_id.contains(&b':') {
        return Err(MessageError::UserId);
    }
    let pair = [user_id, b":", password].concat();
    if pair.iter().any(u8::is_ascii_control) {
        return Err(MessageError::Credentials);
    }
    Ok(format!("Basic {}", BASE64_STANDARD.encode(pair)))
}

/// `token68` (RFC 9110 §11.2), which RFC 6750 calls `b64token`.
pub(crate) fn is_token68(text: &str) -> bool {
    static OCTET: OctetSet = OctetSet::UNRESERVED.with(b"+/");
    let front = text.trim_end_matches('=').as_bytes();
    !front.is_empty() && OCTET.contains_all(front)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Request;
    use MessageError as E;

    /// A request with these lines of `authorization`.
    fn with(lines: &[&[u8]]) -> Request {
        let mut request = Request::get("/").unwrap();
        lines.iter().for_each(|value| request.headers.append("Authorization", *value).unwrap());
        request
    }

    #[test]
    fn a_user_id_and_a_password_are_sent_and_read_rfc7617_2() {
        for (user_id, password, expected) in [
            ("Aladdin", "open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("test", "123\u{a3}", "Basic dGVzdDoxMjPCow=="),
            ("", "", "Basic Og=="),
            ("joe", "a:b:", "Basic am9lOmE6Yjo="),
        ] {
            let mut request = with(&[b"Basic b2xk", b"Bearer old"]);
            request.set_basic_auth(user_id, password).unwrap();
            assert_eq!(request.headers.all("authorization").collect::<Vec<_>>(), [expected.as_bytes()]);
            let auth = BasicAuth { user_id: user_id.into(), password: password.into() };
            assert_eq!(request.basic_auth(), Some(auth));
            assert_eq!(request.bearer_auth(), None);
        }
    }

    #[test]
    fn credentials_that_cannot_be_sent_change_nothing() {
        for (user_id, password, expected) in [
            ("a:b", "c", E::UserId),
            (":", "\n", E::UserId),
            ("a\r\nx", "c", E::Credentials),
            ("a", "\0", E::Credentials),
            ("a", "\u{7f}", E::Credentials),
            ("\t", "", E::Credentials),
        ] {
            let mut request = with(&[b"Bearer old"]);
            assert_eq!(request.set_basic_auth(user_id, password), Err(expected), "{user_id:?} {password:?}");
            assert_eq!(request.bearer_auth(), Some("old"));
        }
        for token in ["", "=", "==", "a b", " a", "a=b", "a,", "\"a\"", "a\r\nx: y", "a:b", "\u{e9}"] {
            let mut request = with(&[b"Bearer old"]);
            assert_eq!(request.set_bearer_auth(token), Err(E::Token), "{token:?}");
            assert_eq!(request.bearer_auth(), Some("old"));
        }
    }

    #[test]
    fn malformed_basic_credentials_are_none_rfc7617_2() {
        let good = Some(BasicAuth { user_id: "joe".into(), password: "pw".into() });
        for value in ["Basic am9lOnB3", "bAsIc am9lOnB3", "Basic   am9lOnB3", "Basic am9lOnB3  "] {
            assert_eq!(with(&[value.as_bytes()]).basic_auth(), good, "{value}");
        }
        for value in [
            "",
            "Basic",
            "Basic ",
            "am9lOnB3",
            "Basicam9lOnB3",
            "Basic\tam9lOnB3",
            "Basic\u{a0}am9lOnB3",
            "Basics am9lOnB3",
            "Bearer am9lOnB3",
            "Basic am9lOnB3, Basic am9lOnB3",
            "Basic am9l OnB3",
            "Basic am9lOnB3=",
            "Basic am9lOg",
            "Basic am9lOh==",
            "Basic am9l-nB3",
            "Basic am9l",
            "Basic /zpw",
            "Basic am9lOgo=",
            "Basic CTpw",
        ] {
            assert_eq!(with(&[value.as_bytes()]).basic_auth(), None, "{value:?}");
        }
        assert_eq!(with(&[b"Basic am9lOnB3\xff"]).basic_auth(), None);
        assert_eq!(with(&[b"Basic am9lOnB3", b"Basic am9lOnB3"]).basic_auth(), None);
        assert_eq!(with(&[]).basic_auth(), None);
    }

    #[test]
    fn a_bearer_token_keeps_its_grammar_rfc6750_2_1() {
        for (value, expected) in
            [("Bearer mF_9.B5f-4.1JqM", "mF_9.B5f-4.1JqM"), ("bearer  a~+/", "a~+/"), ("BEARER YQ==", "YQ==")]
        {
            let request = with(&[value.as_bytes()]);
            assert_eq!((request.bearer_auth(), request.basic_auth()), (Some(expected), None));
            let mut sent = with(&[]);
            sent.set_bearer_auth(expected).unwrap();
            assert_eq!(sent.bearer_auth(), Some(expected));
        }
        for value in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer =",
            "Bearer a b",
            "Bearer a=b",
            "Bearer \"a\"",
            "Bearer a, b",
            "Token a",
        ] {
            assert_eq!(with(&[value.as_bytes()]).bearer_auth(), None, "{value:?}");
        }
        assert_eq!(with(&[b"Bearer a", b"Bearer b"]).bearer_auth(), None);
    }

    #[test]
    fn a_password_is_not_shown() {
        let auth = BasicAuth { user_id: "joe".into(), password: "secret".into() };
        assert_eq!(format!("{auth:?}"), "BasicAuth { user_id: \"joe\", .. }");
    }
}
