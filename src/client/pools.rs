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
    known: Mutex<Known>,
    /// Whether a task is looking after the resting connections. The pools share this flag, to check it cheaply.
    is_kept: Arc<AtomicBool>,
}

impl Pools {
    pub(super) fn new(handle: Handle, settings: Arc<Settings>) -> Arc<Pools> {
        Arc::new(Pools { handle, settings, known: Mutex::default(), is_kept: Arc::default() })
    }

    /// The pool of the origin with this key, if it was needed before.
    pub(super) fn known(&self, key: &str) -> Option<Arc<Pool>> {
        lock(&self.known).find(key)
    }

    /// The pool of the origin with this key.
    ///
    /// # Errors
    ///
    /// Fails if it is not the key of an origin.
    pub(super) fn pool(self: &Arc<Pools>, key: &str) -> Result<Arc<Pool>, ClientError> {
        let mut known = lock(&self.known);
        if let Some(pool) = known.find(key) {
            return Ok(pool);
        }
        let origin =
            Origin::of_key(key).ok_or_else(|| ClientError::new(ClientPhase::Prepare, ClientCause::Origin))?;
        let proxy = self.settings.proxies.proxy_for(origin.scheme, origin.host(), origin.port);
        let unusable = |invalid: &InvalidProxy| ClientCause::Proxy(Box::new(invalid.clone()));
        let proxy =
            proxy.map_err(|invalid| ClientError::new(ClientPhase::Prepare, unusable(invalid)))?.cloned();
        if known.by_key.len() == known.by_key.capacity() {
            // Before the map grows: this is where pools are dropped whose hosts could never be reached.
            known.prune();
        }
        let pools = Arc::downgrade(self);
        let keep = move || pools.upgrade().iter().for_each(Pools::keep);
        let (settings, is_kept) = (self.settings.clone(), self.is_kept.clone());
        let pool = Arc::new(Pool::new(self.handle.id(), (origin, proxy), settings, is_kept, keep));
        known.by_key.insert(key.into(), pool.clone());
        Ok(pool)
    }

    /// Whether no pool is left.
    pub(super) fn is_empty(&self) -> bool {
        let mut known = lock(&self.known);
        known.prune();
        known.by_key.is_empty()
    }

    pub(super) fn each(&self, mut then: impl FnMut(&Pool)) {
        let pools = Vec::from_iter(lock(&self.known).by_key.values().cloned());
        pools.iter().for_each(|pool| then(pool));
    }

    /// Starts the task that looks after all resting connections, unless it is running. It ends when none is left.
    fn keep(self: &Arc<Pools>) {
        if !self.is_kept.swap(true, Ordering::AcqRel) {
            let keeper = Keeper(Arc::downgrade(self));
            self.handle.spawn(async move { keeper.keep().await });
        }
    }

    /// Drops what is not needed. Returns whether anything is left to look after.
    fn sweep(&self) -> bool {
        let now = runtime::now();
        let mut is_needed = false;
        self.each(|pool| is_needed |= pool.sweep(now));
        lock(&self.known).prune();
        is_needed
    }
}

#[derive(Default)]
struct Known {
    /// By the keys of their origins.
    by_key: HashMap<Box<str>, Arc<Pool>>,
    /// The pool that was found last, since most clients ask one host again and again.
    last: Option<Arc<Pool>>,
}

impl Known {
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
struct Keeper(Weak<Pools>);

impl Keeper {
    async fn keep(mut self) {
        loop {
            runtime::sleep(PAUSE).await;
            let Some(pools) = self.0.upgrade() else { return };
            if pools.sweep() {
                continue;
            }
            pools.is_kept.store(false, Ordering::Release);
            // A connection may have come to rest just now, relying on this keeper.
            let mut is_empty = true;
            pools.each(|pool| is_empty &= pool.idle() == 0);
            if is_empty || pools.is_kept.swap(true, Ordering::AcqRel) {
                self.0 = Weak::new();
                return;
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let Some(pools) = self.0.upgrade() else { return };
        // First, or a connection that comes to rest meanwhile would rely on this keeper.
        pools.is_kept.store(false, Ordering::Release);
        pools.each(Pool::close_idle);
    }
}

/// How often resting connections are looked at.
const PAUSE: Duration = Duration::from_secs(1);

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
                let all = client.shared.pools.read().unwrap();
                (all.len(), all.iter().map(|(_, pools)| lock(&pools.known).by_key.len()).sum::<usize>())
            });
            let (runtimes, pools) = asked.unwrap();
            assert!(
                runtimes == 1 && pools < 50,
                "{pools} pools of {runtimes} runtimes after runtime {runtime}"
            );
        }
    }
}
