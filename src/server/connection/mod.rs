//! How a server serves one connection.
//!
//! A [`Connection`] waits for bytes. A reusable future (`serve.rs`) serves arrived requests, or does a TLS handshake.
//! The future holds the [`Context`](super::Context) in a guard meanwhile.

mod connection;
mod per_core;

mod handshake_turns;
mod open;
mod serve;

mod close;
mod context_guard;
mod handler_outcome;

mod respond;

pub(super) use connection::Connection;
pub(super) use handler_outcome::refuse_connection;
pub(crate) use per_core::PerCore;
pub(super) use respond::respond;
