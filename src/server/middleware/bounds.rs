//! [`limits`], [`timeouts`], [`uncancelled`] and [`plan`]: other bounds and another plan for bodies, in place of those beneath.

use super::middleware::Middleware;
use crate::exchange::Timeouts;
use crate::message::Request;
use crate::server::{BodyPlan, Context, Handler, Result};
use crate::wire::Limits;

/// Changes the limits of exchanges, such as those of a single route.
///
/// The function gets the limits of the server, with the changes of middleware around this one. Beneath a
/// [guard that waits](crate::middleware#guards-that-wait) it is called twice. The second call counts. Only its changes of
/// these limits count (see [`Context::set_limits`]):
///
/// - [`Limits::body_max`]. A larger body is answered with 413.
/// - [`Limits::drain_max`]
/// - [`Limits::chunk_extensions_total_max`], [`Limits::trailers_max`] and [`Limits::trailer_fields_max`]
/// - [`Limits::forward_buffer_max`] and [`Limits::forward_buffers_per_core_max`]
///
/// # Examples
///
/// ```
/// use corehttp::middleware::{limits, wrap};
/// use corehttp::{Context, Limits, Request, Server, Status, routes};
///
/// let size = |ctx: &mut Context| ctx.response.set_text(ctx.request.body.len().to_string());
/// let router = routes! {
///     POST "/notes" => size,
///     POST "/upload" => wrap(limits(|limits| limits.body_max = 1 << 30), size),
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
/// [`Middleware::on_head`] can choose the bounds by the head of the request. Here the requests of devices, which have a
/// field `x-device`, may be large and slow:
///
/// ```
/// use corehttp::middleware::Middleware;
/// use corehttp::{BodyPlan, Context, Handler, Limits, Timeouts};
///
/// #[derive(Clone)]
/// struct Devices;
///
/// impl Middleware for Devices {
///     fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
///         if ctx.request.headers.get_bytes("x-device").is_some() {
///             ctx.set_limits(Limits { body_max: 64 << 20, ..ctx.limits() });
///             ctx.set_timeouts(Timeouts { body_rate_min: 10, ..ctx.timeouts() });
///         }
///         next.on_head(ctx)
///     }
/// }
/// ```
#[doc(alias("with_limits", "body limit", "DefaultBodyLimit"))]
pub fn limits<F: Fn(&mut Limits) + Clone + 'static>(change: F) -> impl Middleware + Clone {
    Bounds(move |ctx: &mut Context| {
        let mut limits = ctx.limits();
        change(&mut limits);
        ctx.set_limits(limits);
    })
}

/// Changes the time limits of exchanges, such as those of a single route for slow devices.
///
/// The function gets the time limits of the server, with the changes of middleware around this one. Beneath a
/// [guard that waits](crate::middleware#guards-that-wait) it is called twice. The second call counts. See
/// [`Context::set_timeouts`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::middleware::{timeouts, wrap};
/// use corehttp::{Context, routes};
///
/// async fn report(ctx: &mut Context) {
///     ctx.response.set_text("done");
/// }
///
/// let router = routes! {
///     GET "/report" => wrap(timeouts(|timeouts| timeouts.handler = Some(Duration::from_secs(5))), report),
///     POST "/sensors/{id}" => wrap(timeouts(|timeouts| timeouts.body_rate_min = 0), report),
/// };
/// # let service = corehttp::Server::new().service(router);
/// # let response = corehttp::block_on(service.respond(corehttp::Request::get("/report").unwrap())).unwrap();
/// # assert_eq!(response.text(), Ok("done"));
/// ```
#[doc(alias("with_timeouts", "TimeoutLayer"))]
pub fn timeouts<F: Fn(&mut Timeouts) + Clone + 'static>(change: F) -> impl Middleware + Clone {
    Bounds(move |ctx: &mut Context| {
        let mut timeouts = ctx.timeouts();
        change(&mut timeouts);
        ctx.set_timeouts(timeouts);
    })
}

/// Lets handlers run to their end although their peers are gone, such as the one of a payment.
///
/// Without this, a waiting handler is dropped as soon as its peer closes the connection. See
/// [`Server::half_close`](crate::Server::half_close). All middleware around the handler runs to its end as well, so a
/// session is saved. Time limits and a stop of the server still apply. A log has the status of the response, even if it
/// did not arrive.
///
/// A request that still waits for a guard, a session or a permit of a
/// [`ConcurrencyLimit`](crate::middleware::ConcurrencyLimit) has no handler yet. If its peer leaves meanwhile, none is
/// called. [`handle_deferred`](crate::middleware::handle_deferred) looks for that, and `next.handle(ctx)` does not.
///
/// # Examples
///
/// ```
/// use corehttp::middleware::{uncancelled, wrap};
/// use corehttp::{Context, Result, Status, routes};
/// # async fn charge(_: &[u8]) -> Result { Ok(()) }
///
/// async fn pay(ctx: &mut Context) -> Result {
///     charge(ctx.request.body.bytes()).await?; // must be noted, whether or not the buyer waits
///     ctx.response.status = Status::CREATED;
///     Ok(())
/// }
///
/// let router = routes! {
///     POST "/payments" => wrap(uncancelled(), pay),
/// };
/// # let request = corehttp::Request::post("/payments").unwrap();
/// # let response = corehttp::block_on(corehttp::Server::new().service(router).respond(request)).unwrap();
/// # assert_eq!(response.status, Status::CREATED);
/// ```
#[doc(alias("proxy_ignore_client_abort", "cancel", "client abort", "shield"))]
pub fn uncancelled() -> impl Middleware + Clone {
    Bounds(Context::set_uncancelled)
}

/// Middleware that changes the bounds of an exchange.
#[derive(Clone, Copy)]
struct Bounds<C>(C);

impl<C: Fn(&mut Context) + 'static> Middleware for Bounds<C> {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        self.0(ctx);
        next.on_head(ctx)
    }

    #[inline]
    fn call_now(&self, ctx: &mut Context, next: &impl Handler) -> Option<Result> {
        next.handle_now(ctx)
    }
}

/// Plans by the request what becomes of its body, in place of the plan beneath. A refusal beneath stays. A plan that is
/// the same for all requests is middleware itself. See [`BodyPlan`].
///
/// # Examples
///
/// ```
/// use corehttp::middleware::{plan, wrap};
/// use corehttp::{BodyPlan, Context, Server};
///
/// let by_type = plan(|request| match request.headers.content_type() {
///     Some("application/json") => BodyPlan::Buffer,
///     _ => BodyPlan::Stream,
/// });
/// let service = Server::new().service(wrap(by_type, |ctx: &mut Context| ctx.response.set_text("received")));
/// # let response = corehttp::block_on(service.respond(corehttp::Request::get("/")?))?;
/// # assert_eq!(response.text(), Ok("received"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "with_plan")]
pub fn plan<P: Fn(&Request) -> BodyPlan + Clone + 'static>(plan: P) -> impl Middleware + Clone {
    Planned(plan)
}

/// Middleware with a plan.
#[derive(Clone, Copy)]
struct Planned<P>(P);

impl<P: Fn(&Request) -> BodyPlan + 'static> Middleware for Planned<P> {
    #[inline]
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        replace_plan(ctx, next, self.0(&ctx.request))
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        next.handle(PlanInForce::begin(ctx).ctx).await
    }

    #[inline]
    fn call_now(&self, ctx: &mut Context, next: &impl Handler) -> Option<Result> {
        next.handle_now(ctx)
    }
}

impl Middleware for BodyPlan {
    #[inline]
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        replace_plan(ctx, next, *self)
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        next.handle(PlanInForce::begin(ctx).ctx).await
    }

    #[inline]
    fn call_now(&self, ctx: &mut Context, next: &impl Handler) -> Option<Result> {
        next.handle_now(ctx)
    }
}

/// Returns `plan` in place of the plan of `next`, unless that refuses the request. `next` is asked nonetheless: it may change
/// bounds.
fn replace_plan(ctx: &mut Context, next: &impl Handler, plan: BodyPlan) -> BodyPlan {
    if let BodyPlan::Refuse(_) = plan {
        return plan;
    }
    match next.on_head(ctx) {
        refused @ BodyPlan::Refuse(_) => refused,
        _ => ctx.replace_plan(plan),
    }
}

/// A context beneath middleware with a plan, while the call of that is running. The plan is in force for what makes its own only
/// now, unless one around it is.
struct PlanInForce<'c> {
    ctx: &'c mut Context,
    around: Option<BodyPlan>,
}

impl<'c> PlanInForce<'c> {
    fn begin(ctx: &'c mut Context) -> PlanInForce<'c> {
        let plans = &mut ctx.exchange.info.plans;
        let (around, plan) = (plans.in_force, plans.replacing.take());
        plans.in_force = around.or(plan);
        PlanInForce { ctx, around }
    }
}

impl Drop for PlanInForce<'_> {
    fn drop(&mut self) {
        self.ctx.exchange.info.plans.in_force = self.around;
    }
}
