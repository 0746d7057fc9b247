//! What the application has put into an exchange is dropped when that is over, and its panics are told.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Context;
use crate::server::RefusalCause;

impl Context {
    /// Drops what the application has put into the exchange, which is over. The source of an answer went when that was
    /// sent.
    #[inline]
    pub(in crate::server) fn drop_values(&mut self) {
        let Context { request, response, extensions, transform, .. } = self;
        let are_none = extensions.is_empty()
            && transform.is_none()
            && !request.body.is_foreign()
            && !response.body.is_foreign();
        if !are_none {
            self.drop_each_value();
        }
    }

    /// Drops all that the application has put into the exchange. What panics then is told like a panic of the handler. The
    /// answer is good and shall arrive, as the last one.
    #[inline(never)]
    pub(in crate::server) fn drop_each_value(&mut self) {
        // Each is gone before its panic comes out, so there are fewer the next time.
        while catch_unwind(AssertUnwindSafe(|| self.forget_values())).is_err() {
            self.report(None, RefusalCause::Panic);
            self.stop_persisting();
        }
    }

    fn forget_values(&mut self) {
        let Context { request, response, extensions, transform, outgoing, .. } = self;
        extensions.clear();
        *transform = None;
        request.body.clear();
        response.body.clear();
        outgoing.drop_source();
    }
}
