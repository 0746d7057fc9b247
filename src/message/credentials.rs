//! Credentials in the field `authorization` (RFC 9110 §11.6.2): [`BasicAuth`] (RFC 7617) and bearer tokens (RFC 6750).

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{FieldName, InvalidCredentials, OctetSet, Request, basic_credentials};

/// The user-id and password of the scheme Basic (RFC 7617), as [`Request::basic_auth`] returns them.
///
/// Whoever sees the request can read both, so use them over TLS only. Compare passwords in constant time: a comparison
/// that ends at the first difference reveals how much was right.
///
/// `{:?}` does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// The user-id, which contains no colon.
    pub user_id: String,
    /// The password.
    pub password: String,
}

impl Request {
    /// Sets `authorization` to a user-id and a password, with the scheme Basic (RFC 7617), in UTF-8.
    ///
    /// # Errors
    ///
    /// Fails if the user-id contains a colon, or either contains a control character.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    ///
    /// let mut request = Request::get("https://example.com/")?;
    /// request.set_basic_auth("Aladdin", "open sesame")?;
    /// assert_eq!(request.headers.text("authorization"), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "basic_auth")]
    pub fn set_basic_auth(&mut self, user_id: &str, password: &str) -> Result<(), InvalidCredentials> {
        let value = basic_credentials(user_id.as_bytes(), password.as_bytes())?;
        self.headers.put(AUTHORIZATION, value.as_bytes());
        Ok(())
    }

    /// Sets `authorization` to a bearer token (RFC 6750), such as an OAuth 2.0 token or a JWT.
    ///
    /// # Errors
    ///
    /// Fails if the token is empty, or contains anything but letters, digits and `-._~+/`, followed by any number of
    /// `=`. For a server that issues other tokens, set the field with [`Headers::set`](crate::Headers::set).
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    ///
    /// let mut request = Request::get("https://example.com/")?;
    /// request.set_bearer_token("mF_9.B5f-4.1JqM")?;
    /// assert_eq!(request.headers.text("authorization"), Some("Bearer mF_9.B5f-4.1JqM"));
    /// assert!(request.set_bearer_token("two words").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "bearer_auth")]
    pub fn set_bearer_token(&mut self, token: &str) -> Result<(), InvalidCredentials> {
        if !is_token68(token) {
            return Err(InvalidCredentials::Token);
        }
        self.headers.put(AUTHORIZATION, format!("Bearer {token}").as_bytes());
        Ok(())
    }

    /// Returns the user-id and password in `authorization`, if its scheme is Basic (RFC 7617), or else those of the URL.
    /// Also returns `None` if they are malformed or not UTF-8, or if the field is repeated: the answer is a challenge in
    /// each case.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Status};
    ///
    /// fn admin(ctx: &mut Context) -> corehttp::Result {
    ///     match ctx.request.basic_auth() {
    ///         Some(auth) if is_right(&auth.user_id, &auth.password) => ctx.response.set_text("Welcome!"),
    ///         _ => {
    ///             let challenge = r#"Basic realm="admin", charset="UTF-8""#;
    ///             ctx.response.headers.set("www-authenticate", challenge)?;
    ///             return Err(Status::UNAUTHORIZED.into());
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// # fn is_right(user_id: &str, password: &str) -> bool { (user_id, password) == ("Ada", "secret") }
    /// # let service = corehttp::Server::new().service(admin);
    /// # let mut request = corehttp::Request::get("/")?;
    /// # corehttp::block_on(async {
    /// # assert_eq!(service.respond(request.clone()).await.status, Status::UNAUTHORIZED);
    /// # request.set_basic_auth("Ada", "secret")?;
    /// # assert_eq!(service.respond(request).await.body.bytes(), b"Welcome!");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn basic_auth(&self) -> Option<BasicAuth> {
        let octets = BASE64_STANDARD.decode(self.credentials("Basic")?).ok()?;
        let text = String::from_utf8(octets).ok()?;
        let (user_id, password) = text.split_once(':')?;
        let is_good = !text.bytes().any(|octet| octet.is_ascii_control());
        is_good.then(|| BasicAuth { user_id: user_id.to_owned(), password: password.to_owned() })
    }

    /// Returns the token in `authorization`, if its scheme is Bearer (RFC 6750 §2.1). Also returns `None` if it is
    /// malformed, or if the field is repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Request, Status};
    ///
    /// fn user(request: &Request) -> Result<&'static str, Status> {
    ///     match request.bearer_token() {
    ///         Some("mF_9.B5f-4.1JqM") => Ok("Ada"),
    ///         _ => Err(Status::UNAUTHORIZED),
    ///     }
    /// }
    ///
    /// let mut request = Request::get("/")?;
    /// assert_eq!(user(&request), Err(Status::UNAUTHORIZED));
    /// request.set_bearer_token("mF_9.B5f-4.1JqM")?;
    /// assert_eq!(user(&request), Ok("Ada"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bearer_token(&self) -> Option<&str> {
        self.credentials("Bearer").filter(|token| is_token68(token))
    }

    /// What follows `scheme`, which is compared in any case, in the only `authorization` field (RFC 9110 §11.4), or in
    /// the one that stands for the user and the password of the URL.
    fn credentials(&self, scheme: &str) -> Option<&str> {
        let value = match self.headers.single(AUTHORIZATION).ok()? {
            Some(value) => str::from_utf8(value).ok()?,
            None => self.target().authorization()?,
        };
        let (found, credentials) = value.split_once(' ')?;
        found.eq_ignore_ascii_case(scheme).then(|| credentials.trim_start_matches(' '))
    }
}

const AUTHORIZATION: FieldName<'static> = FieldName::new("authorization");

/// `token68` (RFC 9110 §11.2), which RFC 6750 calls `b64token`.
fn is_token68(text: &str) -> bool {
    static OCTET: OctetSet = OctetSet::UNRESERVED.with(b"+/");
    let front = text.trim_end_matches('=').as_bytes();
    !front.is_empty() && OCTET.contains_all(front)
}

impl fmt::Debug for BasicAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicAuth").field("user_id", &self.user_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use InvalidCredentials as E;

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
            assert_eq!(request.bearer_token(), None);
        }
    }

    #[test]
    fn credentials_that_cannot_be_sent_change_nothing() {
        for (user_id, password, expected) in [
            ("a:b", "c", E::Colon),
            (":", "\n", E::Colon),
            ("a\r\nx", "c", E::Control),
            ("a", "\0", E::Control),
            ("a", "\u{7f}", E::Control),
            ("\t", "", E::Control),
        ] {
            let mut request = with(&[b"Bearer old"]);
            assert_eq!(request.set_basic_auth(user_id, password), Err(expected), "{user_id:?} {password:?}");
            assert_eq!(request.bearer_token(), Some("old"));
        }
        for token in ["", "=", "==", "a b", " a", "a=b", "a,", "\"a\"", "a\r\nx: y", "a:b", "\u{e9}"] {
            let mut request = with(&[b"Bearer old"]);
            assert_eq!(request.set_bearer_token(token), Err(E::Token), "{token:?}");
            assert_eq!(request.bearer_token(), Some("old"));
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
            assert_eq!((request.bearer_token(), request.basic_auth()), (Some(expected), None));
            let mut sent = with(&[]);
            sent.set_bearer_token(expected).unwrap();
            assert_eq!(sent.bearer_token(), Some(expected));
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
            assert_eq!(with(&[value.as_bytes()]).bearer_token(), None, "{value:?}");
        }
        assert_eq!(with(&[b"Bearer a", b"Bearer b"]).bearer_token(), None);
    }

    #[test]
    fn a_password_is_not_shown() {
        let auth = BasicAuth { user_id: "joe".into(), password: "secret".into() };
        assert_eq!(format!("{auth:?}"), "BasicAuth { user_id: \"joe\", .. }");
    }
}
