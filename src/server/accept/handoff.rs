//! [`CoreSender`]: the way to one core, for the core that accepts for the others.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::net::{Accepted, DetachedTransport, PeerAddr};
use crate::server::stats::{CoreStats, OpenGuard};

/// The way to one core.
pub(in crate::server) struct CoreSender {
    handoffs: mpsc::UnboundedSender<Handoff>,
    stats: Arc<CoreStats>,
}

impl CoreSender {
    pub(in crate::server) fn new(
        handoffs: mpsc::UnboundedSender<Handoff>,
        stats: Arc<CoreStats>,
    ) -> CoreSender {
        CoreSender { handoffs, stats }
    }

    /// How many connections the core serves, or is about to.
    pub(super) fn load(&self) -> u64 {
        self.stats.open()
    }

    /// Gives a connection to the core. Returns it if the core has stopped.
    pub(super) fn send(&self, (transport, peer): Accepted) -> Option<Accepted> {
        let handoff = Handoff { detached: transport.detach().ok()?, peer, open: OpenGuard::new(&self.stats) };
        let Err(mpsc::error::SendError(kept)) = self.handoffs.send(handoff) else { return None };
        Some((kept.detached.attach().ok()?, kept.peer))
    }
}

/// A connection that was accepted on one core, to be served on another.
pub(in crate::server) struct Handoff {
    pub(super) detached: DetachedTransport,
    pub(super) peer: PeerAddr,
    pub(super) open: OpenGuard,
}
