//! [`ProxyRefusal`]: the answer of a proxy that opens no tunnel (RFC 9110 §9.3.6).

use std::error::Error;
use std::fmt;

use crate::message::Response;

/// A proxy opened no tunnel, and this is its answer. A leaf, since errors and routes need it.
#[derive(Clone)]
pub(super) struct ProxyRefusal(pub(super) Response);

impl fmt::Display for ProxyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the proxy answered {}", self.0.status)
    }
}

impl fmt::Debug for ProxyRefusal {
    /// The fields may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProxyRefusal").field(&self.0.status).finish()
    }
}

impl Error for ProxyRefusal {}
