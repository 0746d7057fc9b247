//! The PROXY protocol of a client: a header at the beginning of its connections.

use super::balance::Balancer;
use super::builder::ClientBuilder;
use super::client::Client;
use crate::net::ProxyHeader;

impl ClientBuilder {
    /// Begins each connection with a PROXY header of this version, before TLS, as servers expect it from a load balancer.
    /// Default: without.
    ///
    /// The client and its health checks connect for themselves. Their header is [`ProxyHeader::local`], and the server goes by
    /// the address of the socket. [`Client::on_behalf_of`] names another client. With a proxy ([`ClientBuilder::proxies`]), the
    /// proxy reads the header.
    pub fn proxy_protocol(mut self, version: ProxyVersion) -> Self {
        self.settings.dial.preface = Some(version.encode(&ProxyHeader::local()).into());
        self
    }
}

impl Client {
    /// Returns this client with connections of its own that begin with `header`, for a gateway on behalf of one of its clients.
    /// Settings, cookies, known addresses and TLS sessions are shared. Counts are not.
    ///
    /// A server takes all requests of a connection for those of the client that its header names. So make one such client for
    /// each accepted connection, for example by [`Server::on_connect`](crate::Server::on_connect), and keep it no longer. Its
    /// connections are closed after a long idle time, or with its last clone.
    ///
    /// # Examples
    ///
    /// A gateway in front of a server that requires PROXY headers:
    ///
    /// ```no_run
    /// use corehttp::{Client, Context, PeerAddr, Server};
    /// use corehttp::proxy_protocol::{ProxyHeader, ProxyVersion};
    ///
    /// async fn pass(ctx: &mut Context) -> corehttp::Result {
    ///     let client = ctx.connection_state::<Client>().expect("each connection over TCP has a client");
    ///     let onward = ctx.request.forwarded_to("http://127.0.0.1:9000")?;
    ///     ctx.forward(client.open_call(&onward)).await
    /// }
    ///
    /// fn main() -> corehttp::Result {
    ///     let client = Client::new();
    ///     Server::bind("0.0.0.0:80")
    ///         .on_connect(move |conn| match (conn.peer_addr(), conn.local_addr()) {
    ///             (PeerAddr::Tcp(peer), Some(local)) => {
    ///                 let header = ProxyHeader::new(peer, local);
    ///                 conn.set_state(client.on_behalf_of(&header, ProxyVersion::V2));
    ///             }
    ///             _ => conn.refuse(),
    ///         })
    ///         .run(pass)
    /// }
    /// ```
    #[must_use]
    pub fn on_behalf_of(&self, header: &ProxyHeader, version: ProxyVersion) -> Client {
        let mut settings = self.sender.settings().clone();
        settings.dial.preface = Some(version.encode(header).into());
        Client { sender: self.sender.with_settings(settings) }
    }
}

impl Balancer {
    /// Returns this balancer with the connections of `client`, such as one [on behalf of](Client::on_behalf_of) another. Hosts,
    /// counts, penalties and health checks are shared.
    #[must_use]
    pub fn through(&self, client: &Client) -> Balancer {
        self.with_sender(client.sender.clone())
    }
}

/// The version of a PROXY header that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProxyVersion {
    /// Text: the addresses alone.
    V1,
    /// Binary: the addresses, and the fields (TLVs) of a received header.
    V2,
}

impl ProxyVersion {
    fn encode(self, header: &ProxyHeader) -> Vec<u8> {
        match self {
            ProxyVersion::V1 => header.to_bytes_v1(),
            ProxyVersion::V2 => header.to_bytes_v2(),
        }
    }
}
