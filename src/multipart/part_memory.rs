//! [`PartMemory`]: the memory of parts that are read as a whole.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::exchange::ExchangeError;
use crate::runtime::{MemoryBudget, MemoryShare};

/// The memory of the parts of one body that are read as a whole, of what the peers of a server share.
#[derive(Default)]
pub(super) struct PartMemory {
    budget: MemoryBudget,
    share: MemoryShare,
    /// How many bytes of the parts before this one the application may still have.
    kept: usize,
}

impl PartMemory {
    pub(super) fn new(budget: MemoryBudget) -> PartMemory {
        PartMemory { budget, ..PartMemory::default() }
    }

    /// Waits for memory for so many bytes of this part.
    pub(super) fn poll_take(&mut self, cx: &mut Context<'_>, len: usize) -> Poll<io::Result<()>> {
        let len = self.kept + len;
        if len <= UNCOUNTED.max(self.share.len()) {
            return Poll::Ready(Ok(()));
        }
        let grown = self.share.poll_grow_to(cx, &self.budget, self.budget.ahead(len), WAIT_MAX);
        grown.map_err(|error| ExchangeError::from_memory(error).into())
    }

    /// Notes that a part of this length was read.
    pub(super) fn keep(&mut self, len: usize) {
        self.kept += len;
    }
}

/// Parts up to this length take no share of the memory.
const UNCOUNTED: usize = 16 << 10;

/// How long a part waits for memory that other peers hold.
const WAIT_MAX: Duration = Duration::from_secs(30);
