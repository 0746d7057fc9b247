//! [`ContextGuard`]: a context in use, and how the values that the application left in it are dropped.

use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::per_core::PerCore;
use crate::server::exchange::ReportedEnd;
use crate::server::report::CutBy;
use crate::server::{Context, ErrorCause, Handler};

/// A context that goes back to its free list, whatever becomes of the task that holds it.
pub(super) struct ContextGuard<'p, H: Handler + 'static> {
    per_core: &'p PerCore<H>,
    context: Option<Box<Context>>,
}

impl<'p, H: Handler + 'static> ContextGuard<'p, H> {
    pub(super) fn new(per_core: &'p PerCore<H>, context: Box<Context>) -> ContextGuard<'p, H> {
        ContextGuard { per_core, context: Some(context) }
    }

    /// Returns the context as it is.
    #[inline]
    pub(super) fn into_inner(mut self) -> Box<Context> {
        self.context.take().expect("a guard has its context until it is dropped")
    }
}

impl<H: Handler + 'static> Deref for ContextGuard<'_, H> {
    type Target = Context;

    fn deref(&self) -> &Context {
        self.context.as_deref().expect("a guard has its context until it is dropped")
    }
}

impl<H: Handler + 'static> DerefMut for ContextGuard<'_, H> {
    fn deref_mut(&mut self) -> &mut Context {
        self.context.as_deref_mut().expect("a guard has its context until it is dropped")
    }
}

impl<H: Handler + 'static> Drop for ContextGuard<'_, H> {
    fn drop(&mut self) {
        let Some(mut context) = self.context.take() else { return };
        context.exchange.abandon();
        let Context { exchange, request, .. } = &mut *context;
        exchange.report_end(request, ReportedEnd::Cut(CutBy::Stop));
        if thread::panicking() {
            // For example, a handler ran out of time, and a value that it held panicked when it was dropped. A second
            // panic would abort the process, so none may escape from this function.
            let Context { exchange, request, .. } = &mut *context;
            exchange.report_error(request, None, ErrorCause::Panic);
            drop_all_user_values(&mut context);
        }
        context.exchange.report_disconnect();
        self.per_core.give_context(context);
    }
}

/// Drops the values that the application has put into an exchange, which is over. (The source of a streamed body was
/// dropped once it had been sent.)
#[inline]
pub(super) fn drop_user_values(ctx: &mut Context) {
    let Context { request, response, extensions, transform, head_filters, .. } = ctx;
    // A saver that is left has left an extension as well.
    let has_user_values = !extensions.is_empty()
        || transform.is_some()
        || head_filters.first.is_some()
        || head_filters.fields.is_some()
        || request.body.is_unbuffered()
        || response.body.is_unbuffered();
    if has_user_values {
        drop_all_user_values(ctx);
    }
}

/// Drops all values that the application has put into an exchange. A panic is reported like one of the handler, and
/// makes this response, which is good and must arrive, the last one of its connection.
#[inline(never)]
pub(super) fn drop_all_user_values(ctx: &mut Context) {
    // A value that panics is gone after its drop, so each round has fewer values.
    while catch_unwind(AssertUnwindSafe(|| clear_user_values(ctx))).is_err() {
        ctx.exchange.report_error(&ctx.request, None, ErrorCause::Panic);
        ctx.exchange.stop_persisting();
    }
}

fn clear_user_values(ctx: &mut Context) {
    let Context { request, response, extensions, transform, head_filters, exchange } = ctx;
    extensions.clear();
    *transform = None;
    head_filters.first = None;
    head_filters.fields = None;
    head_filters.saver = None;
    request.body.clear();
    response.body.clear();
    exchange.outgoing.drop_source();
}
