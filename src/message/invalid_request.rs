//! [`InvalidRequest`]: why a request cannot be made (RFC 9110 §9.1, RFC 9112 §3.2).

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use super::{InvalidMethod, InvalidTarget};
use crate::error::{Excerpt, without_secrets, write_error};

/// Why a request cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// The method is not a token, or too long.
    Method(InvalidMethod),
    /// The URL is malformed, or has a scheme other than `http` and `https`. With the quoted beginning of the URL, if it
    /// is known, without user, password, query and fragment.
    Target(InvalidTarget, Option<Box<str>>),
    /// The request has content, which its method must not have: a TRACE (RFC 9110 §9.3.8).
    Content,
}

impl InvalidRequest {
    /// The error for `url`.
    #[cold]
    pub(crate) fn from_url(invalid: InvalidTarget, url: &str) -> InvalidRequest {
        InvalidRequest::Target(invalid, Some(Excerpt(&without_secrets(url)).to_string().into()))
    }
}

impl fmt::Display for InvalidRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| match self {
            InvalidRequest::Method(_) => f.write_str("the method is invalid"),
            InvalidRequest::Target(_, Some(url)) => write!(f, "the url {url} is invalid"),
            InvalidRequest::Target(_, None) => f.write_str("the url is invalid"),
            InvalidRequest::Content => f.write_str("the method must not have content"),
        })
    }
}

impl Error for InvalidRequest {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            InvalidRequest::Method(error) => Some(error),
            InvalidRequest::Target(error, _) => Some(error),
            InvalidRequest::Content => None,
        }
    }
}

impl From<InvalidMethod> for InvalidRequest {
    fn from(error: InvalidMethod) -> InvalidRequest {
        InvalidRequest::Method(error)
    }
}

impl From<InvalidTarget> for InvalidRequest {
    fn from(error: InvalidTarget) -> InvalidRequest {
        InvalidRequest::Target(error, None)
    }
}

impl From<Infallible> for InvalidRequest {
    fn from(never: Infallible) -> InvalidRequest {
        match never {}
    }
}
