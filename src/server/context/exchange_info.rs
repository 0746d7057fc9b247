//! [`ExchangeInfo`]: what is noted about an exchange before its handler runs, and what the handler can ask about it.

use std::net::SocketAddr;
use std::time::Instant;

use super::Context;
use crate::net::{Conn, Peer, PeerAddr};
use crate::wire::{ConnectionOption, RequestInfo, persists};

/// What is noted before the handler runs. The framing of the answer and the fate of the connection do not depend on the
/// request afterwards, since the handler may rewrite it.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct ExchangeInfo {
    pub(in crate::server) request_info: RequestInfo,
    /// Whether the peer said that this request is its last.
    pub(super) is_last: bool,
    /// Whether another request may follow, all things considered.
    pub(super) persists: bool,
    pub(super) number: u64,
    /// Whether the head of the current request was refused, so that the previous one must not be reported in its place.
    pub(super) is_head_refused: bool,
    /// The connection and the number of the exchange that was reported last.
    pub(super) reported: Option<(u64, u64)>,
    pub(super) arrived: Instant,
    /// Whether there is no peer: the answer is for [`Service::respond`](crate::Service::respond).
    pub(in crate::server) detached: bool,
}

impl ExchangeInfo {
    pub(super) fn new(arrived: Instant) -> ExchangeInfo {
        ExchangeInfo {
            request_info: RequestInfo::default(),
            is_last: false,
            persists: false,
            number: 0,
            is_head_refused: false,
            reported: None,
            arrived,
            detached: false,
        }
    }
}

impl Context {
    /// Counts a request whose head has arrived, and notes what its answer depends on.
    #[inline]
    pub(in crate::server) fn note_request(&mut self) {
        let request = &self.request;
        let request_info = RequestInfo::new(request);
        let number = self.info.number + 1;
        let may_follow = self.shared.bounds.limits.requests_per_connection_max.is_none_or(|max| number < max);
        self.info.is_last = !persists(request_info.version, ConnectionOption::from_headers(&request.headers));
        // Behind a CONNECT the peer may already send bytes for its tunnel, whatever the answer is: they are not a
        // request.
        self.info.persists = may_follow && !self.info.is_last && !request_info.is_connect;
        (self.info.request_info, self.info.number) = (request_info, number);
        self.info.arrived = self.shared.clock.now();
        self.shared.stats.requests.add(1);
    }
}

/// Facts about the exchange.
impl Context {
    /// Returns the address of the peer that connected. Behind a proxy that is the proxy's address: see
    /// [`Context::client_ip`].
    #[doc(alias("remote_addr", "ConnectInfo"))]
    pub fn peer_addr(&self) -> PeerAddr {
        self.peer().addr
    }

    /// Returns the local address that the peer connected to; `None` if the connection is not TCP, was taken over, or is
    /// served by a [`Service`](crate::Service).
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.conn.borrow().as_ref().and_then(|conn| conn.transport.local_addr())
    }

    /// Returns the number of the connection, unique within this server. With [`Context::exchange_number`] it identifies
    /// the request, in logs for example; a [`ErrorReport`](crate::ErrorReport) has both, too.
    #[doc(alias = "request id")]
    pub fn connection_id(&self) -> u64 {
        self.peer().id
    }

    /// Returns the number of this exchange on its connection, counted from 1.
    pub fn exchange_number(&self) -> u64 {
        self.info.number
    }

    /// Returns when the last bytes of the request's head arrived. For a pipelined request, it may be any moment between
    /// that and the end of the exchanges before it.
    pub fn arrived(&self) -> Instant {
        self.info.arrived
    }

    /// Returns whether the answer has begun, for example with [`Context::body_writer`](super::Context::body_writer) or
    /// [`Context::forward`](super::Context::forward). From then on it is too late to change the response.
    #[doc(alias("headers_sent", "is_committed"))]
    pub fn has_responded(&self) -> bool {
        !self.outgoing.is_unsent()
    }

    /// Returns whether the server is about to stop. If so, this answer is the last one of its connection, unless its
    /// head was sent before.
    ///
    /// By then no new connections are accepted, so a health check that uses this can hardly be asked any more. To send
    /// a load balancer elsewhere first, let the check fail as soon as the signal to stop arrives, and let the future of
    /// [`Server::on_stop`](crate::Server::on_stop) complete some seconds later.
    pub fn is_stopping(&self) -> bool {
        self.shared.deadlines.is_stopping()
    }

    /// Waits until the server is about to stop.
    ///
    /// The future does not borrow the context. So a handler that streams for long, or has taken the connection over,
    /// can wait for it alongside everything else, and finish within the grace period.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::time::Duration;
    /// use corehttp::Context;
    ///
    /// async fn ticks(ctx: &mut Context) -> corehttp::Result {
    ///     let mut stopping = pin!(ctx.stopping());
    ///     let mut out = ctx.body_writer().await?;
    ///     loop {
    ///         tokio::select! {
    ///             () = &mut stopping => break,
    ///             () = tokio::time::sleep(Duration::from_secs(60)) => out.write_all(b"tick\n").await?,
    ///         }
    ///         out.flush().await?;
    ///     }
    ///     Ok(out.finish().await?)
    /// }
    /// # let _ = corehttp::Server::new().service(ticks);
    /// ```
    pub fn stopping(&self) -> impl Future<Output = ()> + use<> {
        let deadlines = self.shared.deadlines.clone();
        async move { deadlines.stopping().await }
    }

    /// Who is at the other end of the connection, even if it was taken over.
    pub(super) fn peer(&self) -> Peer {
        let peer = self.conn.borrow().as_ref().map(Conn::peer);
        peer.or_else(|| self.upgraded.as_ref().map(|upgraded| upgraded.peer())).unwrap_or_default()
    }
}
