//! The way to an origin: directly or through a proxy.

mod bypass;
mod proxies;
mod proxy;

mod socks;
mod through;
mod tunnel;

pub use proxies::Proxies;
pub use proxy::{InvalidProxy, Proxy};
pub use socks::{SocksError, SocksReply};
