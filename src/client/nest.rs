//! [`Nest`]: all pools of one runtime, and who looks after them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::origin::Origin;
use super::pool::Pool;
use super::settings::Settings;
use super::{ClientCause, ClientError, ClientPhase};
use crate::runtime::{self, Here};

/// The pools of one runtime. A connection is of no use in another one.
pub(super) struct Nest {
    here: Here,
    settings: Arc<Settings>,
    pools: Mutex<HashMap<Box<str>, Arc<Pool>>>,
    is_kept: AtomicBool,
}

impl Nest {
    pub(super) fn new(here: Here, settings: Arc<Settings>) -> Arc<Nest> {
        Arc::new(Nest { here, settings, pools: Mutex::default(), is_kept: AtomicBool::new(false) })
    }

    /// The pool of the origin that is spelled so.
    ///
    /// # Errors
    ///
    /// A key that is none.
    pub(super) fn pool(self: &Arc<Nest>, key: &str) -> Result<Arc<Pool>, ClientError> {
        let mut pools = self.lock();
        if let Some(pool) = pools.get(key) {
            return Ok(pool.clone());
        }
        let origin =
            Origin::of_key(key).ok_or_else(|| ClientError::new(ClientPhase::Prepare, ClientCause::Origin))?;
        let pool = Arc::new(Pool::new(origin, &self.settings, Arc::downgrade(self)));
        pools.insert(key.into(), pool.clone());
        Ok(pool)
    }

    pub(super) fn each(&self, mut then: impl FnMut(&Pool)) {
        let pools = Vec::from_iter(self.lock().values().cloned());
        pools.iter().for_each(|pool| then(pool));
    }

    /// Sees to it that resting connections are looked after: one task for all of them, which ends when none is left.
    pub(super) fn keep(self: &Arc<Nest>) {
        if !self.is_kept.swap(true, Ordering::AcqRel) {
            let keeper = Keeper(Arc::downgrade(self));
            self.here.spawn(async move { keeper.keep().await });
        }
    }

    /// Drops what nobody needs. Says whether anything is left to be looked after.
    fn sweep(&self) -> bool {
        let now = runtime::now();
        let mut is_needed = false;
        self.each(|pool| is_needed |= pool.sweep(now));
        // Who has a pool without connections can as well get a new one.
        self.lock().retain(|_, pool| Arc::strong_count(pool) > 1 || pool.idle() > 0);
        is_needed
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Pool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks after the resting connections of a nest. When its runtime ends before its work does, it is dropped, and they
/// with it: they could not be used any more, nor notice that they are closed.
struct Keeper(Weak<Nest>);

impl Keeper {
    async fn keep(mut self) {
        loop {
            runtime::sleep(PAUSE).await;
            let Some(nest) = self.0.upgrade() else { return };
            if nest.sweep() {
                continue;
            }
            nest.is_kept.store(false, Ordering::Release);
            // One may have come to rest just now, and relied on this keeper.
            let mut is_empty = true;
            nest.each(|pool| is_empty &= pool.idle() == 0);
            if is_empty || nest.is_kept.swap(true, Ordering::AcqRel) {
                self.0 = Weak::new();
                return;
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let Some(nest) = self.0.upgrade() else { return };
        nest.each(Pool::close_idle);
        nest.is_kept.store(false, Ordering::Release);
    }
}

/// How often resting connections are looked at.
const PAUSE: Duration = Duration::from_secs(1);
