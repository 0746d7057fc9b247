//! [`HandlerOutcome`]: how a handler ended, and the response that follows from that or from a refusal (RFC 9110 §15.5,
//! §15.6).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::close::close;
use super::context_guard::{ContextGuard, drop_all_user_values};
use super::per_core::PerCore;
use crate::coding::ACCEPTED;
use crate::exchange::ExchangeError;
use crate::message::{BodyLength, FieldName, Status};
use crate::net::Conn;
use crate::server::context::UNRESERVED_MAX;
use crate::server::error::Failure;
use crate::server::exchange::{CloseMode, OnPending, ResponseContent};
use crate::server::handler::{RefusalOrigin, is_panic, is_time_over};
use crate::server::report::{ConnectionEnd, CutBy, HeadState, Unopened};
use crate::server::{Context, Error, ErrorCause, Handler, Result};
use crate::wire::parse::refused_line;

/// How a handler ended.
pub(super) enum HandlerOutcome {
    /// The handler was not called, since its [`BodyPlan`](crate::BodyPlan) refused the request.
    Refused(Status),
    Returned(Result),
    /// The response was over with its head, and the handler waited.
    DoneWithHead,
    Panicked,
    /// The body could not be received, the peer is gone, or the handler took longer than its time limit: an
    /// [`ExchangeError`].
    Failed(Error),
}

impl HandlerOutcome {
    /// Undoes the trip through middleware: an error that it has passed on unchanged is a refusal again.
    pub(super) fn of_refusal(self, origin: RefusalOrigin) -> HandlerOutcome {
        match (self, origin) {
            (HandlerOutcome::Returned(Err(error)), RefusalOrigin::Plan) if error.cause().is_none() => {
                HandlerOutcome::Refused(error.status())
            }
            (HandlerOutcome::Returned(Err(error)), RefusalOrigin::Body)
                if error.cause().is_some_and(|cause| cause.is::<ExchangeError>()) =>
            {
                HandlerOutcome::Failed(error)
            }
            (outcome, _) => outcome,
        }
    }

    /// Undoes what `confined` did: its error is a panic, or the end of the time limit, again.
    fn undo_confined(self) -> HandlerOutcome {
        match self {
            HandlerOutcome::Returned(Err(error)) if is_panic(&error) => HandlerOutcome::Panicked,
            HandlerOutcome::Returned(Err(error)) if is_time_over(&error) => HandlerOutcome::Failed(error),
            outcome => outcome,
        }
    }
}

/// Reports the failure of a handler whose peer can no longer be answered.
pub(super) fn report_failure(ctx: &mut Context, outcome: HandlerOutcome) {
    let cause = match outcome.undo_confined() {
        HandlerOutcome::Refused(_) | HandlerOutcome::Returned(Ok(())) | HandlerOutcome::DoneWithHead => {
            return;
        }
        HandlerOutcome::Returned(Err(error)) => ErrorCause::Handler(error),
        HandlerOutcome::Panicked => ErrorCause::Panic,
        HandlerOutcome::Failed(error) => match error.into_cause::<ExchangeError>() {
            Ok(failed) => failed.into(),
            Err(error) => ErrorCause::Handler(error),
        },
    };
    ctx.exchange.observe(|observation| observation.cut = Some(CutBy::from_cause(&cause)));
    ctx.exchange.report_error(&ctx.request, None, cause);
}

/// Turns the response that the handler left into one that can be sent, and writes its head to the write buffer; the body
/// too, if that is in memory and small.
#[inline]
pub(super) fn write_response(ctx: &mut Context, outcome: HandlerOutcome) -> Result<(), Box<Failure>> {
    let is_sendable = matches!(outcome, HandlerOutcome::Returned(Ok(())))
        && !ctx.response.status.is_informational()
        && !ctx.exchange.outgoing.has_begun();
    if is_sendable || set_outcome_response(ctx, outcome)? {
        let mut length = ctx.response.body.declared_length();
        let is_large = matches!(length, BodyLength::Known(len) if len > UNRESERVED_MAX as u64);
        if is_large && !ctx.exchange.info.request_info.is_head {
            reserve_or_refuse(ctx);
            length = ctx.response.body.declared_length();
        }
        ctx.exchange.begin_response(&ctx.response, length, ResponseContent::Body);
    }
    Ok(())
}

/// Reserves memory for a response that is not small, until the system has all of it to send. If there is none, the response is
/// freed, and the peer gets 503: one that waited for memory would hold what it waits for.
#[cold]
fn reserve_or_refuse(ctx: &mut Context) {
    // Content that is shared with others takes no memory here.
    if let Err(error) = ctx.reserve_response(ctx.response.body.memory_held()) {
        ctx.response.body.free_buffer();
        set_failure_response(ctx, Status::SERVICE_UNAVAILABLE, error.into());
    }
}

/// Sets the response that follows from this outcome. Returns whether it is still to be written. Not inlined, since most
/// handlers leave one that can be sent.
#[inline(never)]
fn set_outcome_response(ctx: &mut Context, outcome: HandlerOutcome) -> Result<bool, Box<Failure>> {
    ctx.exchange.conn.set_on_pending(OnPending::CancelIfGone);
    match (with_chosen_status(ctx, outcome.undo_confined()), ctx.exchange.outgoing.has_begun()) {
        (HandlerOutcome::Refused(status), _) => set_refusal_response(ctx, status),
        (HandlerOutcome::DoneWithHead, _) => return Ok(false),
        (HandlerOutcome::Returned(Ok(())), false) => check_status(ctx),
        (HandlerOutcome::Returned(Ok(())), true) if ctx.exchange.outgoing.is_finished_or_full() => {
            return Ok(false);
        }
        (HandlerOutcome::Returned(Ok(())), true) => return Err(ExchangeError::Unfinished.into()),
        (HandlerOutcome::Returned(Err(error)), false) if error.is_connection_lost() => {
            return Err(Failure::unanswered(ErrorCause::Handler(error)));
        }
        (HandlerOutcome::Returned(Err(error)), false) => set_error_response(ctx, error.before_response()),
        (HandlerOutcome::Returned(Err(error)), true) => {
            return Err(Failure::unanswered(ErrorCause::Handler(error)));
        }
        (HandlerOutcome::Panicked, _) => {
            return Err(Failure::new(Status::INTERNAL_SERVER_ERROR, ErrorCause::Panic));
        }
        (HandlerOutcome::Failed(error), _) => {
            let failed = error.into_cause::<ExchangeError>();
            return Err(
                failed.map_or_else(|error| Failure::unanswered(ErrorCause::Handler(error)), From::from)
            );
        }
    }
    Ok(true)
}

/// Chooses the status of an error. For errors of `impl Handler` types and middleware; those of functions got their status
/// in `handler::outcome`. The application's function may panic as a handler may.
fn with_chosen_status(ctx: &Context, outcome: HandlerOutcome) -> HandlerOutcome {
    let HandlerOutcome::Returned(Err(error)) = outcome else { return outcome };
    let statuses = &ctx.exchange.conn.core().error_responses.statuses;
    let chosen = catch_unwind(AssertUnwindSafe(|| statuses.choose_for(error)));
    chosen.map_or(HandlerOutcome::Panicked, |error| HandlerOutcome::Returned(Err(error)))
}

/// Sets the response to a request that the handler has refused by its head.
#[cold]
pub(super) fn set_refusal_response(ctx: &mut Context, status: Status) {
    set_failure_response(ctx, status, ErrorCause::Refused);
}

/// Sets the response to a handler's error. Fields that middleware has set stay, except those that describe content that
/// is not sent.
pub(super) fn set_error_response(ctx: &mut Context, error: Error) {
    if error.is_unknown_coding() {
        // The peer should learn which codings would have been accepted (RFC 9110 §15.5.16).
        ctx.response.headers.put(FieldName::new("accept-encoding"), ACCEPTED.as_bytes());
    }
    set_failure_response(ctx, error.status(), ErrorCause::Handler(error));
}

/// A status of 1xx is not final (RFC 9110 §15.2), so it is a mistake of the handler.
pub(super) fn check_status(ctx: &mut Context) {
    if ctx.response.status.is_informational() {
        set_error_response(ctx, Error::new(Status::INTERNAL_SERVER_ERROR, "a final status of 1xx"));
    }
}

/// Appends the response for a failure to the write buffer, unless part of another response has been sent. Returns how to
/// close, and how the connection ended.
#[cold]
pub(super) fn answer_failure(ctx: &mut Context, failure: Failure) -> (CloseMode, io::Result<()>) {
    let Failure { status, cause } = failure;
    let failed = match &cause {
        ErrorCause::Exchange(error) => Some(error),
        ErrorCause::Handler(error) => error.downcast_cause(),
        _ => None,
    };
    let result = failed.map_or_else(|| io::Error::other("the handler failed"), ExchangeError::as_io);
    let now = ctx.exchange.conn.core().clock.now();
    let head = ctx.exchange.info.head;
    let Context { exchange, request, .. } = ctx;
    let line = (head == HeadState::NoLine).then(|| {
        exchange.conn.bounds(|bounds| refused_line(exchange.incoming.borrow().input.unread(), &bounds.limits))
    });
    exchange.observe(|observation| {
        if head != HeadState::Accepted && !observation.is_open() {
            observation.begin_refused(now, request, head);
            if let Some((method, target)) = line.flatten() {
                observation.note_line(method, &target);
            }
        }
        observation.cut = Some(CutBy::from_cause(&cause));
    });
    drop_all_user_values(ctx);
    match status.filter(|_| !ctx.exchange.outgoing.has_begun()) {
        Some(status) => {
            // No read has refreshed the clock before a timeout, for example.
            ctx.exchange.conn.core().clock.refresh();
            ctx.exchange.stop_persisting();
            set_failure_response(ctx, status, cause);
            let length = ctx.response.body.declared_length();
            ctx.exchange.begin_response(&ctx.response, length, ResponseContent::Body);
            (CloseMode::Linger, Err(result))
        }
        None => {
            ctx.exchange.report_error(&ctx.request, None, cause);
            // An error after the end of a response must not take the response away.
            let is_whole = ctx.exchange.outgoing.is_finished_or_bodyless();
            (if is_whole { CloseMode::Linger } else { CloseMode::Reset }, Err(result))
        }
    }
}

/// Seconds until one of so many connections is likely to have closed, or given memory back.
const RETRY_AFTER: &[u8] = b"1";

/// Refuses a connection before its first request, and ends it.
pub(in crate::server) async fn refuse_connection<H: Handler + 'static>(
    per_core: &PerCore<H>,
    conn: Conn,
    failure: Box<Failure>,
) {
    let mut guard = ContextGuard::new(per_core, per_core.take_context());
    guard.exchange.attach(&mut Some(conn), 0);
    guard.exchange.info.connection_end = match failure.cause {
        ErrorCause::Connections(_) | ErrorCause::ConnectionsOfPeer(_) => {
            ConnectionEnd::Unopened(Unopened::Overload)
        }
        _ => ConnectionEnd::Unopened(Unopened::Handshake),
    };
    let (mode, _) = answer_failure(&mut guard, *failure);
    close(&mut guard, mode).await;
}

/// Sets the response to a failure, and reports the failure. A handler's bare status or problem is a response like any
/// other, and is not reported.
fn set_failure_response(ctx: &mut Context, status: Status, cause: ErrorCause) {
    if ctx.response.body.is_unbuffered() {
        // The content that the handler has left is the application's, and may panic when it is dropped.
        drop_all_user_values(ctx);
    }
    let Context { exchange, request, response, .. } = ctx;
    if cause.is_overload() {
        response.headers.put(FieldName::RETRY_AFTER, RETRY_AFTER);
    }
    let status = if status.is_informational() { Status::INTERNAL_SERVER_ERROR } else { status };
    let report = exchange.error_report(request, Some(status), cause);
    let written = exchange.conn.core().error_responses.write(&report, response);
    if !matches!(&report.cause, ErrorCause::Handler(error) if error.is_unreported()) {
        exchange.send_error_report(report);
    }
    if written.is_err() {
        exchange.report_error(request, Some(status), ErrorCause::Panic);
    }
}
