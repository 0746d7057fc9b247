//! [`IdleConns`]: the connections of a pool that are not in use, from the oldest to the most recently used.

use std::sync::Arc;
use std::time::Duration;

use super::pool_group::PoolGroup;
use crate::client::exchange::ClientConnection;
use crate::net::{Conn, Sendable};
use crate::runtime::{Instant, later};

/// The idle connections of one pool, or of all that lead to one proxy.
///
/// A connection is closed by a system call, which other callers need not wait for, and the stream types of an
/// application may use the client when they are dropped. So those to be closed are returned, to be closed without a lock.
pub(super) struct IdleConns {
    /// The most recently used connection is at the end, and is taken first, so that surplus ones expire.
    conns: Vec<IdleConn>,
    /// How often all of them were taken.
    closings: u64,
    /// When they were swept last.
    swept_at: Option<Instant>,
    /// Counts the connections of all pools of the runtime.
    group: Arc<PoolGroup>,
}

/// A connection that is not in use.
pub(in crate::client) struct IdleConn {
    pub(in crate::client) conn: Box<Conn<Sendable>>,
    pub(in crate::client) connection_info: Arc<ClientConnection>,
    /// Whether it has carried an exchange. One that was opened for a request which took another has not.
    pub(super) is_used: bool,
    pub(super) idle_since: Instant,
    pub(super) expires_at: Instant,
    /// The number of the pool that has used it last, and counts it as idle.
    pub(super) pool: u64,
}

/// Connections that are looked at while others may come back.
pub(super) struct Sweep {
    conns: Vec<IdleConn>,
    closings: u64,
}

impl IdleConns {
    pub(super) fn new(group: Arc<PoolGroup>) -> IdleConns {
        IdleConns { conns: Vec::new(), closings: 0, swept_at: None, group }
    }

    /// Adds the connection that was used last.
    #[inline]
    pub(super) fn push(&mut self, idle_conn: IdleConn) {
        self.conns.push(idle_conn);
        self.group.count_idle(1);
    }

    /// Takes the most recently used connection.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<IdleConn> {
        let idle_conn = self.conns.pop()?;
        self.group.count_taken(1);
        Some(idle_conn)
    }

    /// Takes the connection that has been idle for longest.
    pub(super) fn take_oldest(&mut self) -> Option<IdleConn> {
        if self.conns.is_empty() {
            return None;
        }
        self.group.count_taken(1);
        Some(self.conns.remove(0))
    }

    /// Takes all connections, and those in a sweep as well.
    pub(super) fn take_all(&mut self) -> Vec<IdleConn> {
        self.closings += 1;
        self.take_conns()
    }

    /// Takes all connections for a sweep, unless another pool that shares them has swept them `now`.
    pub(super) fn begin_sweep(&mut self, now: Instant) -> Option<Sweep> {
        if self.swept_at.replace(now) == Some(now) {
            return None;
        }
        Some(Sweep { conns: self.take_conns(), closings: self.closings })
    }

    fn take_conns(&mut self) -> Vec<IdleConn> {
        self.group.count_taken(self.conns.len());
        std::mem::take(&mut self.conns)
    }

    /// Takes connections back after a sweep, if there are not more than `most` with those that came back meanwhile.
    /// Returns the others.
    pub(super) fn end_sweep(&mut self, Sweep { mut conns, closings }: Sweep, most: usize) -> Vec<IdleConn> {
        // While the lock was free, all connections may have been closed, or others opened instead of these.
        let room = match self.closings == closings {
            true => most.saturating_sub(self.conns.len()),
            false => 0,
        };
        let surplus = Vec::from_iter(conns.drain(..conns.len().saturating_sub(room)));
        self.group.count_idle(conns.len());
        // Connections that came back meanwhile were used more recently.
        conns.append(&mut self.conns);
        self.conns = conns;
        surplus
    }

    /// Since when the connection that has been idle for longest is idle.
    pub(super) fn oldest_since(&self) -> Option<Instant> {
        self.conns.first().map(|oldest| oldest.idle_since)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.conns.len()
    }

    /// How many of them the pool with this number was the last to use.
    pub(super) fn count_of(&self, pool: u64) -> usize {
        self.conns.iter().filter(|idle_conn| idle_conn.pool == pool).count()
    }
}

impl Drop for IdleConns {
    fn drop(&mut self) {
        self.take_all().into_iter().for_each(IdleConn::close);
    }
}

impl Sweep {
    /// Closes connections that were idle for too long or were closed by the server.
    pub(super) fn close_dead(&mut self, now: Instant) {
        let dead =
            self.conns.extract_if(.., |idle_conn| idle_conn.expires_at <= now || !idle_conn.is_quiet());
        dead.for_each(IdleConn::close);
    }
}

impl IdleConn {
    /// Whether the server has neither closed it nor sent anything unasked, as far as the runtime has noticed. No system
    /// call is made: the runtime is notified when the socket becomes readable.
    fn is_quiet(&mut self) -> bool {
        self.conn.transport.is_quiet_in_runtime()
    }

    /// As [`IdleConn::is_quiet`] just before it is used. A runtime is not notified while its thread is busy, so after
    /// more than a short idle time a system call looks at the socket.
    pub(super) fn is_still_quiet(&mut self, now: Instant) -> bool {
        self.is_quiet() && (later(self.idle_since, SHORT) > now || self.conn.transport.is_quiet_in_kernel())
    }

    pub(super) fn close(mut self) {
        self.conn.transport.try_shutdown();
    }
}

/// An idle time that is shorter than any server's timeout. Connections in constant use are idle no longer than this.
const SHORT: Duration = Duration::from_millis(1);
