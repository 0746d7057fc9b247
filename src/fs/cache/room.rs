//! [`Room`]: a process-wide bound on files that are kept open between requests.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::fs::root::descriptors;

/// Room for some files that are kept open. It becomes free when this is dropped.
///
/// Descriptors are shared by the process: if each root had a bound of its own, a few roots could leave none for
/// connections.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Room {
    /// How many files are kept open in total. Most systems give a process 1,024 descriptors, and connections need them.
    pub(super) const MAX: usize = 256;

    /// Takes room for `count` more files, if there is any.
    pub(super) fn take(count: usize) -> Option<Room> {
        let more = |taken: usize| taken.checked_add(count).filter(|sum| count == 0 || *sum <= *BOUND);
        let taken = TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Room(count))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// A quarter of what the process may have open, if that is less.
static BOUND: LazyLock<usize> = LazyLock::new(|| Room::MAX.min(descriptors() / 4));
