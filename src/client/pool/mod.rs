//! The connections of a client: open, idle, and in use.

mod pool;
mod pooled_conn;
mod send;

pub(super) use pool::{CheckoutMiss, Pool, PoolPermit, Pools};
pub(super) use pooled_conn::PooledConn;
