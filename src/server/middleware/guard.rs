//! [`guard`]: refuses requests, if possible before their bodies are received.

use std::sync::Arc;

use super::deferred::{defer_body, handle_deferred};
use super::middleware::Middleware;
use crate::message::{FieldName, Request};
use crate::server::{BodyPlan, Context, GuardKind, Handler, Result};

/// Refuses the requests for which `check` fails, with its error. The body of a refused request is not received.
///
/// `check` is a function of `&mut Context` that returns [`Result`](crate::Result), `async` or not. A plain one is
/// called before the handler, and by the head as well if the request may have a body. So it decides by the head alone,
/// and changes nothing but fields of the response and extensions. An `async` one is called once. A guard with a count
/// or settings is a type that implements [`Middleware`].
///
/// A check that needs the results of middleware around it is `async`, even without a wait. Otherwise it could decide by
/// the head, without a loaded session, or without the user whom another `async` guard finds.
///
/// Compare secrets by a digest, or with a crate such as `subtle`. The operator `==` takes longer the more is right. A
/// refusal with 401 needs a `www-authenticate` in `ctx.response.headers` (RFC 9110 §11.6.1), where it stays. A session
/// in a cookie has no scheme to name, so services leave the field out.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use corehttp::middleware::guard;
/// use corehttp::{Context, Request, Result, Server, Status, routes};
///
/// let tokens = Arc::new(["8f14e45f".to_owned()]);
/// let is_known = guard(move |ctx: &mut Context| match ctx.request.bearer_auth() {
///     Some(token) if tokens.iter().any(|known| known == token) => Ok(()),
///     _ => Err(Status::UNAUTHORIZED.into()),
/// });
///
/// # async fn is_open() -> bool { true }
/// /// Asks a database, for one.
/// async fn in_office_hours(_: &mut Context) -> Result {
///     if is_open().await { Ok(()) } else { Err(Status::FORBIDDEN.into()) }
/// }
///
/// let service = Server::new().service(routes! {
///     GET "/" => |ctx: &mut Context| ctx.response.set_text("hi"),
///     wrap (is_known, guard(in_office_hours)) => {
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
///
/// A user whom one guard finds for another one (`session` has the same with a session):
///
/// ```
/// use corehttp::middleware::guard;
/// use corehttp::{Context, Result, Server, Status, routes};
///
/// struct User { is_admin: bool }
/// # async fn find(_: &str) -> Option<User> { Some(User { is_admin: true }) }
///
/// async fn signs_in(ctx: &mut Context) -> Result {
///     let token = ctx.request.bearer_auth().ok_or(Status::UNAUTHORIZED)?;
///     let user: User = find(token).await.ok_or(Status::UNAUTHORIZED)?;
///     ctx.extensions.insert(user);
///     Ok(())
/// }
///
/// async fn is_admin(ctx: &mut Context) -> Result {
///     match ctx.extensions.get() {
///         Some(User { is_admin: true }) => Ok(()),
///         _ => Err(Status::FORBIDDEN.into()),
///     }
/// }
///
/// let service = Server::new().service(routes! {
///     wrap (guard(signs_in), guard(is_admin)) => {
///         POST "/admin/notes" => |ctx: &mut Context| ctx.response.set_text("noted"),
///     },
/// });
/// # let mut request = corehttp::Request::post("/admin/notes")?;
/// # request.set_bearer_auth("8f14e45f")?;
/// # request.body.set_bytes("hi");
/// # assert_eq!(corehttp::block_on(service.respond(request))?.text()?, "noted");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("authorization", "authentication", "filter"))]
pub fn guard<C, Kind>(check: C) -> C::Guard
where
    C: IntoGuard<Kind>,
{
    check.into_guard()
}

/// A function that [`guard`] makes middleware of. The compiler infers `Kind`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a check for `guard`",
    note = "a check is `|ctx: &mut Context| ..`, `async |ctx: &mut Context| ..`, or a `fn` or `async fn` of `&mut Context`, and \
            returns `corehttp::Result`: `Ok(())` lets the request pass, and `Err(Status::UNAUTHORIZED.into())` refuses it",
    note = "what a closure captures is `Clone`: settings that are not stand in an `Arc`",
    note = "a function with the parameters `ctx` and `next` is middleware without `guard`"
)]
pub trait IntoGuard<Kind> {
    /// The middleware that the function is converted to.
    type Guard: Middleware + Clone;

    /// Converts the function to middleware.
    fn into_guard(self) -> Self::Guard;
}

/// The kinds of checks. Each type is of one kind only, so inference is never ambiguous.
mod kind {
    #[derive(Debug)]
    pub enum Plain {}
    #[derive(Debug)]
    pub enum Async {}
}

#[diagnostic::do_not_recommend]
impl<F: Fn(&mut Context) -> Result + Clone + 'static> IntoGuard<kind::Plain> for F {
    type Guard = Guard<F>;

    fn into_guard(self) -> Guard<F> {
        Guard(self)
    }
}

#[diagnostic::do_not_recommend]
impl<F: AsyncFn(&mut Context) -> Result + Clone + 'static> IntoGuard<kind::Async> for F {
    type Guard = AsyncGuard<F>;

    fn into_guard(self) -> AsyncGuard<F> {
        AsyncGuard(self)
    }
}

/// A guard that is made of a function.
#[derive(Clone, Copy, Debug)]
pub struct Guard<F>(F);

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

/// A guard that is made of an `async` function. The body is received after the check has passed.
#[derive(Clone, Copy, Debug)]
pub struct AsyncGuard<F>(F);

impl<F: AsyncFn(&mut Context) -> Result + 'static> Middleware for AsyncGuard<F> {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        defer_body(ctx, next)
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        self.0(ctx).await.inspect_err(|_| ctx.count_refusal(GuardKind::Function))?;
        handle_deferred(ctx, next).await
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
