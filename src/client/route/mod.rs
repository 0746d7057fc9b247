//! The way to an origin: directly or through a proxy.

mod proxies;
mod proxy;

mod socks;
mod socks_handshake;

pub use proxies::Proxies;
pub use proxy::{Proxy, ProxyError};
pub use socks_handshake::{SocksError, SocksReply};
