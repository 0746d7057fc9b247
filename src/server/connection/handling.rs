//! [`Handled`]: runs the handler, and makes of what it left an answer that can be sent.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{self, Poll};

use super::refuse;
use crate::exchange::{ExchangeError, Phase};
use crate::message::Status;
use crate::net::{Conn, Lane, Peer, Timer};
use crate::server::context::{SharedConn, Unread};
use crate::server::error::Refused;
use crate::server::shared::Shared;
use crate::server::worker::Worker;
use crate::server::{Context, Handler, RefusalCause, Result};

/// How a handler ended.
pub(super) enum Handled {
    Returned(Result),
    Panicked,
    TimedOut,
}

/// Runs the handler: its panics stay here, and so does it when its time is over.
///
/// It is made by its first poll, as in `async { worker.handler.handle(ctx).await }`: a plain function has run when it is
/// made, and may have panicked. Pinned by the caller it is also made where it stays; one that is large and moved there
/// would be written to memory of the task that nothing else touches.
pub(super) fn handle<H: Handler>(
    worker: &Worker<H>,
    conn: SharedConn,
    mut handling: Pin<&mut impl Future<Output = Result>>,
) -> impl Future<Output = Handled> {
    let shared = &*worker.shared;
    let timeouts = &shared.bounds.timeouts;
    let mut timer = timeouts.handler.map(|_| shared.watch.deadline(Peer::default()));
    poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))) {
        Err(_) => Poll::Ready(Handled::Panicked),
        Ok(Poll::Ready(result)) => Poll::Ready(Handled::Returned(result)),
        Ok(Poll::Pending) => {
            shared.clock.outdate();
            conn.borrow_mut().iter_mut().for_each(|conn| send_before(conn, shared, cx));
            let timed = timer.as_mut().zip(shared.bounds.timeouts.handler);
            let expired = timed.map(|(timer, limit)| timer.poll_expired(cx, Lane::Whole, limit));
            expired.unwrap_or(Poll::Pending).map(|()| Handled::TimedOut)
        }
    })
}

/// Sends the answers that came before, since nobody shall wait for a handler that waits. Whether they arrive, the next
/// write will tell.
fn send_before(conn: &mut Conn, shared: &Shared, cx: &mut task::Context<'_>) {
    if !conn.has_sent_all() {
        drop(conn.poll_flush(cx, shared.bounds.timeouts.write));
    }
    // An answer may be streamed for days.
    shared.count_traffic(conn);
}

/// Tells how the handler has failed, if it has, where nobody can be answered any more.
pub(super) fn report_failure(ctx: &Context, handled: Handled) {
    let cause = match handled {
        Handled::Returned(Ok(())) => return,
        Handled::Returned(Err(error)) => RefusalCause::Handler(error),
        Handled::Panicked => RefusalCause::Panic,
        Handled::TimedOut => ExchangeError::TimedOut(Phase::Handler).into(),
    };
    ctx.report(None, cause);
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
