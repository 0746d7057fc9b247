//! [`IdleOwner`]: an owner of idle connections, some of which close when the process has no descriptor left.
//!
//! An idle connection is worth less than the connection, the look-up or the file that a request waits for. Servers and
//! clients do not import each other, and a gateway is both. So all of them register here.

use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use crate::memory::lock;
use crate::net::socket::is_out_of_descriptors;

/// Has connections, some of which may be idle.
pub(crate) trait IdleOwner: Send + Sync {
    /// Closes up to `count` of those that have been idle for longest, or has that done soon, on their own thread. Returns
    /// whether there may have been any.
    fn close_idle(&self, count: usize) -> bool;
}

/// Has [`close_idle`] ask `owner`, for as long as it lives.
pub(crate) fn register_idle_owner(owner: Weak<dyn IdleOwner>) {
    let mut owners = lock(&OWNERS);
    if owners.len() == owners.capacity() {
        // Before the list grows, it loses those that are gone.
        owners.retain(|owner| owner.strong_count() > 0);
    }
    owners.push(owner);
}

static OWNERS: Mutex<Vec<Weak<dyn IdleOwner>>> = Mutex::new(Vec::new());

/// Closes some `count` idle connections, an equal share of each owner's. Returns whether there may have been any. Some
/// of them are closed only within [`CLOSING_TIME`].
pub(crate) fn close_idle(count: usize) -> bool {
    let owners: Vec<Arc<_>> = lock(&OWNERS).iter().filter_map(Weak::upgrade).collect();
    let share = count.div_ceil(owners.len().max(1));
    let mut found = false;
    for owner in &owners {
        found |= owner.close_idle(share);
    }
    found
}

/// The outcome of `call`, which may block. It is repeated if there was no descriptor for it and idle connections close.
///
/// # Errors
///
/// As `call`.
pub(crate) fn with_descriptors<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..RETRIES_MAX {
        match call() {
            Err(error) if is_out_of_descriptors(&error) && close_idle(CLOSED) => thread::sleep(CLOSING_TIME),
            outcome => return outcome,
        }
    }
    call()
}

/// How often a call is repeated for which there was no descriptor. Others may have taken those that were freed.
pub(crate) const RETRIES_MAX: usize = 16;

/// How many idle connections close for one call. It may need several descriptors, and other parts of the program need
/// some as well.
pub(crate) const CLOSED: usize = 8;

/// How long a core has to close connections, for a caller on another thread.
pub(crate) const CLOSING_TIME: Duration = Duration::from_millis(5);
