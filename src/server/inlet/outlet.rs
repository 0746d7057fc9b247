//! [`Outlet`]: the way to one core, for the core that accepts for the others.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::net::{Accepted, Detached, PeerAddr};
use crate::server::stats::{CoreStats, Open};

/// The way to one core.
pub(in crate::server) struct Outlet {
    arrivals: mpsc::UnboundedSender<Arrival>,
    stats: Arc<CoreStats>,
}

impl Outlet {
    pub(in crate::server) fn new(arrivals: mpsc::UnboundedSender<Arrival>, stats: Arc<CoreStats>) -> Outlet {
        Outlet { arrivals, stats }
    }

    /// How many connections the core serves, or is about to.
    pub(super) fn load(&self) -> u64 {
        self.stats.open()
    }

    /// Gives a connection to the core. Returns it if the core has stopped.
    pub(super) fn give(&self, (transport, peer): Accepted) -> Option<Accepted> {
        let arrival = Arrival { detached: transport.detach().ok()?, peer, open: Open::count(&self.stats) };
        let Err(mpsc::error::SendError(kept)) = self.arrivals.send(arrival) else { return None };
        Some((kept.detached.attach().ok()?, kept.peer))
    }
}

/// A connection that was accepted on one core, to be served on another.
pub(in crate::server) struct Arrival {
    pub(super) detached: Detached,
    pub(super) peer: PeerAddr,
    pub(super) open: Open,
}
