//! [`Around`], [`WithPlan`] and [`WithBounds`]: a function around a handler; other plans and bounds.

use super::context::Context;
use super::error::Result;
use super::handler::{BodyPlan, Handler, IntoHandler};
use crate::exchange::Timeouts;
use crate::message::Request;
use crate::wire::Limits;

/// Calls `middleware` in place of a handler, with that handler. Whether a body is buffered or streamed is
/// still decided by the handler's [`Handler::on_head`].
///
/// Middleware with a plan of its own is a type that implements [`Handler`] and holds another handler, as shown there.
///
/// Each handler keeps its type, which the compiler follows to the innermost one. Where many are nested, it may end with
/// `queries overflow the depth limit`, or take long, because the type of a function that is middleware contains that of
/// its handler once more. A [`BoxHandler`](super::BoxHandler) in between, or a `Box<dyn Handler>` for the handlers of one
/// core, ends the nesting, for an allocation per request; `#![recursion_limit = "256"]` in the program raises the limit.
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
///
/// Middleware with state is a closure that captures it, one for each handler:
///
/// ```
/// use std::sync::Arc;
/// use corehttp::{Context, Handler, Status, around, routes};
///
/// struct Tokens(Vec<String>);
///
/// async fn guard(tokens: &Tokens, app: &impl Handler, ctx: &mut Context) -> corehttp::Result {
///     let is_known = ctx.request.bearer_token().is_some_and(|token| tokens.0.iter().any(|known| known == token));
///     if is_known { app.handle(ctx).await } else { Err(Status::UNAUTHORIZED.into()) }
/// }
///
/// let tokens = Arc::new(Tokens(vec!["8f14e45f".into()]));
/// let admin = routes! { GET "/stats" => |ctx: &mut Context| ctx.response.set_text("good") };
/// let router = routes! {
///     GET "/" => |ctx: &mut Context| ctx.response.set_text("hi"),
///     mount "/admin" => around(async move |app: &_, ctx: &mut Context| guard(&tokens, app, ctx).await, admin),
/// };
/// # let service = corehttp::Server::new().service(router);
/// # let mut request = corehttp::Request::get("/admin/stats")?;
/// # let refused = corehttp::block_on(service.respond(request.clone()))?;
/// # request.set_bearer_token("8f14e45f")?;
/// # let admitted = corehttp::block_on(service.respond(request))?;
/// # assert_eq!((refused.status, admitted.text()), (Status::UNAUTHORIZED, Ok("good")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
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

    // An `async` block around the future of the function would be one more for the compiler to lay out, whose limit
    // bounds how deep middleware nests.
    #[inline]
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        (self.middleware)(&self.handler, ctx)
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

    #[inline]
    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        self.handler.handle_now(ctx)
    }
}

/// Changes the limits of a handler's exchanges. For a single route, for example:
/// `with_limits(|limits| limits.body_max = 1 << 30, upload)`.
///
/// The function gets the limits of the server, or those that a handler around this one has set. Only those of bodies,
/// chunks and trailers can still count: see [`Context::set_limits`]. The change is made in [`Handler::on_head`], so
/// handlers around this one must pass that call on.
///
/// # Examples
///
/// ```
/// use corehttp::{Context, Limits, Request, Server, Status, routes, with_limits};
///
/// let size = |ctx: &mut Context| ctx.response.set_text(ctx.request.body.len().to_string());
/// let router = routes! {
///     POST "/notes" => size,
///     POST "/upload" => with_limits(|limits| limits.body_max = 1 << 30, size),
/// };
/// let service = Server::new().limits(Limits { body_max: 4, ..Limits::default() }).service(router);
/// # for (path, status) in [("/notes", Status::CONTENT_TOO_LARGE), ("/upload", Status::OK)] {
/// #     let mut request = Request::post(path)?;
/// #     request.set_text("hello");
/// #     assert_eq!(corehttp::block_on(service.respond(request))?.status, status);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A [`Handler::on_head`] can choose the bounds by the head of the request. Here the requests of devices, which have a
/// field `x-device`, may be large and slow:
///
/// ```
/// use corehttp::{BodyPlan, Context, Handler, Limits, Result, Timeouts};
///
/// struct Devices<H>(H);
///
/// impl<H: Handler> Handler for Devices<H> {
///     fn on_head(&self, ctx: &mut Context) -> BodyPlan {
///         if ctx.request.headers.get("x-device").is_some() {
///             ctx.set_limits(Limits { body_max: 64 << 20, ..ctx.limits() });
///             ctx.set_timeouts(Timeouts { body_rate_min: 10, ..ctx.timeouts() });
///         }
///         self.0.on_head(ctx)
///     }
///
///     async fn handle(&self, ctx: &mut Context) -> Result {
///         self.0.handle(ctx).await
///     }
/// }
/// ```
pub fn with_limits<F, H, Kind>(
    change: F,
    handler: H,
) -> WithBounds<impl Fn(&mut Context) + 'static, H::Handler>
where
    F: Fn(&mut Limits) + 'static,
    H: IntoHandler<Kind>,
{
    let change = move |ctx: &mut Context| {
        let mut limits = ctx.limits();
        change(&mut limits);
        ctx.set_limits(limits);
    };
    WithBounds { change, handler: handler.into_handler() }
}

/// Changes the time limits of a handler's exchanges, such as those of a single route for slow devices.
///
/// The function gets the time limits of the server, or those that a handler around this one has set. See
/// [`Context::set_timeouts`]. The change is made in [`Handler::on_head`], so handlers around this one must pass that call
/// on.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::{Context, routes, with_timeouts};
///
/// async fn report(ctx: &mut Context) {
///     ctx.response.set_text("done");
/// }
///
/// let router = routes! {
///     GET "/report" => with_timeouts(|timeouts| timeouts.handler = Some(Duration::from_secs(5)), report),
///     POST "/sensors/{id}" => with_timeouts(|timeouts| timeouts.body_rate_min = 0, report),
/// };
/// # let service = corehttp::Server::new().service(router);
/// # let response = corehttp::block_on(service.respond(corehttp::Request::get("/report").unwrap())).unwrap();
/// # assert_eq!(response.text(), Ok("done"));
/// ```
pub fn with_timeouts<F, H, Kind>(
    change: F,
    handler: H,
) -> WithBounds<impl Fn(&mut Context) + 'static, H::Handler>
where
    F: Fn(&mut Timeouts) + 'static,
    H: IntoHandler<Kind>,
{
    let change = move |ctx: &mut Context| {
        let mut timeouts = ctx.timeouts();
        change(&mut timeouts);
        ctx.set_timeouts(timeouts);
    };
    WithBounds { change, handler: handler.into_handler() }
}

/// A handler with other bounds, made by [`with_limits`] or [`with_timeouts`].
#[derive(Clone, Copy, Debug)]
pub struct WithBounds<C, H> {
    change: C,
    handler: H,
}

impl<C, H> Handler for WithBounds<C, H>
where
    C: Fn(&mut Context) + 'static,
    H: Handler,
{
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        (self.change)(ctx);
        self.handler.on_head(ctx)
    }

    #[inline]
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        self.handler.handle(ctx)
    }

    #[inline]
    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        self.handler.handle_now(ctx)
    }
}
