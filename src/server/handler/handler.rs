//! [`Handler`]: the application; what becomes one ([`IntoHandler`]), and one behind a pointer ([`BoxHandler`]).

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use super::confine::confined;
use super::refusal::Refusal;
use crate::server::context::Context;
use crate::server::error::Result;
use crate::server::exchange::BodyPlan;

/// Answers requests: the application, or a part of it.
///
/// Closures and functions are handlers, too, through [`IntoHandler`]. Implement this trait for what they cannot
/// express, such as a decision by the head alone. A log or a guard, which surrounds other handlers, is
/// [middleware](crate::middleware).
///
/// # Examples
///
/// ```
/// use std::time::SystemTime;
/// use corehttp::{BodyPlan, Context, Handler, Result, Server, Status};
///
/// /// Takes uploads for a while.
/// struct Uploads {
///     until: SystemTime,
/// }
///
/// impl Handler for Uploads {
///     fn on_head(&self, _: &mut Context) -> BodyPlan {
///         match SystemTime::now() > self.until {
///             true => BodyPlan::Refuse(Status::GONE), // no body is received in vain
///             false => BodyPlan::Stream,
///         }
///     }
///
///     async fn handle(&self, ctx: &mut Context) -> Result {
///         let mut body = ctx.body_reader();
///         while let Some(chunk) = body.chunk().await? {
///             println!("{} bytes", chunk.len());
///         }
///         Ok(())
///     }
/// }
/// ```
///
/// # Writing a handler
///
/// - Write out the type of a closure's parameter: `|ctx: &mut Context|`, or `async |ctx: &mut Context|`.
/// - Return `()` or [`Result`](crate::Result). Put `?` after calls that fail with an error of their own, such as `set_json`:
///   `|ctx: &mut Context| -> Result { Ok(ctx.response.set_json(&[1, 2])?) }`.
/// - To use the request and the response at the same time, take the context apart:
///   `let Context { request, response, .. } = ctx;`.
/// - A request is read into memory that the next request reuses. Its method, target and fields are views of that
///   memory. Code that keeps them in a handler does not compile.
/// - A body has been received whole before the handler runs, up to [`Limits::body_max`](crate::Limits::body_max). A
///   [`BodyPlan`] has it streamed.
/// - State is captured by a closure, or shared by [`with_state`](crate::with_state).
///   [`Server::run_per_core`](crate::Server::run_per_core) makes state for each core, which needs no lock.
/// - A handler runs inside a tokio runtime of the server, so `main` needs none. Tasks of `tokio::task::spawn_local`
///   need not be `Send`. They end with the server. No task can have `ctx` or a view of it, but copies of what it needs.
/// - While a handler blocks or computes, its core serves no other connection. Long work belongs in
///   `tokio::task::spawn_blocking`. `block_in_place` panics there, because a core is a runtime of one thread.
///
/// # When it does not compile
///
/// | the compiler says | write |
/// |---|---|
/// | type annotations needed (E0282) | `\|ctx: &mut Context\|` and not `\|ctx\|`; in middleware `next: Next<'_>`, too |
/// | lifetime may not live long enough | `async \|ctx: &mut Context\| ..` and not `\|ctx: &mut Context\| async move ..` |
/// | closure may outlive the current function (E0373) | `move \|ctx: &mut Context\| ..` |
/// | a closure is not a handler (E0277) | `\|ctx: &mut Context\| -> Result { Ok(..?) }`: it returns another error |
/// | a value does not live long enough (E0597) | `async move \|ctx: &mut Context\| ..` |
/// | temporary value dropped while borrowed (E0716) | `fn app(state: Arc<S>) -> impl Handler`, and not `state: &Arc<S>` |
/// | use of moved value (E0382) | `Arc::clone` or `clone()` before the closure, for each that has the value |
/// | expected a closure that implements `Fn` (E0525) | an atomic number or a `Mutex` for what changes, and `clone()` |
/// | cannot borrow `ctx` or a part of it (E0502) | `let Context { request, response, .. } = ctx;`: see [`Context`] |
/// | borrowed data escapes (E0521) | copies for a task, such as `into_owned()`, made before it is spawned |
/// | no function of the state (E0277) | the state first, as a reference: see [`with_state`](crate::with_state) |
/// | `Rc` cannot be sent or shared between threads (E0277) | an `Arc`, or [`Server::run_per_core`](crate::Server::run_per_core) |
/// | is not `Clone`, as middleware of a group is (E0277) | `#[derive(Clone)]` above its type |
/// | `?` cannot convert an error (E0277) | `map_err(Error::other)`: see [`Error`](crate::Error) |
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is `|ctx: &mut Context| ..`, `async |ctx: &mut Context| ..`, a `fn` or `async fn` of \
            `&mut Context`, or a type with `impl Handler`; write out the parameter's type",
    note = "a function or closure answers by `ctx.response`, as in `ctx.response.set_text(\"hello\")`, and returns `()` or \
            `corehttp::Result`; `?` makes a `corehttp::Error` of other errors, whose status `Server::error_status` chooses",
    note = "a function or closure that another handler is to hold becomes one by `IntoHandler::into_handler`, and one \
            with a single type for all by `BoxHandler::new`",
    note = "a call that may fail is followed by `?`, as in `Files::new(\"public\")?`"
)]
pub trait Handler: ErasedHandler {
    /// Decides about the request's body by the head alone, before the body is read. Default: it is buffered.
    ///
    /// A handler that chooses among others passes the call on. Otherwise, and in a closure, their plans have no effect.
    /// A body for streaming is then buffered, and answered with 413 beyond the limit. Middleware passes the call on
    /// unless it decides otherwise. A [`BodyPlan`] around a closure gives that a plan.
    ///
    /// The body has not arrived yet, and no response can be sent. The fields of the request, the address of the peer
    /// and the extensions are available, and changes to them reach the handler. Fields that are set in the response
    /// stay, even after a refusal.
    #[inline]
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        let _ = ctx;
        BodyPlan::Buffer
    }

    /// Answers `ctx.request` in `ctx.response`.
    ///
    /// # Errors
    ///
    /// An error is answered with its [status](crate::server::Error::status), and with content that
    /// [`Server::error_response`](crate::Server::error_response) makes, by default the reason of the status as text.
    /// Fields set before stay, except for those of the content. To say more, put a response into `ctx.response` and
    /// return `Ok`. After the head has been sent, an error aborts the connection. After the end of the response, an
    /// error closes the connection.
    ///
    /// [`Server::on_error`](crate::Server::on_error) is called for the error, unless it is a bare
    /// [`Status`](crate::Status) or [`Problem`](crate::Problem).
    ///
    /// # Panics
    ///
    /// A panic is answered with 500, or aborts the connection in the middle of a response. Either way this connection
    /// is closed, and all others go on. Middleware gets the panic as an error with the status 500. Fields set before
    /// stay, as after any error. With `panic = "abort"` in the Cargo profile, the process ends.
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result>
    where
        Self: Sized;

    /// Answers `ctx.request` at once, without a future, if this handler can. Default: `None`.
    ///
    /// On a handler behind a pointer this method is called first, to save the allocation of the future of
    /// [`Handler::handle`]. If it returns `Some`, [`Handler::handle`] must return the same. Closures and functions that
    /// are not `async` implement it.
    #[inline]
    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        let _ = ctx;
        None
    }

    /// Boxes this handler, to be stored with handlers of other types. For closures and functions, use
    /// [`BoxHandler::new`].
    fn boxed(self) -> BoxHandler
    where
        Self: Sized + Send + Sync + 'static,
    {
        BoxHandler::new(self)
    }

    /// Answers `ctx.request` beneath middleware, to which panics and the end of the time limit are errors.
    #[doc(hidden)]
    fn handle_confined(&self, ctx: &mut Context) -> impl Future<Output = Result>
    where
        Self: Sized,
    {
        confined(move || self.handle(ctx))
    }

    /// Notes the route of a request without a call of [`Handler::on_head`], for logs of requests that are refused
    /// before. A handler that chooses by anything else than the path notes nothing.
    #[doc(hidden)]
    fn note_route(&self, ctx: &mut Context) {
        let _ = ctx;
    }

    /// Whether the request is refused, so that [`Handler::handle`] only returns its refusal. Middleware neither waits nor counts
    /// for such a request as it does for others.
    #[doc(hidden)]
    fn is_refusing(&self) -> bool {
        false
    }

    /// Passes a refusal through the middleware in this handler, in place of [`Handler::handle`].
    #[doc(hidden)]
    fn refuse<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        let _ = ctx;
        Box::pin(ready(Err(refusal.error)))
    }
}

impl<H: Handler> Handler for Arc<H> {
    #[inline]
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        (**self).on_head(ctx)
    }

    #[inline]
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        (**self).handle(ctx)
    }

    #[inline]
    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        (**self).handle_now(ctx)
    }

    fn note_route(&self, ctx: &mut Context) {
        (**self).note_route(ctx);
    }

    fn refuse<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        (**self).refuse(ctx, refusal)
    }
}

impl<H: Handler> Handler for Rc<H> {
    #[inline]
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        (**self).on_head(ctx)
    }

    #[inline]
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        (**self).handle(ctx)
    }

    #[inline]
    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        (**self).handle_now(ctx)
    }

    fn note_route(&self, ctx: &mut Context) {
        (**self).note_route(ctx);
    }

    fn refuse<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        (**self).refuse(ctx, refusal)
    }
}

/// Conversion to a [`Handler`], from a closure, a function or a handler, for [`Server::run`](crate::Server::run) and
/// similar methods. The compiler infers `Kind`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is `|ctx: &mut Context| ..`, `async |ctx: &mut Context| ..`, a `fn` or `async fn` of \
            `&mut Context`, or a type with `impl Handler`; write out the parameter's type",
    note = "a function or closure answers by `ctx.response`, as in `ctx.response.set_text(\"hello\")`, and returns `()` or \
            `corehttp::Result`; `?` makes a `corehttp::Error` of other errors, whose status `Server::error_status` chooses",
    note = "a function or closure that another handler is to hold becomes one by `IntoHandler::into_handler`, and one \
            with a single type for all by `BoxHandler::new`",
    note = "a call that may fail is followed by `?`, as in `Files::new(\"public\")?`",
    note = "an app of axum becomes a handler by `Tower::new`"
)]
pub trait IntoHandler<Kind> {
    /// The handler that the value is converted to.
    type Handler: Handler + 'static;

    /// Converts the value to a handler.
    fn into_handler(self) -> Self::Handler;
}

/// The kinds of handlers. Each type is of one kind only, so inference is never ambiguous.
mod kind {
    #[derive(Debug)]
    pub enum Implements {}
    #[derive(Debug)]
    pub enum Plain {}
    #[derive(Debug)]
    pub enum Async {}
}

impl<H: Handler + 'static> IntoHandler<kind::Implements> for H {
    type Handler = H;

    fn into_handler(self) -> H {
        self
    }
}

impl<F, R> IntoHandler<(kind::Plain, R)> for F
where
    F: Fn(&mut Context) -> R + 'static,
    R: IntoResult,
{
    type Handler = PlainHandler<F>;

    fn into_handler(self) -> PlainHandler<F> {
        PlainHandler(self)
    }
}

impl<F, R> IntoHandler<(kind::Async, R)> for F
where
    F: AsyncFn(&mut Context) -> R + 'static,
    R: IntoResult,
{
    type Handler = AsyncHandler<F>;

    fn into_handler(self) -> AsyncHandler<F> {
        AsyncHandler(self)
    }
}

/// The handler that a `fn` or a plain closure is converted to.
#[derive(Clone, Copy, Debug)]
pub struct PlainHandler<F>(pub(super) F);

impl<F, R> Handler for PlainHandler<F>
where
    F: Fn(&mut Context) -> R + 'static,
    R: IntoResult,
{
    #[inline]
    async fn handle(&self, ctx: &mut Context) -> Result {
        outcome((self.0)(ctx), ctx)
    }

    #[inline]
    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        Some(outcome((self.0)(ctx), ctx))
    }
}

/// The handler that an `async fn` or an async closure is converted to.
#[derive(Clone, Copy, Debug)]
pub struct AsyncHandler<F>(pub(super) F);

impl<F, R> Handler for AsyncHandler<F>
where
    F: AsyncFn(&mut Context) -> R + 'static,
    R: IntoResult,
{
    #[inline]
    async fn handle(&self, ctx: &mut Context) -> Result {
        outcome((self.0)(ctx).await, ctx)
    }
}

/// The outcome of a function that has handled a request. The function is the innermost handler, so the application chooses
/// the status of an error here: middleware around the function sees it.
#[inline]
pub(super) fn outcome(returned: impl IntoResult, ctx: &Context) -> Result {
    returned
        .into_result()
        .map_err(|error| ctx.exchange.conn.core().error_responses.statuses.choose_for(error))
}

/// The return type of a function that handles requests: `()` or [`Result`].
pub trait IntoResult {
    /// Converts the value to a result.
    ///
    /// # Errors
    ///
    /// Fails with the handler's error.
    fn into_result(self) -> Result;
}

impl IntoResult for () {
    #[inline]
    fn into_result(self) -> Result {
        Ok(())
    }
}

impl IntoResult for Result {
    #[inline]
    fn into_result(self) -> Result {
        self
    }
}

/// A handler of any type in a box, for a map or a field with handlers of different types.
///
/// Each request costs a call that is not inlined. An `async` handler also costs an allocation for its future. Handlers of a
/// single type, or an enum of handlers, need no box.
///
/// The cores can share a boxed handler, which must be [`Send`] and [`Sync`]. Its future need not be. A `BoxHandler` is
/// a `Box<dyn Handler + Send + Sync>` that can be made of closures and functions. That box, a `Box<dyn Handler>` for
/// [one core](crate::Server::run_per_core), an `Arc<dyn Handler + Send + Sync>` and an `Rc<dyn Handler>` are handlers,
/// too.
///
/// # Examples
///
/// ```
/// use std::collections::HashMap;
/// use corehttp::{BoxHandler, Context, Handler, Result, Server, Status};
///
/// async fn time(ctx: &mut Context) {
///     ctx.response.set_text(format!("{:?}", ctx.arrived_at()));
/// }
///
/// let commands = HashMap::from([
///     ("hello", BoxHandler::new(|ctx: &mut Context| ctx.response.set_html("<h1>hi</h1>"))),
///     ("time", BoxHandler::new(time)),
/// ]);
/// let service = Server::new().service(async move |ctx: &mut Context| -> Result {
///     let command = ctx.request.query().get("command").and_then(|name| commands.get(&*name));
///     command.ok_or(Status::NOT_FOUND)?.handle(ctx).await
/// });
/// # let respond = |target| {
/// #     corehttp::block_on(service.respond(corehttp::Request::get(target).unwrap())).unwrap()
/// # };
/// # assert_eq!(respond("/?command=hello").body.bytes(), b"<h1>hi</h1>");
/// # assert_eq!((respond("/?command=time").status, respond("/").status), (Status::OK, Status::NOT_FOUND));
/// ```
pub struct BoxHandler(Box<dyn Handler + Send + Sync>);

impl BoxHandler {
    /// Boxes `handler`: a closure, a function, or a type that implements [`Handler`].
    pub fn new<Kind, H>(handler: H) -> BoxHandler
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        BoxHandler(Box::new(handler.into_handler()))
    }
}

impl Handler for BoxHandler {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        self.0.on_head(ctx)
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        self.0.handle(ctx).await
    }

    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        self.0.handle_now(ctx)
    }

    fn note_route(&self, ctx: &mut Context) {
        self.0.note_route(ctx);
    }

    fn refuse<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        self.0.refuse(ctx, refusal)
    }
}

impl fmt::Debug for BoxHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxHandler").finish_non_exhaustive()
    }
}

/// The method of a `dyn Handler` in place of [`Handler::handle`], whose future has no size there. Each handler
/// implements this trait.
pub trait ErasedHandler {
    /// Calls [`Handler::handle`], and boxes its future.
    fn handle_boxed<'a>(&'a self, ctx: &'a mut Context) -> BoxedFuture<'a>;
}

pub(crate) type BoxedFuture<'a> = Pin<Box<dyn Future<Output = Result> + 'a>>;

impl<H: Handler> ErasedHandler for H {
    fn handle_boxed<'a>(&'a self, ctx: &'a mut Context) -> BoxedFuture<'a> {
        Box::pin(self.handle(ctx))
    }
}

impl<H: Handler + ?Sized> Handler for Box<H> {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        (**self).on_head(ctx)
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        match (**self).handle_now(ctx) {
            Some(result) => result,
            None => (**self).handle_boxed(ctx).await,
        }
    }

    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        (**self).handle_now(ctx)
    }

    fn note_route(&self, ctx: &mut Context) {
        (**self).note_route(ctx);
    }

    fn refuse<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        (**self).refuse(ctx, refusal)
    }
}

// Not for each `H: ?Sized`, as for a box: a handler that cores share must not cost an allocation.
macro_rules! shared_dyn_handlers {
    ($($pointer:ty),*) => {$(
        impl Handler for $pointer {
            fn on_head(&self, ctx: &mut Context) -> BodyPlan {
                (**self).on_head(ctx)
            }

            async fn handle(&self, ctx: &mut Context) -> Result {
                match (**self).handle_now(ctx) {
                    Some(result) => result,
                    None => (**self).handle_boxed(ctx).await,
                }
            }

            fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
                (**self).handle_now(ctx)
            }

            fn note_route(&self, ctx: &mut Context) {
                (**self).note_route(ctx);
            }

            fn refuse<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
                (**self).refuse(ctx, refusal)
            }
        }
    )*};
}

shared_dyn_handlers!(Arc<dyn Handler>, Arc<dyn Handler + Send + Sync>, Rc<dyn Handler>);
