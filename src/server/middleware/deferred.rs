//! [`defer_body`] and [`handle_deferred`]: middleware with a wait before the body.

use std::future::poll_fn;
use std::task::{self, Poll};

use crate::exchange::{ExchangeError, Timeouts};
use crate::server::handler::Refusal;
use crate::server::{BodyPlan, Context, Handler, Result};
use crate::wire::Limits;

/// Returns the plan of `next` with the body left for later, for middleware that waits first, such as a guard with a
/// database. The [`call`](crate::middleware::Middleware::call) of the same middleware passes the request on with
/// [`handle_deferred`].
///
/// A refusal of `next` stays, so nothing is received in vain. Of a CONNECT, the plan stays as it is. So do the
/// [limits](crate::middleware::limits) and [time limits](crate::middleware::timeouts) of the plan, until
/// [`handle_deferred`] has the next one made.
///
/// # Examples
///
/// See [guards that wait](crate::middleware#guards-that-wait).
pub fn defer_body(ctx: &mut Context, next: &impl Handler) -> BodyPlan {
    let before = PlannedBounds::now(ctx);
    let plan = next.on_head(ctx);
    FirstPlan::note(ctx, before);
    match plan {
        plan @ (BodyPlan::Refuse(_) | BodyPlan::Stream) => plan,
        BodyPlan::Tunnel if ctx.is_connect() => BodyPlan::Tunnel,
        BodyPlan::Buffer | BodyPlan::BufferUpTo(_) | BodyPlan::Tunnel => {
            ctx.exchange.info.plans.deferred = Some(plan);
            BodyPlan::Stream
        }
    }
}

/// Answers a request whose body [`defer_body`] has left for later. First, `next` is asked for its plan once more. This plan
/// may depend on the results of the middleware. It begins with the same limits and time limits as the first one, unless they
/// were changed since. The body is received if the plan is to buffer it. Then `next` is called. If this is called again for the
/// same request, the plan begins with the limits that it has left.
///
/// After a refusal by the plan, or a failure of the body, middleware beneath gets the refusal. The handler is not
/// called. Nor is it if the peer has left during the wait of the middleware. This holds for an
/// [uncancelled](crate::middleware::uncancelled) handler as well.
///
/// # Errors
///
/// As those of [`Handler::handle`], with the refusal, or with an error if the peer has left.
///
/// # Examples
///
/// See [guards that wait](crate::middleware#guards-that-wait).
pub async fn handle_deferred(ctx: &mut Context, next: &impl Handler) -> Result {
    ctx.check_peer().await?;
    ctx.forget_deferred();
    let plan = ctx.plan_late(|ctx| next.on_head(ctx));
    match ctx.follow(plan).await {
        Ok(()) => next.handle(ctx).await,
        Err(refusal) => next.refuse(ctx, refusal).await,
    }
}

/// The bounds around a plan that is made twice. Each of both changes them, such as `limits(|limits| limits.body_max *= 2)`.
///
/// Of several in one another, the outermost is noted last and forgotten first, and the others are then noted anew.
struct FirstPlan {
    before: PlannedBounds,
    after: PlannedBounds,
}

impl FirstPlan {
    /// Notes the bounds after the plan, if it has changed any.
    fn note(ctx: &mut Context, before: PlannedBounds) {
        let after = PlannedBounds::now(ctx);
        if after != before {
            ctx.extensions.insert(FirstPlan { before, after });
        }
    }
}

/// The bounds that a plan may change, but for whether the exchange is cancelled, which is set once and for all.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PlannedBounds {
    limits: Limits,
    timeouts: Timeouts,
}

impl PlannedBounds {
    fn now(ctx: &Context) -> PlannedBounds {
        PlannedBounds { limits: ctx.limits(), timeouts: ctx.timeouts() }
    }
}

impl Context {
    /// Returns a plan that replaces what is beneath, which was not left for later then.
    pub(crate) fn replace_plan(&mut self, plan: BodyPlan) -> BodyPlan {
        let plans = &mut self.exchange.info.plans;
        (plans.replacing, plans.deferred) = (Some(plan), None);
        plan
    }

    /// The plan that was left for later, in place of the `plan` that what is beneath has made: for middleware that needs the body
    /// before its call. Refusals and plans of other middleware stay.
    pub(crate) fn undefer(&mut self, plan: BodyPlan) -> BodyPlan {
        match plan {
            BodyPlan::Stream => self.exchange.info.plans.deferred.take().unwrap_or(plan),
            plan => plan,
        }
    }

    /// Takes back the bounds of the plan that [`defer_body`] has had made, but for those that were changed since, such as by a
    /// guard that waits. A second plan follows, or an answer of the middleware itself.
    pub(crate) fn forget_deferred(&mut self) {
        let Some(FirstPlan { before, after }) = self.extensions.remove() else { return };
        if self.limits() == after.limits {
            self.set_limits(before.limits);
        }
        if self.timeouts() == after.timeouts {
            self.set_timeouts(before.timeouts);
        }
    }

    /// Makes a plan when the body could have been received already. That of middleware around counts in its place, unless this
    /// one refuses the request.
    pub(crate) fn plan_late(&mut self, make: impl FnOnce(&mut Context) -> BodyPlan) -> BodyPlan {
        self.exchange.info.plans.deferred = None;
        match make(self) {
            refused @ BodyPlan::Refuse(_) => refused,
            plan => self.exchange.info.plans.in_force.unwrap_or(plan),
        }
    }

    /// Does what a plan says that was made when the body could have been received already.
    ///
    /// # Errors
    ///
    /// Fails if the plan is to refuse the request, or if the body cannot be received.
    pub(crate) async fn follow(&mut self, plan: BodyPlan) -> Result<(), Refusal> {
        let body_max = match plan {
            BodyPlan::Refuse(status) => return Err(Refusal::take(self, status)),
            BodyPlan::Stream => return Ok(()),
            BodyPlan::Tunnel if self.is_connect() => return Ok(()),
            BodyPlan::Buffer | BodyPlan::Tunnel => self.limits().body_max,
            BodyPlan::BufferUpTo(body_max) => body_max,
        };
        self.buffer_body_up_to(body_max).await.map_err(|error| Refusal::of_body(error.into()))
    }

    /// Looks whether the peer of an uncancelled exchange is still there, after middleware has waited and before the handler
    /// begins. Nothing is lost yet, so the exchange ends as it would if it were cancelled.
    ///
    /// # Errors
    ///
    /// Fails if the peer has left.
    pub(crate) async fn check_peer(&self) -> Result {
        if !self.exchange.conn.has_waited() {
            return Ok(());
        }
        poll_fn(|cx| match self.poll_gone_before_handler(cx) {
            Poll::Ready(gone) => Poll::Ready(Err(gone.into())),
            Poll::Pending => Poll::Ready(Ok(())),
        })
        .await
    }

    /// Ready with the error of a peer that has left while middleware waits, before the handler has begun, if the exchange is
    /// uncancelled. Other exchanges end by themselves then.
    pub(crate) fn poll_gone_before_handler(&self, cx: &mut task::Context<'_>) -> Poll<ExchangeError> {
        match self.exchange.info.is_captured {
            // There is no peer.
            true => Poll::Pending,
            false => self.exchange.conn.poll_gone_before_handler(cx),
        }
    }

    fn is_connect(&self) -> bool {
        self.exchange.info.request_info.is_connect
    }
}
