//! [`HostRegistry`]: the counters of all pools of a client, by host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::client_stats::{ClientCounts, ClientStats};
use super::pool_counters::{PoolCounters, PoolObserver};
use crate::memory::lock;

/// The counters of all pools of a client, by host. A host has a pool in each runtime, and may have had others before.
#[derive(Default)]
pub(in crate::client) struct HostRegistry(Mutex<HostMap>);

#[derive(Default)]
struct HostMap {
    by_key: HashMap<Box<str>, HostEntry>,
    /// The hosts for which there was no room.
    others: HostEntry,
    make_observer: Option<MakePoolObserver>,
}

/// Makes the observer of a pool, whose host has this key.
pub(crate) type MakePoolObserver = Arc<dyn Fn(&str) -> Box<dyn PoolObserver> + Send + Sync>;

/// The counters of one host.
#[derive(Default)]
struct HostEntry {
    /// The counts of pools that are gone.
    retired: ClientCounts,
    pools: Vec<Arc<PoolCounters>>,
}

impl HostRegistry {
    /// Returns the counters for a new pool of the host with this key.
    pub(in crate::client) fn enroll(&self, key: &str) -> Arc<PoolCounters> {
        let counters = Arc::<PoolCounters>::default();
        let mut hosts = lock(&self.0);
        if hosts.by_key.len() < HOSTS_MAX && !hosts.by_key.contains_key(key) {
            hosts.by_key.insert(key.into(), HostEntry::default());
        }
        if let Some(make_observer) = &hosts.make_observer {
            counters.set_observer(make_observer(key));
        }
        hosts.entry(key).pools.push(counters.clone());
        counters
    }

    /// Keeps the counts of a pool that ends, without its counters.
    pub(in crate::client) fn retire(&self, key: &str, counters: &Arc<PoolCounters>) {
        let mut hosts = lock(&self.0);
        let entry = hosts.entry(key);
        entry.pools.retain(|pool| !Arc::ptr_eq(pool, counters));
        entry.retired += &counters.counts();
    }

    /// Has each pool observed, now and later, unless its counters have an observer already.
    #[allow(dead_code, reason = "unused without the feature `metrics`")]
    pub(in crate::client) fn observe(&self, make_observer: &MakePoolObserver) {
        let mut hosts = lock(&self.0);
        hosts.make_observer.get_or_insert_with(|| make_observer.clone());
        let known = hosts.by_key.iter().map(|(key, entry)| (&**key, entry));
        for (key, entry) in known.chain([("", &hosts.others)]) {
            entry.pools.iter().for_each(|pool| pool.set_observer(make_observer(key)));
        }
    }

    /// The counts of all hosts, in which no connection is open.
    pub(in crate::client) fn stats(&self) -> ClientStats {
        let hosts = lock(&self.0);
        let by_key = hosts.by_key.iter().map(|(key, entry)| (key.clone(), entry.counts()));
        ClientStats { hosts: by_key.collect(), other: hosts.others.counts(), ..ClientStats::default() }
    }
}

impl HostMap {
    fn entry(&mut self, key: &str) -> &mut HostEntry {
        self.by_key.get_mut(key).unwrap_or(&mut self.others)
    }
}

impl HostEntry {
    fn counts(&self) -> ClientCounts {
        let mut counts = self.retired.clone();
        self.pools.iter().for_each(|pool| counts += &pool.counts());
        counts
    }
}

/// How many hosts are counted apart. A program that is given its URLs by others could otherwise be made to count without
/// end.
const HOSTS_MAX: usize = 256;
