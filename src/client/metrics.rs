//! [`ObservedClient`]: the counts of a client for metrics, which go on if the client ends.

use std::sync::{Arc, Weak};

use super::client::Client;
use super::pool::ClientPools;
use super::stats::{ClientStats, HostRegistry, MakePoolObserver};

/// The counts of a client.
#[derive(Clone)]
pub(crate) struct ObservedClient {
    registry: Arc<HostRegistry>,
    pools: Weak<ClientPools>,
}

impl ObservedClient {
    /// Has each pool of `client` observed from now on.
    pub(crate) fn new(client: &Client, make_observer: &MakePoolObserver) -> ObservedClient {
        let pools = &client.sender.pools;
        pools.registry.observe(make_observer);
        ObservedClient { registry: pools.registry.clone(), pools: Arc::downgrade(pools) }
    }

    /// The counts so far. Without a client, no connection is open.
    pub(crate) fn stats(&self) -> ClientStats {
        let pools = self.pools.upgrade();
        pools.map_or_else(|| self.registry.stats().sum_up(), |pools| pools.stats())
    }
}

impl PartialEq for ObservedClient {
    /// Whether both are of clones of one client.
    fn eq(&self, other: &ObservedClient) -> bool {
        Arc::ptr_eq(&self.registry, &other.registry)
    }
}
