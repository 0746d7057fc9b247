//! PROXY headers, in which load balancers of bytes name the client. Such balancers are HAProxy with `send-proxy-v2`, nginx's
//! `stream` with `proxy_protocol on`, and those of clouds. Servers read the headers. Clients and gateways write them.
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
//! The address in the header takes the place of the peer's, in [`Context::peer_addr`](crate::Context::peer_addr),
//! [`Context::client_ip`](crate::Context::client_ip), logs, spans and rates. The balancer needs no place among [trusted
//! proxies](crate::Server::trusted_proxies).
//!
//! A client begins each connection with such a header by `ClientBuilder::proxy_protocol`. A gateway that speaks for its peers
//! uses `Client::on_behalf_of`.

pub use crate::client::proxy_protocol::ProxyVersion;
pub use crate::net::proxy_header::{ProxyHeader, ProxyTls};
pub use crate::server::opening::proxy_protocol::enabled::ProxyProtocol;
