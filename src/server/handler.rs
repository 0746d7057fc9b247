//! [`Handler`]: the application; what becomes one ([`IntoHandler`]), and one behind a pointer ([`BoxHandler`]).

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use super::context::Context;
use super::error::Result;
use crate::message::Status;

/// Answers requests: the application, or a part of it.
///
/// Closures and functions are handlers, too, through [`IntoHandler`]. Implement this trait for what they cannot
/// express, such as a decision by the head alone. A middleware is a handler that holds another handler. A function
/// becomes one with [`around`](crate::around); this is one with settings:
///
/// ```
/// use corehttp::{BodyPlan, Context, Handler, IntoHandler, Method, Request, Result, Server, Status};
///
/// /// Lets the pages of one other origin use the responses (CORS).
/// struct Cors<H>(&'static str, H);
///
/// impl<H: Handler> Handler for Cors<H> {
///     fn on_head(&self, ctx: &mut Context) -> BodyPlan {
///         self.1.on_head(ctx)
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
/// When the inner handler returns, its outcome is not yet a response. After an error, `ctx.response.status` is
/// unchanged; the error itself has the status to answer with. But if the response has begun, its status has been sent,
/// and the error cuts the response off, as when a peer leaves a stream of events. So a log that is middleware looks at
/// all three. (For a log of all exchanges, there is [`Server::on_exchange`](crate::Server::on_exchange).)
///
/// ```
/// use corehttp::{BodyPlan, Context, Handler, Result};
///
/// struct Log<H>(H);
///
/// impl<H: Handler> Handler for Log<H> {
///     fn on_head(&self, ctx: &mut Context) -> BodyPlan {
///         self.0.on_head(ctx)
///     }
///
///     async fn handle(&self, ctx: &mut Context) -> Result {
///         let request = format!("{} {}", ctx.request.method(), ctx.request.target()); // a handler may change them
///         let outcome = self.0.handle(ctx).await;
///         let (status, note) = match &outcome {
///             Ok(()) => (ctx.response.status, ""),
///             Err(_) if ctx.has_responded() => (ctx.response.status, "cut off"),
///             Err(error) => (error.status(), ""),
///         };
///         println!("{} {request} {} {:?} {note}", ctx.peer_addr(), status.as_u16(), ctx.arrived_at().elapsed());
///         outcome
///     }
/// }
/// # let _ = corehttp::Server::new().service(Log(corehttp::BoxHandler::new(|_: &mut Context| ())));
/// ```
///
/// [`Body::known_len`](crate::Body::known_len) returns how large a response is. If the handler streams it, a
/// [`Transform`](crate::Transform) can count its bytes. After an error, `ctx.response.body` is not the body of the
/// response: that is made later, by [`Server::error_response`](crate::Server::error_response) or else of the
/// [reason](crate::Status::reason) of the status.
///
/// There are things that middleware does not see: requests that never reach a handler, such as those with a malformed
/// head, or a body that is too large to be buffered; the end of a handler that panics or exceeds
/// [`Timeouts::handler`](crate::Timeouts::handler); and whether a response that is not streamed arrives, because it is
/// sent later. [`Server::on_error`](crate::Server::on_error) is called for these, and also for errors that middleware
/// has seen: a log of all requests skips [`ErrorCause::Handler`](crate::ErrorCause::Handler) there.
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
///     fn on_head(&self, ctx: &mut Context) -> BodyPlan {
///         self.0.on_head(ctx)
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
/// Middleware is nested. In `Log(Catch(app))`, the log is the first to see a request and the last to see its response,
/// so it also logs the 500 of a panic.
///
/// # Guards
///
/// A guard that can decide at once does so in [`Handler::on_head`], by [`BodyPlan::Refuse`]. One that has to wait lets the
/// body be streamed, and buffers it later, so it receives none in vain:
///
/// ```
/// use corehttp::{BodyPlan, Context, Handler, Request, Result, Status};
/// # async fn may_ask(_: corehttp::PeerAddr) -> bool { true }
///
/// struct Guarded<H>(H);
///
/// impl<H: Handler> Handler for Guarded<H> {
///     fn on_head(&self, ctx: &mut Context) -> BodyPlan {
///         match self.0.on_head(ctx) {
///             BodyPlan::Buffer => BodyPlan::Stream, // `handle` buffers it
///             plan => plan,
///         }
///     }
///
///     async fn handle(&self, ctx: &mut Context) -> Result {
///         if !may_ask(ctx.peer_addr()).await {
///             return Err(Status::TOO_MANY_REQUESTS.into());
///         }
///         if self.0.on_head(ctx) == BodyPlan::Buffer {
///             ctx.buffer_body().await?;
///         }
///         self.0.handle(ctx).await
///     }
/// }
/// # let echo = corehttp::BoxHandler::new(|ctx: &mut Context| {
/// #     std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
/// # });
/// # let service = corehttp::Server::new().service(Guarded(echo));
/// # let mut request = Request::post("/")?;
/// # request.body.set_bytes("body");
/// # assert_eq!(corehttp::block_on(service.respond(request))?.body.bytes(), b"body");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("middleware", "access log", "cors"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is `|ctx: &mut Context| ..`, `async |ctx: &mut Context| ..`, a `fn` or `async fn` of \
            `&mut Context`, or a type with `impl Handler`; write out the parameter's type",
    note = "a function or closure answers by `ctx.response`, as in `ctx.response.set_text(\"hello\")`, and returns `()` or \
            `corehttp::Result`; `?` makes a `corehttp::Error` of other errors, whose status `Server::error_status` chooses",
    note = "a function or closure that another handler is to hold becomes one by `IntoHandler::into_handler`, and one \
            with a single type for all by `BoxHandler::new`"
)]
pub trait Handler: ErasedHandler + 'static {
    /// Decides by the head alone what becomes of the request's body, before the body is read. Default: it is buffered.
    ///
    /// A handler that holds another one passes the call on. If it does not, or is a closure, the inner plan has no
    /// effect: a body that was meant to be streamed is buffered, and refused with 413 if it is too large for that.
    /// [`with_plan`](crate::with_plan) gives a closure a plan.
    ///
    /// The body has not arrived yet, and no response can be sent. The fields of the request, the address of the peer and
    /// the extensions are available, and changes to them reach the handler. Fields that are set in the response stay, even
    /// if the request is refused here, or its body cannot be received.
    #[inline]
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        let _ = ctx;
        BodyPlan::Buffer
    }

    /// Answers `ctx.request` in `ctx.response`.
    ///
    /// # Errors
    ///
    /// An error is answered with its [status](super::Error::status), and with content that
    /// [`Server::error_response`](crate::Server::error_response) makes, by default the reason of the status as text.
    /// The fields that were set stay, except those that describe content. To say more, put a response into
    /// `ctx.response` and return `Ok`. Once the head has been sent, an error aborts the connection or, if the response
    /// is already complete, closes it.
    ///
    /// [`Server::on_error`](crate::Server::on_error) is called for the error, unless it is a bare
    /// [`Status`](crate::Status) or [`Problem`](crate::Problem), which are responses like any other.
    ///
    /// # Panics
    ///
    /// A panic is answered with 500, or aborts the connection if part of the response has been sent. Either way this
    /// connection is closed, and all others go on. Unlike after an error, nothing in `ctx.response` is kept, not even
    /// fields that middleware has set, because it may be half done. With `panic = "abort"` in the Cargo profile, the
    /// process ends.
    fn handle(&self, ctx: &mut Context) -> impl Future<Output = Result>
    where
        Self: Sized;

    /// Answers `ctx.request` at once, without a future, if this handler can. Default: it cannot, and does nothing.
    ///
    /// On a handler behind a pointer this method is called first, because the future that [`Handler::handle`] makes there
    /// would be allocated. A handler for which it returns `Some` returns the same from [`Handler::handle`]. Closures and
    /// functions that are not `async` implement it.
    #[inline]
    fn handle_now(&self, ctx: &mut Context) -> Option<Result> {
        let _ = ctx;
        None
    }

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
    note = "a function of `with_state(&state, ..)` takes a reference to the state or, if that is an `Arc` or `Rc`, to what it \
            points to, and then the context; of an `Arc<dyn Trait>`, `&Arc<dyn Trait>` or `&(dyn Trait + 'static)`",
    note = "an app of axum becomes a handler by `Tower::new`"
)]
pub trait IntoHandler<Kind> {
    /// The handler that the value is converted to.
    type Handler: Handler;

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

impl<H: Handler> IntoHandler<kind::Implements> for H {
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
    returned.into_result().map_err(|error| ctx.exchange.conn.core().error_statuses.choose_for(error))
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

/// How a request's body is received, or whether the request is refused, as
/// [`Handler::on_head`](crate::Handler::on_head) decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyPlan {
    /// The whole body is received before the handler is called, up to [`Limits::body_max`](crate::Limits::body_max). A
    /// request with a larger one is answered with 413, and reaches neither the handler nor middleware.
    Buffer,
    /// The whole body is received before the handler is called, up to this many bytes.
    BufferUpTo(usize),
    /// The handler is called at once, and reads the body with [`Context::body_reader`](crate::Context::body_reader), or
    /// not at all. No limit applies except the handler's own.
    Stream,
    /// The request is answered with this status. [`Server::on_error`](crate::Server::on_error) is called, but neither
    /// the handler nor middleware, such as an access log. The body is discarded. The connection is closed if the body
    /// is larger than [`Limits::drain_max`](crate::Limits::drain_max) or does not arrive in time, if the peer waits for
    /// `100 Continue`, or if the request is a CONNECT.
    Refuse(Status),
    /// A CONNECT request is passed to the handler, which may open a
    /// [`Context::accept_tunnel`](crate::Context::accept_tunnel). The bodies of other requests are buffered.
    Tunnel,
}

/// A handler of any type in a box, so that one map or field can hold handlers of different types.
///
/// Each request costs a call that is not inlined, and an allocation for the future of a handler that is `async`.
/// Handlers of a single type, or an enum of handlers, need no box.
///
/// A boxed handler can be shared among cores, so it must be [`Send`] and [`Sync`]; its future need not be. A
/// `BoxHandler` is a `Box<dyn Handler + Send + Sync>` that can be made of closures and functions. That box, a
/// `Box<dyn Handler>` for [one core](crate::Server::run_per_core), an `Arc<dyn Handler + Send + Sync>` and an
/// `Rc<dyn Handler>` are handlers, too.
///
/// # Examples
///
/// A router:
///
/// ```
/// use std::collections::HashMap;
///
/// use corehttp::{BodyPlan, BoxHandler, Context, Handler, Request, Result, Server, Status};
///
/// struct Router(HashMap<&'static str, BoxHandler>);
///
/// impl Handler for Router {
///     fn on_head(&self, ctx: &mut Context) -> BodyPlan {
///         self.0.get(ctx.request.path()).map_or(BodyPlan::Buffer, |handler| handler.on_head(ctx))
///     }
///
///     async fn handle(&self, ctx: &mut Context) -> Result {
///         match self.0.get(ctx.request.path()) {
///             Some(handler) => handler.handle(ctx).await,
///             None => Err(Status::NOT_FOUND.into()),
///         }
///     }
/// }
///
/// async fn time(ctx: &mut Context) -> Result {
///     ctx.response.set_text(format!("{:?}", ctx.arrived_at()));
///     Ok(())
/// }
///
/// let router = Router(HashMap::from([
///     ("/", BoxHandler::new(|ctx: &mut Context| ctx.response.set_html("<h1>hi</h1>"))),
///     ("/time", BoxHandler::new(time)),
/// ]));
/// let server = Server::bind("127.0.0.1:8080");
/// # let _ = |server: Server, router: Router| -> Result {
/// server.run(router)
/// # };
/// # let service = Server::new().service(router);
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # let respond = |path| runtime.block_on(service.respond(Request::get(path).unwrap()));
/// # assert_eq!(respond("/").body.bytes(), b"<h1>hi</h1>");
/// # assert_eq!((respond("/time").status, respond("/none").status), (Status::OK, Status::NOT_FOUND));
/// # Ok::<(), std::io::Error>(())
/// ```
#[doc(alias = "router")]
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
}

impl fmt::Debug for BoxHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxHandler").finish_non_exhaustive()
    }
}

/// The method that a `dyn Handler` has in place of [`Handler::handle`], whose future has no size there. Each handler
/// implements this trait.
pub trait ErasedHandler {
    /// Calls [`Handler::handle`], and boxes its future.
    fn handle_boxed<'a>(&'a self, ctx: &'a mut Context) -> BoxedFuture<'a>;
}

type BoxedFuture<'a> = Pin<Box<dyn Future<Output = Result> + 'a>>;

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
        }
    )*};
}

shared_dyn_handlers!(Arc<dyn Handler>, Arc<dyn Handler + Send + Sync>, Rc<dyn Handler>);
