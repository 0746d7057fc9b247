//! How the client behaves, over sockets, with servers that answer as they are told, byte for byte.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that cannot go on has failed, and nobody imports it"
)]

#[cfg(feature = "compress")]
mod content;
mod pool;

mod support;
