//! [`BodyPlan`]: what becomes of a request's body, as its head decides.

use super::{Handler, IntoHandler};
use crate::message::{Request, Status};
use crate::server::{Context, Result};

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
