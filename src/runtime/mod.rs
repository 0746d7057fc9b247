//! Floor 1: threads. One per core for servers, each with a runtime that nothing ever leaves; and for clients, whatever
//! runtime they are used in.
//!
//! tokio's tasks and timers are used on this floor only. Some features add work on blocking threads, and randomness.

mod beside;
mod cores;
mod first;
mod handle;
mod rare;
mod routine;
mod shutdown_signal;
mod time;
mod turn;

#[cfg(any(feature = "compress", feature = "fs", feature = "multipart"))]
mod blocking;
#[cfg(any(feature = "fs", feature = "multipart"))]
mod random;
#[cfg(any(feature = "compress", feature = "fs"))]
mod seats;

pub(crate) use beside::beside;
#[cfg(any(feature = "compress", feature = "fs", feature = "multipart"))]
pub(crate) use blocking::spawn_blocking;
pub(crate) use cores::{Pinning, available_cores, block_on_core, spawn, yield_now};
pub(crate) use first::first;
pub use handle::block_on;
pub(crate) use handle::{Handle, Id};
#[cfg(any(feature = "fs", feature = "multipart"))]
pub(crate) use random::random_token;
pub(crate) use rare::rare;
pub(crate) use routine::Routine;
#[cfg(any(feature = "compress", feature = "fs"))]
pub(crate) use seats::Seats;
pub use shutdown_signal::shutdown_signal;
pub(crate) use time::{Instant, later, now, sleep, sleep_until, timeout, timeout_at};
pub(crate) use turn::Turn;
