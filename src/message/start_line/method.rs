//! [`Method`]: the purpose of a request (RFC 9110 §9).

use std::error::Error;
use std::fmt;
use std::str::{self, FromStr};

use crate::error_text::Excerpt;
use crate::message::is_token;

/// A request method, which is case-sensitive: `get` is not [`Method::Get`] (RFC 9110 §9.1).
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
/// # Ok::<(), corehttp::message::InvalidMethod>(())
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
    /// Any other token.
    Extension(ExtensionMethod),
}

impl Method {
    /// Parses a method as it is written in a request line.
    ///
    /// # Errors
    ///
    /// Fails if it is not a token (RFC 9110 §5.6.2), or is unknown and longer than 23 bytes.
    pub fn parse(token: &[u8]) -> Result<Method, InvalidMethod> {
        let mut method = Method::default();
        method.set(token).map(|()| method)
    }

    /// Parses in place: moving a method costs more than writing the one byte that most of them are.
    #[inline]
    pub(crate) fn set(&mut self, token: &[u8]) -> Result<(), InvalidMethod> {
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
            Method::Extension(method) => method.as_str(),
        }
    }

    /// Returns whether the method is safe: the client asks for no change of state (RFC 9110 §9.2.1).
    pub fn is_safe(&self) -> bool {
        matches!(self, Method::Get | Method::Head | Method::Options | Method::Trace)
    }

    /// Returns whether the method is idempotent: sending it twice has the effect of sending it once (RFC 9110 §9.2.2).
    pub fn is_idempotent(&self) -> bool {
        self.is_safe() || matches!(self, Method::Put | Method::Delete)
    }

    /// Whether requests with this method usually have content, as those with an unknown method may.
    pub(crate) fn suggests_content(self) -> bool {
        !self.is_safe() && !matches!(self, Method::Delete | Method::Connect)
    }
}

impl FromStr for Method {
    type Err = InvalidMethod;

    fn from_str(token: &str) -> Result<Method, InvalidMethod> {
        Method::parse(token.as_bytes())
    }
}

impl TryFrom<&str> for Method {
    type Error = InvalidMethod;

    fn try_from(token: &str) -> Result<Method, InvalidMethod> {
        token.parse()
    }
}

impl TryFrom<&String> for Method {
    type Error = InvalidMethod;

    fn try_from(token: &String) -> Result<Method, InvalidMethod> {
        token.parse()
    }
}

impl TryFrom<String> for Method {
    type Error = InvalidMethod;

    fn try_from(token: String) -> Result<Method, InvalidMethod> {
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

/// A method that RFC 9110 does not define, such as `PROPFIND`.
///
/// Only [`Method::parse`] makes one, so it is never a method with a variant of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExtensionMethod {
    len: u8,
    /// A token, padded with zeros.
    bytes: [u8; ExtensionMethod::LEN_MAX],
}

impl ExtensionMethod {
    const LEN_MAX: usize = 23;

    fn parse(token: &[u8]) -> Result<ExtensionMethod, InvalidMethod> {
        if !is_token(token) {
            return Err(InvalidMethod::NotToken(Excerpt::quote_octets(token).into()));
        }
        let mut bytes = [0; ExtensionMethod::LEN_MAX];
        let too_long = || InvalidMethod::TooLong(Excerpt::quote_octets(token).into());
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

/// Why a string, which is in quotes and may be cut short, is not a method.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidMethod {
    /// The method is empty, or contains a byte that is not allowed in a token (RFC 9110 §5.6.2).
    NotToken(Box<str>),
    /// The method is unknown and longer than 23 bytes.
    TooLong(Box<str>),
}

impl fmt::Display for InvalidMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidMethod::NotToken(method) => write!(f, "the method {method} is not a token"),
            InvalidMethod::TooLong(method) => write!(f, "the method {method} is too long"),
        }
    }
}

impl Error for InvalidMethod {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(token: &[u8], expected: Result<&str, fn(Box<str>) -> InvalidMethod>) {
        let expected = expected.map_err(|invalid| invalid(Excerpt::quote_octets(token).into()));
        assert_eq!(Method::parse(token).as_ref().map(Method::as_str), expected.as_ref().copied());
    }

    #[test]
    fn standard_methods_are_parsed_and_spelled_alike_rfc9110_9_3() {
        for token in ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"] {
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
            check(token, Err(InvalidMethod::NotToken));
        }
        check(b"ABCDEFGHIJKLMNOPQRSTUVWX", Err(InvalidMethod::TooLong));
        check(&[b'A'; 1000], Err(InvalidMethod::TooLong));
        check(&[b'('; 1000], Err(InvalidMethod::NotToken));
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
