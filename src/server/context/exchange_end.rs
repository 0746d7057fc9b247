//! [`Context::on_exchange_end`] and [`Context::note_forward`]: the report of an exchange.

use super::context::Context;
use crate::server::report::{ExchangeReport, ForwardReport};

impl Context {
    /// Calls `on_end` with the report of this exchange, when it is over. Responses to pipelined requests then leave one by
    /// one.
    #[allow(dead_code, reason = "unused without the feature `tracing`")]
    pub(crate) fn on_exchange_end(&mut self, on_end: impl FnOnce(&ExchangeReport<'_>) + 'static) {
        self.exchange.on_end(&self.request, Box::new(on_end));
    }

    /// Notes in the report of this exchange what the server behind did, if exchanges are reported.
    pub(crate) fn note_forward(&mut self, note: impl FnOnce(&mut ForwardReport)) {
        self.exchange.observe(|observation| note(observation.forward.get_or_insert_default()));
    }
}
