//! File descriptors, when none are left: the errors that say so, and [`IdleOwner`]s, whose idle connections then close.
//!
//! An idle connection is worth less than the connection, the look-up or the file that a request waits for. Servers and
//! clients do not import each other, and a gateway is both. So all of them register here.

use std::error::Error;
use std::io;
use std::iter;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::memory::lock;

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
            Err(error) if makes_room_after(&error) => thread::sleep(CLOSING_TIME),
            outcome => return outcome,
        }
    }
    call()
}

/// Whether idle connections close because a call failed with `error`, for want of a descriptor. After [`CLOSING_TIME`], another
/// attempt may succeed.
pub(crate) fn makes_room_after(error: &(dyn Error + 'static)) -> bool {
    is_out_of_descriptors(error) && close_idle(CLOSED)
}

/// How often a call is repeated for which there was no descriptor. Others may have taken those that were freed, and a server
/// closes a connection only once it has been idle for 100 ms.
pub(crate) const RETRIES_MAX: usize = 40;

/// How many idle connections close for one call. It may need several descriptors, and other parts of the program need
/// some as well.
const CLOSED: usize = 8;

/// How long a core has to close connections, for a caller on another thread.
pub(crate) const CLOSING_TIME: Duration = Duration::from_millis(5);

/// Whether `error` is, or was caused by, too many open files of the process or of the system.
pub(crate) fn is_out_of_descriptors(error: &(dyn Error + 'static)) -> bool {
    let is_one = |error: &io::Error| matches!(error.raw_os_error(), Some(ENFILE | EMFILE));
    let mut chain = iter::successors(Some(error), |&error| error.source());
    cfg!(unix) && chain.any(|error| error.downcast_ref().is_some_and(is_one))
}

/// The same on all Unix systems.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// The error of a call that needs some descriptors, if there are too few: for calls that hide it.
pub(crate) fn want_of_descriptors() -> Option<io::Error> {
    let sockets = (0..NEEDED).map(|_| Socket::new(Domain::IPV4, Type::DGRAM, None));
    let opened: io::Result<Vec<Socket>> = sockets.collect();
    opened.err().filter(|error| is_out_of_descriptors(error))
}

/// `getaddrinfo` has a file or two sockets open at once.
const NEEDED: usize = 3;
