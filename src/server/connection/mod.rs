//! How a server serves one connection.
//!
//! A [`Connection`] waits for bytes. The requests that have arrived, and a TLS handshake, are a job for a reusable
//! future (`serve.rs`), which holds the [`Context`](super::Context) in a guard meanwhile.

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
