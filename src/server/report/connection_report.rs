//! [`ConnectionReport`]: a connection that is over, as [`Server::on_disconnect`](crate::Server::on_disconnect) sees it.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use crate::net::{Conn, Peer, PeerAddr};
use crate::server::opening::RareConnectionState;

/// A connection that is over.
///
/// `{}` formats it as one line, such as `192.0.2.1:50000: 3 requests, 310 bytes received, 1042 sent in 4.2s: idle`.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use corehttp::{Context, Server};
///
/// // A thread of the application takes the lines, and writes them.
/// let (lines, taken) = mpsc::sync_channel(1_000);
/// let server = Server::new().on_disconnect(move |connection| {
///     let _ = lines.try_send(connection.to_string());
/// });
/// # drop(taken);
/// # let _ = server.service(|ctx: &mut Context| ctx.response.set_text("hi"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ConnectionReport {
    /// The reason why the connection is over.
    pub end: ConnectionEnd,
    /// The address of the peer.
    pub peer_addr: PeerAddr,
    /// The number of the connection, as in [`Context::connection_id`](crate::Context::connection_id).
    pub connection_id: u64,
    /// How many requests it has carried, answered or not.
    pub requests: u64,
    /// How many bytes were received, without those of TLS, of a PROXY header, and of another protocol after an upgrade.
    pub received: u64,
    /// How many bytes were sent, counted as in `received`.
    pub sent: u64,
    /// The time from its [`Server::on_connect`](crate::Server::on_connect), or else from its acceptance.
    pub age: Duration,
    /// In the unit of [`Life`](crate::net::Life).
    pub(crate) opened_at: u64,
    rare_state: Option<Rc<RareConnectionState>>,
}

impl ConnectionReport {
    /// Begins the report of a connection that has carried so many exchanges. `None` if its life was not noted.
    pub(crate) fn new(conn: &Conn, exchange_count: u64) -> Option<Box<ConnectionReport>> {
        let opened_at = conn.life().opened_at()?;
        let traffic = conn.life().traffic();
        let Peer { addr: peer_addr, id: connection_id } = conn.peer();
        Some(Box::new(ConnectionReport {
            end: ConnectionEnd::Aborted,
            peer_addr,
            connection_id,
            requests: exchange_count,
            received: traffic.received,
            sent: traffic.sent,
            age: Duration::ZERO,
            opened_at,
            rare_state: RareConnectionState::from_conn(conn),
        }))
    }

    /// Returns whether the connection has opened. [`Server::on_connect`](crate::Server::on_connect) was then called
    /// with it.
    pub fn has_opened(&self) -> bool {
        !matches!(self.end, ConnectionEnd::Unopened(_))
    }

    /// Returns the connection's state from [`Server::on_connect`](crate::Server::on_connect), if it is of this type.
    pub fn connection_state<T: 'static>(&self) -> Option<Rc<T>> {
        self.rare_state.as_ref()?.state()
    }
}

impl fmt::Display for ConnectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConnectionReport { end, peer_addr, requests, received, sent, age, .. } = self;
        let plural = if *requests == 1 { "" } else { "s" };
        write!(
            f,
            "{peer_addr}: {requests} request{plural}, {received} bytes received, {sent} sent in {age:?}: {end}"
        )
    }
}

impl fmt::Debug for ConnectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionReport({self})")
    }
}

/// The reason why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionEnd {
    /// The connection never opened, for this reason.
    Unopened(Unopened),
    /// [`Server::on_connect`](crate::Server::on_connect) has refused the connection or panicked.
    Refused,
    /// The peer closed the connection between two requests or before the first, or the connection failed there.
    Peer,
    /// No request came in time ([`Timeouts::idle`](crate::Timeouts::idle), and
    /// [`Timeouts::head`](crate::Timeouts::head) for the first), or before the server ran out of descriptors.
    Idle,
    /// The connection has reached its age ([`Timeouts::connection_age`](crate::Timeouts::connection_age)).
    Age,
    /// The connection has carried its last response, by order of the request, the response or a limit.
    Last,
    /// A request was refused or cut off, or an exchange has failed. [`Server::on_error`](crate::Server::on_error) gets
    /// the cause, unless the peer is to blame for a reset.
    Failed,
    /// The connection was dropped after its handler had upgraded it or taken it over.
    Upgraded,
    /// The server stops. The connection was idle, or has carried its last response.
    Stop,
    /// The grace period of a stop was over, or the connection's task was dropped.
    Aborted,
}

/// The reason why a connection never opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unopened {
    /// The server or the peer had too many connections ([`Limits::connections_max`](crate::Limits::connections_max),
    /// [`Limits::connections_per_peer_max`](crate::Limits::connections_per_peer_max)).
    Overload,
    /// The PROXY header or the TLS handshake has failed, or took too long.
    Handshake,
    /// The connection was closed before the end of its PROXY header and its TLS handshake, by the peer or by a stop.
    /// Some peers only probe the port.
    Closed,
}

impl ConnectionEnd {
    /// Returns the reason as one word in lower case, for logs and labels, such as `peer` or `idle`.
    pub fn as_str(self) -> &'static str {
        match self {
            ConnectionEnd::Unopened(Unopened::Overload) => "overload",
            ConnectionEnd::Unopened(Unopened::Handshake) => "handshake",
            ConnectionEnd::Unopened(Unopened::Closed) => "unopened",
            ConnectionEnd::Refused => "refused",
            ConnectionEnd::Peer => "peer",
            ConnectionEnd::Idle => "idle",
            ConnectionEnd::Age => "age",
            ConnectionEnd::Last => "last",
            ConnectionEnd::Failed => "failed",
            ConnectionEnd::Upgraded => "upgraded",
            ConnectionEnd::Stop => "stop",
            ConnectionEnd::Aborted => "aborted",
        }
    }
}

impl fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
