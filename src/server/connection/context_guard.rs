//! [`ContextGuard`]: a context in use.

use std::ops::{Deref, DerefMut};
use std::thread;

use crate::server::worker::Worker;
use crate::server::{Context, ErrorCause, Handler};

/// A context that goes back to its free list, whatever becomes of the task that holds it.
pub(super) struct ContextGuard<'w, H: Handler> {
    worker: &'w Worker<H>,
    context: Option<Box<Context>>,
}

impl<'w, H: Handler> ContextGuard<'w, H> {
    pub(super) fn new(worker: &'w Worker<H>, context: Box<Context>) -> ContextGuard<'w, H> {
        ContextGuard { worker, context: Some(context) }
    }

    /// Returns the context as it is.
    #[inline]
    pub(super) fn into_inner(mut self) -> Box<Context> {
        self.context.take().expect("a guard has its context until it is dropped")
    }
}

impl<H: Handler> Deref for ContextGuard<'_, H> {
    type Target = Context;

    fn deref(&self) -> &Context {
        self.context.as_deref().expect("a guard has its context until it is dropped")
    }
}

impl<H: Handler> DerefMut for ContextGuard<'_, H> {
    fn deref_mut(&mut self) -> &mut Context {
        self.context.as_deref_mut().expect("a guard has its context until it is dropped")
    }
}

impl<H: Handler> Drop for ContextGuard<'_, H> {
    fn drop(&mut self) {
        let Some(mut context) = self.context.take() else { return };
        let Context { outgoing, conn, shared, .. } = &mut *context;
        if let Some(conn) = &mut *conn.borrow_mut() {
            shared.count_traffic(conn);
            if !outgoing.is_unsent() && !outgoing.is_whole() {
                // A peer that is cut off in the middle of an answer must not mistake it for the whole.
                conn.transport.reset();
            }
        }
        if thread::panicking() {
            // Say, a handler ran out of time, and a value it held panicked when it was dropped. A second panic would
            // abort the process, so none may escape from here.
            context.report(None, ErrorCause::Panic);
            context.drop_all_user_values();
        }
        self.worker.give_context(context);
    }
}
