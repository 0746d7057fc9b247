//! Floor 0: memory that is filled, emptied all at once, and filled again; and locks around memory that threads share.
//!
//! Nothing here knows what the bytes mean.

mod arena;
mod free_list;
mod lock;
mod span;
mod stash;
mod vacate;

pub(crate) use arena::Arena;
pub(crate) use free_list::{FreeList, Reset};
pub(crate) use lock::{lock, read_lock, write_lock};
pub(crate) use span::Span;
pub(crate) use stash::Stash;
pub(crate) use vacate::vacate;
