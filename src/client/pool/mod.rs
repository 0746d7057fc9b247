//! The connections of a client: open, idle, and in use.

mod pool;
mod pooled_conn;
mod send;

pub(super) use pool::{CheckoutMiss, ClientPools, Pool, PoolPermit};
pub(super) use pooled_conn::PooledConn;
