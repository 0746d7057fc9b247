//! The connections of a client: open, idle, and in use.
//!
//! A [`PooledConn`] is a connection together with its exchange. Sending is in `send.rs`.

mod client_pools;
mod default_fields;
mod dial;
mod dial_permits;
mod idle_conns;
mod pool;
mod pool_group;
mod pooled_conn;
mod send;
mod server_version;

pub(super) use client_pools::ClientPools;
pub(super) use dial::{open_new, replace_stale, wait_for_conn};
pub(super) use pool::{CheckoutMiss, LONG_DIAL, Pool};
pub(super) use pooled_conn::PooledConn;
