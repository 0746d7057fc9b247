//! [`ClientBuilder::tracing`]: spans for the exchanges of a client.

use super::client::ClientBuilder;
use crate::client::observe::ClientTracing;
use crate::trace::Tracing;

impl ClientBuilder {
    /// Makes a span for each exchange, and sends the context of the current trace on. Default: no spans, and requests
    /// have only the fields that they are given.
    pub fn tracing(mut self, tracing: &Tracing) -> Self {
        self.settings.tracing = ClientTracing::new(tracing);
        self
    }
}
