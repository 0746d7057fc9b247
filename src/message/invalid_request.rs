//! [`InvalidRequest`]: why a request cannot be made (RFC 9110 §9.1, RFC 9112 §3.2).

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use super::{InvalidMethod, InvalidTarget};
use crate::error::write_error;

/// Why a request cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// The method is not a token, or too long.
    Method(InvalidMethod),
    /// The URL is malformed, or has a scheme other than `http` and `https`.
    Target(InvalidTarget),
    /// The request has content, which its method must not have: a TRACE (RFC 9110 §9.3.8).
    Content,
}

impl fmt::Display for InvalidRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_error(f, self, |f| {
            f.write_str(match self {
                InvalidRequest::Method(_) => "the method is invalid",
                InvalidRequest::Target(_) => "the url is invalid",
                InvalidRequest::Content => "the method must not have content",
            })
        })
    }
}

impl Error for InvalidRequest {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            InvalidRequest::Method(error) => Some(error),
            InvalidRequest::Target(error) => Some(error),
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
        InvalidRequest::Target(error)
    }
}

impl From<Infallible> for InvalidRequest {
    fn from(never: Infallible) -> InvalidRequest {
        match never {}
    }
}
