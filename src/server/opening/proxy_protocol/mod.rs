//! The PROXY protocol of HAProxy, versions 1 and 2: a proxy that passes bytes on writes the address of its client before
//! them. With one interface whether or not the feature `proxy-protocol` is on.

#[cfg(not(feature = "proxy-protocol"))]
mod disabled;
#[cfg(feature = "proxy-protocol")]
pub(crate) mod enabled;

#[cfg(not(feature = "proxy-protocol"))]
pub(crate) use disabled::{ProxyHeader, ProxyProtocol};
#[cfg(feature = "proxy-protocol")]
pub(crate) use enabled::ProxyProtocol;

#[cfg(feature = "proxy-protocol")]
pub(crate) use crate::net::ProxyHeader;
