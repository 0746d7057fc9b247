//! [`HandlerOutcome`]: runs the handler, and turns what it left into an answer that can be sent.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{self, Poll};
use std::time::Duration;

use super::refuse;
use crate::exchange::{ExchangeError, Phase};
use crate::message::Status;
use crate::net::{Conn, Peer, Timer, TimerSlot};
use crate::server::context::{SharedConn, UnreadBody};
use crate::server::core_state::CoreState;
use crate::server::error_report::Refused;
use crate::server::worker::Worker;
use crate::server::{Context, ErrorCause, Handler, Result};

/// What a handler did with a request.
pub(super) enum HandlerOutcome {
    /// It was not called, since it had refused the request by its head.
    Refused(Status),
    Returned(Result),
    Panicked,
    /// It took longer than this.
    TimedOut(Duration),
}

/// Runs the handler, confining its panics and enforcing its time limit.
///
/// The handler's future must be created inside the first poll, as `async { worker.handler.handle(ctx).await }` does: a
/// handler may do its work, and panic, when it creates its future. Since the caller pins it, the future is also created
/// where it stays, and a large one is not copied.
pub(super) fn run_handler<H: Handler>(
    worker: &Worker<H>,
    conn: &SharedConn,
    mut handling: Pin<&mut impl Future<Output = Result>>,
) -> impl Future<Output = HandlerOutcome> {
    let shared = &*worker.shared;
    let mut timer = None;
    poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))) {
        Err(_) => Poll::Ready(HandlerOutcome::Panicked),
        Ok(Poll::Ready(result)) => Poll::Ready(HandlerOutcome::Returned(result)),
        Ok(Poll::Pending) => {
            conn.borrow_mut().iter_mut().for_each(|conn| send_before(conn, shared, cx));
            let Some(limit) = shared.bounds.timeouts.handler else { return Poll::Pending };
            let timer = timer.get_or_insert_with(|| shared.deadlines.timer(Peer::default()));
            timer.poll_expired(cx, TimerSlot::Total, limit).map(|()| HandlerOutcome::TimedOut(limit))
        }
    })
}

/// Sends earlier answers, which must not wait for a handler that waits. If that fails, the next write reports it.
fn send_before(conn: &mut Conn, shared: &CoreState, cx: &mut task::Context<'_>) {
    if !conn.has_sent_all() {
        drop(conn.poll_flush(cx, shared.bounds.timeouts.write));
    }
    // Counted now, since an answer may be streamed for days.
    shared.count_traffic(conn);
}

/// Reports how the handler failed, if it did, where the peer can no longer be answered.
pub(super) fn report_failure(ctx: &mut Context, outcome: HandlerOutcome) {
    let cause = match outcome {
        HandlerOutcome::Refused(_) | HandlerOutcome::Returned(Ok(())) => return,
        HandlerOutcome::Returned(Err(error)) => ErrorCause::Handler(error),
        HandlerOutcome::Panicked => ErrorCause::Panic,
        HandlerOutcome::TimedOut(limit) => ExchangeError::TimedOut(Phase::Handler, limit.into()).into(),
    };
    ctx.report(None, cause);
}

/// Turns what the handler left into an answer that can be sent.
#[inline]
pub(super) fn finalize_response(ctx: &mut Context, outcome: HandlerOutcome) -> Result<(), Box<Refused>> {
    match (outcome, ctx.outgoing.is_unsent()) {
        (HandlerOutcome::Refused(status), _) => refuse::answer_plan(ctx, status),
        (HandlerOutcome::Returned(Ok(())), true) => refuse::check_status(ctx),
        (HandlerOutcome::Returned(Ok(())), false) if ctx.outgoing.is_whole() => return Ok(()),
        (HandlerOutcome::Returned(Ok(())), false) => return Err(ExchangeError::Unfinished.into()),
        (HandlerOutcome::Returned(Err(error)), true) if error.is_connection_lost() => {
            return Err(Refused::unanswered(ErrorCause::Handler(error)));
        }
        (HandlerOutcome::Returned(Err(error)), true) => refuse::answer_error(ctx, error),
        (HandlerOutcome::Returned(Err(error)), false) => {
            return Err(Refused::unanswered(ErrorCause::Handler(error)));
        }
        (HandlerOutcome::Panicked, _) => {
            return Err(Refused::new(Status::INTERNAL_SERVER_ERROR, ErrorCause::Panic));
        }
        (HandlerOutcome::TimedOut(limit), _) => {
            return Err(ExchangeError::TimedOut(Phase::Handler, limit.into()).into());
        }
    }
    ctx.write_head(ctx.response.body.declared_length(), UnreadBody::Discard);
    Ok(())
}
