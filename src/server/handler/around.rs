//! [`Around`]: middleware that is a function.

use super::{BodyPlan, Handler, IntoHandler};
use crate::message::Request;
use crate::server::{Context, Result};

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
///     println!("{} {target} in {:?}", ctx.peer_addr(), ctx.arrived().elapsed());
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
    fn on_head(&self, request: &Request) -> BodyPlan {
        self.handler.on_head(request)
    }

    #[inline]
    async fn handle(&self, ctx: &mut Context) -> Result {
        (self.middleware)(&self.handler, ctx).await
    }
}
