//! TLS on a server: what it shows to peers, and what a handler learns about them.

use super::{Context, Server};
use crate::net::Transport;
use crate::net::tls::enabled::{ServerTls, TlsSession};

impl Server {
    /// Makes all connections of this server secure, including those given to
    /// [`Service::serve_connection`](super::Service::serve_connection). Default: none are.
    ///
    /// A handshake must complete within [`Timeouts::head`](crate::Timeouts::head), a time that the first head shares.
    /// Other connections do not wait for it. Failed handshakes are reported to [`Server::on_error`], except those where
    /// the peer merely went away. A connection that is refused because there are too many is closed without an answer.
    ///
    /// For http on another port, start a second server in the same program: see
    /// [`Request::host`](crate::Request::host), which redirects to https.
    pub fn tls(mut self, tls: ServerTls) -> Server {
        self.settings.acceptor = Some(tls.acceptor());
        self
    }
}

impl Context {
    /// Returns what the handshake agreed on and who the peer is, assembled anew by each call; `None` if the connection
    /// is not secure, or was taken over.
    pub fn tls(&self) -> Option<TlsSession> {
        match &self.conn.borrow().as_ref()?.transport {
            Transport::Tls(stream) => Some(stream.session()),
            _ => None,
        }
    }
}
