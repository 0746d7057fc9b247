//! [`Settings`]: what is set when a client is built.

mod builder;
mod timeouts;
#[cfg(feature = "tls")]
mod tls;

use std::sync::Arc;
use std::time::Duration;

pub use builder::ClientBuilder;
pub use timeouts::ClientTimeouts;

use super::{CookieStore, Proxies};
use crate::exchange::Bounds;
use crate::message::Headers;
use crate::net::{HostConnector, TlsConnector};
use crate::runtime::{Instant, later};

/// What is set when a client is built.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) timeouts: ClientTimeouts,
    /// The limits, and the timeouts as an exchange takes them.
    pub(super) bounds: Bounds,
    /// The same for a body that the caller reads in pieces, however slowly it comes.
    pub(super) bounds_in_pieces: Bounds,
    pub(super) pool: PoolBounds,
    pub(super) dial: HostConnector,
    pub(super) proxies: Proxies,
    pub(super) tls: TlsConnector,
    /// Default fields of requests.
    pub(super) fields: Headers,
    pub(super) cookies: Option<Arc<dyn CookieStore>>,
    /// How many bytes coded content may decode to, if it is decoded.
    pub(super) decode_max: Option<usize>,
}

/// What a pool may hold, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolBounds {
    pub(super) connections_max: usize,
    pub(super) idle: Duration,
    pub(super) age: Option<Duration>,
}

impl Settings {
    /// Until when a request waits for its turn, if it began to wait at `since`, and its whole exchange must be over by
    /// `deadline`.
    pub(super) fn queue_until(&self, since: Instant, deadline: Option<Instant>) -> Instant {
        let until = later(since, self.timeouts.queue);
        deadline.map_or(until, |deadline| deadline.min(until))
    }
}
