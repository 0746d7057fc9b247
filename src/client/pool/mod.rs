//! The connections of a client: open, idle, and in use.

mod client_pools;
mod pool;
mod pooled_conn;
mod send;

pub(super) use client_pools::ClientPools;
pub(super) use pool::{CheckoutMiss, Pool, PoolPermit};
pub(super) use pooled_conn::PooledConn;
