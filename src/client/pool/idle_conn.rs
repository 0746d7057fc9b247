//! [`IdleConn`]: a connection of a pool while no exchange uses it.

use std::sync::Arc;
use std::time::Duration;

use crate::client::response::ClientConnection;
use crate::net::{Conn, Sendable};
use crate::runtime::{Instant, later};

/// A connection that is not in use. Dropping it closes it without a word; [`IdleConn::close`] says goodbye, as TLS wants
/// it (RFC 8446 §6.1).
pub(in crate::client) struct IdleConn {
    pub(in crate::client) conn: Box<Conn<Sendable>>,
    pub(in crate::client) connection: Arc<ClientConnection>,
    /// Whether it has carried an exchange. One that was opened for a request which took another has not.
    pub(in crate::client) is_used: bool,
    pub(super) idle_since: Instant,
    pub(super) expires_at: Instant,
    /// The number of the pool that has used it last, and counts it as idle.
    pub(super) pool: u64,
}

impl IdleConn {
    /// A connection that has carried an exchange of the pool with this number, and is idle from `now` on, for `idle` at
    /// most.
    pub(super) fn new(
        conn: Box<Conn<Sendable>>,
        connection: Arc<ClientConnection>,
        pool: u64,
        now: Instant,
        idle: Duration,
    ) -> IdleConn {
        IdleConn { conn, connection, is_used: true, idle_since: now, expires_at: later(now, idle), pool }
    }

    /// Whether it was idle for as long as it may be. The server closes it at about that time, so it is not used any more.
    pub(super) fn has_expired(&self, now: Instant) -> bool {
        self.expires_at <= now
    }

    /// Whether the server has neither closed it nor sent anything unasked, as far as the runtime has noticed. No system
    /// call is made: the runtime is notified when the socket becomes readable.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.conn.transport.is_quiet_in_runtime()
    }

    /// As [`IdleConn::is_quiet`] just before it is used. A runtime is not notified while its thread is busy, so after
    /// more than a short idle time a system call looks at the socket.
    pub(super) fn is_still_quiet(&mut self, now: Instant) -> bool {
        self.is_quiet() && (later(self.idle_since, SHORT) > now || self.conn.transport.is_quiet_in_kernel())
    }

    /// Closes it in order, as TLS wants it (RFC 8446 §6.1).
    pub(super) fn close(mut self) {
        self.conn.transport.try_shutdown();
    }
}

/// An idle time that is shorter than any server's timeout. Connections in constant use are idle no longer than this.
const SHORT: Duration = Duration::from_millis(1);
