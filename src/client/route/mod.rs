//! The way to an origin: straight, or through a proxy; and how it is opened.

mod bypass;
mod proxies;
mod proxy;

mod connect;
mod socks;
mod tunnel;

pub(super) use connect::connect;
pub use proxies::Proxies;
pub use proxy::{InvalidProxy, Proxy};
pub use socks::{SocksError, SocksReply};
