//! [`PipelineBuilder`]: configures a pipeline.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::sync::Semaphore;

use super::{AllowedMethods, CloseOnDrop, Pipeline, PipelineInner, Queue, origin};
use crate::client::Client;
use crate::message::InvalidRequest;

/// Configures a [`Pipeline`]. Made by [`Client::pipeline`]; timeouts and limits are those of the client.
///
/// # Examples
///
/// ```
/// use corehttp::Client;
///
/// let pipeline = Client::new().pipeline("http://cache:8080")?.connections(2).in_flight_max(256).build();
/// assert_eq!(pipeline.in_flight(), 0);
/// # Ok::<(), corehttp::InvalidRequest>(())
/// ```
#[must_use]
pub struct PipelineBuilder {
    client: Client,
    key: Box<str>,
    connections: usize,
    in_flight_max: usize,
    allowed: AllowedMethods,
}

impl PipelineBuilder {
    pub(super) fn new(client: Client, url: &str) -> Result<PipelineBuilder, InvalidRequest> {
        let key = origin::key_of_url(url)?;
        Ok(PipelineBuilder {
            client,
            key,
            connections: 1,
            in_flight_max: 1024,
            allowed: AllowedMethods::Safe,
        })
    }

    /// Sets how many connections are used at most. Another one is opened when all others are busy. Default: 1. Values
    /// are clamped to between 1 and 1,024.
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count.clamp(1, CONNECTIONS_MAX);
        self
    }

    /// Sets how many requests may be in flight, over all connections together. Default: 1,024; the least is 1.
    ///
    /// Further callers wait in line, for at most [`ClientTimeouts::queue`](crate::ClientTimeouts::queue).
    pub fn in_flight_max(mut self, most: usize) -> Self {
        self.in_flight_max = most.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Allows methods that are not safe. Default: only safe methods are sent.
    ///
    /// If a connection ends while such requests are in flight, it is unknown whether the server has acted on them. They
    /// fail with an error for which [`ClientError::is_sent`] is true, unless the method is idempotent (RFC 9112
    /// §9.3.2).
    ///
    /// [`ClientError::is_sent`]: crate::ClientError::is_sent
    pub fn allow_unsafe(mut self) -> Self {
        self.allowed = AllowedMethods::Any;
        self
    }

    /// Builds the pipeline. Nothing is dialed before the first request.
    pub fn build(self) -> Pipeline {
        let PipelineBuilder { client, key, connections, in_flight_max, allowed } = self;
        let shared = PipelineInner {
            client,
            key,
            pool: OnceLock::new(),
            in_flight_max,
            permits: Arc::new(Semaphore::new(in_flight_max)),
            allowed,
            queues: std::iter::repeat_with(Arc::<Queue>::default).take(connections).collect(),
        };
        Pipeline(Arc::new(CloseOnDrop(Arc::new(shared))))
    }
}

/// Each connection has a queue, and each request looks at all of them.
const CONNECTIONS_MAX: usize = 1024;

impl fmt::Debug for PipelineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipelineBuilder")
            .field("origin", &self.key)
            .field("connections", &self.connections)
            .field("in_flight_max", &self.in_flight_max)
            .finish_non_exhaustive()
    }
}
