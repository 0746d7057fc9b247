//! [`HostRegistry`]: the counters of all pools of a client, by host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use super::client_counts::{ClientCounts, HOSTS_MAX, HostCounts};
use super::pool_counters::PoolCounters;
use crate::memory::lock;

/// The counters of all pools of a client, by host. A host has a pool in each runtime, and may have had others before.
pub(crate) struct HostRegistry {
    hosts: Mutex<HostMap>,
    /// The connections of the client, until it is gone.
    open: Weak<dyn OpenConns>,
}

/// The connections of a client that are open now.
pub(crate) trait OpenConns: Send + Sync {
    /// Adds their numbers to the counts of their hosts.
    fn add_to(&self, counts: &mut ClientCounts);
}

#[derive(Default)]
struct HostMap {
    by_key: HashMap<Box<str>, HostEntry>,
    /// The hosts for which there was no room.
    others: HostEntry,
}

/// The counters of one host.
#[derive(Default)]
struct HostEntry {
    /// The counts of pools that are gone.
    retired: HostCounts,
    pools: Vec<Arc<PoolCounters>>,
}

impl HostRegistry {
    pub(in crate::client) fn new(open: Weak<dyn OpenConns>) -> HostRegistry {
        HostRegistry { hosts: Mutex::default(), open }
    }

    /// Returns the counters for a new pool of the host with this key.
    pub(in crate::client) fn enroll(&self, key: &str) -> Arc<PoolCounters> {
        let counters = Arc::<PoolCounters>::default();
        let mut hosts = lock(&self.hosts);
        if hosts.by_key.len() < HOSTS_MAX && !hosts.by_key.contains_key(key) {
            hosts.by_key.insert(key.into(), HostEntry::default());
        }
        hosts.entry(key).pools.push(counters.clone());
        counters
    }

    /// Keeps the counts of a pool that ends, without its counters.
    pub(in crate::client) fn retire(&self, key: &str, counters: &Arc<PoolCounters>) {
        let mut hosts = lock(&self.hosts);
        let entry = hosts.entry(key);
        entry.pools.retain(|pool| !Arc::ptr_eq(pool, counters));
        entry.retired += &counters.counts();
    }

    /// The counts so far, with those of the connections that are open now.
    pub(in crate::client) fn counts(&self) -> ClientCounts {
        let mut counts = self.kept();
        if let Some(open) = self.open.upgrade() {
            open.add_to(&mut counts);
        }
        counts.sum_up()
    }

    /// The counts of all hosts, in which no connection is open.
    fn kept(&self) -> ClientCounts {
        let hosts = lock(&self.hosts);
        let by_key = hosts.by_key.iter().map(|(key, entry)| (key.clone(), entry.counts()));
        ClientCounts { hosts: by_key.collect(), other: hosts.others.counts(), ..ClientCounts::default() }
    }
}

impl HostMap {
    fn entry(&mut self, key: &str) -> &mut HostEntry {
        self.by_key.get_mut(key).unwrap_or(&mut self.others)
    }
}

impl HostEntry {
    fn counts(&self) -> HostCounts {
        let mut counts = self.retired.clone();
        self.pools.iter().for_each(|pool| counts += &pool.counts());
        counts
    }
}
