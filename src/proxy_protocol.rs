//! PROXY headers, in which a load balancer that passes bytes on names the client. Servers read them; clients and gateways
//! write them.
//!
//! ```no_run
//! use std::net::IpAddr;
//!
//! use corehttp::proxy_protocol::ProxyProtocol;
//! use corehttp::{Context, Server};
//!
//! fn main() -> corehttp::Result {
//!     let balancer: IpAddr = "10.0.0.7".parse().map_err(corehttp::Error::other)?;
//!     Server::bind("[::]:8080")
//!         .proxy_protocol(ProxyProtocol::required(move |peer| peer == balancer))
//!         .run(|ctx: &mut Context| ctx.response.set_text(format!("Hello, {}", ctx.peer_addr())))
//! }
//! ```
//!
//! A client begins each connection with such a header by `ClientBuilder::proxy_protocol`, and a gateway that speaks for its
//! peers by `Client::on_behalf_of`.

pub use crate::client::proxy_protocol::ProxyVersion;
pub use crate::net::proxy_header::{ProxyHeader, ProxyTls};
pub use crate::server::opening::proxy_protocol::enabled::ProxyProtocol;
