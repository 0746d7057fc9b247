//! TLS on a server: the certificates that peers see, and the session that a handler sees.

use super::context::Context;
use super::server::Server;
use crate::net::tls::enabled::{ServerTls, TlsSession};

impl Server {
    /// Makes all connections of this server secure, including those given to
    /// [`Service::serve_connection`](super::Service::serve_connection). Default: none are.
    ///
    /// The handshake and the first head together must arrive within [`Timeouts::head`](crate::Timeouts::head). Other
    /// connections do not wait for a handshake. Failed handshakes are reported to [`Server::on_error`], except those
    /// where the peer merely went away. A connection that is refused because there are too many is closed without a
    /// response.
    ///
    /// To serve http on another port, start a second server in the same program. The example of
    /// [`Request::host`](crate::Request::host) is one that redirects to https.
    pub fn tls(mut self, tls: ServerTls) -> Server {
        self.settings.acceptor = Some(tls.acceptor());
        self
    }
}

impl Context {
    /// Returns the session that the handshake has agreed on; `None` if the connection is not secure, or was upgraded.
    /// Each call assembles the session anew.
    pub fn tls(&self) -> Option<TlsSession> {
        self.exchange.conn.with(|conn| conn.transport.tls_session()).flatten()
    }
}
