//! [`Middleware`], which surrounds a handler.

use super::next::Next;
use crate::server::{BodyPlan, Context, Handler, Result};

/// A log, a guard, limits, compression: all that surrounds a handler. See the [module](crate::middleware).
///
/// Each method has a default that passes the request on, so a log has [`call`](Middleware::call) alone, and a guard that
/// decides by the head has [`on_head`](Middleware::on_head). Functions and closures are middleware, too: `async` ones with
/// the parameters `&mut Context` and [`Next`].
///
/// In a group of [`routes!`](crate::routes), middleware is cloned for each route, so its type is [`Clone`].
///
/// # Examples
///
/// ```
/// use corehttp::middleware::{Middleware, wrap};
/// use corehttp::{Context, Handler, Method, Request, Result, Server, Status};
///
/// /// Lets the pages of one other origin use the responses (CORS).
/// #[derive(Clone)]
/// struct Cors(&'static str);
///
/// impl Middleware for Cors {
///     async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
///         let Context { request, response, .. } = &mut *ctx;
///         response.headers.set("access-control-allow-origin", self.0)?; // it stays if the handler fails
///         let is_preflight =
///             request.method() == Method::Options && request.headers.contains("access-control-request-method");
///         if !is_preflight {
///             return next.handle(ctx).await;
///         }
///         response.status = Status::NO_CONTENT;
///         response.headers.set("access-control-allow-methods", "GET, POST")?;
///         response.headers.set("access-control-allow-headers", "content-type")?;
///         Ok(())
///     }
/// }
///
/// let hello = |ctx: &mut Context| ctx.response.set_text("hi");
/// let service = Server::new().service(wrap(Cors("https://app.example"), hello)); // or `Server::run`
/// # let mut preflight = Request::new("OPTIONS", "/")?;
/// # preflight.headers.set("access-control-request-method", "POST")?;
/// # for (request, status) in [(preflight, Status::NO_CONTENT), (Request::get("/")?, Status::OK)] {
/// #     let response = corehttp::block_on(service.respond(request))?;
/// #     assert_eq!(response.status, status);
/// #     assert_eq!(response.headers.get("access-control-allow-origin"), Some("https://app.example"));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("layer", "Layer", "Transform", "access log", "cors", "from_fn"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not middleware",
    note = "middleware is a type with `impl Middleware`, a `BodyPlan`, or an `async` function or closure of \
            `ctx: &mut Context` and `next: Next<'_>` that returns `corehttp::Result`; write out the types of its parameters",
    note = "a function that only checks requests, with the parameter `ctx` alone, becomes middleware by `guard(..)`",
    note = "a list of middleware is a tuple, and `layer(..)` makes middleware of a layer of tower"
)]
pub trait Middleware: 'static {
    /// Decides by the head what becomes of the request's body, before the body is read. `next` is what this middleware
    /// surrounds. Default: the plan of `next`.
    ///
    /// A guard refuses the request here by [`Context::refuse`]: before its body is received, and before `next` sees
    /// anything of it. Neither [`call`](Middleware::call) nor `next` is called then.
    ///
    /// A handler that chooses among others and does not pass the head on also leaves out this method, so a guard on which
    /// safety depends decides in [`call`](Middleware::call) as well: [`guard`](crate::middleware::guard) makes one of a
    /// function.
    #[inline]
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        next.on_head(ctx)
    }

    /// Answers the request, by [`next.handle(ctx)`](Handler::handle) or without it. Default: as `next` does.
    ///
    /// # Errors
    ///
    /// As those of [`Handler::handle`]. The error of `next` is one of the handler, of other middleware, or of a request
    /// that was refused beneath this one: see [refusals](crate::middleware#refusals).
    #[inline]
    fn call(&self, ctx: &mut Context, next: &impl Handler) -> impl Future<Output = Result> {
        next.handle(ctx)
    }

    /// Answers the request at once, without a future, if this middleware and `next` can. Default: they cannot.
    ///
    /// This spares the future of a handler [in a box](crate::BoxHandler) its allocation. Middleware that leaves
    /// [`call`](Middleware::call) as it is returns `next.handle_now(ctx)`.
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
