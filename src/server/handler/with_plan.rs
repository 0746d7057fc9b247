//! [`WithPlan`]: a handler with a plan for request bodies.

use super::{BodyPlan, Handler, IntoHandler};
use crate::message::Request;
use crate::server::{Context, Result};

/// Gives a handler a plan for request bodies, in place of its own. Closures and functions get one this way.
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

/// A handler with a plan for request bodies, made by [`with_plan`].
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
