//! [`MessageError`] and [`TargetError`]: why a message, or a part of it, cannot be made (RFC 9110 §5, §9.1, RFC 9112 §3.2).

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use crate::error_text::{Excerpt, without_secrets, write_error};

/// Why a message cannot be made, or a part of it: a method, a URL, a field, a cookie, credentials.
///
/// Names of methods, fields and cookies are in quotes, and may be cut short. The text never contains a value, which may be
/// a secret.
///
/// # Examples
///
/// ```
/// use corehttp::error::MessageError;
/// use corehttp::{Headers, Request};
///
/// let error = Headers::new().set("x-note", "two\r\nlines").unwrap_err();
/// assert_eq!(error, MessageError::FieldValue("x-note".into()));
/// assert_eq!(error.to_string(), "the value of the field x-note contains a control character");
///
/// let error = Request::get("ftp://a.example/b").unwrap_err();
/// assert_eq!(
///     format!("{error:#}"),
///     "the url `ftp://a.example/b` is invalid: the scheme is neither http nor https"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MessageError {
    /// The method is empty, or contains a byte not allowed in a token (RFC 9110 §5.6.2).
    Method(Box<str>),
    /// The method is unknown and longer than 23 bytes.
    MethodTooLong(Box<str>),
    /// The URL is malformed, or has a scheme other than `http` and `https`. With the quoted beginning of the URL, if it
    /// is known, without user, password, query and fragment.
    Target(TargetError, Option<Box<str>>),
    /// The text is not an origin: `scheme://host`, with an optional port and nothing after it (RFC 6454 §6.2). With its quoted
    /// beginning, without user, password, query and fragment.
    Origin(TargetError, Box<str>),
    /// The number is not a status code: it is below 100 or above 599 (RFC 9110 §15).
    Status,
    /// The name of a field is not a token. It would break the head or add other fields to it (RFC 9110 §5.1).
    FieldName(Box<str>),
    /// The value of this field contains CR, LF, NUL or another control character than HTAB (RFC 9110 §5.5).
    FieldValue(Box<str>),
    /// The value of this field is no URI reference. Browsers take a `\` at its front or in its host for a `/`, and go
    /// to another host.
    Reference(Box<str>),
    /// The cookie with this name cannot be set.
    Cookie(CookieFault, Box<str>),
    /// The user-id contains a colon, which would end it (RFC 7617 §2).
    UserId,
    /// The user-id or the password contains a control character (RFC 7617 §2).
    Credentials,
    /// The token is empty, or not a `b64token` (RFC 6750 §2.1).
    Token,
    /// The id of a server-sent event contains CR, LF or NUL. Recipients would read another event, or several. Browsers
    /// ignore an id with NUL.
    EventId,
    /// The type of a server-sent event contains CR, LF or NUL.
    EventType,
    /// The request has content, which its method must not have: a TRACE (RFC 9110 §9.3.8).
    Content,
    /// A value cannot be made content, a query or a field, or does not fit a setting, for this reason: see
    /// [`RequestBuilder`](crate::RequestBuilder), [`Request::add_via`](crate::Request::add_via) and
    /// [`HttpsRedirect::allowed_hosts`](crate::middleware::HttpsRedirect::allowed_hosts).
    Value(Box<str>),
}

/// The fault of a cookie that cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CookieFault {
    /// The name is not a token.
    Name,
    /// The value contains a byte that must be encoded.
    Value,
    /// Name and value together are longer than [`SetCookie::LEN_MAX`](crate::SetCookie::LEN_MAX).
    TooLong,
    /// The domain is malformed.
    Domain,
    /// The path does not begin with `/`, is too long, or is not escaped.
    Path,
    /// The cookie does not keep what the prefix of its name promises.
    Prefix,
    /// The cookie is for other sites, or partitioned, but not `secure`.
    Insecure,
}

impl MessageError {
    /// The error for `url`.
    pub(crate) fn from_url(invalid: TargetError, url: &str) -> MessageError {
        MessageError::Target(invalid, Some(Excerpt(&without_secrets(url)).to_string().into()))
    }

    /// The error for `origin`.
    pub(crate) fn from_origin(invalid: TargetError, origin: &str) -> MessageError {
        MessageError::Origin(invalid, Excerpt(&without_secrets(origin)).to_string().into())
    }

    /// The error for a setting, as it was written, which `is_not` what was expected.
    pub(crate) fn from_setting(written: &str, is_not: &str) -> MessageError {
        MessageError::Value(format!("{} is not {is_not}", Excerpt(&without_secrets(written))).into())
    }

    /// Whether the URL begins with neither `http://` nor `https://`. Its error is then the whole cause.
    fn lacks_scheme(&self) -> bool {
        match self {
            MessageError::Target(TargetError::Form, Some(url)) => {
                !url.contains("://") && !url.starts_with("`/")
            }
            // A path may contain another URL.
            MessageError::Target(TargetError::Scheme, Some(url)) => {
                !url.contains("://") || url.starts_with("`/")
            }
            _ => false,
        }
    }

    /// The error for the cookie `name`.
    pub(crate) fn from_cookie(fault: CookieFault, name: &str) -> MessageError {
        MessageError::Cookie(fault, Excerpt(name).to_string().into())
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use MessageError as E;
        write_error(f, self, |f| match self {
            E::Method(method) => write!(f, "the method {method} is not a token"),
            E::MethodTooLong(method) => write!(f, "the method {method} is too long"),
            E::Target(_, Some(url)) if self.lacks_scheme() => {
                write!(f, "the url {url} does not begin with http:// or https://")
            }
            E::Target(_, Some(url)) => write!(f, "the url {url} is invalid"),
            E::Target(_, None) => f.write_str("the url is invalid"),
            E::Origin(_, origin) => {
                write!(
                    f,
                    "the origin {origin} is not a scheme, a host and an optional port, as https://app.example.com is"
                )
            }
            E::Status => f.write_str("a status code is a number from 100 to 599"),
            E::FieldName(name) => write!(f, "the field name {name} is not a token"),
            E::FieldValue(name) => write!(f, "the value of the field {name} contains a control character"),
            E::Reference(name) => {
                write!(f, "the value of the field {name} has a `\\` that browsers take for a `/`")
            }
            E::Cookie(fault, name) => fault.write(f, name),
            E::UserId => f.write_str("the user-id contains a colon"),
            E::Credentials => f.write_str("the user-id or the password contains a control character"),
            E::Token => f.write_str("the token is empty or malformed"),
            E::EventId => f.write_str("the id of the event contains CR, LF or NUL"),
            E::EventType => f.write_str("the type of the event contains CR, LF or NUL"),
            E::Content => f.write_str("the method must not have content"),
            E::Value(reason) => f.write_str(reason),
        })
    }
}

/// How many bytes the name and the value of a cookie may have together (RFC 6265bis §5.6).
pub(super) const COOKIE_LEN_MAX: usize = 4096;

impl CookieFault {
    fn write(self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        match self {
            CookieFault::Name => write!(f, "the name of the cookie {name} is not a token"),
            CookieFault::Value => {
                write!(f, "the value of the cookie {name} contains a byte that must be encoded")
            }
            CookieFault::TooLong => {
                write!(f, "the cookie {name} is too long: more than {} bytes", COOKIE_LEN_MAX)
            }
            CookieFault::Domain => write!(f, "the domain of the cookie {name} is malformed"),
            CookieFault::Path => write!(f, "the path of the cookie {name} is malformed"),
            CookieFault::Prefix => write!(f, "the cookie {name} does not keep what its prefix promises"),
            CookieFault::Insecure => write!(f, "the cookie {name} is for other sites, but not secure"),
        }
    }
}

impl Error for MessageError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            MessageError::Origin(TargetError::Form, _) => None,
            MessageError::Target(error, _) if !self.lacks_scheme() => Some(error),
            MessageError::Origin(error, _) => Some(error),
            _ => None,
        }
    }
}

impl From<TargetError> for MessageError {
    fn from(error: TargetError) -> MessageError {
        MessageError::Target(error, None)
    }
}

impl From<Infallible> for MessageError {
    fn from(never: Infallible) -> MessageError {
        match never {}
    }
}

/// Why a text is not a request target, or a URL cannot be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TargetError {
    /// The target has none of the four forms, or not that of the method (RFC 9112 §3.2).
    Form,
    /// The path or query contains a byte that is not allowed there.
    Byte,
    /// The scheme is neither `http` nor `https`.
    Scheme,
    /// The host or port is missing or malformed. A received target has no userinfo either, and no host with escapes,
    /// which not everyone decodes (RFC 9110 §4.2).
    Authority,
    /// The host has characters beyond ASCII (RFC 5890), and the crate was built without its feature `idna`.
    Idna,
    /// The URL has a user and a password that cannot be sent (RFC 7617 §2) or have no place there, as in an origin.
    Userinfo,
    /// A base is neither an `http` or `https` URL nor a path, or has a query
    /// ([`Request::forwarded_to`](crate::Request::forwarded_to)).
    Base,
    /// A path is expected in place of a whole URL
    /// ([`HealthCheck::get`](crate::client::HealthCheck::get), [`ForwardAuth::new`](crate::middleware::ForwardAuth::new)).
    Path,
    /// The path contains a `..`, which could lead out of its base
    /// ([`Request::forwarded_to`](crate::Request::forwarded_to)).
    Outside,
    /// The path is not below the prefix that it should have
    /// ([`Request::forwarded_below`](crate::Request::forwarded_below)).
    Prefix,
    /// The request may not be forwarded, because its `max-forwards` is 0 or malformed (RFC 9110 §7.6.2).
    MaxForwards,
    /// The request has passed this gateway before, by its `via` (RFC 9110 §7.6.3): see
    /// [`Request::add_via`](crate::Request::add_via).
    Loop,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TargetError::Form => "the target has no form that fits the request",
            TargetError::Byte => "the target contains a byte that must be escaped",
            TargetError::Scheme => "the scheme is neither http nor https",
            TargetError::Authority => "the host or the port is missing or malformed",
            TargetError::Idna => "the host is not ASCII, and the crate was built without its feature `idna`",
            TargetError::Userinfo => "the user and the password cannot be sent, or have no place here",
            TargetError::Base => "the base begins with none of `http://`, `https://` and `/`, or has a query",
            TargetError::Path => "a path that begins with `/` is expected",
            TargetError::Outside => "the path could lead out of its base",
            TargetError::Prefix => "the path is not below the prefix",
            TargetError::MaxForwards => "the request may not be forwarded any more",
            TargetError::Loop => "the request has passed this gateway before",
        })
    }
}

impl Error for TargetError {}
