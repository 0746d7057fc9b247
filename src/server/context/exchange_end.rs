//! [`Context::on_exchange_end`]: the end of an exchange, for its span.

use super::context::Context;
use crate::server::report::ExchangeReport;

impl Context {
    /// Calls `on_end` with the report of this exchange, when it is over. Responses to pipelined requests then leave one by
    /// one.
    pub(crate) fn on_exchange_end(&mut self, on_end: impl FnOnce(&ExchangeReport<'_>) + 'static) {
        self.exchange.on_end(&self.request, Box::new(on_end));
    }
}
