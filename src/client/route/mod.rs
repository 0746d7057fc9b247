//! The way to an origin: directly or through a proxy.

pub(super) mod origin;

mod proxies;
mod proxy;

mod socks;
mod socks_handshake;

pub(crate) use origin::Origin;
pub(super) use origin::TlsHandshake;
pub use proxies::Proxies;
pub use proxy::{InvalidProxy, Proxy};
pub use socks_handshake::{SocksError, SocksReply};
