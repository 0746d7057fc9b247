//! A connection until its first request: its admission, its PROXY header, and its peer.

mod connection_limiter;
mod opening;
pub(crate) mod proxy_protocol;

pub(crate) use connection_limiter::{ConnectionLimiter, ConnectionPermit, PeerPermit, ServerTotals};
pub use opening::OpenedConnection;
pub(crate) use opening::{Opening, RareConnectionState};
pub(crate) use proxy_protocol::{ProxyHeader, ProxyProtocol};
