//! [`Opening`]: a new connection, and what precedes its first request; [`OpenedConnection`]: the application's view of it;
//! [`RareConnectionState`]: state that few connections have.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use super::connection_limiter::{ConnectionLimiter, PeerPermit};
use super::proxy_protocol::ProxyHeader;
use crate::net::tls::TlsAcceptor;
use crate::net::{Conn, PeerAddr, PeerCredentials};

/// A new connection, and what it does before its first request.
pub(crate) struct Opening {
    pub(crate) conn: Conn,
    /// Makes it secure.
    pub(crate) acceptor: Option<TlsAcceptor>,
    /// Whether a PROXY header may come first. The peer that it names is counted then, in place of the proxy.
    pub(crate) expects_proxy_header: bool,
    pub(crate) limiter: Option<Rc<ConnectionLimiter>>,
    /// When the connection was accepted, if the time until its first poll is observed.
    pub(crate) accepted_at: Option<Instant>,
}

impl Opening {
    /// Whether requests may come at once: nothing precedes them.
    pub(crate) fn is_ready(&self) -> bool {
        self.acceptor.is_none() && !self.expects_proxy_header && self.accepted_at.is_none()
    }
}

/// A connection before its first request: after its PROXY header and its TLS handshake, if it has them.
///
/// See [`Server::on_connect`](crate::Server::on_connect).
pub struct OpenedConnection<'c> {
    pub(crate) conn: &'c Conn,
    states: Vec<Rc<dyn Any>>,
    is_refused: bool,
}

impl OpenedConnection<'_> {
    /// Returns the address of the peer, as [`Context::peer_addr`](crate::Context::peer_addr) does.
    pub fn peer_addr(&self) -> PeerAddr {
        self.conn.peer().addr
    }

    /// Returns the local address that the peer connected to, like [`Context::local_addr`](crate::Context::local_addr).
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.conn.transport.local_addr()
    }

    /// Returns which process has connected through a Unix socket, like
    /// [`Context::peer_credentials`](crate::Context::peer_credentials).
    pub fn peer_credentials(&self) -> Option<PeerCredentials> {
        self.conn.transport.peer_credentials()
    }

    /// Returns the number of the connection, as [`Context::connection_id`](crate::Context::connection_id) does.
    pub fn connection_id(&self) -> u64 {
        self.conn.peer().id
    }

    /// Sets the state of the connection, which its handlers get by
    /// [`Context::connection_state`](crate::Context::connection_state). It is dropped when the connection is closed.
    /// Replaces an earlier one of the same type.
    pub fn set_state<T: 'static>(&mut self, state: T) {
        self.states.retain(|known| !known.is::<T>());
        self.states.push(Rc::new(state));
    }

    /// Closes the connection without a response.
    pub fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// Whether the application lets the connection in, as `ask` decides. Keeps the states that it has set.
    pub(crate) fn is_admitted(conn: &Conn, ask: impl FnOnce(&mut OpenedConnection<'_>)) -> bool {
        let mut opened = OpenedConnection { conn, states: Vec::new(), is_refused: false };
        ask(&mut opened);
        let OpenedConnection { states, is_refused, .. } = opened;
        if !states.is_empty() {
            RareConnectionState::update(conn, |rare_state| rare_state.states = states);
        }
        !is_refused
    }
}

impl fmt::Debug for OpenedConnection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedConnection")
            .field("peer_addr", &self.peer_addr())
            .field("id", &self.connection_id())
            .finish_non_exhaustive()
    }
}

/// The rare values of a connection, which live as long as it does.
///
/// They are beside the entries in the table of the core's connections, and take no memory until a connection has some, so
/// that others do not pay for them.
#[derive(Clone, Default)]
pub(crate) struct RareConnectionState {
    /// The PROXY header that the connection began with.
    pub(crate) proxy_header: Option<Rc<ProxyHeader>>,
    /// The count of the peer that the header named, held as long as the connection is open.
    pub(crate) peer_permit: Option<Rc<PeerPermit>>,
    /// The states that the application has set, one of each type.
    states: Vec<Rc<dyn Any>>,
}

impl RareConnectionState {
    /// The state of this connection, if it has any.
    pub(crate) fn from_conn(conn: &Conn) -> Option<Rc<RareConnectionState>> {
        let rare_state: Rc<dyn Any> = conn.rare_state()?;
        rare_state.downcast().ok()
    }

    /// The state of this type that the application has set.
    pub(crate) fn state<T: 'static>(&self) -> Option<Rc<T>> {
        self.states.iter().find_map(|state| state.clone().downcast().ok())
    }

    /// The PROXY header that this connection began with.
    pub(crate) fn proxy_header(conn: &Conn) -> Option<Rc<ProxyHeader>> {
        RareConnectionState::from_conn(conn)?.proxy_header.clone()
    }

    /// Changes the state of this connection.
    pub(crate) fn update(conn: &Conn, change: impl FnOnce(&mut RareConnectionState)) {
        let mut rare_state = RareConnectionState::from_conn(conn).as_deref().cloned().unwrap_or_default();
        change(&mut rare_state);
        conn.set_rare_state(Rc::new(rare_state));
    }
}
