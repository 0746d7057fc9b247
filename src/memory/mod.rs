//! Floor 0: memory to fill, empty all at once, and fill again, locks around shared memory, and the size of memory.
//!
//! Nothing in this folder depends on the meaning of the bytes.

mod arena;
mod free_list;
mod lock;
mod machine_memory;
mod pool_counts;
mod stable_hash;

pub(crate) use arena::{Arena, Span};
pub(crate) use free_list::{FreeList, LocalCache, Reset, clear_cold, free_beyond, free_text_beyond};
pub(crate) use lock::{CachePadded, Counter, lock, read_lock, write_lock};
pub(crate) use machine_memory::machine_memory;
pub use pool_counts::PoolCounts;
pub(crate) use pool_counts::{POOL_NAMES, PoolGuard, PoolKind, ReuseCounters};
pub(crate) use stable_hash::stable_hash;
