//! [`BoxHandler`]: any handler, behind a pointer.

use std::fmt;
use std::pin::Pin;

use super::{BodyPlan, Handler, IntoHandler};
use crate::message::Request;
use crate::server::{Context, Result};

/// A handler of any type in a box, so that one map or field can hold handlers of different types.
///
/// Each request costs an allocation for the handler's future, and a call that is not inlined. Handlers of a single
/// type, or an enum of handlers, need no box.
///
/// A boxed handler can be shared among cores, so it must be [`Send`] and [`Sync`]; its future need not be.
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
///     ctx.response.text(format!("{:?}", ctx.arrived()));
///     Ok(())
/// }
///
/// let router = Router(HashMap::from([
///     ("/", BoxHandler::new(|ctx: &mut Context| ctx.response.html("<h1>hi</h1>"))),
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
pub struct BoxHandler(Box<dyn AnyHandler + Send + Sync>);

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

/// An object-safe [`Handler`], whose future is boxed.
trait AnyHandler {
    fn on_head(&self, request: &Request) -> BodyPlan;

    fn handle<'a>(&'a self, ctx: &'a mut Context) -> Handling<'a>;
}

type Handling<'a> = Pin<Box<dyn Future<Output = Result> + 'a>>;

impl<H: Handler> AnyHandler for H {
    fn on_head(&self, request: &Request) -> BodyPlan {
        Handler::on_head(self, request)
    }

    fn handle<'a>(&'a self, ctx: &'a mut Context) -> Handling<'a> {
        Box::pin(Handler::handle(self, ctx))
    }
}
