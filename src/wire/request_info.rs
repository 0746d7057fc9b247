//! [`RequestInfo`]: the facts of a request that its answer depends on (RFC 9110 §9.3, RFC 9112 §6.3).

use crate::message::{Method, Request, Version};

/// The facts of a request that its answer depends on, noted before a handler may rewrite the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// HEAD: the head of the answer is that of GET, and there is no body.
    pub(crate) is_head: bool,
    /// CONNECT: the client wants a tunnel, and no message follows this one.
    pub(crate) is_connect: bool,
    pub(crate) version: Version,
}

impl RequestInfo {
    #[inline]
    pub(crate) fn new(request: &Request) -> RequestInfo {
        let method = request.method();
        RequestInfo {
            is_head: method == Method::Head,
            is_connect: method == Method::Connect,
            version: request.version(),
        }
    }
}
