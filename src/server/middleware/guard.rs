//! [`guard`]: refuses requests, if it can before their bodies are received.

use std::sync::Arc;

use super::middleware::Middleware;
use crate::message::{FieldName, Request};
use crate::server::{BodyPlan, Context, GuardKind, Handler, Result};

/// Refuses the requests for which `check` fails, with its error. The body of a refused request is not received.
///
/// `check` is called for each request before what is beneath is, and once more by the head if the request may have a
/// body. So it decides by the head alone, and changes nothing but fields of the response and extensions. A guard that
/// counts, or that has to wait, is a type that implements [`Middleware`]: see "Guards that wait" in
/// [`middleware`](crate::middleware).
///
/// Compare secrets by a digest, or with a crate such as `subtle`: `==` takes longer the more is right. A guard that refuses
/// with 401 sets `www-authenticate` in `ctx.response.headers` (RFC 9110 §11.6.1), where it stays.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use corehttp::middleware::guard;
/// use corehttp::{Context, Request, Server, Status, routes};
///
/// let tokens = Arc::new(["8f14e45f".to_owned()]);
/// let is_known = guard(move |ctx: &mut Context| match ctx.request.bearer_auth() {
///     Some(token) if tokens.iter().any(|known| known == token) => Ok(()),
///     _ => Err(Status::UNAUTHORIZED.into()),
/// });
/// let service = Server::new().service(routes! {
///     GET "/" => |ctx: &mut Context| ctx.response.set_text("hi"),
///     wrap is_known => {
///         GET "/admin/stats" => |ctx: &mut Context| ctx.response.set_text("good"),
///     },
/// });
/// # let mut request = Request::get("/admin/stats")?;
/// # let refused = corehttp::block_on(service.respond(request.clone()))?;
/// # request.set_bearer_auth("8f14e45f")?;
/// # let admitted = corehttp::block_on(service.respond(request))?;
/// # assert_eq!((refused.status, admitted.text()), (Status::UNAUTHORIZED, Ok("good")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("authorization", "authentication", "filter"))]
pub fn guard<F: Fn(&mut Context) -> Result + Clone + 'static>(check: F) -> impl Middleware + Clone {
    Guard(check)
}

/// A guard that is made of a function.
#[derive(Clone, Copy)]
struct Guard<F>(F);

impl<F: Fn(&mut Context) -> Result + 'static> Middleware for Guard<F> {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        plan_guarded(ctx, next, |ctx| self.check(ctx))
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        self.check(ctx)?;
        next.handle(ctx).await
    }
}

impl<F: Fn(&mut Context) -> Result> Guard<F> {
    #[inline]
    fn check(&self, ctx: &mut Context) -> Result {
        self.0(ctx).inspect_err(|_| ctx.count_refusal(GuardKind::Function))
    }
}

/// The guard of a handler that has one of its own, such as a page of metrics.
pub(crate) type SharedGuard = Arc<dyn Fn(&mut Context) -> Result + Send + Sync>;

/// Plans for a request that a guard may refuse. Without a body there is nothing to spare, so the decision is left to the
/// call.
#[inline]
pub(crate) fn plan_guarded(
    ctx: &mut Context,
    next: &impl Handler,
    check: impl FnOnce(&mut Context) -> Result,
) -> BodyPlan {
    match may_have_body(&ctx.request) {
        true => match check(ctx) {
            Ok(()) => next.on_head(ctx),
            Err(error) => ctx.refuse(error),
        },
        false => next.on_head(ctx),
    }
}

/// Whether there may be a body to receive, by the fields that announce one (RFC 9112 §6.3).
#[inline]
fn may_have_body(request: &Request) -> bool {
    let fields = [FieldName::CONTENT_LENGTH, FieldName::TRANSFER_ENCODING];
    fields.into_iter().any(|name| request.headers.may_have(name))
}
