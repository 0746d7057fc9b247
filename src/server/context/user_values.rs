//! Drops what the application has put into an exchange, and reports panics of those drops.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Context;
use crate::server::ErrorCause;

impl Context {
    /// Drops what the application has put into the exchange, which is over. (The source of a streamed body was dropped
    /// once it had been sent.)
    #[inline]
    pub(in crate::server) fn drop_user_values(&mut self) {
        let Context { request, response, extensions, transform, .. } = self;
        let has_user_values = !extensions.is_empty()
            || transform.is_some()
            || request.body.is_unbuffered()
            || response.body.is_unbuffered();
        if has_user_values {
            self.drop_all_user_values();
        }
    }

    /// Drops everything that the application has put into the exchange. A panic is reported like one of the handler,
    /// and makes this answer, which is good and must arrive, the last one.
    #[inline(never)]
    pub(in crate::server) fn drop_all_user_values(&mut self) {
        // A value that panics is gone by then, so each round has fewer of them.
        while catch_unwind(AssertUnwindSafe(|| self.clear_user_values())).is_err() {
            self.report(None, ErrorCause::Panic);
            self.stop_persisting();
        }
    }

    fn clear_user_values(&mut self) {
        let Context { request, response, extensions, transform, outgoing, .. } = self;
        extensions.clear();
        *transform = None;
        request.body.clear();
        response.body.clear();
        outgoing.drop_source();
    }
}
