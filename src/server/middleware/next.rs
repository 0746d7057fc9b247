//! [`Next`]: the handler beneath a function that is middleware.

use std::fmt;

use crate::server::handler::{BoxedFuture, Refusal};
use crate::server::{BodyPlan, Context, Handler, Result};

/// The handler, or the other middleware, beneath a function that is [middleware].
///
/// The type beneath is erased. So with an `async` handler, each call allocates memory for the future, as with a
/// [`BoxHandler`](crate::BoxHandler). A type that implements [`Middleware`] does not allocate.
///
/// # Examples
///
/// ```
/// use corehttp::middleware::{Next, wrap};
/// use corehttp::{Context, Server};
///
/// async fn timed(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
///     let outcome = next.handle(ctx).await;
///     let took = ctx.arrived_at().elapsed();
///     ctx.response.headers.set("server-timing", format!("app;dur={}", took.as_millis()))?;
///     outcome
/// }
///
/// let app = |ctx: &mut Context| ctx.response.set_text("Hello, World!");
/// # let _ = || -> corehttp::Result {
/// Server::bind("127.0.0.1:8080").run(wrap(timed, app))
/// # };
/// ```
///
/// [`Middleware`]: crate::middleware::Middleware
/// [middleware]: crate::middleware
#[derive(Clone, Copy)]
pub struct Next<'a>(&'a dyn Handler);

impl<'a> Next<'a> {
    pub(super) fn new(handler: &'a impl Handler) -> Next<'a> {
        Next(handler)
    }

    /// Answers the request, as [`Handler::handle`] does.
    ///
    /// # Errors
    ///
    /// Fails with the error of the handler, or of what refused the request.
    pub async fn handle(&self, ctx: &mut Context) -> Result {
        match self.0.handle_now(ctx) {
            Some(result) => result,
            None => self.0.handle_boxed(ctx).await,
        }
    }
}

impl Handler for Next<'_> {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        self.0.on_head(ctx)
    }

    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result> {
        Next::handle(self, ctx)
    }

    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        self.0.handle_now(ctx)
    }

    fn is_refusing(&self) -> bool {
        self.0.is_refusing()
    }

    fn refuse<'a>(&'a self, ctx: &'a mut Context, refusal: Refusal) -> BoxedFuture<'a> {
        self.0.refuse(ctx, refusal)
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}
