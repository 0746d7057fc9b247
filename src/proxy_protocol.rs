//! The PROXY protocol.

pub use crate::client::proxied::ProxyVersion;
pub use crate::net::proxy_header::{ProxyHeader, ProxyTls};
pub use crate::server::proxy_protocol::enabled::ProxyProtocol;
