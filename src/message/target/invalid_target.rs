//! [`InvalidTarget`]: why a text is not a request target (RFC 9112 §3.2).

use std::error::Error;
use std::fmt;

use crate::message::Status;

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
    /// [`Request::target_to`](crate::Request::target_to).
    Outside,
    /// The path is not below the prefix that it should have: see
    /// [`Request::target_below`](crate::Request::target_below).
    Prefix,
    /// The request may not be forwarded: its `max-forwards` is 0, or cannot be read (RFC 9110 §7.6.2).
    MaxForwards,
}

impl InvalidTarget {
    /// The status that the peer is answered with, if the peer is to blame.
    pub(crate) fn owed(self) -> Option<Status> {
        match self {
            InvalidTarget::Outside => Some(Status::BAD_REQUEST),
            InvalidTarget::Prefix => Some(Status::NOT_FOUND),
            // So this server is the final recipient, and has no answer of its own.
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
