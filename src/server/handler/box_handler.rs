//! [`BoxHandler`]: any handler, behind a pointer; and the pointers to a `dyn Handler`, which are handlers, too.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use super::{BodyPlan, Handler, IntoHandler};
use crate::message::Request;
use crate::server::{Context, Result};

/// A handler of any type in a box, so that one map or field can hold handlers of different types.
///
/// Each request costs an allocation for the handler's future, and a call that is not inlined. Handlers of a single
/// type, or an enum of handlers, need no box.
///
/// A boxed handler can be shared among cores, so it must be [`Send`] and [`Sync`]; its future need not be. It is a
/// `Box<dyn Handler + Send + Sync>` that can be made of closures and functions. That box, a `Box<dyn Handler>` for
/// [one core](crate::Server::run_per_core), an `Arc<dyn Handler + Send + Sync>` and an `Rc<dyn Handler>` are handlers,
/// too.
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
///     fn on_head(&self, request: &Request) -> BodyPlan {
///         self.0.get(request.path()).map_or(BodyPlan::Buffer, |handler| handler.on_head(request))
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
///     ctx.response.set_text(format!("{:?}", ctx.arrived()));
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
    fn on_head(&self, request: &Request) -> BodyPlan {
        self.0.on_head(request)
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        self.0.handle(ctx).await
    }
}

impl fmt::Debug for BoxHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxHandler").finish_non_exhaustive()
    }
}

/// What a `dyn Handler` has in place of [`Handler::handle`], whose future has no size there. Each handler has it.
pub trait ErasedHandler {
    /// Calls [`Handler::handle`], and boxes its future.
    fn handle_boxed<'a>(&'a self, ctx: &'a mut Context) -> HandlerFuture<'a>;
}

type HandlerFuture<'a> = Pin<Box<dyn Future<Output = Result> + 'a>>;

impl<H: Handler> ErasedHandler for H {
    fn handle_boxed<'a>(&'a self, ctx: &'a mut Context) -> HandlerFuture<'a> {
        Box::pin(self.handle(ctx))
    }
}

impl<H: Handler + ?Sized> Handler for Box<H> {
    fn on_head(&self, request: &Request) -> BodyPlan {
        (**self).on_head(request)
    }

    async fn handle(&self, ctx: &mut Context) -> Result {
        (**self).handle_boxed(ctx).await
    }
}

// Not for all that is `?Sized`, as for a box: what cores share must not cost an allocation.
macro_rules! shared_dyn_handlers {
    ($($pointer:ty),*) => {$(
        impl Handler for $pointer {
            fn on_head(&self, request: &Request) -> BodyPlan {
                (**self).on_head(request)
            }

            async fn handle(&self, ctx: &mut Context) -> Result {
                (**self).handle_boxed(ctx).await
            }
        }
    )*};
}

shared_dyn_handlers!(Arc<dyn Handler>, Arc<dyn Handler + Send + Sync>, Rc<dyn Handler>);
