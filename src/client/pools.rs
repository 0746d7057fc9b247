//! [`Pools`]: all pools of one runtime, and the task that looks after them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::origin::Origin;
use super::pool::Pool;
use super::settings::Settings;
use super::{ClientCause, ClientError, ClientPhase, InvalidProxy};
use crate::memory::lock;
use crate::runtime::{self, Handle};

/// The pools of one runtime. A connection cannot be used in another one.
pub(super) struct Pools {
    handle: Handle,
    settings: Arc<Settings>,
    by_origin: Mutex<PoolMap>,
    /// Whether a task is looking after the resting connections. The pools share this flag, to check it cheaply.
    is_reaping: Arc<AtomicBool>,
}

impl Pools {
    pub(super) fn new(handle: Handle, settings: Arc<Settings>) -> Arc<Pools> {
        Arc::new(Pools { handle, settings, by_origin: Mutex::default(), is_reaping: Arc::default() })
    }

    /// The pool of the origin with this key, if it was needed before.
    pub(super) fn find(&self, key: &str) -> Option<Arc<Pool>> {
        lock(&self.by_origin).find(key)
    }

    /// The pool of the origin with this key.
    ///
    /// # Errors
    ///
    /// Fails if it is not the key of an origin.
    pub(super) fn pool(self: &Arc<Pools>, key: &str) -> Result<Arc<Pool>, ClientError> {
        let mut by_origin = lock(&self.by_origin);
        if let Some(pool) = by_origin.find(key) {
            return Ok(pool);
        }
        let origin =
            Origin::of_key(key).ok_or_else(|| ClientError::new(ClientPhase::Prepare, ClientCause::Origin))?;
        let proxy = self.settings.proxies.proxy_for(origin.scheme, origin.host(), origin.port);
        let unusable = |invalid: &InvalidProxy| ClientCause::Proxy(Box::new(invalid.clone()));
        let proxy =
            proxy.map_err(|invalid| ClientError::new(ClientPhase::Prepare, unusable(invalid)))?.cloned();
        if by_origin.by_key.len() == by_origin.by_key.capacity() {
            // Before the map grows: this is where pools are dropped whose hosts could never be reached.
            by_origin.prune();
        }
        let pools = Arc::downgrade(self);
        let start_reaper = move || pools.upgrade().iter().for_each(Pools::start_reaper);
        let (settings, is_reaping) = (self.settings.clone(), self.is_reaping.clone());
        let pool = Arc::new(Pool::new(self.handle.id(), (origin, proxy), settings, is_reaping, start_reaper));
        by_origin.by_key.insert(key.into(), pool.clone());
        Ok(pool)
    }

    /// Whether no pool is left.
    pub(super) fn is_empty(&self) -> bool {
        let mut by_origin = lock(&self.by_origin);
        by_origin.prune();
        by_origin.by_key.is_empty()
    }

    pub(super) fn each(&self, mut then: impl FnMut(&Pool)) {
        let pools = Vec::from_iter(lock(&self.by_origin).by_key.values().cloned());
        pools.iter().for_each(|pool| then(pool));
    }

    /// Starts the task that looks after all resting connections, unless it is running. It ends when none is left.
    fn start_reaper(self: &Arc<Pools>) {
        if !self.is_reaping.swap(true, Ordering::AcqRel) {
            let reaper = IdleReaper(Arc::downgrade(self));
            self.handle.spawn(async move { reaper.run().await });
        }
    }

    /// Drops what is not needed. Returns whether anything is left to look after.
    fn sweep(&self) -> bool {
        let now = runtime::now();
        let mut is_needed = false;
        self.each(|pool| is_needed |= pool.sweep(now));
        lock(&self.by_origin).prune();
        is_needed
    }
}

#[derive(Default)]
struct PoolMap {
    /// By the keys of their origins.
    by_key: HashMap<Box<str>, Arc<Pool>>,
    /// The pool that was found last, since most clients ask one host again and again.
    last: Option<Arc<Pool>>,
}

impl PoolMap {
    fn find(&mut self, key: &str) -> Option<Arc<Pool>> {
        if self.last.as_ref().is_none_or(|pool| pool.origin.key() != key) {
            self.last = Some(self.by_key.get(key)?.clone());
        }
        self.last.clone()
    }

    /// Forgets pools that are not in use and in which nothing rests; a new one is as good.
    fn prune(&mut self) {
        self.last = None;
        self.by_key.retain(|_, pool| Arc::strong_count(pool) > 1 || pool.idle() > 0);
    }
}

/// Looks after the connections that rest in a runtime. If the runtime ends first, it drops this task, and the
/// connections with it: they could no longer be used, nor notice that they are closed.
struct IdleReaper(Weak<Pools>);

impl IdleReaper {
    async fn run(mut self) {
        loop {
            runtime::sleep(REAP_INTERVAL).await;
            let Some(pools) = self.0.upgrade() else { return };
            if pools.sweep() {
                continue;
            }
            pools.is_reaping.store(false, Ordering::Release);
            // A connection may have come to rest just now, relying on this reaper.
            let mut is_empty = true;
            pools.each(|pool| is_empty &= pool.idle() == 0);
            if is_empty || pools.is_reaping.swap(true, Ordering::AcqRel) {
                self.0 = Weak::new();
                return;
            }
        }
    }
}

impl Drop for IdleReaper {
    fn drop(&mut self) {
        let Some(pools) = self.0.upgrade() else { return };
        // First, or a connection that comes to rest meanwhile would rely on this reaper.
        pools.is_reaping.store(false, Ordering::Release);
        pools.each(Pool::close_idle);
    }
}

/// How often resting connections are looked at.
const REAP_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::lock;
    use crate::{Client, block_on};

    #[test]
    fn unreachable_hosts_and_ended_runtimes_are_forgotten() {
        let client = Client::new();
        for runtime in 0..20 {
            let asked = block_on(async {
                for host in 0..100 {
                    client.get(&format!("http://127.0.0.1:1{host:02}/")).await.unwrap_err();
                }
                let all = client.inner.pools.read().unwrap();
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
