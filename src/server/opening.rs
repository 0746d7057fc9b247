//! [`Opening`]: a new connection, and what precedes its first request; [`OpenedConnection`]: the application's view of it;
//! [`RareConnectionState`]: state that few connections have.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::connection_limiter::{ConnectionLimiter, PeerPermit};
use super::proxy_protocol::ProxyHeader;
use crate::net::tls::TlsAcceptor;
use crate::net::{Conn, PeerAddr, PeerCredentials};

/// A new connection, and what it does before its first request.
pub(super) struct Opening {
    pub(super) conn: Conn,
    /// Makes it secure.
    pub(super) acceptor: Option<TlsAcceptor>,
    /// Whether it may begin with a PROXY header. The peer is then counted after that, if it is counted.
    pub(super) has_header: bool,
    pub(super) limiter: Option<Rc<ConnectionLimiter>>,
    /// When the connection was accepted, if the time until its first poll is observed.
    pub(super) accepted_at: Option<Instant>,
}

impl Opening {
    /// Whether requests may come at once: nothing precedes them.
    pub(super) fn is_ready(&self) -> bool {
        self.acceptor.is_none() && !self.has_header && self.accepted_at.is_none()
    }
}

/// A connection before its first request: behind its PROXY header and its TLS handshake, if it has them.
///
/// See [`Server::on_connect`](crate::Server::on_connect).
pub struct OpenedConnection<'c> {
    pub(super) conn: &'c Conn,
    state: Option<Rc<dyn Any>>,
    is_refused: bool,
}

impl OpenedConnection<'_> {
    /// Returns the address of the peer, as [`Context::peer_addr`](crate::Context::peer_addr) does.
    pub fn peer_addr(&self) -> PeerAddr {
        self.conn.peer().addr
    }

    /// Returns the local address that the peer connected to, as [`Context::local_addr`](crate::Context::local_addr) does.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.conn.transport.local_addr()
    }

    /// Returns which process has connected through a Unix socket, as
    /// [`Context::peer_credentials`](crate::Context::peer_credentials) does.
    pub fn peer_credentials(&self) -> Option<PeerCredentials> {
        self.conn.transport.peer_credentials()
    }

    /// Returns the number of the connection, as [`Context::connection_id`](crate::Context::connection_id) does.
    pub fn id(&self) -> u64 {
        self.conn.peer().id
    }

    /// Sets the state of the connection, which its handlers get by
    /// [`Context::connection_state`](crate::Context::connection_state). It is dropped when the connection is closed.
    /// Replaces an earlier one.
    pub fn set_state<T: 'static>(&mut self, state: T) {
        self.state = Some(Rc::new(state));
    }

    /// Closes the connection without a response.
    pub fn refuse(&mut self) {
        self.is_refused = true;
    }

    /// Whether the application lets the connection in. Fails if its function panics.
    #[inline]
    pub(super) fn is_admitted(on_connect: Option<&OnConnect>, conn: &Conn) -> thread::Result<bool> {
        on_connect.map_or(Ok(true), |on_connect| OpenedConnection::is_admitted_by(on_connect, conn))
    }

    fn is_admitted_by(on_connect: &OnConnect, conn: &Conn) -> thread::Result<bool> {
        let mut opened = OpenedConnection { conn, state: None, is_refused: false };
        // A panic of the application's function must not end the core.
        let called = catch_unwind(AssertUnwindSafe(|| on_connect(&mut opened)));
        let OpenedConnection { state, is_refused, .. } = opened;
        if state.is_some() {
            RareConnectionState::update(conn, |rare_state| rare_state.state = state);
        }
        called.map(|()| !is_refused)
    }
}

impl fmt::Debug for OpenedConnection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedConnection")
            .field("peer_addr", &self.peer_addr())
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// The function of [`Server::on_connect`](super::Server::on_connect).
pub(super) type OnConnect = Arc<dyn Fn(&mut OpenedConnection<'_>) + Send + Sync>;

/// The rare values of a connection, which live as long as it does.
///
/// They are in a table beside the deadlines of the core, which has no memory until a connection has some, so that others
/// do not pay for them.
#[derive(Clone, Default)]
pub(super) struct RareConnectionState {
    /// The PROXY header that the connection began with.
    pub(super) proxy_header: Option<Rc<ProxyHeader>>,
    /// The count of the peer that the header named, held as long as the connection is open.
    pub(super) peer_permit: Option<Rc<PeerPermit>>,
    /// The state that the application has set.
    pub(super) state: Option<Rc<dyn Any>>,
}

impl RareConnectionState {
    /// The state of this connection, if it has any.
    pub(super) fn from_conn(conn: &Conn) -> Option<Rc<RareConnectionState>> {
        let rare_state: Rc<dyn Any> = conn.rare_state()?;
        rare_state.downcast().ok()
    }

    /// The PROXY header that this connection began with.
    pub(super) fn proxy_header(conn: &Conn) -> Option<Rc<ProxyHeader>> {
        RareConnectionState::from_conn(conn)?.proxy_header.clone()
    }

    /// Changes the state of this connection.
    pub(super) fn update(conn: &Conn, change: impl FnOnce(&mut RareConnectionState)) {
        let mut rare_state = RareConnectionState::from_conn(conn).as_deref().cloned().unwrap_or_default();
        change(&mut rare_state);
        conn.set_rare_state(Rc::new(rare_state));
    }
}
