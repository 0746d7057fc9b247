//! [`Context::on_exchange_end`]: the report of the exchange, for its span; and notes for it.

use super::context::Context;
use crate::server::report::{ExchangeReport, ForwardReport};

impl Context {
    /// Calls `on_end` with the report of this exchange, when it is over. Responses to pipelined requests then leave one by
    /// one.
    #[allow(dead_code, reason = "unused without the feature `tracing`")]
    pub(crate) fn on_exchange_end(&mut self, on_end: impl FnOnce(&ExchangeReport<'_>) + 'static) {
        self.exchange.on_end(&self.request, Box::new(on_end));
    }

    /// Notes the part of the server behind for the report of this exchange, if exchanges are reported.
    pub(crate) fn note_forward(&mut self, note: impl FnOnce(&mut ForwardReport)) {
        self.exchange.observe(|observation| note(observation.forward.get_or_insert_default()));
    }
}
