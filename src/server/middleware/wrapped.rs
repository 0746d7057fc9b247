//! [`Wrapped`]: a handler with middleware around it.

use std::cell::Cell;
use std::fmt;
use std::future::ready;

use super::middleware::Middleware;
use crate::message::Status;
use crate::server::handler::{BoxedFuture, Refusal, caught, confined};
use crate::server::{BodyPlan, Context, Handler, Result};

/// A handler with middleware around it.
#[derive(Clone, Copy)]
pub struct Wrapped<M, H> {
    middleware: M,
    inner: Inner<H>,
}

impl<M: Middleware, H: Handler + 'static> Wrapped<M, H> {
    /// The size of the future. The compiler needs it where the handler is wrapped, and so from the innermost layer outwards.
    /// Else it would lay out all of them at once, and give up at a depth of some twenty.
    const FUTURE_LEN: usize = future_len::<Self, _>(Self::handle);

    pub(super) fn new(middleware: M, handler: H) -> Wrapped<M, H> {
        const { assert!(Self::FUTURE_LEN < usize::MAX, "the future has a layout") };
        Wrapped { middleware, inner: Inner(handler) }
    }
}

/// The size of the future that a method of a handler returns.
const fn future_len<H: 'static, F>(_: fn(&'static H, &'static mut Context) -> F) -> usize {
    size_of::<F>()
}

// Each method returns the future of the middleware as it is. The layers of a request are types in types, and each further
// one counts towards the depth at which the compiler gives up.
impl<M: Middleware, H: Handler> Handler for Wrapped<M, H> {
    #[inline]
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        let plan = self.middleware.on_head(ctx, &self.inner);
        if let BodyPlan::Refuse(_) = plan {
            self.inner.note_route(ctx);
        }
        plan
    }

    #[inline]
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        self.middleware.call(ctx, &self.inner)
    }

    #[inline]
    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        self.middleware.call_now(ctx, &self.inner)
    }

    fn note_route(&self, ctx: &mut Context) {
        self.inner.note_route(ctx);
    }

    fn refuse<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        match refusal.pass_inward() {
            Err(error) => Box::pin(ready(Err(error))),
            Ok(refusal) => Box::pin(async move {
                let next = Refusing::new(&self.inner.0, refusal);
                self.middleware.call(ctx, &next).await
            }),
        }
    }
}

impl<M, H> fmt::Debug for Wrapped<M, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wrapped").finish_non_exhaustive()
    }
}

/// The handler beneath middleware, as the middleware calls it.
#[derive(Clone, Copy)]
struct Inner<H>(H);

impl<H: Handler> Handler for Inner<H> {
    #[inline]
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        let plan = caught(|| self.0.on_head(ctx)).unwrap_or_else(|panicked| ctx.refuse(panicked));
        if let BodyPlan::Refuse(status) = plan {
            Refusal::note_passed(ctx, status);
        }
        plan
    }

    #[inline]
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        self.0.handle_confined(ctx)
    }

    #[inline]
    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        caught(|| self.0.handle_now(ctx)).unwrap_or_else(|panicked| Some(Err(panicked)))
    }

    #[inline]
    fn handle_confined(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        self.0.handle_confined(ctx)
    }

    fn note_route(&self, ctx: &mut Context) {
        let known = ctx.request.matched_route_mut().choices();
        self.0.note_route(ctx);
        // A choice would be taken for one of `on_head`: the handler would be called without its plan, and so without a body.
        ctx.request.matched_route_mut().forget_choices(known);
    }

    // `on_head` has counted a middleware, the one that refuses here.
    fn refuse<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        match refusal.pass_inward() {
            Err(error) => Box::pin(ready(Err(error))),
            Ok(refusal) => self.0.refuse(ctx, refusal),
        }
    }
}

/// The handler beneath middleware, while a request is refused: the refusal passes on, and no handler is called.
struct Refusing<'a> {
    inner: &'a dyn Refuse,
    /// Taken by the first call.
    refusal: Cell<Option<Refusal>>,
    status: Status,
}

impl<'a> Refusing<'a> {
    fn new(inner: &'a impl Handler, refusal: Refusal) -> Refusing<'a> {
        let status = refusal.error.status();
        Refusing { inner, refusal: Cell::new(Some(refusal)), status }
    }
}

impl Handler for Refusing<'_> {
    fn on_head(&self, _: &mut Context) -> BodyPlan {
        BodyPlan::Refuse(self.status)
    }

    fn is_refusing(&self) -> bool {
        true
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        match self.refusal.take() {
            Some(refusal) => confined(move || self.inner.pass(ctx, refusal)).await,
            None => Err(self.status.into()),
        }
    }

    /// The refusal that is on its way counts: `on_head` has led to the other one, and has noted nothing.
    fn refuse<'b>(&'b self, ctx: &'b mut Context, _: Refusal) -> BoxedFuture<'b> {
        Box::pin(self.handle(ctx))
    }
}

/// [`Handler::refuse`] alone, so that no other method is compiled for the refusals of a handler.
trait Refuse {
    fn pass<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a>;
}

impl<H: Handler> Refuse for H {
    fn pass<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        self.refuse(ctx, refusal)
    }
}
