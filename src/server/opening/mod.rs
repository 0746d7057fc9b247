//! A connection until its first request: whether there is room for it, its PROXY header, and who its peer is.

mod connection_limiter;
mod opening;
pub(crate) mod proxy_protocol;

pub(super) use connection_limiter::{ConnectionLimiter, ConnectionPermit, PeerPermit, ServerTotals};
pub use opening::OpenedConnection;
pub(super) use opening::{Opening, RareConnectionState};
pub(super) use proxy_protocol::{ProxyHeader, ProxyProtocol};
