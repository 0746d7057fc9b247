//! Floor 1: threads. One per core for servers, each with a runtime that no task leaves. Clients use the runtime of their
//! callers.
//!
//! tokio's tasks and timers are used on this floor only. Some features add work on blocking threads, and randomness.

mod blocking;
mod cores;
mod future;
mod hooks;
mod memory_budget;
mod memory_queue;
mod own_wait;
mod shutdown_signal;
mod time;

#[cfg(any(feature = "fs", feature = "multipart", feature = "session"))]
mod random;

#[cfg(any(feature = "compress", feature = "fs"))]
pub(crate) use blocking::BlockingLimit;
pub(crate) use blocking::spawn_blocking;
pub use cores::block_on;
pub(crate) use cores::{
    Budget, Handle, Id, InRuntime, Pinning, RuntimeThread, available_cores, block_on_core, run_apart,
    run_beside, spawn, yield_now,
};
pub(crate) use future::{ReusableFuture, boxed, join_first, select};
pub(crate) use hooks::Hooks;
pub use memory_budget::MemoryCounts;
pub(crate) use memory_budget::{CancelMemoryWaitOnDrop, MemoryBudget, MemoryError, MemoryShare};
pub(crate) use own_wait::{OwnWaits, own_wait};
#[cfg(any(feature = "fs", feature = "multipart", feature = "session"))]
pub(crate) use random::random_token;
pub use shutdown_signal::shutdown_signal;
pub(crate) use time::{Instant, later, now, sleep, sleep_until, timeout, timeout_at};
