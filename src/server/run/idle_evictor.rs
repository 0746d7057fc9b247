//! [`IdleEvictor`]: closes idle connections of one core for a thread that has no descriptor left.

use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use crate::descriptors::{IdleOwner, close_idle, is_out_of_descriptors, register_idle_owner};
use crate::runtime;
use crate::server::core_state::CoreState;
use crate::server::counts::CoreCounterSet;

/// The requests of other threads to a core, whose connections only the core itself can reach.
pub(super) struct IdleEvictor {
    counters: Arc<CoreCounterSet>,
    /// How many connections are to close.
    asked: AtomicUsize,
    on_asked: Notify,
}

impl IdleEvictor {
    /// Has the core close idle connections whenever it is asked to, for as long as it runs.
    pub(super) fn start(core: &Rc<CoreState>) {
        let counters = core.counters.clone();
        let evictor = Arc::new(IdleEvictor { counters, asked: AtomicUsize::new(0), on_asked: Notify::new() });
        let owner: Weak<IdleEvictor> = Arc::downgrade(&evictor);
        register_idle_owner(owner);
        let connections = core.connections.clone();
        runtime::spawn(async move {
            loop {
                evictor.on_asked.notified().await;
                connections.evict_idle(evictor.asked.swap(0, Ordering::Relaxed));
            }
        });
    }
}

/// Closes idle connections, of this server and others and of clients, if an attempt to accept failed for lack of
/// descriptors. With a larger `growth` there are more of them.
pub(super) fn make_room(error: &io::Error, growth: usize) {
    if is_out_of_descriptors(error) {
        close_idle(EVICTED_MIN * growth);
    }
}

/// How many idle connections are closed at first, if there are no descriptors. A new connection needs more than one when
/// its handler opens files or connections.
const EVICTED_MIN: usize = 32;

impl IdleOwner for IdleEvictor {
    fn close_idle(&self, count: usize) -> bool {
        if self.counters.open() == 0 {
            return false;
        }
        self.asked.fetch_add(count, Ordering::Relaxed);
        self.on_asked.notify_one();
        true
    }
}
