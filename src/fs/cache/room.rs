//! [`Room`]: a process-wide bound on files that are kept open between requests.

use std::sync::{LazyLock, Mutex};

use crate::fs::root::descriptors;
use crate::memory::lock;

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
        let mut taken = lock(&TAKEN);
        let has_room = count == 0 || *taken + count <= *BOUND;
        has_room.then(|| {
            *taken += count;
            Room(count)
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        *lock(&TAKEN) -= self.0;
    }
}

static TAKEN: Mutex<usize> = Mutex::new(0);

/// A quarter of what the process may have open, if that is less.
static BOUND: LazyLock<usize> = LazyLock::new(|| Room::MAX.min(descriptors() / 4));
