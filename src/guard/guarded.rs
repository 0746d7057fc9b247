//! [`Guarded`]: a handler behind a guard.

use std::ptr;

use crate::message::{FieldName, Request, Status};
use crate::runtime::join_first;
use crate::server::{BodyPlan, Context, Error, Handler, Result};

/// A handler behind a guard, which refuses some requests. Made by the method `around` of the guard.
///
/// A refused request does not reach the handler, and its body is not received. The guard refuses it as a handler that
/// fails does, so middleware outside of the guard, such as an access log, sees the refusal, and the fields that this
/// middleware has set stay. A request cannot pass by the guard, whatever handlers hold this one. The decision by the head
/// reserves nothing: of requests that arrive together, more bodies may be received than requests are admitted.
#[derive(Clone, Copy, Debug)]
pub struct Guarded<G, H> {
    guard: G,
    handler: H,
}

impl<G: Guard, H: Handler> Guarded<G, H> {
    pub(super) fn new(guard: G, handler: H) -> Guarded<G, H> {
        Guarded { guard, handler }
    }

    /// The value in the extensions of a request that this guard, and not one around or behind it, refuses by its head.
    fn refusal(&self) -> RefusedByHead {
        RefusedByHead(self.address())
    }

    fn address(&self) -> usize {
        // The handler behind the guard may have the address of `self`, but not that of a guard with a size.
        const { assert!(size_of::<G>() > 0, "guards are told apart by their addresses") };
        ptr::from_ref(&self.guard).addr()
    }
}

impl<G: Guard, H: Handler> Handler for Guarded<G, H> {
    #[inline]
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        // Without a body there is nothing to spare, so the decision is left to `handle`.
        if may_have_body(&ctx.request) && self.guard.would_refuse(ctx) {
            ctx.extensions.insert(self.refusal());
            return BodyPlan::Stream;
        }
        match self.handler.on_head(ctx) {
            // The plan of the handler refuses what this guard has not admitted yet.
            BodyPlan::Refuse(status) => {
                ctx.extensions.insert(RefusedBehind(self.address(), status));
                BodyPlan::Stream
            }
            plan => plan,
        }
    }

    #[inline]
    async fn handle(&self, ctx: &mut Context) -> Result {
        // The body of a request that was refused by its head is not here, so the handler must not be called, even if
        // the guard would admit it by now.
        let is_refused = ctx.extensions.get::<RefusedByHead>() == Some(&self.refusal());
        // A peer that leaves while it waits must not take the place of another one.
        let admitted = match is_refused {
            true => None,
            false => join_first(async { Ok(self.guard.admit(ctx).await) }, ctx.peer_gone()).await?,
        };
        let Some(_permit) = admitted else { return Err(self.guard.refuse(ctx)) };
        match ctx.extensions.get::<RefusedBehind>() {
            Some(&RefusedBehind(guard, status)) if guard == self.address() => Err(status.into()),
            _ => self.handler.handle(ctx).await,
        }
    }
}

/// Decides which requests reach a handler.
pub trait Guard: 'static {
    /// Held while the handler runs.
    type Permit<'a>;

    /// Whether the request would be refused now, by its head. Changes nothing.
    fn would_refuse(&self, ctx: &Context) -> bool;

    /// Admits the request, or returns `None` to refuse it.
    fn admit(&self, ctx: &Context) -> impl Future<Output = Option<Self::Permit<'_>>>;

    /// Sets the fields of the response to a refused request, and returns the error to answer with.
    fn refuse(&self, ctx: &mut Context) -> Error;
}

/// The address of the guard that refused a request by its head.
#[derive(PartialEq)]
struct RefusedByHead(usize);

/// The address of a guard, and the status with which the handler behind it refuses a request by its head.
struct RefusedBehind(usize, Status);

/// Whether there may be a body to receive, by the fields that announce one (RFC 9112 §6.3).
#[inline]
fn may_have_body(request: &Request) -> bool {
    let fields = [FieldName::CONTENT_LENGTH, FieldName::TRANSFER_ENCODING];
    fields.into_iter().any(|name| request.headers.may_have(name))
}
