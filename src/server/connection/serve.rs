//! [`run`]: what is done for a busy connection: its handshake, or the answers to the requests that have arrived.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::{self, Poll, ready};

use super::close::close;
use super::context_guard::ContextGuard;
use super::handshake::secure;
use super::refuse::refuse;
use super::run_handler::{HandlerOutcome, finalize_response, report_failure, run_handler};
use crate::exchange::{ExchangeError, Expectation, HeadOutcome};
use crate::message::{FieldName, Status, Version};
use crate::runtime::{boxed, yield_now};
use crate::server::context::{CloseMode, NextStep};
use crate::server::error_report::Refused;
use crate::server::job::{Job, JobOutcome};
use crate::server::worker::Worker;
use crate::server::{BodyPlan, Context, ErrorCause, Handler, Result};

/// Does a job for a connection.
pub(super) async fn run<H: Handler>((worker, job): (Rc<Worker<H>>, Job)) -> JobOutcome {
    let context = match job {
        Job::Handshake(conn) => return boxed(|| secure(worker, *conn)).await,
        Job::Exchanges(context) => context,
    };
    let mut guard = ContextGuard::new(&worker, context);
    let (mode, served) = match exchanges(&worker, &mut guard).await {
        Ok(NextStep::KeepAlive) => return JobOutcome::Idle(guard.into_inner()),
        Ok(NextStep::Close(mode)) => (mode, Ok(())),
        Err(refused) => refuse(&mut guard, *refused),
    };
    close(&mut guard, mode).await;
    JobOutcome::Closed(served.map(|()| guard.upgraded.take()))
}

/// Answers requests until no bytes of a further one have arrived.
async fn exchanges<H: Handler>(worker: &Worker<H>, ctx: &mut Context) -> Result<NextStep, Box<Refused>> {
    let (conn, mut unsent) = (ctx.conn.clone(), 0);
    loop {
        match poll_fn(|cx| ctx.poll_head(cx)).await? {
            HeadOutcome::Closed | HeadOutcome::Idle => return Ok(NextStep::Close(CloseMode::Now)),
            HeadOutcome::Complete => ctx.note_request(),
        }
        note_expectation(ctx)?;
        let plan = plan(worker, ctx)?;
        if let Plan::Buffer(body_max) = plan {
            poll_fn(|cx| ctx.poll_body(cx, body_max)).await?;
        }
        let outcome = match plan {
            Plan::Refuse(status) => HandlerOutcome::Refused(status),
            Plan::Buffer(_) | Plan::Call => {
                run_handler(worker, &conn, pin!(async { worker.handler.handle(ctx).await })).await
            }
        };
        if conn.borrow().is_none() {
            ctx.drop_user_values();
            report_failure(ctx, outcome);
            return Ok(NextStep::Close(CloseMode::Now));
        }
        finalize_response(ctx, outcome)?;
        if !ctx.copy_body() {
            poll_fn(|cx| poll_send(ctx, cx)).await?;
        }
        ctx.drop_user_values();
        if ctx.persists() && !ctx.is_read() {
            poll_fn(|cx| poll_drain(ctx, cx)).await;
        }
        // After a handler that read exactly as much as there was, the last chunk is still current. An idle connection
        // has none.
        ctx.incoming.get_mut().consume_chunk();
        let next = ctx.next_step();
        if next != NextStep::KeepAlive || ctx.incoming.get_mut().input.is_empty() {
            poll_fn(|cx| ctx.poll_flush(cx)).await?;
            return Ok(next);
        }
        unsent += 1;
        if ctx.must_flush(unsent) {
            poll_fn(|cx| ctx.poll_flush(cx)).await?;
            unsent = 0;
            // A peer that pipelines endlessly must not keep the core to itself.
            yield_now().await;
        }
        ctx.reset_exchange();
    }
}

/// Notes what the peer expects before it sends its body (RFC 9110 §10.1.1).
#[inline]
pub(super) fn note_expectation(ctx: &mut Context) -> Result<(), Box<Refused>> {
    match ctx.request.headers.may_have(FieldName::EXPECT) {
        true => read_expectation(ctx),
        false => Ok(()),
    }
}

#[cold]
fn read_expectation(ctx: &mut Context) -> Result<(), Box<Refused>> {
    if ctx.info.request_info.version == Version::Http10 {
        return Ok(());
    }
    ctx.incoming.get_mut().expectation =
        Expectation::from_headers(&ctx.request.headers).map_err(ExchangeError::from)?;
    Ok(())
}

/// What is done with a request.
pub(super) enum Plan {
    /// The handler is called.
    Call,
    /// The same, once the body has been buffered, up to so many bytes.
    Buffer(usize),
    /// It is answered with this status.
    Refuse(Status),
}

/// Lets the handler decide by the head what is done with the request.
pub(super) fn plan<H: Handler>(worker: &Worker<H>, ctx: &mut Context) -> Result<Plan, Box<Refused>> {
    let decided = catch_unwind(AssertUnwindSafe(|| worker.handler.on_head(&ctx.request)));
    let decided = decided.map_err(|_| Refused::new(Status::INTERNAL_SERVER_ERROR, ErrorCause::Panic))?;
    Ok(match (ctx.info.request_info.is_connect, decided) {
        (_, BodyPlan::Refuse(status)) => Plan::Refuse(status),
        (true, BodyPlan::Tunnel) => Plan::Call,
        // A handler that did not plan for a tunnel would answer 200, which opens one (RFC 9110 §9.3.6).
        (true, _) => Plan::Refuse(Status::NOT_IMPLEMENTED),
        (false, _) if ctx.is_read() && !ctx.info.detached => Plan::Call,
        (false, BodyPlan::Stream) => Plan::Call,
        (false, BodyPlan::Buffer | BodyPlan::Tunnel) => Plan::Buffer(worker.shared.bounds.limits.body_max),
        (false, BodyPlan::BufferUpTo(body_max)) => Plan::Buffer(body_max),
    })
}

/// Sends what is left of the answer. The body's source belongs to the application, and may panic as a handler may.
pub(super) fn poll_send(ctx: &mut Context, cx: &mut task::Context<'_>) -> Poll<Result<(), Box<Refused>>> {
    let panicked = |_| Poll::Ready(Err(Refused::unanswered(ErrorCause::Panic)));
    catch_unwind(AssertUnwindSafe(|| ctx.poll_send(cx))).unwrap_or_else(panicked)
}

/// Reads what the handler left of the body, so that another request can follow it. A separate function, since few
/// handlers leave any.
#[inline(never)]
fn poll_drain(ctx: &mut Context, cx: &mut task::Context<'_>) -> Poll<()> {
    match ready!(ctx.poll_drain(cx)) {
        Ok(true) => {}
        Ok(false) => ctx.stop_persisting(),
        // The answer is good and must arrive, whatever is wrong with the part of the body that the handler did not
        // read.
        Err(error) => {
            let status = ctx.response.status;
            let is_refused = status.is_client_error() || status.is_server_error();
            // A peer that was refused should send no more (RFC 9112 §9.5).
            if !(is_refused && matches!(error, ExchangeError::Incomplete)) {
                ctx.report(None, error.into());
            }
            ctx.stop_persisting();
        }
    }
    Poll::Ready(())
}
