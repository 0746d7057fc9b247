//! [`Around`] and [`WithPlan`]: a function around a handler, and another plan for its request bodies.

use super::context::Context;
use super::error::Result;
use super::handler::{BodyPlan, Handler, IntoHandler};
use crate::message::Request;

/// Calls `middleware` in place of a handler, with that handler. Request bodies are planned by the handler, as without
/// the middleware.
///
/// Middleware with settings or a plan of its own is a type that implements [`Handler`] and holds another handler, as
/// shown there.
///
/// # Examples
///
/// ```
/// use corehttp::{Context, Handler, Server, around};
///
/// async fn log(app: &impl Handler, ctx: &mut Context) -> corehttp::Result {
///     let target = ctx.request.target().to_string();
///     let outcome = app.handle(ctx).await;
///     println!("{} {target} in {:?}", ctx.peer_addr(), ctx.arrived_at().elapsed());
///     outcome
/// }
///
/// let app = |ctx: &mut Context| ctx.response.set_text("Hello, World!");
/// # let _ = || -> corehttp::Result {
/// Server::bind("127.0.0.1:8080").run(around(log, app))
/// # };
/// ```
#[doc(alias("middleware", "from_fn"))]
pub fn around<M, H, Kind>(middleware: M, handler: H) -> Around<M, H::Handler>
where
    M: AsyncFn(&H::Handler, &mut Context) -> Result + 'static,
    H: IntoHandler<Kind>,
{
    Around { middleware, handler: handler.into_handler() }
}

/// A handler with a function around it, made by [`around`].
#[derive(Clone, Copy, Debug)]
pub struct Around<M, H> {
    middleware: M,
    handler: H,
}

impl<M, H> Handler for Around<M, H>
where
    M: AsyncFn(&H, &mut Context) -> Result + 'static,
    H: Handler,
{
    #[inline]
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        self.handler.on_head(ctx)
    }

    #[inline]
    async fn handle(&self, ctx: &mut Context) -> Result {
        (self.middleware)(&self.handler, ctx).await
    }
}

/// Gives a handler a plan for request bodies, in place of its own. Closures and functions get one this way.
///
/// # Examples
///
/// ```
/// use corehttp::{BodyPlan, Context, Server, with_plan};
///
/// let upload = async |ctx: &mut Context| -> corehttp::Result {
///     let mut body = ctx.body_reader();
///     while let Some(chunk) = body.chunk().await? {
///         println!("{} bytes", chunk.len());
///     }
///     Ok(())
/// };
/// # let _ = || -> corehttp::Result {
/// Server::bind("127.0.0.1:8080").run(with_plan(|_| BodyPlan::Stream, upload))
/// # };
/// ```
pub fn with_plan<P, H, Kind>(plan: P, handler: H) -> WithPlan<P, H::Handler>
where
    P: Fn(&Request) -> BodyPlan + 'static,
    H: IntoHandler<Kind>,
{
    WithPlan { plan, handler: handler.into_handler() }
}

/// A handler with a plan for request bodies, made by [`with_plan`].
#[derive(Clone, Copy, Debug)]
pub struct WithPlan<P, H> {
    plan: P,
    handler: H,
}

impl<P, H> Handler for WithPlan<P, H>
where
    P: Fn(&Request) -> BodyPlan + 'static,
    H: Handler,
{
    #[inline]
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        (self.plan)(&ctx.request)
    }

    #[inline]
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        self.handler.handle(ctx)
    }
}
