//! [`ClientUpgraded`]: a connection that speaks another protocol from here on (RFC 9110 §7.8).

use std::fmt;
use std::pin::Pin;

use super::outcome_recorder::InFlightGuard;
use crate::client::pool::PooledConn;
use crate::net::{Rewind, Stream, delegate_stream};

/// A connection that was upgraded: bytes in both directions, and no longer HTTP.
///
/// Made by [`Client::upgrade`](crate::Client::upgrade). Reading begins with what the server has already sent. There are
/// no timeouts except those that you set, and the connection no longer counts in the pool. Dropping it closes the
/// connection.
///
/// The server's side of such a connection is an [`Upgraded`](crate::server::Upgraded).
///
/// Flush what you have written before you wait for the server: over TLS, the end of it may still be held back.
pub struct ClientUpgraded {
    stream: Rewind<Pin<Box<dyn Stream + Send>>>,
    /// The guard by which a balancer counts the tunnel as pending.
    in_flight: Option<InFlightGuard>,
}

impl ClientUpgraded {
    pub(crate) fn new(pooled: PooledConn) -> ClientUpgraded {
        let (conn, early) = pooled.into_parts();
        let (transport, _timer) = conn.into_parts();
        ClientUpgraded { stream: Rewind::new(transport, early), in_flight: None }
    }

    /// Returns this connection, which a balancer counts as pending until it is dropped.
    pub(crate) fn with_guard(self, in_flight: Option<InFlightGuard>) -> ClientUpgraded {
        ClientUpgraded { in_flight, ..self }
    }
}

delegate_stream!(ClientUpgraded, stream);

impl fmt::Debug for ClientUpgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientUpgraded")
            .field("is_counted", &self.in_flight.is_some())
            .finish_non_exhaustive()
    }
}
