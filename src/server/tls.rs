//! TLS on a server: what it shows to peers, and what a handler learns of them.

use super::{Context, Server};
use crate::net::Transport;
use crate::net::tls::enabled::{ServerTls, TlsSession};

impl Server {
    /// Makes all its connections secure, including those given to
    /// [`Service::serve_connection`](super::Service::serve_connection). Default: none.
    ///
    /// A handshake has to end within [`Timeouts::head`](crate::Timeouts::head), which the first head shares. Other
    /// connections do not wait for it. Failed handshakes are reported to [`Server::on_error`], except those of peers
    /// that just go away. Connections that are refused because there are too many are closed without an answer.
    pub fn tls(mut self, tls: ServerTls) -> Server {
        self.settings.acceptor = Some(tls.acceptor());
        self
    }
}

impl Context {
    /// What the handshake has agreed on, and who the peer is; made anew by each call. None if the connection is not
    /// secure, or was taken over.
    pub fn tls(&self) -> Option<TlsSession> {
        match &self.conn.borrow().as_ref()?.transport {
            Transport::Tls(stream) => Some(stream.session()),
            _ => None,
        }
    }
}
