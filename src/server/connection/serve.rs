//! [`run`]: does the job of a busy connection: its opening, or the requests that have arrived.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{self, Poll, ready};

use super::close::close;
use super::context_guard::{ContextGuard, drop_user_values};
use super::handler_outcome::{HandlerOutcome, answer_failure, report_failure, write_response};
use super::open::open;
use super::per_core::{Job, JobOutcome, PerCore};
use crate::exchange::{ExchangeError, Expectation, HeadOutcome};
use crate::message::{FieldName, Request, Status, Version};
use crate::runtime::{OwnWaits, boxed, yield_now};
use crate::server::error::Failure;
use crate::server::exchange::{CloseMode, Exchange, NextStep, OnPending, ReportedEnd, SharedConn};
use crate::server::handler::{HandlerTime, Refusal, time_over};
use crate::server::report::ConnectionEnd;
use crate::server::{BodyPlan, Context, ErrorCause, Handler, Result};

/// Does the job of a connection.
pub(super) async fn run<H: Handler + 'static>((per_core, job): (Rc<PerCore<H>>, Job)) -> JobOutcome {
    let context = match job {
        Job::Open(opening) => return boxed(|| open(per_core, *opening)).await,
        Job::Exchanges(context) => context,
    };
    let mut guard = ContextGuard::new(&per_core, context);
    let (mode, result) = match serve_exchanges(&per_core, &mut guard).await {
        Ok(NextStep::KeepAlive) => return JobOutcome::Idle(guard.into_inner()),
        Ok(NextStep::Close(mode)) => (mode, Ok(())),
        Err(failure) => answer_failure(&mut guard, *failure),
    };
    guard.exchange.note_connection_end(result.is_ok());
    close(&mut guard, mode).await;
    JobOutcome::Closed(result.map(|()| guard.exchange.upgraded.take()))
}

/// Serves requests as long as bytes of the next one have arrived.
async fn serve_exchanges<H: Handler + 'static>(
    per_core: &PerCore<H>,
    ctx: &mut Context,
) -> Result<NextStep, Box<Failure>> {
    let conn = ctx.exchange.conn.clone();
    let mut unflushed = 0;
    loop {
        match poll_fn(|cx| ctx.exchange.poll_head(cx, &mut ctx.request)).await? {
            outcome @ (HeadOutcome::Closed | HeadOutcome::Idle) => {
                return Ok(close_without_request(ctx, &outcome));
            }
            HeadOutcome::Complete => ctx.exchange.note_request(&ctx.request),
        }
        note_expectation(&mut ctx.exchange, &ctx.request)?;
        let mut action = decide_action(per_core, ctx)?;
        if let RequestAction::Buffer(body_max) = action
            && let Err(error) = poll_fn(|cx| ctx.exchange.poll_body(cx, &mut ctx.request, body_max)).await
        {
            action = refuse_body(ctx, error)?;
        }
        let outcome = match action {
            RequestAction::Refuse(status) => boxed(|| run_refusal(per_core, ctx, status)).await,
            _ if conn.left_before_handler() => HandlerOutcome::Failed(ExchangeError::PeerClosed.into()),
            RequestAction::Buffer(_) | RequestAction::Call => {
                ctx.exchange.note_handler();
                run_handler(&conn, pin!(async { per_core.handler.handle(ctx).await })).await
            }
        };
        if ctx.exchange.is_upgraded() {
            drop_user_values(ctx);
            report_failure(ctx, outcome);
            ctx.exchange.report_end(&ctx.request, ReportedEnd::AsNoted);
            return Ok(NextStep::Close(CloseMode::Now));
        }
        write_response(ctx, outcome)?;
        debug_assert!(ctx.exchange.outgoing.has_begun(), "a final response has begun");
        if !ctx.exchange.outgoing.is_finished() {
            poll_fn(|cx| poll_send(ctx, cx)).await?;
        }
        drop_user_values(ctx);
        if ctx.exchange.persists() && !ctx.exchange.is_end_stream() {
            poll_fn(|cx| poll_drain(ctx, cx)).await;
        }
        let next = ctx.exchange.next_step();
        let is_batch_over = next != NextStep::KeepAlive || !ctx.exchange.has_input();
        if is_batch_over || ctx.exchange.is_observed() {
            poll_fn(|cx| ctx.exchange.poll_flush(cx)).await?;
            ctx.exchange.report_end(&ctx.request, ReportedEnd::Whole);
        }
        if is_batch_over {
            return Ok(next);
        }
        unflushed += 1;
        if ctx.exchange.must_flush(unflushed) {
            poll_fn(|cx| ctx.exchange.poll_flush(cx)).await?;
            unflushed = 0;
            // A peer that pipelines endlessly must not keep the core to itself.
            yield_now().await;
        }
        ctx.begin_next();
    }
}

/// Notes why a connection that carries no exchange is closed.
#[cold]
#[inline(never)]
fn close_without_request(ctx: &mut Context, outcome: &HeadOutcome) -> NextStep {
    let is_late = matches!(outcome, HeadOutcome::Idle);
    ctx.exchange.info.connection_end = if is_late { ConnectionEnd::Idle } else { ConnectionEnd::Peer };
    NextStep::Close(CloseMode::Now)
}

/// Notes the expectation of the peer, which may wait for `100 Continue` (RFC 9110 §10.1.1).
#[inline]
pub(super) fn note_expectation(exchange: &mut Exchange, request: &Request) -> Result<(), Box<Failure>> {
    match request.headers.may_have(FieldName::EXPECT) {
        true => read_expectation(exchange, request),
        false => Ok(()),
    }
}

#[cold]
fn read_expectation(exchange: &mut Exchange, request: &Request) -> Result<(), Box<Failure>> {
    if exchange.info.request_info.version == Version::Http10 {
        return Ok(());
    }
    exchange.incoming.get_mut().expectation =
        Expectation::from_headers(&request.headers).map_err(ExchangeError::from)?;
    Ok(())
}

/// How a request is handled, decided by its head.
#[derive(Clone, Copy)]
pub(super) enum RequestAction {
    /// The handler is called.
    Call,
    /// The handler is called once the body has been buffered, up to so many bytes.
    Buffer(usize),
    /// The request is refused, without its handler. Its [`Refusal`] is noted, if there is more to it than this status.
    Refuse(Status),
}

/// Decides from the head of a request how it is handled.
pub(super) fn decide_action<H: Handler + 'static>(
    per_core: &PerCore<H>,
    ctx: &mut Context,
) -> Result<RequestAction, Box<Failure>> {
    let decided = catch_unwind(AssertUnwindSafe(|| per_core.handler.on_head(ctx)));
    let decided = decided.map_err(|_| Failure::new(Status::INTERNAL_SERVER_ERROR, ErrorCause::Panic))?;
    if ctx.is_core_behind()
        && let Err(late) = ctx.exchange.conn.check_delay()
        && !matches!(decided, BodyPlan::Refuse(_))
    {
        return Ok(RequestAction::Refuse(Refusal::of_queue(late).note(ctx)));
    }
    let exchange = &mut ctx.exchange;
    Ok(match (exchange.info.request_info.is_connect, decided) {
        (_, BodyPlan::Refuse(status)) => RequestAction::Refuse(status),
        (true, BodyPlan::Tunnel) => RequestAction::Call,
        // A handler that did not plan for a tunnel would answer 200, which opens one (RFC 9110 §9.3.6).
        (true, _) => RequestAction::Refuse(Refusal::unplanned(Status::NOT_IMPLEMENTED).note(ctx)),
        (false, _) if exchange.is_end_stream() && !exchange.info.is_captured => RequestAction::Call,
        (false, BodyPlan::Stream) => RequestAction::Call,
        (false, BodyPlan::Buffer | BodyPlan::Tunnel) => {
            RequestAction::Buffer(exchange.conn.bounds(|bounds| bounds.limits.body_max))
        }
        (false, BodyPlan::BufferUpTo(body_max)) => RequestAction::Buffer(body_max),
    })
}

/// Refuses a request whose body could not be received. A peer that is gone gets no answer.
#[cold]
pub(super) fn refuse_body(ctx: &mut Context, error: ExchangeError) -> Result<RequestAction, Box<Failure>> {
    if error.status().is_none() {
        return Err(error.into());
    }
    ctx.exchange.stop_persisting();
    // Middleware must not take a part of the body for the whole.
    ctx.request.body.clear();
    Ok(RequestAction::Refuse(Refusal::from(error).note(ctx)))
}

/// Passes a refusal through the middleware of its route, which may answer otherwise.
pub(super) async fn run_refusal<H: Handler + 'static>(
    per_core: &PerCore<H>,
    ctx: &mut Context,
    status: Status,
) -> HandlerOutcome {
    let conn = ctx.exchange.conn.clone();
    let refusal = Refusal::take(ctx, status);
    let origin = refusal.origin;
    ctx.exchange.note_handler();
    let outcome = run_handler(&conn, pin!(async { per_core.handler.refuse(ctx, refusal).await })).await;
    outcome.of_refusal(origin)
}

/// Sends what is left of the response. The body's source belongs to the application, and may panic as a handler may.
pub(super) fn poll_send(ctx: &mut Context, cx: &mut task::Context<'_>) -> Poll<Result<(), Box<Failure>>> {
    let panicked = |_| Poll::Ready(Err(Failure::unanswered(ErrorCause::Panic)));
    let Context { exchange, response, .. } = ctx;
    catch_unwind(AssertUnwindSafe(|| exchange.poll_send(cx, response))).unwrap_or_else(panicked)
}

/// Reads the part of the body that the handler left, so that another request can follow it. A separate function, since
/// few handlers leave any.
#[inline(never)]
fn poll_drain(ctx: &mut Context, cx: &mut task::Context<'_>) -> Poll<()> {
    let Context { exchange, request, response, .. } = ctx;
    match ready!(exchange.poll_drain(cx)) {
        Ok(true) => {}
        Ok(false) => exchange.stop_persisting(),
        // The response is good and must arrive, whatever is wrong with the part of the body that the handler did not
        // read.
        Err(error) => {
            let status = response.status;
            let is_refused = status.is_client_error() || status.is_server_error();
            // A peer that was refused should send no more (RFC 9112 §9.5).
            if !(is_refused && matches!(error, ExchangeError::Incomplete)) {
                exchange.report_error(request, None, error.into());
            }
            exchange.stop_persisting();
        }
    }
    Poll::Ready(())
}

/// Runs the handler, confining its panics and enforcing its time limit. Ends once the handler waits although its
/// response is over, or its peer is gone.
///
/// When the time is over, the handler is polled once more: the innermost `confined` drops what it runs, and returns the
/// error to its middleware. Without middleware there is no `confined`, and the handler ends here.
///
/// The handler's future must be created inside the first poll, as `async { per_core.handler.handle(ctx).await }` does:
/// a handler may do its work, and panic, when it creates its future. Since the caller pins it, the future is also
/// created where it stays, and a large one is not copied.
pub(super) fn run_handler(
    conn: &SharedConn,
    mut handling: Pin<&mut impl Future<Output = Result>>,
) -> impl Future<Output = HandlerOutcome> {
    let mut time = HandlerTime::default();
    // One place polls the handler, so the compiler can make its future a part of this one.
    poll_fn(move |cx| {
        loop {
            let own_waits = OwnWaits::so_far();
            let polled = catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx)));
            let ended_limit = time.take_ended();
            match polled {
                Err(_) => return Poll::Ready(HandlerOutcome::Panicked),
                Ok(Poll::Ready(result)) => return Poll::Ready(HandlerOutcome::Returned(result)),
                Ok(Poll::Pending) => {}
            }
            if let Some(end) = end_of_wait(conn, cx, own_waits) {
                return Poll::Ready(end);
            }
            if let Some(limit) = ended_limit {
                return Poll::Ready(HandlerOutcome::Returned(Err(time_over(limit))));
            }
            conn.flush_while_handler_waits(cx);
            conn.note_waiting();
            if let Err(late) = ready!(time.poll_time_over(cx, conn)) {
                return Poll::Ready(HandlerOutcome::Returned(Err(late)));
            }
        }
    })
}

/// The outcome of a handler that waits for nothing that could come: its response is over, or its peer is gone. `before` its
/// poll there were so many waits of this crate's own.
fn end_of_wait(conn: &SharedConn, cx: &mut task::Context<'_>, before: OwnWaits) -> Option<HandlerOutcome> {
    let gone = match conn.on_pending() {
        OnPending::Cancel => return Some(HandlerOutcome::DoneWithHead),
        OnPending::GoOn => return None,
        OnPending::CancelIfGone if before.have_grown() => conn.poll_reset(cx),
        OnPending::CancelIfGone => conn.poll_gone(cx),
    };
    match gone {
        Poll::Ready(gone) => Some(HandlerOutcome::Failed(gone.into())),
        Poll::Pending => None,
    }
}
