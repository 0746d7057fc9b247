//! [`Outlet`]: the way to one core, for the core that accepts for the others.

use std::cell::Cell;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::net::{Accepted, Detached, PeerAddr, Transport};
use crate::server::stats::CoreStats;

/// The way to one core.
pub(in crate::server) struct Outlet {
    arrivals: mpsc::UnboundedSender<Arrival>,
    stats: Arc<CoreStats>,
    /// How many connections were given to it.
    given: Cell<u64>,
}

impl Outlet {
    pub(in crate::server) fn new(arrivals: mpsc::UnboundedSender<Arrival>, stats: Arc<CoreStats>) -> Outlet {
        Outlet { arrivals, stats, given: Cell::new(0) }
    }

    /// How many connections the core serves, or is about to.
    pub(super) fn load(&self) -> u64 {
        // This comes first: what arrives meanwhile is counted twice, not left out.
        let on_the_way = self.given.get().saturating_sub(self.stats.arrived.get());
        on_the_way + self.stats.open.get()
    }

    /// Gives a connection to the core. Returns it if the core has stopped.
    pub(super) fn give(&self, transport: Transport, peer: PeerAddr) -> Option<Accepted> {
        let Err(mpsc::error::SendError((kept, peer))) = self.arrivals.send((transport.detach().ok()?, peer))
        else {
            self.given.set(self.given.get() + 1);
            return None;
        };
        Some((kept.attach().ok()?, peer))
    }
}

/// A connection that was accepted on one core, to be served on another, and its peer.
pub(in crate::server) type Arrival = (Detached, PeerAddr);
