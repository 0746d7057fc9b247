//! The credentials of a [`Request`], in its field `authorization` (RFC 9110 §11.6.2).

use super::request::Request;
use crate::message::fields::is_token68;
use crate::message::{BasicAuth, FieldName, MessageError, basic_credentials};

impl Request {
    /// Sets `authorization` to a user-id and a password, with the scheme Basic (RFC 7617), in UTF-8.
    ///
    /// # Errors
    ///
    /// Fails for a user-id with a colon, and for a control character in the user-id or the password.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    ///
    /// let mut request = Request::get("https://example.com/")?;
    /// request.set_basic_auth("Aladdin", "open sesame")?;
    /// assert_eq!(request.headers.get("authorization"), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "basic_auth")]
    pub fn set_basic_auth(&mut self, user_id: &str, password: &str) -> Result<(), MessageError> {
        let value = basic_credentials(user_id.as_bytes(), password.as_bytes())?;
        self.headers.put(FieldName::AUTHORIZATION, value.as_bytes());
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
    /// request.set_bearer_auth("mF_9.B5f-4.1JqM")?;
    /// assert_eq!(request.headers.get("authorization"), Some("Bearer mF_9.B5f-4.1JqM"));
    /// assert!(request.set_bearer_auth("two words").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "bearer_auth")]
    pub fn set_bearer_auth(&mut self, token: &str) -> Result<(), MessageError> {
        if !is_token68(token) {
            return Err(MessageError::Token);
        }
        self.headers.put(FieldName::AUTHORIZATION, format!("Bearer {token}").as_bytes());
        Ok(())
    }

    /// Returns the user-id and password in `authorization`, if its scheme is Basic (RFC 7617), or else those of the
    /// URL. `None` without either, and for a field that is malformed, not UTF-8 or repeated. Then answer with a
    /// challenge.
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
        BasicAuth::parse(self.credentials("Basic")?)
    }

    /// Returns the token in `authorization`, if its scheme is Bearer (RFC 6750 §2.1). `None` if the field is missing,
    /// malformed or repeated.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Request, Status};
    ///
    /// fn user(request: &Request) -> Result<&'static str, Status> {
    ///     match request.bearer_auth() {
    ///         Some("mF_9.B5f-4.1JqM") => Ok("Ada"),
    ///         _ => Err(Status::UNAUTHORIZED),
    ///     }
    /// }
    ///
    /// let mut request = Request::get("/")?;
    /// assert_eq!(user(&request), Err(Status::UNAUTHORIZED));
    /// request.set_bearer_auth("mF_9.B5f-4.1JqM")?;
    /// assert_eq!(user(&request), Ok("Ada"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bearer_auth(&self) -> Option<&str> {
        self.credentials("Bearer").filter(|token| is_token68(token))
    }

    /// The credentials behind `scheme`, which is compared in any case, in the single `authorization` field (RFC 9110
    /// §11.4), or else in the value that stands for the user and the password of the URL.
    fn credentials(&self, scheme: &str) -> Option<&str> {
        let value = match self.headers.single(FieldName::AUTHORIZATION).ok()? {
            Some(value) => str::from_utf8(value).ok()?,
            None => self.target().authorization()?,
        };
        let (found, credentials) = value.split_once(' ')?;
        found.eq_ignore_ascii_case(scheme).then(|| credentials.trim_start_matches(' '))
    }
}
