//! [`ConnectionPermit`]: counts connections, and refuses those above a limit.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::memory::lock;
use crate::net::{ConnTable, PeerAddr};
use crate::server::counts::{CoreCounterSet, OpenGuard};
use crate::server::error::ErrorCause;
use crate::wire::Limits;

/// The counts that all cores share. They are written for each connection, and never for a request, so their cache lines
/// are their own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct ServerTotals {
    open: AtomicU64,
    accepted: AtomicU64,
    /// Connections by peer, if they have a limit.
    peers: Mutex<HashMap<IpAddr, usize>>,
}

/// Decides for one core which connections are let in.
pub(crate) struct ConnectionLimiter {
    totals: Arc<ServerTotals>,
    counters: Arc<CoreCounterSet>,
    connections_max: u64,
    per_peer_max: Option<usize>,
    /// How many refused connections are still open, to be answered.
    pub(crate) refusing: Cell<usize>,
    /// Until when no idle connections are asked to close.
    room_made_until: Cell<Option<Instant>>,
}

impl ConnectionLimiter {
    pub(crate) fn new(
        totals: Arc<ServerTotals>,
        counters: Arc<CoreCounterSet>,
        limits: &Limits,
    ) -> Rc<ConnectionLimiter> {
        Rc::new(ConnectionLimiter {
            totals,
            counters,
            connections_max: limits.connections_max as u64,
            per_peer_max: limits.connections_per_peer_max,
            refusing: Cell::new(0),
            room_made_until: Cell::new(None),
        })
    }

    /// Asks some idle ones among the `connections` of this core to close, if there is little room for new ones.
    pub(crate) fn make_room(&self, connections: &ConnTable, now: Instant) {
        let left = self.connections_max.saturating_sub(self.totals.open.load(Relaxed));
        let is_due = || self.room_made_until.get().is_none_or(|until| now >= until);
        if left < self.connections_max.div_ceil(16) && is_due() {
            self.room_made_until.set(Some(now + ROOM_PAUSE));
            let few = ROOM_MIN.min(self.connections_max / 8);
            connections.evict_idle((self.connections_max / 64).max(few).max(1) as usize);
        }
    }

    /// Counts a connection, and for its peer if that is known, unless a limit is reached. Returns the key that the
    /// connection is counted under, for [`ConnectionLimiter::release`].
    fn acquire(&self, peer: Option<PeerAddr>) -> Result<Option<Box<IpAddr>>, ErrorCause> {
        if self.totals.open.fetch_add(1, Relaxed) >= self.connections_max {
            self.totals.open.fetch_sub(1, Relaxed);
            return Err(ErrorCause::Connections(self.connections_max as usize));
        }
        let Some(peer) = peer else { return Ok(None) };
        self.acquire_peer(peer).map(|peer| peer.map(Box::new)).inspect_err(|_| self.release(None))
    }

    /// Counts a connection for its peer, if there is a limit for that.
    fn acquire_peer(&self, peer: PeerAddr) -> Result<Option<IpAddr>, ErrorCause> {
        let (Some(max), Some(peer)) = (self.per_peer_max, peer.subscriber()) else { return Ok(None) };
        let mut peers = lock(&self.totals.peers);
        let count = peers.entry(peer).or_default();
        *count += 1;
        let is_one_too_many = *count > max;
        drop(peers);
        if is_one_too_many {
            self.release_peer(peer);
            return Err(ErrorCause::ConnectionsOfPeer(max));
        }
        Ok(Some(peer))
    }

    /// Ends the count of a connection.
    fn release(&self, peer: Option<IpAddr>) {
        let open = self.totals.open.fetch_sub(1, Relaxed);
        debug_assert!(open > 0, "a connection is counted before its count ends");
        if let Some(peer) = peer {
            self.release_peer(peer);
        }
    }

    fn release_peer(&self, peer: IpAddr) {
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

/// How often a core looks for idle connections to close, which takes a look at each of them.
const ROOM_PAUSE: Duration = Duration::from_millis(100);

/// How many idle connections are closed at once, unless that is more than an eighth of all.
const ROOM_MIN: u64 = 8;

/// The right of a connection to be served, held for as long as it is open.
pub(crate) struct ConnectionPermit {
    limiter: Rc<ConnectionLimiter>,
    _open: OpenGuard,
    /// The peer that the connection is counted under. Boxed, since every connection holds a permit, and few servers
    /// count by peer.
    peer: Option<Box<IpAddr>>,
}

impl ConnectionPermit {
    /// Lets a connection in, or refuses it for a cause. Either way, the connection gets a number.
    pub(crate) fn acquire(
        limiter: &Rc<ConnectionLimiter>,
        peer: Option<PeerAddr>,
        open: OpenGuard,
    ) -> (Result<ConnectionPermit, (OpenGuard, ErrorCause)>, u64) {
        let id = limiter.totals.accepted.fetch_add(1, Relaxed) + 1;
        limiter.counters.accepted.add(1);
        let limiter = limiter.clone();
        match limiter.acquire(peer) {
            Ok(peer) => (Ok(ConnectionPermit { limiter, _open: open, peer }), id),
            Err(cause) => (Err((open, cause)), id),
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.release(self.peer.as_deref().copied());
    }
}

/// The count of a peer that was known only after its connection had been let in.
pub(crate) struct PeerPermit {
    limiter: Rc<ConnectionLimiter>,
    peer: IpAddr,
}

impl PeerPermit {
    /// Counts the peer, or refuses it. `None` if there is no limit for it.
    pub(crate) fn acquire(
        limiter: &Rc<ConnectionLimiter>,
        peer: PeerAddr,
    ) -> Result<Option<PeerPermit>, ErrorCause> {
        let peer = limiter.acquire_peer(peer)?;
        Ok(peer.map(|peer| PeerPermit { limiter: limiter.clone(), peer }))
    }
}

impl Drop for PeerPermit {
    fn drop(&mut self) {
        self.limiter.release_peer(self.peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that runs for long serves many addresses, so an entry that stays would be a leak.
    #[test]
    fn a_peer_without_connections_leaves_nothing_behind() {
        let (totals, counters) = <(Arc<ServerTotals>, Arc<CoreCounterSet>)>::default();
        let limits = Limits { connections_per_peer_max: Some(1), ..Limits::default() };
        let limiter = ConnectionLimiter::new(totals.clone(), counters, &limits);
        let peer = PeerAddr::Tcp(([127, 0, 0, 1], 1).into());
        let permit = limiter.acquire(Some(peer)).expect("there is room");
        assert!(matches!(limiter.acquire(Some(peer)), Err(ErrorCause::ConnectionsOfPeer(1))));
        assert_eq!((totals.open.load(Relaxed), lock(&totals.peers).len()), (1, 1));
        limiter.release(permit.map(|peer| *peer));
        assert_eq!((totals.open.load(Relaxed), lock(&totals.peers).len()), (0, 0));
    }
}
