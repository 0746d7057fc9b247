//! The way to an origin: directly or through a proxy.

pub(super) mod origin;

mod proxies;
mod proxy;

mod socks;
mod socks_handshake;

pub(crate) use origin::Origin;
pub(crate) use origin::TlsHandshake;
pub use proxies::Proxies;
pub(in crate::client) use proxy::TunnelLimits;
pub use proxy::{Proxy, ProxyError};
pub use socks_handshake::{SocksError, SocksReply};
