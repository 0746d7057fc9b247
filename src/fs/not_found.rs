//! [`FilesNotFound`], and how [`Files`](super::Files) pass requests without a file on to it, or to another handler.

use crate::message::{Method, Request, Status};
use crate::server::handler::RefusalOrigin;
use crate::server::{BodyPlan, Context, Handler, Refusal, Result, defer_body, handle_deferred};

/// Answers 404 to requests for which [`Files`](super::Files) finds no file.
#[derive(Clone, Copy, Debug)]
pub struct FilesNotFound(());

impl FilesNotFound {
    pub(super) fn new() -> FilesNotFound {
        FilesNotFound(())
    }
}

impl Handler for FilesNotFound {
    /// Bodies are not read.
    fn on_head(&self, _: &mut Context) -> BodyPlan {
        BodyPlan::Stream
    }

    async fn handle(&self, _: &mut Context) -> Result {
        Err(Status::NOT_FOUND.into())
    }
}

/// The plan of the handler for requests without a file. Its guards must refuse no request for a file, so the plan for those
/// that may find one is made later.
pub(super) fn plan(not_found: &impl Handler, ctx: &mut Context) -> BodyPlan {
    match may_find(&ctx.request) {
        true => BodyPlan::Stream,
        false => not_found.on_head(ctx),
    }
}

/// Calls the handler for requests without a file.
pub(super) async fn handle(not_found: &impl Handler, ctx: &mut Context) -> Result {
    match may_find(&ctx.request) {
        true => handle_deferred(ctx, not_found).await,
        false => not_found.handle(ctx).await,
    }
}

/// Prepares a request without a plan for its refusal: the handler notes the route, whose middleware the refusal passes. `None`
/// if the request has waited for its core, and may wait for longer by the time limits of that route.
pub(super) fn reconsider(not_found: &impl Handler, ctx: &mut Context, refusal: Refusal) -> Option<Refusal> {
    if !may_find(&ctx.request) {
        return Some(refusal);
    }
    let waited = ctx.timeouts().queue;
    if let BodyPlan::Refuse(status) = defer_body(ctx, not_found) {
        // The refusal that is on its way counts.
        drop(Refusal::take(ctx, status));
    }
    let may_wait = ctx.timeouts().queue.is_none_or(|limit| Some(limit) > waited);
    (refusal.origin != RefusalOrigin::Queue || !may_wait).then_some(refusal)
}

/// Whether there may be a file for the request.
fn may_find(request: &Request) -> bool {
    matches!(request.method(), Method::Get | Method::Head)
}
