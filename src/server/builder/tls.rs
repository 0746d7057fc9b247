//! TLS on a server: its certificates, and the session of a connection.

use std::sync::Arc;

use super::server::Server;
use crate::net::tls::enabled::ServerTls;
use crate::net::{Address, tls};
use crate::server::context::Context;
use crate::server::opening::OpenedConnection;
use crate::server::report::ExchangeReport;

impl Server {
    /// Makes all connections of this server secure, including those given to
    /// [`Service::serve_connection`](crate::Service::serve_connection), except on addresses with
    /// [TLS of their own](Server::and_bind_tls). Default: none are.
    ///
    /// The handshake and the first head together must arrive within [`Timeouts::head`](crate::Timeouts::head). Other
    /// connections do not wait for a handshake. Failed handshakes are reported to [`Server::on_error`], except those
    /// where the peer merely went away. A connection beyond a limit of connections is closed without a response.
    ///
    /// To listen in the clear, too, bind the secure addresses by [`Server::and_bind_tls`] instead.
    pub fn tls(mut self, tls: ServerTls) -> Server {
        self.settings.acceptor = Some(tls.acceptor());
        self
    }

    /// Adds another `address` to listen on, where connections are secure. The other addresses do not change, and stay
    /// in the clear without [`Server::tls`] or TLS of their own. All addresses share cores, limits, counters and the
    /// stop. See [`Server::tls`].
    ///
    /// # Examples
    ///
    /// One server for both ports, which redirects from http to https:
    ///
    /// ```no_run
    /// use corehttp::middleware::wrap;
    /// use corehttp::{Context, Server};
    /// use corehttp::middleware::HttpsRedirect;
    /// use corehttp::tls::{self, ServerTls};
    ///
    /// fn main() -> corehttp::Result {
    ///     let identity = tls::Identity::from_files("/etc/tls/fullchain.pem", "/etc/tls/privkey.pem")?;
    ///     let app = |ctx: &mut Context| ctx.response.set_text("hello, securely");
    ///     Server::bind("[::]:80")
    ///         .and_bind_tls("[::]:443", ServerTls::new(identity))
    ///         .run(wrap(HttpsRedirect::new(), app))
    /// }
    /// ```
    pub fn and_bind_tls(mut self, address: impl Into<Address>, tls: ServerTls) -> Server {
        self.launch.addresses.push((address.into(), Some(tls.acceptor())));
        self
    }
}

impl OpenedConnection<'_> {
    /// Returns the TLS session if the connection is secure.
    pub fn tls(&self) -> Option<Arc<tls::Session>> {
        self.conn.transport.tls_session()
    }
}

impl Context {
    /// Returns the TLS session if the connection is secure. `None` after an upgrade. The first call on a connection
    /// assembles the session, which later ones share.
    pub fn tls(&self) -> Option<Arc<tls::Session>> {
        self.exchange.conn.tls_session()
    }
}

impl ExchangeReport<'_> {
    /// Returns the TLS session if the connection is secure, even after an upgrade.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use corehttp::Server;
    ///
    /// // A thread of the application takes the lines, and writes them.
    /// let (lines, taken) = mpsc::sync_channel(1_000);
    /// let server = Server::new().on_exchange(move |exchange| {
    ///     let _ = lines.try_send(match exchange.tls() {
    ///         Some(tls) => format!("{exchange} over {} {}", tls.version, tls.cipher_suite),
    ///         None => exchange.to_string(),
    ///     });
    /// });
    /// # drop(taken);
    /// # let _ = server.service(|ctx: &mut corehttp::Context| ctx.response.set_text("hi"));
    /// ```
    pub fn tls(&self) -> Option<Arc<tls::Session>> {
        self.tls_session()
    }
}
