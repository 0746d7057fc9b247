//! [`Asked`]: the facts of a request that its answer depends on (RFC 9110 §9.3, RFC 9112 §6.3).

use crate::message::{Method, Request, Version};

/// The facts of a request that its answer depends on, noted before a handler may rewrite the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// HEAD: the head of the answer is that of GET, and there is no body.
    pub(crate) head: bool,
    /// CONNECT: the client wants a tunnel, and no message follows this one.
    pub(crate) connect: bool,
    pub(crate) version: Version,
}

impl Asked {
    #[inline]
    pub(crate) fn new(request: &Request) -> Asked {
        let method = request.method();
        Asked { head: method == Method::Head, connect: method == Method::Connect, version: request.version() }
    }
}
