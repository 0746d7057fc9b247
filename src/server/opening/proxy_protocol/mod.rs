//! The PROXY protocol of HAProxy, versions 1 and 2. A proxy that passes bytes on writes the address of its client
//! before them. The interface is the same without the feature `proxy-protocol`.

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
