//! [`Handler`]: the application, and [`IntoHandler`]: what can be one.

use std::rc::Rc;
use std::sync::Arc;

use super::{BoxHandler, Context, Result};
use crate::message::{Request, Status};

/// The application: it answers requests.
///
/// Closures and functions are handlers too, through [`IntoHandler`]: implement this trait for what they cannot
/// say, such as deciding by the head alone. A middleware is a handler that holds a handler:
///
/// ```
/// use corehttp::{BodyPlan, Context, Handler, Request, Result, Server};
///
/// /// Names whoever answered.
/// struct Via<H>(&'static str, H);
///
/// impl<H: Handler> Handler for Via<H> {
///     fn on_head(&self, request: &Request) -> BodyPlan {
///         self.1.on_head(request)
///     }
///
///     async fn handle(&self, ctx: &mut Context) -> Result {
///         let outcome = self.1.handle(ctx).await;
///         ctx.response.headers.set("via", self.0)?;
///         outcome
///     }
/// }
///
/// # use corehttp::IntoHandler;
/// let hello = (|ctx: &mut Context| ctx.response.text("hi")).into_handler();
/// let server = Server::bind("127.0.0.1:8080");
/// # let _ = || -> Result {
/// server.run(Via("1.1 corehttp", hello))
/// # };
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is `|ctx: &mut Context| ..`, `async |ctx: &mut Context| ..`, a `fn` or `async fn` of \
            `&mut Context`, or a type with `impl Handler`",
    note = "a function or closure answers with `()` or `corehttp::Result`; write out the parameter's type"
)]
pub trait Handler: 'static {
    /// Decides by the head, before a byte of the body is read, what becomes of the body. It is buffered unless
    /// this says otherwise.
    #[inline]
    fn on_head(&self, request: &Request) -> BodyPlan {
        let _ = request;
        BodyPlan::Buffer
    }

    /// Answers `ctx.request` in `ctx.response`.
    ///
    /// # Errors
    ///
    /// An error becomes an answer with the status it owes, and [`Server::on_error`](crate::Server::on_error)
    /// hears of it; once the head has left, it aborts the connection.
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result>;

    /// Itself behind a pointer, beside handlers of other types. For closures and functions there is
    /// [`BoxHandler::new`].
    fn boxed(self) -> BoxHandler
    where
        Self: Sized + Send + Sync,
    {
        BoxHandler::new(self)
    }
}

/// What becomes of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyPlan {
    /// All of it is received first, up to [`Limits::body_max`](crate::Limits::body_max).
    Buffer,
    /// All of it is received first, up to so many bytes.
    BufferUpTo(usize),
    /// The handler is called at once, and reads it through [`Context::body_reader`], or not at all.
    Stream,
    /// The request is answered with this status, and the connection closed.
    Refuse(Status),
    /// A CONNECT request is served, and may become a tunnel by [`Context::tunnel`]; others are buffered.
    Tunnel,
}

impl<H: Handler> Handler for Arc<H> {
    #[inline]
    fn on_head(&self, request: &Request) -> BodyPlan {
        (**self).on_head(request)
    }

    #[inline]
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        (**self).handle(ctx)
    }
}

impl<H: Handler> Handler for Rc<H> {
    #[inline]
    fn on_head(&self, request: &Request) -> BodyPlan {
        (**self).on_head(request)
    }

    #[inline]
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        (**self).handle(ctx)
    }
}

/// What [`Server::run`](crate::Server::run) and its like take for a handler. `Kind` is found by the compiler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is `|ctx: &mut Context| ..`, `async |ctx: &mut Context| ..`, a `fn` or `async fn` of \
            `&mut Context`, or a type with `impl Handler`",
    note = "a function or closure answers with `()` or `corehttp::Result`; write out the parameter's type"
)]
pub trait IntoHandler<Kind> {
    /// The handler it becomes.
    type Handler: Handler;

    /// Becomes a handler.
    fn into_handler(self) -> Self::Handler;
}

/// The kinds of handlers: a type can be of only one kind, so that the compiler need not choose.
mod kind {
    #[derive(Debug)]
    pub enum Implements {}
    #[derive(Debug)]
    pub enum Plain {}
    #[derive(Debug)]
    pub enum Async {}
}

impl<H: Handler> IntoHandler<kind::Implements> for H {
    type Handler = H;

    fn into_handler(self) -> H {
        self
    }
}

impl<F, R> IntoHandler<(kind::Plain, R)> for F
where
    F: Fn(&mut Context) -> R + 'static,
    R: Outcome,
{
    type Handler = PlainHandler<F>;

    fn into_handler(self) -> PlainHandler<F> {
        PlainHandler(self)
    }
}

impl<F, R> IntoHandler<(kind::Async, R)> for F
where
    F: AsyncFn(&mut Context) -> R + 'static,
    R: Outcome,
{
    type Handler = AsyncHandler<F>;

    fn into_handler(self) -> AsyncHandler<F> {
        AsyncHandler(self)
    }
}

/// A handler made of a `fn` or a closure.
#[derive(Clone, Copy, Debug)]
pub struct PlainHandler<F>(F);

impl<F, R> Handler for PlainHandler<F>
where
    F: Fn(&mut Context) -> R + 'static,
    R: Outcome,
{
    #[inline]
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        std::future::ready((self.0)(ctx).into_result())
    }
}

/// A handler made of an `async fn` or an async closure.
#[derive(Clone, Copy, Debug)]
pub struct AsyncHandler<F>(F);

impl<F, R> Handler for AsyncHandler<F>
where
    F: AsyncFn(&mut Context) -> R + 'static,
    R: Outcome,
{
    #[inline]
    async fn handle(&self, ctx: &mut Context) -> Result {
        (self.0)(ctx).await.into_result()
    }
}

/// What a function that handles requests may return: `()` or [`Result`].
pub trait Outcome {
    /// As a result.
    ///
    /// # Errors
    ///
    /// The handler's error.
    fn into_result(self) -> Result;
}

impl Outcome for () {
    #[inline]
    fn into_result(self) -> Result {
        Ok(())
    }
}

impl Outcome for Result {
    #[inline]
    fn into_result(self) -> Result {
        self
    }
}

/// Gives a handler that cannot have one a plan for bodies: a closure, for one.
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

/// A handler with a plan for bodies, made by [`with_plan`].
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
    fn on_head(&self, request: &Request) -> BodyPlan {
        (self.plan)(request)
    }

    #[inline]
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        self.handler.handle(ctx)
    }
}
