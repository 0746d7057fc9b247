//! How the client behaves, with servers that answer as they are told, byte for byte.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that cannot go on has failed, and nobody imports it"
)]

mod answers;
#[cfg(feature = "compress")]
mod content;
mod pool;
mod redirects;
mod requests;
mod servers;
mod streams;
mod time;

mod support;
