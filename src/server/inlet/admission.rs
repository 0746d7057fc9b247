//! [`Admission`]: may one more connection come in?

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
use crate::server::error::Refused;
use crate::server::stats::{CoreStats, Open};
use crate::server::worker::Worker;
use crate::server::{Handler, Refusal, RefusalCause};
use crate::wire::Limits;

/// What all cores count together.
#[derive(Default)]
pub(in crate::server) struct Totals {
    open: AtomicU64,
    accepted: AtomicU64,
    /// Connections by peer, if they have a limit.
    peers: Mutex<HashMap<IpAddr, usize>>,
}

/// Decides for one core which connections come in.
pub(in crate::server) struct Gate {
    totals: Arc<Totals>,
    stats: Arc<CoreStats>,
    connections_max: u64,
    per_peer_max: Option<usize>,
    /// How many peers are just being told that they were refused.
    refusing: Cell<usize>,
}

impl Gate {
    pub(in crate::server) fn new(totals: Arc<Totals>, stats: Arc<CoreStats>, limits: &Limits) -> Rc<Gate> {
        Rc::new(Gate {
            totals,
            stats,
            connections_max: limits.connections_max as u64,
            per_peer_max: limits.connections_per_peer_max,
            refusing: Cell::new(0),
        })
    }

    /// Takes a place for `peer`, if one is free. Returns the key that it is counted under, which must be given back
    /// with the place.
    fn enter(&self, peer: PeerAddr) -> Result<Option<Box<IpAddr>>, RefusalCause> {
        if self.totals.open.fetch_add(1, Relaxed) >= self.connections_max {
            self.totals.open.fetch_sub(1, Relaxed);
            return Err(RefusalCause::Connections(self.connections_max as usize));
        }
        let (Some(max), Some(peer)) = (self.per_peer_max, peer.bucket()) else { return Ok(None) };
        let mut peers = lock(&self.totals.peers);
        let count = peers.entry(peer).or_default();
        *count += 1;
        let is_one_too_many = *count > max;
        drop(peers);
        if is_one_too_many {
            self.leave(Some(peer));
            return Err(RefusalCause::ConnectionsOfPeer(max));
        }
        Ok(Some(Box::new(peer)))
    }

    /// Gives a place back.
    fn leave(&self, peer: Option<IpAddr>) {
        self.totals.open.fetch_sub(1, Relaxed);
        let Some(peer) = peer else { return };
        let mut peers = lock(&self.totals.peers);
        if let Entry::Occupied(mut count) = peers.entry(peer) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

/// A connection that was let in. It keeps its place until this is dropped.
pub(super) struct Admission {
    gate: Rc<Gate>,
    _open: Open,
    /// The peer that it is counted under. Boxed, since every connection holds this, and few servers count by peer.
    peer: Option<Box<IpAddr>>,
}

impl Admission {
    /// Lets a connection in, or rejects it. Either way it gets a number.
    pub(super) fn ask(gate: &Rc<Gate>, peer: PeerAddr, open: Open) -> (Result<Admission, Rejection>, u64) {
        let id = gate.totals.accepted.fetch_add(1, Relaxed) + 1;
        gate.stats.accepted.add(1);
        let gate = gate.clone();
        match gate.enter(peer) {
            Ok(peer) => (Ok(Admission { gate, _open: open, peer }), id),
            Err(cause) => (Err(Rejection { gate, open, cause }), id),
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.gate.leave(self.peer.as_deref().copied());
    }
}

/// A connection that was rejected, and stays open while the peer is told so. It takes no place, or the peers that are
/// being told that the server is full would keep it full.
pub(super) struct Rejection {
    gate: Rc<Gate>,
    open: Open,
    cause: RefusalCause,
}

impl Rejection {
    /// Tells the peer, in a task of its own, so that the accept loop never waits for a peer.
    pub(super) fn tell<H: Handler>(self, worker: Rc<Worker<H>>, conn: Conn) {
        let Rejection { gate, open, cause } = self;
        if gate.refusing.get() == REFUSING_MAX || worker.shared.acceptor.is_some() {
            // In a flood, that many answers are not worth their cost. Nor is a handshake, without which a secure peer
            // could not read an answer.
            worker.shared.report(Refusal::of_connection(conn.peer(), cause));
            return;
        }
        gate.refusing.set(gate.refusing.get() + 1);
        runtime::spawn(async move {
            let status = match cause {
                RefusalCause::ConnectionsOfPeer(_) => Status::TOO_MANY_REQUESTS,
                _ => Status::SERVICE_UNAVAILABLE,
            };
            reject(&worker, conn, Refused::new(status, cause)).await;
            gate.refusing.set(gate.refusing.get() - 1);
            drop(open);
        });
    }
}

/// How many refused connections of a core may linger at once.
const REFUSING_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that runs for long meets many addresses.
    #[test]
    fn a_peer_without_connections_leaves_nothing_behind() {
        let (totals, stats) = <(Arc<Totals>, Arc<CoreStats>)>::default();
        let limits = Limits { connections_per_peer_max: Some(1), ..Limits::default() };
        let gate = Gate::new(totals.clone(), stats, &limits);
        let peer = PeerAddr::Tcp(([127, 0, 0, 1], 1).into());
        let place = gate.enter(peer).expect("there is room");
        assert!(matches!(gate.enter(peer), Err(RefusalCause::ConnectionsOfPeer(1))));
        assert_eq!((totals.open.load(Relaxed), lock(&totals.peers).len()), (1, 1));
        gate.leave(place.map(|peer| *peer));
        assert_eq!((totals.open.load(Relaxed), lock(&totals.peers).len()), (0, 0));
    }
}
