//! Floor 0: memory that is filled, emptied all at once, and filled again; and locks around memory that threads share.
//!
//! Nothing here knows what the bytes mean.

mod arena;
mod clear_cold;
mod free_list;
mod local_cache;
mod lock;
mod span;

pub(crate) use arena::Arena;
pub(crate) use clear_cold::clear_cold;
pub(crate) use free_list::{FreeList, Reset};
pub(crate) use local_cache::LocalCache;
pub(crate) use lock::{lock, read_lock, write_lock};
pub(crate) use span::Span;
