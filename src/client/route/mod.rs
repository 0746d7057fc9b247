//! The way to an origin: straight, or through a proxy, and how one is gone through.

mod bypass;
mod proxies;
mod proxy;

mod socks;
mod through;
mod tunnel;

pub use proxies::Proxies;
pub use proxy::{InvalidProxy, Proxy};
pub use socks::{SocksError, SocksReply};
