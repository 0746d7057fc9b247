//! [`IntoHandler`]: conversion to a handler, from closures and functions, plain or `async`, and from handlers.

use super::Handler;
use crate::server::{Context, Result};

/// Conversion to a [`Handler`], from a closure, a function or a handler, for [`Server::run`](crate::Server::run) and
/// similar methods. The compiler infers `Kind`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is `|ctx: &mut Context| ..`, `async |ctx: &mut Context| ..`, a `fn` or `async fn` of \
            `&mut Context`, or a type with `impl Handler`; write out the parameter's type",
    note = "a function or closure answers by `ctx.response`, as in `ctx.response.set_text(\"hello\")`, and returns `()` or \
            `corehttp::Result`; `?` or `.map_err(corehttp::Error::other)?` makes a `corehttp::Error` of other errors",
    note = "a function or closure that another handler is to hold becomes one by `IntoHandler::into_handler`, and one \
            with a single type for all by `BoxHandler::new`"
)]
pub trait IntoHandler<Kind> {
    /// The handler it becomes.
    type Handler: Handler;

    /// Converts it to a handler.
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

/// The handler that a `fn` or a plain closure is converted to.
#[derive(Clone, Copy, Debug)]
pub struct PlainHandler<F>(F);

impl<F, R> Handler for PlainHandler<F>
where
    F: Fn(&mut Context) -> R + 'static,
    R: Outcome,
{
    #[inline]
    async fn handle(&self, ctx: &mut Context) -> Result {
        (self.0)(ctx).into_result()
    }
}

/// The handler that an `async fn` or an async closure is converted to.
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
    /// Converts it to a result.
    ///
    /// # Errors
    ///
    /// Fails with the handler's error.
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
