//! Floor 1: threads. One per core for servers, each with a runtime that nothing ever leaves; and for clients, whatever
//! runtime they are used in.
//!
//! tokio's tasks and timers are used on this floor only. Some features add work on blocking threads, and randomness.

mod boxed;
mod budget;
mod cores;
mod handle;
mod join_first;
mod reusable_future;
mod select;
mod shutdown_signal;
mod time;

#[cfg(any(feature = "compress", feature = "fs", feature = "multipart"))]
mod blocking;
#[cfg(any(feature = "compress", feature = "fs"))]
mod blocking_limit;
#[cfg(any(feature = "fs", feature = "multipart"))]
mod random;

#[cfg(any(feature = "compress", feature = "fs", feature = "multipart"))]
pub(crate) use blocking::spawn_blocking;
#[cfg(any(feature = "compress", feature = "fs"))]
pub(crate) use blocking_limit::BlockingLimit;
pub(crate) use boxed::boxed;
pub(crate) use budget::Budget;
pub(crate) use cores::{Pinning, available_cores, block_on_core, spawn, yield_now};
pub use handle::block_on;
pub(crate) use handle::{Handle, Id};
pub(crate) use join_first::join_first;
#[cfg(any(feature = "fs", feature = "multipart"))]
pub(crate) use random::random_token;
pub(crate) use reusable_future::ReusableFuture;
pub(crate) use select::select;
pub use shutdown_signal::shutdown_signal;
pub(crate) use time::{Instant, later, now, sleep, sleep_until, timeout, timeout_at};
