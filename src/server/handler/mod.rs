//! [`Handler`]: the application.

mod into_handler;

mod around;
mod body_plan;
mod box_handler;
mod with_plan;

use std::rc::Rc;
use std::sync::Arc;

pub use around::{Around, around};
pub use body_plan::BodyPlan;
pub use box_handler::BoxHandler;
use box_handler::ErasedHandler;
pub use into_handler::{AsyncHandler, IntoHandler, Outcome, PlainHandler};
pub use with_plan::{WithPlan, with_plan};

use super::{Context, Result};
use crate::message::Request;

/// Answers requests: the application, or a part of it.
///
/// Closures and functions are handlers, too, through [`IntoHandler`]. Implement this trait for what they cannot
/// express, such as a decision by the head alone. A middleware is a handler that holds another handler. A function
/// becomes one with [`around`]; this is one with settings:
///
/// ```
/// use corehttp::{BodyPlan, Context, Handler, IntoHandler, Method, Request, Result, Server, Status};
///
/// /// Lets the pages of one other origin use the answers (CORS).
/// struct Cors<H>(&'static str, H);
///
/// impl<H: Handler> Handler for Cors<H> {
///     fn on_head(&self, request: &Request) -> BodyPlan {
///         self.1.on_head(request)
///     }
///
///     async fn handle(&self, ctx: &mut Context) -> Result {
///         let Context { request, response, .. } = &mut *ctx;
///         response.headers.set("access-control-allow-origin", self.0)?; // it stays if the handler fails
///         let is_preflight =
///             request.method() == Method::Options && request.headers.contains("access-control-request-method");
///         if !is_preflight {
///             return self.1.handle(ctx).await;
///         }
///         response.status = Status::NO_CONTENT;
///         response.headers.set("access-control-allow-methods", "GET, POST")?;
///         response.headers.set("access-control-allow-headers", "content-type")?;
///         Ok(())
///     }
/// }
///
/// let hello = (|ctx: &mut Context| ctx.response.set_text("hi")).into_handler();
/// let service = Server::new().service(Cors("https://app.example", hello)); // or `Server::run`
/// # let mut preflight = Request::new("OPTIONS", "/")?;
/// # preflight.headers.set("access-control-request-method", "POST")?;
/// # for (request, status) in [(preflight, Status::NO_CONTENT), (Request::get("/")?, Status::OK)] {
/// #     let response = corehttp::block_on(service.respond(request))?;
/// #     assert_eq!(response.status, status);
/// #     assert_eq!(response.headers.text("access-control-allow-origin"), Some("https://app.example"));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// When the inner handler returns, its outcome is not yet an answer. After an error, `ctx.response.status` is
/// unchanged; the error itself has the status to answer with. But if the answer has begun, its status has been sent,
/// and the error cuts the answer off, as when a peer leaves a stream of events. So an access log looks at all three:
///
/// ```
/// use corehttp::{BodyPlan, Context, Handler, Request, Result};
///
/// struct Log<H>(H);
///
/// impl<H: Handler> Handler for Log<H> {
///     fn on_head(&self, request: &Request) -> BodyPlan {
///         self.0.on_head(request)
///     }
///
///     async fn handle(&self, ctx: &mut Context) -> Result {
///         let asked = format!("{} {}", ctx.request.method(), ctx.request.target()); // a handler may change them
///         let outcome = self.0.handle(ctx).await;
///         let (status, note) = match &outcome {
///             Ok(()) => (ctx.response.status, ""),
///             Err(_) if ctx.has_answered() => (ctx.response.status, "cut off"),
///             Err(error) => (error.owed(), ""),
///         };
///         println!("{} {asked} {} {:?} {note}", ctx.peer_addr(), status.as_u16(), ctx.arrived().elapsed());
///         outcome
///     }
/// }
/// # let _ = corehttp::Server::new().service(Log(corehttp::BoxHandler::new(|_: &mut Context| ())));
/// ```
///
/// [`Body::known_len`](crate::Body::known_len) tells how large an answer is. If the handler streams it, a
/// [`Transform`](crate::Transform) can count its bytes. After an error, `ctx.response.body` is not the body of the
/// answer: the [reason](crate::Status::reason) of the status replaces it later.
///
/// There are things that middleware does not see: requests that never reach a handler, such as those with a malformed
/// head, or a body that is too large to be buffered; the end of a handler that panics or exceeds
/// [`Timeouts::handler`](crate::Timeouts::handler); and whether an answer that is not streamed arrives, because it is
/// sent later. [`Server::on_error`](crate::Server::on_error) is told of these. It is also told of errors that middleware
/// has seen: a log of all requests skips [`RefusalCause::Handler`](crate::RefusalCause::Handler) there.
///
/// Middleware that buffers bodies itself also sees those that cannot be received, and the fields that it has set are
/// kept: see [`Context::buffer_body`]. Middleware that needs to see panics, or to keep its fields in spite of one,
/// catches them:
///
/// ```
/// use std::future::poll_fn;
/// use std::panic::{AssertUnwindSafe, catch_unwind};
/// use std::pin::pin;
/// use std::task::Poll;
/// use corehttp::{BodyPlan, Context, Handler, Request, Result, Status};
///
/// struct Catch<H>(H);
///
/// impl<H: Handler> Handler for Catch<H> {
///     fn on_head(&self, request: &Request) -> BodyPlan {
///         self.0.on_head(request)
///     }
///
///     async fn handle(&self, ctx: &mut Context) -> Result {
///         let mut inner = pin!(async { self.0.handle(ctx).await });
///         poll_fn(|cx| {
///             let polled = catch_unwind(AssertUnwindSafe(|| inner.as_mut().poll(cx)));
///             polled.unwrap_or_else(|_| Poll::Ready(Err(Status::INTERNAL_SERVER_ERROR.into())))
///         })
///         .await
///     }
/// }
/// # let catch = Catch(corehttp::BoxHandler::new(|_: &mut Context| -> Result { panic!("this is a test") }));
/// # let service = corehttp::Server::new().service(async move |ctx: &mut Context| -> Result {
/// #     ctx.response.headers.set("x-request-id", 7)?;
/// #     catch.handle(ctx).await
/// # });
/// # let response = corehttp::block_on(service.respond(Request::get("/")?))?;
/// # assert_eq!((response.status.as_u16(), response.headers.text("x-request-id")), (500, Some("7")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Middleware is nested. In `Log(Catch(app))`, the log is the first to see a request and the last to see its answer, so
/// it also logs the 500 of a panic.
#[doc(alias("middleware", "access log", "cors"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is `|ctx: &mut Context| ..`, `async |ctx: &mut Context| ..`, a `fn` or `async fn` of \
            `&mut Context`, or a type with `impl Handler`; write out the parameter's type",
    note = "a function or closure answers by `ctx.response`, as in `ctx.response.set_text(\"hello\")`, and returns `()` or \
            `corehttp::Result`; `?` or `.map_err(corehttp::Error::other)?` makes a `corehttp::Error` of other errors",
    note = "a function or closure that another handler is to hold becomes one by `IntoHandler::into_handler`, and one \
            with a single type for all by `BoxHandler::new`"
)]
pub trait Handler: ErasedHandler + 'static {
    /// Decides by the head alone what becomes of the request's body, before the body is read. Default: it is buffered.
    ///
    /// A handler that holds another one passes the call on. If it does not, or is a closure, the inner plan has no
    /// effect: a body that was meant to be streamed is buffered, and refused with 413 if it is too large for that.
    /// [`with_plan`](crate::with_plan) gives a closure a plan.
    #[inline]
    fn on_head(&self, request: &Request) -> BodyPlan {
        let _ = request;
        BodyPlan::Buffer
    }

    /// Answers `ctx.request` in `ctx.response`.
    ///
    /// # Errors
    ///
    /// An error is answered with its [status](super::Error::owed), and with the reason of that status as text. The
    /// fields that were set stay, except those that describe content. To say more, put an answer into `ctx.response`
    /// and return `Ok`. Once the head has been sent, an error aborts the connection or, if the answer is already
    /// complete, closes it.
    ///
    /// [`Server::on_error`](crate::Server::on_error) is told of the error, unless it is a bare
    /// [`Status`](crate::Status), which is an answer like any other.
    ///
    /// # Panics
    ///
    /// A panic is answered with 500, or aborts the connection if part of the answer has been sent. Either way this
    /// connection is closed, and all others go on. Unlike after an error, nothing in `ctx.response` is kept, not even
    /// fields that middleware has set, because it may be half done. With `panic = "abort"` in the Cargo profile, the
    /// process ends.
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result>
    where
        Self: Sized;

    /// Boxes this handler, so that it can be stored with handlers of other types. For closures and functions, use
    /// [`BoxHandler::new`].
    fn boxed(self) -> BoxHandler
    where
        Self: Sized + Send + Sync,
    {
        BoxHandler::new(self)
    }
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
