//! The PROXY protocol of a server: its sources, and the header of a connection.

use std::rc::Rc;

use super::server::Server;
use crate::server::context::Context;
use crate::server::opening::{OpenedConnection, ProxyHeader, ProxyProtocol, RareConnectionState};
use crate::server::report::ExchangeReport;

impl Server {
    /// Sets from which peers a PROXY header is read before anything else, TLS included. Default: from none.
    ///
    /// The address in the header takes the place of the socket's: in [`Context::peer_addr`], reports, logs and
    /// [`Limits::connections_per_peer_max`](crate::Limits::connections_per_peer_max). With a header of the proxy itself,
    /// such as for a health check (`LOCAL`, `UNKNOWN`), the socket's stays. The header must arrive within
    /// [`Timeouts::head`](crate::Timeouts::head), together with TLS and the first head. The checksum of version 2 is not
    /// verified.
    pub fn proxy_protocol(mut self, proxy_protocol: ProxyProtocol) -> Server {
        self.settings.proxies.protocol = Some(proxy_protocol);
        self
    }
}

impl OpenedConnection<'_> {
    /// Returns the PROXY header of the connection, if any.
    pub fn proxy_header(&self) -> Option<Rc<ProxyHeader>> {
        RareConnectionState::proxy_header(self.conn)
    }
}

impl Context {
    /// Returns the PROXY header of the connection, if any. `None` without [`Server::proxy_protocol`], and after an
    /// upgrade.
    pub fn proxy_header(&self) -> Option<Rc<ProxyHeader>> {
        self.exchange.rare_state()?.proxy_header.clone()
    }
}

impl ExchangeReport<'_> {
    /// Returns the PROXY header of the connection, if any, even after an upgrade. Logs find [`ProxyHeader::unique_id`]
    /// there.
    pub fn proxy_header(&self) -> Option<Rc<ProxyHeader>> {
        self.header()
    }
}
