//! [`Replaceable`]: a setting that can be replaced while handshakes are in progress; [`ConfigCache`]: the configuration
//! of rustls made of such settings.

use std::fmt;
use std::sync::{Arc, RwLock};

use crate::memory::{read_lock, write_lock};

/// A setting that can be replaced while handshakes are in progress. Clones share it.
pub(super) struct Replaceable<T>(Arc<RwLock<T>>);

impl<T: Clone> Replaceable<T> {
    pub(super) fn new(value: T) -> Replaceable<T> {
        Replaceable(Arc::new(RwLock::new(value)))
    }

    pub(super) fn get(&self) -> T {
        read_lock(&self.0).clone()
    }

    pub(super) fn set(&self, value: T) {
        *write_lock(&self.0) = value;
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut T)) {
        change(&mut write_lock(&self.0));
    }
}

impl<T> Clone for Replaceable<T> {
    fn clone(&self) -> Replaceable<T> {
        Replaceable(self.0.clone())
    }
}

impl<T: Clone + fmt::Debug> fmt::Debug for Replaceable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// The configuration that was built last, and the replaceable parts that it was built of.
pub(super) struct ConfigCache<C, P>(RwLock<(Arc<C>, P)>);

impl<C, P: Parts> ConfigCache<C, P> {
    pub(super) fn new(config: C, parts: P) -> ConfigCache<C, P> {
        ConfigCache(RwLock::new((Arc::new(config), parts)))
    }

    /// Returns the configuration for the present parts. If they have been replaced, it is built again, which forgets
    /// earlier sessions: a resumed session shows no certificate again, and the earlier one may lead to the old roots.
    pub(super) fn config(&self, present: impl Fn() -> P, build: impl FnOnce(&P) -> C) -> Arc<C> {
        let cached = read_lock(&self.0);
        if cached.1.are_same(&present()) {
            return cached.0.clone();
        }
        drop(cached);
        let mut cached = write_lock(&self.0);
        // They may have been replaced again while this thread waited for the lock.
        let parts = present();
        if !cached.1.are_same(&parts) {
            *cached = (Arc::new(build(&parts)), parts);
        }
        cached.0.clone()
    }
}

/// The replaceable parts of a configuration.
pub(super) trait Parts {
    /// Whether these are clones of `others`. Contents are not compared.
    fn are_same(&self, others: &Self) -> bool;
}
