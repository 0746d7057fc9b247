//! [`FilesNotFound`], and how [`Files`](super::Files) pass requests without a file on to it, or to another handler.

use crate::message::{Method, Request, Status};
use crate::server::{BodyPlan, Context, Handler, Refusal, Result};
use crate::server::{defer_body, handle_deferred};

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
/// that may find one is made later. It is made now as well, if the core is behind, for its route and its time limits: they say
/// how long the request may wait, and which middleware its refusal passes. So it is if the request has content, which middleware
/// around may have to receive first. A refusal of this plan is forgotten, with the fields that it has set.
pub(super) fn plan(not_found: &impl Handler, ctx: &mut Context) -> BodyPlan {
    if !may_find(&ctx.request) {
        return not_found.on_head(ctx);
    }
    if ctx.is_core_behind() || ctx.request.may_have_content() {
        let before = ctx.response.headers.clone();
        if let BodyPlan::Refuse(status) = defer_body(ctx, not_found) {
            drop(Refusal::take(ctx, status));
            ctx.response.headers = before;
        }
    }
    BodyPlan::Stream
}

/// Takes back what the plan has changed, for a request that has a file.
pub(super) fn forget_plan(ctx: &mut Context) {
    if may_find(&ctx.request) {
        ctx.forget_deferred();
    }
}

/// Calls the handler for requests without a file.
pub(super) async fn handle(not_found: &impl Handler, ctx: &mut Context) -> Result {
    match may_find(&ctx.request) {
        true => handle_deferred(ctx, not_found).await,
        false => not_found.handle(ctx).await,
    }
}

/// Whether there may be a file for the request.
fn may_find(request: &Request) -> bool {
    matches!(request.method(), Method::Get | Method::Head)
}
