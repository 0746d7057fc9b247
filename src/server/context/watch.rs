//! [`Context::watch`]: the end of an exchange, for its span.

use super::context::Context;
use crate::server::report::ExchangeReport;

impl Context {
    /// Calls `watcher` with the report of this exchange, when it is over. Responses to pipelined requests then leave one by
    /// one.
    pub(crate) fn watch(&mut self, watcher: impl FnOnce(&ExchangeReport<'_>) + 'static) {
        self.exchange.watch(&self.request, Box::new(watcher));
    }
}
