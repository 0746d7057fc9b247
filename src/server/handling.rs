//! [`Handled`]: runs the handler, and makes of what it left an answer that can be sent.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{self, Poll};

use super::context::{SharedConn, Unread};
use super::refuse::{self, Refused};
use super::worker::Worker;
use super::{Context, Handler, RefusalCause, Result};
use crate::exchange::{ExchangeError, Phase, Timeouts};
use crate::message::Status;
use crate::net::{Lane, Peer, Timer};

/// How a handler ended.
pub(super) enum Handled {
    Returned(Result),
    Panicked,
    TimedOut,
}

/// Runs the handler: its panics stay here, and so does it when its time is over.
#[expect(
    clippy::manual_async_fn,
    reason = "the future of an async function has room for its arguments twice"
)]
pub(super) fn handle<H: Handler>(worker: &Worker<H>, ctx: &mut Context) -> impl Future<Output = Handled> {
    async move {
        let conn = ctx.conn.clone();
        let mut timer =
            worker.shared.bounds.timeouts.handler.map(|_| worker.shared.watch.deadline(Peer::default()));
        // To make the future may panic too: a plain function has run by then.
        let make = move || {
            let ctx = ctx;
            worker.handler.handle(ctx)
        };
        let Ok(handling) = catch_unwind(AssertUnwindSafe(make)) else { return Handled::Panicked };
        let mut handling = pin!(handling);
        poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))) {
            Err(_) => Poll::Ready(Handled::Panicked),
            Ok(Poll::Ready(result)) => Poll::Ready(Handled::Returned(result)),
            Ok(Poll::Pending) => {
                send_before(&conn, &worker.shared.bounds.timeouts, cx);
                let timed = timer.as_mut().zip(worker.shared.bounds.timeouts.handler);
                let expired = timed.map(|(timer, limit)| timer.poll_expired(cx, Lane::Whole, limit));
                expired.unwrap_or(Poll::Pending).map(|()| Handled::TimedOut)
            }
        })
        .await
    }
}

/// Sends the answers that came before, since nobody shall wait for a handler that waits. Whether they arrive, the next
/// write will tell.
fn send_before(conn: &SharedConn, timeouts: &Timeouts, cx: &mut task::Context<'_>) {
    match conn.borrow_mut().as_mut() {
        Some(conn) if !conn.has_sent_all() => drop(conn.poll_flush(cx, timeouts.write)),
        Some(_) | None => {}
    }
}

/// Makes of what the handler left an answer that can be sent.
#[inline]
pub(super) fn settle(ctx: &mut Context, handled: Handled) -> Result<(), Box<Refused>> {
    match (handled, ctx.outgoing.is_unsent()) {
        (Handled::Returned(Ok(())), true) => refuse::check_status(ctx),
        (Handled::Returned(Ok(())), false) if ctx.outgoing.is_whole() => return Ok(()),
        (Handled::Returned(Ok(())), false) => return Err(ExchangeError::Length.into()),
        (Handled::Returned(Err(error)), true) => refuse::answer_error(ctx, error),
        (Handled::Returned(Err(error)), false) => return Err(Refused::untold(RefusalCause::Handler(error))),
        (Handled::Panicked, _) => {
            return Err(Refused::new(Status::INTERNAL_SERVER_ERROR, RefusalCause::Panic));
        }
        (Handled::TimedOut, _) => return Err(ExchangeError::TimedOut(Phase::Handler).into()),
    }
    ctx.write_head(ctx.response.body.announced(), Unread::Dropped);
    Ok(())
}
