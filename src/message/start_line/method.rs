//! [`Method`]: the purpose of a request (RFC 9110 §9).

use std::fmt;
use std::str::{self, FromStr};

use crate::error_text::Excerpt;
use crate::message::{MessageError, is_token};

/// A request method. Methods are case-sensitive: `get` is not [`Method::Get`] (RFC 9110 §9.1).
///
/// # Examples
///
/// ```
/// use corehttp::Method;
///
/// let method: Method = "PROPFIND".parse()?;
/// assert!(matches!(method, Method::Extension(_)));
/// assert_eq!(method, "PROPFIND");
/// assert!(Method::Put.is_idempotent() && !Method::Put.is_safe());
/// # Ok::<(), corehttp::error::MessageError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// Transfer a current representation (RFC 9110 §9.3.1).
    #[default]
    Get,
    /// Like GET, but without the content (RFC 9110 §9.3.2).
    Head,
    /// Process the content as the resource sees fit (RFC 9110 §9.3.3).
    Post,
    /// Replace the representation with the content (RFC 9110 §9.3.4).
    Put,
    /// Remove the representation (RFC 9110 §9.3.5).
    Delete,
    /// Become a tunnel to the target (RFC 9110 §9.3.6).
    Connect,
    /// Describe the communication options (RFC 9110 §9.3.7).
    Options,
    /// Send the request back as it arrived (RFC 9110 §9.3.8).
    Trace,
    /// Change a part of the representation (RFC 5789).
    Patch,
    /// Process the content without changes, and respond with the result (RFC 10008). A QUERY is a GET whose query is
    /// content.
    ///
    /// The request has a content-type, and a resource refuses one without (§2.1). The refusal is a 400, or a 415 with
    /// `accept-query` (§3), which lists the types for a query.
    /// [`Response::check_preconditions`](crate::Response::check_preconditions) and
    /// [`Response::check_range`](crate::Response::check_range) treat a QUERY as they treat GET (§2.6, §2.8).
    ///
    /// ```
    /// use corehttp::{Context, Error, Method, Request, Server, Status, routes};
    ///
    /// fn search(ctx: &mut Context) -> corehttp::Result {
    ///     let Context { request, response, .. } = ctx;
    ///     if request.headers.content_type() != Some("application/sql") {
    ///         response.headers.set("accept-query", "application/sql")?;
    ///         response.status = Status::UNSUPPORTED_MEDIA_TYPE;
    ///         return Ok(());
    ///     }
    ///     response.set_text(format!("results of {}", request.text()?));
    ///     response.headers.set("etag", "\"1\"")?;
    ///     let _ = response.check_preconditions(request);
    ///     Ok(())
    /// }
    ///
    /// let service = Server::new().service(routes! { QUERY "/contacts" => search });
    /// # corehttp::block_on(async {
    /// let mut query = Request::new(Method::Query, "/contacts")?;
    /// let refused = service.respond(query.clone()).await;
    /// assert_eq!(refused.headers.get("accept-query"), Some("application/sql"));
    ///
    /// query.headers.set("content-type", "application/sql")?;
    /// query.body.set_bytes("select surname");
    /// assert_eq!(service.respond(query.clone()).await.text()?, "results of select surname");
    ///
    /// query.headers.set("if-none-match", "\"1\"")?;
    /// assert_eq!(service.respond(query).await.status, Status::NOT_MODIFIED);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Query,
    /// Any other token.
    Extension(ExtensionMethod),
}

impl Method {
    /// Parses a method as it is written in a request line.
    ///
    /// # Errors
    ///
    /// Fails if it is not a token (RFC 9110 §5.6.2), or an unknown one of more than 23 bytes.
    pub fn parse(token: &[u8]) -> Result<Method, MessageError> {
        let mut method = Method::default();
        method.set(token).map(|()| method)
    }

    /// Parses in place: moving a method costs more than writing the one byte that most of them are.
    #[inline]
    pub(crate) fn set(&mut self, token: &[u8]) -> Result<(), MessageError> {
        match token {
            b"GET" => *self = Method::Get,
            b"HEAD" => *self = Method::Head,
            b"POST" => *self = Method::Post,
            b"PUT" => *self = Method::Put,
            b"DELETE" => *self = Method::Delete,
            b"CONNECT" => *self = Method::Connect,
            b"OPTIONS" => *self = Method::Options,
            b"TRACE" => *self = Method::Trace,
            b"PATCH" => *self = Method::Patch,
            b"QUERY" => *self = Method::Query,
            _ => *self = Method::Extension(ExtensionMethod::parse(token)?),
        }
        Ok(())
    }

    /// Returns the method as it is written in a request line.
    #[inline]
    pub fn as_str(&self) -> &str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Connect => "CONNECT",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Patch => "PATCH",
            Method::Query => "QUERY",
            Method::Extension(method) => method.as_str(),
        }
    }

    /// Returns whether the method is safe (RFC 9110 §9.2.1). A safe request asks for no change of state.
    pub fn is_safe(&self) -> bool {
        matches!(self, Method::Get | Method::Head | Method::Options | Method::Trace | Method::Query)
    }

    /// Returns whether the method is idempotent (RFC 9110 §9.2.2). Such a request has the same effect once and twice.
    pub fn is_idempotent(&self) -> bool {
        self.is_safe() || matches!(self, Method::Put | Method::Delete)
    }

    /// Whether requests with this method usually have content, as those with an unknown method may.
    pub(crate) fn suggests_content(self) -> bool {
        self == Method::Query || !self.is_safe() && !matches!(self, Method::Delete | Method::Connect)
    }
}

impl FromStr for Method {
    type Err = MessageError;

    fn from_str(token: &str) -> Result<Method, MessageError> {
        Method::parse(token.as_bytes())
    }
}

impl TryFrom<&str> for Method {
    type Error = MessageError;

    fn try_from(token: &str) -> Result<Method, MessageError> {
        token.parse()
    }
}

impl TryFrom<&String> for Method {
    type Error = MessageError;

    fn try_from(token: &String) -> Result<Method, MessageError> {
        token.parse()
    }
}

impl TryFrom<String> for Method {
    type Error = MessageError;

    fn try_from(token: String) -> Result<Method, MessageError> {
        token.parse()
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PartialEq<str> for Method {
    fn eq(&self, token: &str) -> bool {
        self.as_str() == token
    }
}

impl PartialEq<&str> for Method {
    fn eq(&self, token: &&str) -> bool {
        self == *token
    }
}

/// A method without a variant of its own, such as `PROPFIND`.
///
/// Only the parsing of a [`Method`] makes one, and never for the name of a variant.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExtensionMethod {
    len: u8,
    /// A token, padded with zeros.
    bytes: [u8; ExtensionMethod::LEN_MAX],
}

impl ExtensionMethod {
    const LEN_MAX: usize = 23;

    fn parse(token: &[u8]) -> Result<ExtensionMethod, MessageError> {
        if !is_token(token) {
            return Err(MessageError::Method(Excerpt::quote_octets(token).into()));
        }
        let mut bytes = [0; ExtensionMethod::LEN_MAX];
        let too_long = || MessageError::MethodTooLong(Excerpt::quote_octets(token).into());
        bytes.get_mut(..token.len()).ok_or_else(too_long)?.copy_from_slice(token);
        Ok(ExtensionMethod { len: token.len() as u8, bytes })
    }

    /// Returns the method as it is written in a request line.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..usize::from(self.len)]).expect("a token is ASCII")
    }
}

impl fmt::Debug for ExtensionMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(token: &[u8], expected: Result<&str, fn(Box<str>) -> MessageError>) {
        let expected = expected.map_err(|invalid| invalid(Excerpt::quote_octets(token).into()));
        assert_eq!(Method::parse(token).as_ref().map(Method::as_str), expected.as_ref().copied());
    }

    #[test]
    fn standard_methods_are_parsed_and_spelled_alike_rfc9110_9_3() {
        for token in ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"]
        {
            check(token.as_bytes(), Ok(token));
            assert!(!matches!(Method::parse(token.as_bytes()), Ok(Method::Extension(_))), "{token}");
        }
    }

    #[test]
    fn other_tokens_are_extensions_and_case_counts_rfc9110_9_1() {
        for token in ["get", "Get", "GETS", "GE", "M-SEARCH", "!#$%&'*+-.^_`|~09", "ABCDEFGHIJKLMNOPQRSTUVW"]
        {
            check(token.as_bytes(), Ok(token));
            assert!(matches!(Method::parse(token.as_bytes()), Ok(Method::Extension(_))), "{token}");
        }
    }

    #[test]
    fn a_method_that_is_no_token_is_refused_rfc9110_5_6_2() {
        let bad: [&[u8]; 10] =
            [b"", b" ", b"GET ", b" GET", b"G(ET", b"GET\t", b"GE\0T", b"GET\r", b"G\xc3\x89T", b"A/B"];
        for token in bad {
            check(token, Err(MessageError::Method));
        }
        check(b"ABCDEFGHIJKLMNOPQRSTUVWX", Err(MessageError::MethodTooLong));
        check(&[b'A'; 1000], Err(MessageError::MethodTooLong));
        check(&[b'('; 1000], Err(MessageError::Method));
    }

    #[test]
    fn a_query_is_safe_and_has_content_rfc10008_2() {
        let query: Method = "QUERY".parse().unwrap();
        assert_eq!(query, Method::Query);
        assert!(query.is_safe() && query.is_idempotent() && query.suggests_content());
        for other in ["query", "QUERYS", "QUER"] {
            assert!(matches!(other.parse(), Ok(Method::Extension(_))), "{other}");
        }
        assert!(Method::Patch.suggests_content() && !Method::Get.suggests_content());
    }

    #[test]
    fn extensions_are_never_safe_nor_idempotent_rfc9110_9_2() {
        let extension: Method = "PROPFIND".parse().unwrap();
        assert!(!extension.is_safe() && !extension.is_idempotent());
        assert!(
            !Method::Post.is_idempotent() && !Method::Patch.is_idempotent() && !Method::Connect.is_safe()
        );
        assert!(Method::Delete.is_idempotent() && Method::Head.is_safe());
        assert_eq!(format!("{extension:?} {extension}"), r#"Extension("PROPFIND") PROPFIND"#);
    }
}
