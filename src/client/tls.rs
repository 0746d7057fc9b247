//! TLS in a client: its trust, its certificate, and the session with a server.

use super::builder::ClientBuilder;
use crate::client::exchange::ClientConnection;
use crate::net::tls;
use crate::net::tls::enabled::ClientTls;

impl ClientBuilder {
    /// Sets how connections to `https` URLs, and to proxies over TLS, are made secure. Default: TLS 1.2 and 1.3, the
    /// public certificate authorities, and no client certificate.
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.settings.tls = tls.connector();
        self
    }
}

impl ClientConnection {
    /// Returns the session that the handshake with the server has agreed on: its version, and the certificates of the
    /// server. `None` if the connection is not secure.
    pub fn tls(&self) -> Option<&tls::Session> {
        self.tls.as_deref()
    }
}
