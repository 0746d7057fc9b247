//! [`InvalidRequest`] and [`InvalidTarget`]: why a request cannot be made (RFC 9110 §9.1, RFC 9112 §3.2).

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use super::method::InvalidMethod;
use super::status::Status;
use crate::error_text::{Excerpt, without_secrets, write_error};
use crate::message::{InvalidCredentials, InvalidField};

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
    /// A field would break the head.
    Field(InvalidField),
    /// The user-id, the password or the token cannot be sent.
    Credentials(InvalidCredentials),
    /// A value cannot be made content, or a query, for this reason: see [`RequestBuilder`](crate::RequestBuilder).
    Value(Box<str>),
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
            InvalidRequest::Target(InvalidTarget::Form | InvalidTarget::Scheme, Some(url))
                if !url.contains("://") && !url.starts_with("`/") =>
            {
                write!(f, "the url {url} does not begin with http:// or https://")
            }
            InvalidRequest::Target(_, Some(url)) => write!(f, "the url {url} is invalid"),
            InvalidRequest::Target(_, None) => f.write_str("the url is invalid"),
            InvalidRequest::Content => f.write_str("the method must not have content"),
            InvalidRequest::Field(_) => f.write_str("a field is invalid"),
            InvalidRequest::Credentials(_) => f.write_str("the credentials cannot be sent"),
            InvalidRequest::Value(reason) => f.write_str(reason),
        })
    }
}

impl Error for InvalidRequest {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            InvalidRequest::Method(error) => Some(error),
            InvalidRequest::Target(error, _) => Some(error),
            InvalidRequest::Field(error) => Some(error),
            InvalidRequest::Credentials(error) => Some(error),
            InvalidRequest::Content | InvalidRequest::Value(_) => None,
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

impl From<InvalidField> for InvalidRequest {
    fn from(error: InvalidField) -> InvalidRequest {
        InvalidRequest::Field(error)
    }
}

impl From<InvalidCredentials> for InvalidRequest {
    fn from(error: InvalidCredentials) -> InvalidRequest {
        InvalidRequest::Credentials(error)
    }
}

impl From<Infallible> for InvalidRequest {
    fn from(never: Infallible) -> InvalidRequest {
        match never {}
    }
}

/// Why a text is not a request target, or a URL cannot be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidTarget {
    /// The target has none of the four forms, or one that does not fit the method (RFC 9112 §3.2).
    Form,
    /// The path or query contains a byte that is not allowed there.
    Byte,
    /// The scheme is neither `http` nor `https`.
    Scheme,
    /// The host or port is missing or malformed. A received target has no userinfo either, and no host with escapes,
    /// since not everyone decodes them (RFC 9110 §4.2).
    Authority,
    /// The host has characters beyond ASCII (RFC 5890), and the crate was built without its feature `idna`.
    Idna,
    /// The URL has a user and a password that cannot be sent (RFC 7617 §2), or stands for an origin, which has none.
    Userinfo,
    /// The path contains a `..`, which could lead out of the base that it must stay below: see
    /// [`Request::forwarded_to`](crate::Request::forwarded_to).
    Outside,
    /// The path is not below the prefix that it should have: see
    /// [`Request::forwarded_below`](crate::Request::forwarded_below).
    Prefix,
    /// The request may not be forwarded: its `max-forwards` is 0, or cannot be read (RFC 9110 §7.6.2).
    MaxForwards,
}

impl InvalidTarget {
    /// The status that the peer is answered with, if the peer is to blame.
    pub(crate) fn status(self) -> Option<Status> {
        match self {
            InvalidTarget::Outside => Some(Status::BAD_REQUEST),
            InvalidTarget::Prefix => Some(Status::NOT_FOUND),
            // So this server is the final recipient, and has no response of its own.
            InvalidTarget::MaxForwards => Some(Status::NOT_IMPLEMENTED),
            InvalidTarget::Form
            | InvalidTarget::Byte
            | InvalidTarget::Scheme
            | InvalidTarget::Authority
            | InvalidTarget::Idna
            | InvalidTarget::Userinfo => None,
        }
    }
}

impl fmt::Display for InvalidTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidTarget::Form => "the target has no form that fits the request",
            InvalidTarget::Byte => "the target contains a byte that must be escaped",
            InvalidTarget::Scheme => "the scheme is neither http nor https",
            InvalidTarget::Authority => "the host or the port is missing or malformed",
            InvalidTarget::Idna => {
                "the host is not ASCII, and the crate was built without its feature `idna`"
            }
            InvalidTarget::Userinfo => "the user and the password cannot be sent, or have no place here",
            InvalidTarget::Outside => "the path could lead out of its base",
            InvalidTarget::Prefix => "the path is not below the prefix",
            InvalidTarget::MaxForwards => "the request may not be forwarded any more",
        })
    }
}

impl Error for InvalidTarget {}
