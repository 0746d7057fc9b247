//! [`DescriptorQuota`]: a process-wide bound on files that are kept open between requests.

use std::sync::{LazyLock, Mutex};

use crate::fs::root::descriptor_limit;
use crate::memory::lock;

/// Room for some files that are kept open. It becomes free when this is dropped.
///
/// Descriptors are shared by the process: if each root had a bound of its own, a few roots could leave none for
/// connections.
#[derive(Debug)]
pub(super) struct DescriptorQuota(usize);

impl DescriptorQuota {
    /// How many files are kept open in total. Most systems give a process 1,024 descriptors, and connections need them.
    pub(super) const MAX: usize = 256;

    /// Takes room for `count` more files, if there is any.
    pub(super) fn try_acquire(count: usize) -> Option<DescriptorQuota> {
        let mut acquired = lock(&ACQUIRED);
        let has_room = count == 0 || *acquired + count <= *LIMIT;
        has_room.then(|| {
            *acquired += count;
            DescriptorQuota(count)
        })
    }
}

impl Drop for DescriptorQuota {
    fn drop(&mut self) {
        *lock(&ACQUIRED) -= self.0;
    }
}

static ACQUIRED: Mutex<usize> = Mutex::new(0);

/// A quarter of what the process may have open, if that is less.
static LIMIT: LazyLock<usize> = LazyLock::new(|| DescriptorQuota::MAX.min(descriptor_limit() / 4));
