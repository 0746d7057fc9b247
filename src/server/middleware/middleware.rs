//! [`Middleware`], which surrounds a handler.

use super::next::Next;
use crate::server::{BodyPlan, Context, Handler, Result};

/// A log, a guard, limits, compression: all that surrounds a handler. See the [module](crate::middleware).
///
/// Each method has a default that passes the request on. So a log has [`call`](Middleware::call) alone, and a guard by
/// the head has [`on_head`](Middleware::on_head). Functions and closures are middleware, too: `async` ones with the
/// parameters `&mut Context` and [`Next`].
///
/// In a group of [`routes!`](crate::routes), middleware is cloned for each route, so its type is [`Clone`].
///
/// # Examples
///
/// ```
/// use corehttp::middleware::{Middleware, wrap};
/// use corehttp::{Context, Handler, Request, Result, Server, Status};
///
/// /// Answers in place of the handler, except for those who may look at the service before it opens.
/// #[derive(Clone)]
/// struct Closed {
///     key: &'static str,
/// }
///
/// impl Middleware for Closed {
///     async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
///         ctx.response.headers.set("cache-control", "no-store")?; // it stays if the handler fails
///         if ctx.request.query().get("preview").as_deref() == Some(self.key) {
///             return next.handle(ctx).await;
///         }
///         ctx.response.set_text("We open tomorrow.");
///         ctx.response.status = Status::SERVICE_UNAVAILABLE;
///         Ok(())
///     }
/// }
///
/// let hello = |ctx: &mut Context| ctx.response.set_text("hi");
/// let service = Server::new().service(wrap(Closed { key: "8f14e45f" }, hello)); // or `Server::run`
/// # for (target, status) in [("/", Status::SERVICE_UNAVAILABLE), ("/?preview=8f14e45f", Status::OK)] {
/// #     let response = corehttp::block_on(service.respond(Request::get(target)?))?;
/// #     assert_eq!(response.status, status);
/// #     assert_eq!(response.headers.get("cache-control"), Some("no-store"));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("layer", "Layer", "Transform", "access log", "from_fn"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not middleware",
    note = "middleware is a type with `impl Middleware`, a `BodyPlan`, or an `async` function or closure of \
            `ctx: &mut Context` and `next: Next<'_>` that returns `corehttp::Result`; write out the types of its parameters",
    note = "a function that only checks requests, with the parameter `ctx` alone, becomes middleware by `guard(..)`",
    note = "a list of middleware is a tuple, and `layer(..)` makes middleware of a layer of tower",
    note = "a call that may fail is followed by `?`, as in `Cors::new().allow_origin(origin)?`"
)]
pub trait Middleware: 'static {
    /// Decides about the request's body by the head, before the body is read. `next` is what this middleware surrounds.
    /// Default: the plan of `next`.
    ///
    /// A guard refuses the request here by [`Context::refuse`], before its body is received, and before `next`. After
    /// the refusal, neither [`call`](Middleware::call) nor `next` is called.
    ///
    /// This method is left out by a handler that chooses among others without passing the head on. So a guard for
    /// safety decides in [`call`](Middleware::call) as well, as [`guard`](crate::middleware::guard) does.
    #[inline]
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        next.on_head(ctx)
    }

    /// Answers the request, by [`next.handle(ctx)`](Handler::handle) or without it. Default: as `next` does.
    ///
    /// # Errors
    ///
    /// As those of [`Handler::handle`]. The error of `next` is one of the handler, of other middleware, or of a request
    /// that was refused beneath this one. See [refusals](crate::middleware#refusals).
    #[inline]
    fn call(&self, ctx: &mut Context, next: &impl Handler) -> impl Future<Output = Result> {
        next.handle(ctx)
    }

    /// Answers the request at once, without a future, if this middleware and `next` can. Default: they cannot.
    ///
    /// This spares the future of a handler [in a box](crate::BoxHandler) its allocation. Middleware with the default
    /// [`call`](Middleware::call) returns `next.handle_now(ctx)`.
    #[inline]
    fn call_now(&self, ctx: &mut Context, next: &impl Handler) -> Option<Result> {
        let _ = (ctx, next);
        None
    }
}

#[diagnostic::do_not_recommend]
impl<F> Middleware for F
where
    F: AsyncFn(&mut Context, Next<'_>) -> Result + 'static,
{
    fn call(&self, ctx: &mut Context, next: &impl Handler) -> impl Future<Output = Result> {
        self(ctx, Next::new(next))
    }
}
