//! [`ConnectionPermit`]: counts connections, and rejects those above a limit.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use crate::memory::lock;
use crate::message::Status;
use crate::net::{Conn, PeerAddr};
use crate::runtime;
use crate::server::connection::reject;
use crate::server::error_report::{ErrorCause, ErrorReport, Refused};
use crate::server::handler::Handler;
use crate::server::per_core::PerCore;
use crate::server::stats::{CoreStats, OpenGuard};
use crate::wire::Limits;

/// The counts that all cores share.
#[derive(Default)]
pub(in crate::server) struct ServerTotals {
    open: AtomicU64,
    accepted: AtomicU64,
    /// Connections by peer, if they have a limit.
    peers: Mutex<HashMap<IpAddr, usize>>,
}

/// Decides for one core which connections are let in.
pub(in crate::server) struct ConnectionLimiter {
    totals: Arc<ServerTotals>,
    stats: Arc<CoreStats>,
    connections_max: u64,
    per_peer_max: Option<usize>,
    /// How many rejected connections are still open, to be answered.
    rejecting: Cell<usize>,
}

impl ConnectionLimiter {
    pub(in crate::server) fn new(
        totals: Arc<ServerTotals>,
        stats: Arc<CoreStats>,
        limits: &Limits,
    ) -> Rc<ConnectionLimiter> {
        Rc::new(ConnectionLimiter {
            totals,
            stats,
            connections_max: limits.connections_max as u64,
            per_peer_max: limits.connections_per_peer_max,
            rejecting: Cell::new(0),
        })
    }

    /// Counts a connection of `peer`, unless a limit is reached. Returns the key that the connection is counted under,
    /// for [`ConnectionLimiter::release`].
    fn acquire(&self, peer: PeerAddr) -> Result<Option<Box<IpAddr>>, ErrorCause> {
        if self.totals.open.fetch_add(1, Relaxed) >= self.connections_max {
            self.totals.open.fetch_sub(1, Relaxed);
            return Err(ErrorCause::Connections(self.connections_max as usize));
        }
        let (Some(max), Some(peer)) = (self.per_peer_max, peer.bucket()) else { return Ok(None) };
        let mut peers = lock(&self.totals.peers);
        let count = peers.entry(peer).or_default();
        *count += 1;
        let is_one_too_many = *count > max;
        drop(peers);
        if is_one_too_many {
            self.release(Some(peer));
            return Err(ErrorCause::ConnectionsOfPeer(max));
        }
        Ok(Some(Box::new(peer)))
    }

    /// Ends the count of a connection.
    fn release(&self, peer: Option<IpAddr>) {
        let open = self.totals.open.fetch_sub(1, Relaxed);
        debug_assert!(open > 0, "a connection is counted before its count ends");
        let Some(peer) = peer else { return };
        let mut peers = lock(&self.totals.peers);
        debug_assert!(
            peers.get(&peer).is_some_and(|count| *count > 0),
            "a peer is counted before its count ends"
        );
        if let Entry::Occupied(mut count) = peers.entry(peer) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// The right of a connection to be served, held for as long as it is open.
pub(super) struct ConnectionPermit {
    limiter: Rc<ConnectionLimiter>,
    _open: OpenGuard,
    /// The peer that the connection is counted under. Boxed, since every connection holds a permit, and few servers
    /// count by peer.
    peer: Option<Box<IpAddr>>,
}

impl ConnectionPermit {
    /// Lets a connection in, or rejects it. Either way, the connection gets a number.
    pub(super) fn acquire(
        limiter: &Rc<ConnectionLimiter>,
        peer: PeerAddr,
        open: OpenGuard,
    ) -> (Result<ConnectionPermit, RejectedConnection>, u64) {
        let id = limiter.totals.accepted.fetch_add(1, Relaxed) + 1;
        limiter.stats.accepted.add(1);
        let limiter = limiter.clone();
        match limiter.acquire(peer) {
            Ok(peer) => (Ok(ConnectionPermit { limiter, _open: open, peer }), id),
            Err(cause) => (Err(RejectedConnection { limiter, open, cause }), id),
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.release(self.peer.as_deref().copied());
    }
}

/// A connection that was rejected, and stays open until its peer has been answered. Such a connection holds no permit,
/// or rejected peers would keep the server full.
pub(super) struct RejectedConnection {
    limiter: Rc<ConnectionLimiter>,
    open: OpenGuard,
    cause: ErrorCause,
}

impl RejectedConnection {
    /// Answers the peer if it speaks plain HTTP, in a task of its own, so that the accept loop never waits for a peer.
    pub(super) fn answer<H: Handler>(self, per_core: Rc<PerCore<H>>, conn: Conn, is_plain: bool) {
        let RejectedConnection { limiter, open, cause } = self;
        if limiter.rejecting.get() == REJECTING_MAX || !is_plain {
            // In a flood, that many responses are not worth their cost. Nor is a handshake, without which a secure peer
            // could not read a response.
            per_core.core.report(ErrorReport::from_connection(conn.peer(), cause));
            return;
        }
        limiter.rejecting.set(limiter.rejecting.get() + 1);
        runtime::spawn(async move {
            let status = match cause {
                ErrorCause::ConnectionsOfPeer(_) => Status::TOO_MANY_REQUESTS,
                _ => Status::SERVICE_UNAVAILABLE,
            };
            reject(&per_core, conn, Refused::new(status, cause)).await;
            debug_assert!(
                (1..=REJECTING_MAX).contains(&limiter.rejecting.get()),
                "this connection is counted"
            );
            limiter.rejecting.set(limiter.rejecting.get() - 1);
            drop(open);
        });
    }
}

/// How many rejected connections of a core may be answered at once.
const REJECTING_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that runs for long serves many addresses, so an entry that stays would be a leak.
    #[test]
    fn a_peer_without_connections_leaves_nothing_behind() {
        let (totals, stats) = <(Arc<ServerTotals>, Arc<CoreStats>)>::default();
        let limits = Limits { connections_per_peer_max: Some(1), ..Limits::default() };
        let limiter = ConnectionLimiter::new(totals.clone(), stats, &limits);
        let peer = PeerAddr::Tcp(([127, 0, 0, 1], 1).into());
        let permit = limiter.acquire(peer).expect("there is room");
        assert!(matches!(limiter.acquire(peer), Err(ErrorCause::ConnectionsOfPeer(1))));
        assert_eq!((totals.open.load(Relaxed), lock(&totals.peers).len()), (1, 1));
        limiter.release(permit.map(|peer| *peer));
        assert_eq!((totals.open.load(Relaxed), lock(&totals.peers).len()), (0, 0));
    }
}
