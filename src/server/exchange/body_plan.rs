//! [`BodyPlan`]: what becomes of the body of a request.

use crate::message::Status;

/// The result of [`Handler::on_head`](crate::Handler::on_head): the plan for a request's body, or a refusal.
///
/// A plan is [middleware](crate::middleware), too. `wrap(BodyPlan::Stream, upload)` gives a closure or a function a
/// plan, and replaces the plan of any other handler, unless that refuses the request. Of several plans in one another, the
/// outermost counts, also where the others are made later, beneath a
/// [guard that waits](crate::middleware#guards-that-wait). [`middleware::plan`](crate::middleware::plan) decides by
/// the request.
///
/// # Examples
///
/// ```
/// use corehttp::middleware::wrap;
/// use corehttp::{BodyPlan, Context, Server};
///
/// let upload = async |ctx: &mut Context| -> corehttp::Result {
///     let mut body = ctx.body_reader();
///     while let Some(chunk) = body.chunk().await? {
///         println!("{} bytes", chunk.len());
///     }
///     Ok(())
/// };
/// # let _ = || -> corehttp::Result {
/// Server::bind("127.0.0.1:8080").run(wrap(BodyPlan::Stream, upload))
/// # };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a plan has an effect only if `on_head` returns it"]
pub enum BodyPlan {
    /// The whole body is received before the handler is called, up to [`Limits::body_max`](crate::Limits::body_max). A
    /// request with a larger one is answered with 413. The handler is not called, and its middleware gets the error.
    Buffer,
    /// The whole body is received before the handler is called, up to this many bytes.
    BufferUpTo(usize),
    /// The handler is called at once, and reads the body with [`Context::body_reader`](crate::Context::body_reader), or
    /// not at all.
    ///
    /// [`Limits::body_max`](crate::Limits::body_max) does not count.
    /// [`BodyReader::decoded_up_to`](crate::BodyReader::decoded_up_to) bounds a body, even without codings, and
    /// `multipart::MultipartLimits` an upload.
    ///
    /// The time in which the handler reads counts for [`Timeouts::handler`](crate::Timeouts::handler). With that limit,
    /// give routes for uploads [`timeouts(|timeouts| timeouts.handler = None)`](crate::middleware::timeouts).
    /// [`Timeouts::body`](crate::Timeouts::body) and [`Timeouts::body_rate_min`](crate::Timeouts::body_rate_min) still
    /// bound peers that are slow.
    Stream,
    /// The request is answered with this status, unless middleware around the handler answers otherwise.
    /// [`Server::on_error`](crate::Server::on_error) is called. For a plan with an error of its own, use
    /// [`Context::refuse`](crate::Context::refuse). The body is discarded. The connection is closed after a CONNECT,
    /// for a peer that waits for `100 Continue`, and after a body too slow or beyond
    /// [`Limits::drain_max`](crate::Limits::drain_max).
    Refuse(Status),
    /// A CONNECT request is passed to the handler, which may open a
    /// [`Context::accept_tunnel`](crate::Context::accept_tunnel). The bodies of other requests are buffered.
    Tunnel,
}

/// Notes of the middleware of a request on its plans, for those that are made later.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlanNotes {
    /// The plan that has replaced those beneath it, until the call of its middleware begins. Of several, the outermost.
    pub(crate) replacing: Option<BodyPlan>,
    /// The plan of the outermost middleware with one whose call is running. It replaces the plans that are made beneath.
    pub(crate) in_force: Option<BodyPlan>,
    /// The plan in whose place [`BodyPlan::Stream`] was returned, since it is made once more.
    pub(crate) deferred: Option<BodyPlan>,
}
