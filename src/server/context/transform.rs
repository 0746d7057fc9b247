//! [`Transform`]: what changes a streamed answer on its way out (RFC 9110 §7.7).

use std::any::Any;
use std::io;

use crate::coding::Flush;
use crate::message::Response;

/// Changes what a handler streams, on its way to the peer: the work of middleware that cannot wait until the answer is
/// there. A middleware puts one into [`Context::transform`](super::Context::transform) before it calls its handler;
/// answers that are not streamed are in `ctx.response` when the handler returns, and are changed there. There is one place
/// for it: whoever finds another one there hands on to it what it makes itself, as `Compress` does.
///
/// # Examples
///
/// ```
/// use std::io;
/// use corehttp::{BodyPlan, Context, Course, Flush, Handler, Request, Response, Result, Transform};
///
/// struct Upper;
///
/// impl Transform for Upper {
///     fn begin(&mut self, response: &mut Response) -> Course {
///         match response.headers.content_type() {
///             Some("text/plain") => Course::Through,
///             _ => Course::Around,
///         }
///     }
///
///     fn apply(&mut self, data: &[u8], _: Flush, out: &mut Vec<u8>) -> io::Result<()> {
///         out.extend(data.to_ascii_uppercase());
///         Ok(())
///     }
/// }
///
/// struct Shouting<H>(H);
///
/// impl<H: Handler> Handler for Shouting<H> {
///     fn on_head(&self, request: &Request) -> BodyPlan {
///         self.0.on_head(request)
///     }
///
///     async fn handle(&self, ctx: &mut Context) -> Result {
///         ctx.transform = Some(Box::new(Upper));
///         self.0.handle(ctx).await
///     }
/// }
/// ```
pub trait Transform: Any {
    /// The head is about to leave, and may still be changed: whoever changes how long the content is removes its
    /// `content-length`. Says whether the content goes through [`Transform::apply`].
    fn begin(&mut self, response: &mut Response) -> Course;

    /// Takes `data` in, a few KiB at a time, and appends to `out` what of the content is to be sent now. It is called
    /// once with [`Flush::End`], the last time.
    ///
    /// # Errors
    ///
    /// Whatever makes it impossible to go on: the connection is closed then.
    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> io::Result<()>;
}

/// Which way the content of a streamed answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Through [`Transform::apply`].
    Through,
    /// Straight to the peer.
    Around,
}
