//! [`ClientPools`]: the pools of a client, in all runtimes; [`IdleReaper`]: closes their idle connections in time.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Duration;

use super::pool::{Pool, SharedConns};
use super::pool_group::{PoolGroup, PoolOwner};
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::observe::{ClientCounts, HostRegistry, OpenConns};
use crate::client::route::{Origin, Proxy, ProxyError, origin};
use crate::client::settings::ClientSettings;
use crate::descriptors::{IdleOwner, register_idle_owner};
use crate::memory::{lock, read_lock, write_lock};
use crate::message::{Scheme, Target};
use crate::runtime::{self, Handle, Id};

/// The pools of a client, in all runtimes.
pub(in crate::client) struct ClientPools {
    pub(in crate::client) settings: Arc<ClientSettings>,
    registry: Arc<HostRegistry>,
    by_runtime: Arc<RuntimeList>,
}

/// The pools of each runtime. A list, since a program has few runtimes.
type RuntimeList = RwLock<Vec<(Id, Arc<RuntimePools>)>>;

impl OpenConns for RuntimeList {
    fn add_to(&self, counts: &mut ClientCounts) {
        each_pool(self, |pool| {
            let counts = counts.hosts.get_mut(pool.origin.key()).unwrap_or(&mut counts.other);
            counts.idle += pool.idle() as u64;
            counts.busy += pool.busy() as u64;
            counts.waiting += pool.waiting() as u64;
        });
    }
}

fn each_pool(list: &RuntimeList, mut then: impl FnMut(&Pool)) {
    // Connections are not dropped under the lock: the stream types of an application may use the client.
    let all = Vec::from_iter(read_lock(list).iter().map(|(_, pools)| pools.clone()));
    all.iter().for_each(|pools| pools.each(&mut then));
}

impl ClientPools {
    pub(in crate::client) fn new(settings: ClientSettings) -> ClientPools {
        let by_runtime = Arc::<RuntimeList>::default();
        let open: Weak<RuntimeList> = Arc::downgrade(&by_runtime);
        ClientPools { settings: Arc::new(settings), registry: Arc::new(HostRegistry::new(open)), by_runtime }
    }

    pub(in crate::client) fn each(&self, then: impl FnMut(&Pool)) {
        each_pool(&self.by_runtime, then);
    }

    /// The counts so far, with those of the connections that are open now.
    pub(in crate::client) fn counts(&self) -> ClientCounts {
        self.registry.counts()
    }

    /// The pool of the origin that `target` names, in this runtime.
    pub(in crate::client) fn pool_of(&self, target: &Target) -> Result<Arc<Pool>, ClientError> {
        self.with_current_pools(|pools| {
            // Nearly all targets spell the origin exactly as its key, and need no normalization.
            let known = target.origin().and_then(|key| pools.find(key));
            known.map_or_else(|| pools.pool(&origin::key(target)?, Way::Usual), Ok)
        })
    }

    /// The pool of the origin with this key, in this runtime: at one of its addresses, or wherever it is reached.
    pub(in crate::client) fn pool(
        &self,
        key: &str,
        address: Option<IpAddr>,
    ) -> Result<Arc<Pool>, ClientError> {
        self.with_current_pools(|pools| pools.pool(key, address.map_or(Way::Usual, Way::At)))
    }

    /// The pool of tunnels to `origin` through a proxy that reads other requests, in this runtime.
    pub(in crate::client) fn tunnels_to(&self, origin: &Origin) -> Result<Arc<Pool>, ClientError> {
        self.with_current_pools(|pools| pools.pool(origin.key(), Way::Tunnel))
    }

    fn with_current_pools<T>(
        &self,
        then: impl FnOnce(&Arc<RuntimePools>) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let Some(handle) = Handle::current() else {
            return Err(ClientError::new(ClientPhase::Prepare, ClientCause::NoRuntime));
        };
        let all = read_lock(&self.by_runtime);
        let is_current = |(id, _): &&(Id, Arc<RuntimePools>)| *id == handle.id();
        if let Some((_, pools)) = all.iter().find(is_current) {
            return then(pools);
        }
        drop(all);
        let mut all = write_lock(&self.by_runtime);
        // Removes the pools of runtimes that have ended, or a program that makes a runtime for each request would
        // accumulate them.
        all.retain(|(_, pools)| !pools.is_empty());
        let at = all.iter().position(|entry| is_current(&entry)).unwrap_or_else(|| {
            all.push((
                handle.id(),
                RuntimePools::new(handle.clone(), self.settings.clone(), self.registry.clone()),
            ));
            all.len() - 1
        });
        then(&all[at].1)
    }
}

/// The pools of one runtime. A connection cannot be used in another one.
struct RuntimePools {
    handle: Handle,
    settings: Arc<ClientSettings>,
    registry: Arc<HostRegistry>,
    by_origin: Mutex<PoolMap>,
    group: Arc<PoolGroup>,
}

impl RuntimePools {
    fn new(handle: Handle, settings: Arc<ClientSettings>, registry: Arc<HostRegistry>) -> Arc<RuntimePools> {
        let pools = Arc::new_cyclic(|own: &Weak<RuntimePools>| {
            let group = Arc::new(PoolGroup::new(own.clone(), settings.limits.idle_connections_max));
            RuntimePools { handle, settings, registry, by_origin: Mutex::default(), group }
        });
        let owner: Weak<RuntimePools> = Arc::downgrade(&pools);
        register_idle_owner(owner);
        pools
    }

    /// The pool of the origin with this key, if it was needed before.
    fn find(&self, key: &str) -> Option<Arc<Pool>> {
        lock(&self.by_origin).find(key)
    }

    /// The pool of the origin with this key.
    ///
    /// # Errors
    ///
    /// Fails if it is not the key of an origin, or of one that the client is not for.
    fn pool(&self, key: &str, way: Way) -> Result<Arc<Pool>, ClientError> {
        let mut by_origin = lock(&self.by_origin);
        let known = match way {
            Way::Usual => by_origin.find(key),
            Way::Tunnel => by_origin.tunnels.get(key).cloned(),
            Way::At(address) => by_origin.at_address.get(&(key.into(), address)).cloned(),
        };
        if let Some(pool) = known {
            return Ok(pool);
        }
        let refused = |cause| ClientError::new(ClientPhase::Prepare, cause);
        let origin = Origin::from_key(key).ok_or_else(|| refused(ClientCause::Origin))?;
        let origin = match way {
            Way::At(address) => origin.at(Some(address)),
            Way::Usual | Way::Tunnel => origin,
        };
        if self.settings.https_only && origin.scheme == Scheme::Http {
            return Err(refused(ClientCause::HttpsOnly));
        }
        let proxy = self.settings.proxies.proxy_for(&origin);
        let unusable = |invalid: &ProxyError| ClientCause::Proxy(Box::new(invalid.clone()));
        let proxy = proxy.map_err(|invalid| refused(unusable(invalid)))?.map(Cow::into_owned);
        let proxy = match way {
            Way::Usual | Way::At(_) => proxy,
            Way::Tunnel => proxy.map(Proxy::tunneling),
        };
        let is_full = match way {
            Way::At(_) => by_origin.at_address.len() == by_origin.at_address.capacity(),
            Way::Usual | Way::Tunnel => by_origin.by_key.len() == by_origin.by_key.capacity(),
        };
        if is_full {
            // Before the map grows, pools are dropped whose hosts could never be reached.
            by_origin.prune();
        }
        let settings = self.settings.clone();
        let registry = self.registry.clone();
        let group = self.group.clone();
        let new_conns = || Arc::new(SharedConns::new(&settings.limits, group.clone()));
        let conns = match &proxy {
            Some(proxy) if proxy.forwards(origin.scheme) => {
                by_origin.forwarded.entry(proxy.clone()).or_insert_with(new_conns).clone()
            }
            Some(_) | None => new_conns(),
        };
        let pool = Pool::new(self.handle.id(), (origin, proxy), conns, settings, registry, group);
        let pool = Arc::new(pool);
        let known = pool.clone();
        match way {
            Way::Usual => by_origin.by_key.insert(key.into(), known),
            Way::Tunnel => by_origin.tunnels.insert(key.into(), known),
            Way::At(address) => by_origin.at_address.insert((key.into(), address), known),
        };
        Ok(pool)
    }

    /// Whether no pool is left.
    fn is_empty(&self) -> bool {
        let mut by_origin = lock(&self.by_origin);
        by_origin.prune();
        by_origin.each().next().is_none()
    }

    fn each(&self, mut then: impl FnMut(&Pool)) {
        self.list().iter().for_each(|pool| then(pool));
    }

    fn list(&self) -> Vec<Arc<Pool>> {
        lock(&self.by_origin).each().cloned().collect()
    }

    /// Sweeps all pools. Returns whether any of them needs another sweep.
    fn sweep(&self) -> bool {
        let now = runtime::now();
        let mut is_needed = false;
        self.each(|pool| is_needed |= pool.sweep(now));
        lock(&self.by_origin).prune();
        is_needed
    }
}

impl PoolOwner for RuntimePools {
    fn start_reaper(self: Arc<RuntimePools>) {
        if !self.group.is_reaping.swap(true, Ordering::AcqRel) {
            let reaper = IdleReaper(Arc::downgrade(&self));
            self.handle.spawn(async move { reaper.run().await });
        }
    }

    fn close_oldest(&self, count: usize) -> usize {
        let pools = self.list();
        let close_one = || {
            let idle = pools.iter().filter_map(|pool| Some((pool.idle_since()?, pool)));
            idle.min_by_key(|(since, _)| *since).is_some_and(|(_, pool)| pool.close_oldest())
        };
        (0..count).take_while(|_| close_one()).count()
    }
}

impl IdleOwner for RuntimePools {
    fn close_idle(&self, count: usize) -> bool {
        self.close_oldest(count) > 0
    }
}

#[derive(Default)]
struct PoolMap {
    /// By the keys of their origins.
    by_key: HashMap<Box<str>, Arc<Pool>>,
    /// The pools of tunnels to origins that are otherwise reached through a proxy that reads the requests.
    tunnels: HashMap<Box<str>, Arc<Pool>>,
    /// The pools of origins at one of their addresses.
    at_address: HashMap<(Box<str>, IpAddr), Arc<Pool>>,
    /// The connections to each proxy that reads requests. A client has at most one, which is that for `http` URLs, unless a
    /// function chooses.
    forwarded: HashMap<Proxy, Arc<SharedConns>>,
    /// The pool that was found last, since most clients send many requests to one host.
    last: Option<Arc<Pool>>,
}

impl PoolMap {
    fn find(&mut self, key: &str) -> Option<Arc<Pool>> {
        if self.last.as_ref().is_none_or(|pool| pool.origin.key() != key) {
            self.last = Some(self.by_key.get(key)?.clone());
        }
        self.last.clone()
    }

    /// Removes pools that are not in use and have no idle connection.
    fn prune(&mut self) {
        self.last = None;
        let is_needed = |pool: &mut Arc<Pool>| Arc::strong_count(pool) > 1 || pool.idle() > 0;
        self.by_key.retain(|_, pool| is_needed(pool));
        self.tunnels.retain(|_, pool| is_needed(pool));
        self.at_address.retain(|_, pool| is_needed(pool));
        self.forwarded.retain(|_, conns| Arc::strong_count(conns) > 1);
    }

    fn each(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.by_key.values().chain(self.tunnels.values()).chain(self.at_address.values())
    }
}

/// How the connections of a pool reach their origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// As the client is set to.
    Usual,
    /// Through a tunnel, if there is a proxy.
    Tunnel,
    /// At this address, unless there is a proxy.
    At(IpAddr),
}

/// Closes the idle connections of a runtime that have expired. If the runtime ends first, it drops this task, and the
/// idle connections with it: they could no longer be used, and nothing would notice that their servers have closed
/// them.
struct IdleReaper(Weak<RuntimePools>);

impl IdleReaper {
    async fn run(mut self) {
        loop {
            runtime::sleep(REAP_INTERVAL).await;
            let Some(pools) = self.0.upgrade() else { return };
            if pools.sweep() {
                continue;
            }
            pools.group.is_reaping.store(false, Ordering::Release);
            // A connection may have become idle just now, when the flag was still set.
            let mut is_empty = true;
            pools.each(|pool| is_empty &= pool.idle() == 0);
            if is_empty || pools.group.is_reaping.swap(true, Ordering::AcqRel) {
                self.0 = Weak::new();
                return;
            }
        }
    }
}

impl Drop for IdleReaper {
    fn drop(&mut self) {
        let Some(pools) = self.0.upgrade() else { return };
        // The flag is cleared first, or a connection that becomes idle meanwhile would start no reaper.
        pools.group.is_reaping.store(false, Ordering::Release);
        pools.each(Pool::close_idle);
    }
}

/// The time between two sweeps.
const REAP_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::lock;
    use crate::client::{Proxies, Proxy};
    use crate::net::MemoryListener;
    use crate::{Client, Context, Server, block_on};

    /// The connection that they share belongs to the host that has used it last.
    #[test]
    fn hosts_that_a_proxy_forwards_to_are_forgotten() {
        let listener = MemoryListener::new();
        let proxies = Proxies::all(Proxy::new("p").unwrap());
        let client = Client::builder().connect_to(&listener).proxies(proxies).build();
        let server = Server::bind(listener).cores(1);
        let running = server.start(|ctx: &mut Context| ctx.response.set_text("ok")).unwrap();
        block_on(async {
            for host in 0..200 {
                client.get(&format!("http://a{host}/")).await.unwrap();
            }
            let all = client.sender.pools.by_runtime.read().unwrap();
            let pools = lock(&all[0].1.by_origin).by_key.len();
            drop(all);
            assert!(pools < 50, "{pools} pools");
            assert_eq!(
                (client.idle_connections(), client.busy_connections(), client.counts().total.dials),
                (1, 0, 1)
            );
            client.close_idle();
            assert_eq!(client.idle_connections(), 0);
        })
        .unwrap();
        running.stop(std::time::Duration::ZERO);
    }

    #[test]
    fn unreachable_hosts_and_ended_runtimes_are_forgotten() {
        let client = Client::new();
        for runtime in 0..20 {
            let asked = block_on(async {
                for host in 0..100 {
                    client.get(&format!("http://127.0.0.1:1{host:02}/")).await.unwrap_err();
                }
                let all = client.sender.pools.by_runtime.read().unwrap();
                (all.len(), all.iter().map(|(_, pools)| lock(&pools.by_origin).by_key.len()).sum::<usize>())
            });
            let (runtimes, pools) = asked.unwrap();
            assert!(
                runtimes == 1 && pools < 50,
                "{pools} pools of {runtimes} runtimes after runtime {runtime}"
            );
        }
    }
}
