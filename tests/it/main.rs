//! How the server behaves, seen from outside: over sockets, byte for byte.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that cannot go on has failed, and nobody imports it"
)]

#[cfg(all(feature = "access-log", feature = "tls"))]
#[path = "../support/everything.rs"]
mod everything;
#[path = "../oracle/mod.rs"]
mod oracle;
mod support;

mod files;
mod handlers;
mod observe;
mod protocol;
mod stop;
#[cfg(feature = "websocket")]
mod websocket;
