//! Floor 1: threads. One for each core, with a runtime of its own that nothing ever leaves; and whatever runtime a
//! client is used in.
//!
//! tokio's tasks and timers are named on this floor only.

#[cfg(feature = "multipart")]
mod aside;
#[cfg(feature = "fs")]
mod blocking;
mod cores;
mod here;
#[cfg(feature = "compress")]
mod off_core;

#[cfg(feature = "multipart")]
pub(crate) use aside::{leave_aside, run_aside};
#[cfg(feature = "fs")]
pub(crate) use blocking::unblock;
pub(crate) use cores::{
    Instant, Pinning, available_cores, block_on_core, sleep, sleep_until, spawn, timeout, timeout_at,
    yield_now,
};
pub use here::block_on;
pub(crate) use here::{Here, Id, now};
#[cfg(feature = "compress")]
pub(crate) use off_core::off_core;
