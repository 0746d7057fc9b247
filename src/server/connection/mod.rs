//! [`Connection`]: the life of one connection: wait, receive, handle, answer, and start over (RFC 9112 §9).

mod handling;
mod handshake;

mod close;
mod lease;
mod refuse;

mod detached;

use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::{self, Poll, ready};

pub(super) use detached::respond;
pub(super) use refuse::turn_away;

use self::close::{close, poll_idle};
use self::handling::{handle, report_failure, settle};
use self::lease::Lease;
use self::refuse::refuse;
use super::context::{Manner, Next, Vacated};
use super::error::Refused;
use super::worker::Worker;
use super::{BodyPlan, Context, Handler, RefusalCause, Result};
use crate::exchange::{ExchangeError, Expectation, Head};
use crate::message::{Name, Status, Version};
use crate::net::{Conn, Lane};
use crate::runtime;
use crate::wire::WireError;

/// One connection, as its task holds it. An idle connection holds all of this, so there is little of it.
pub(super) struct Connection<H: Handler> {
    worker: Rc<Worker<H>>,
    /// The connection, while it waits.
    idle: Option<Conn>,
    /// How many exchanges it has carried.
    number: u64,
}

impl<H: Handler> Connection<H> {
    pub(super) fn new(worker: Rc<Worker<H>>, conn: Conn) -> Connection<H> {
        Connection { worker, idle: Some(conn), number: 0 }
    }

    /// Serves until the connection closes, or is taken over: then returns the place that it left.
    ///
    /// # Errors
    ///
    /// What ended the connection early. The peer has already been told, if that was possible.
    pub(super) async fn serve(&mut self) -> io::Result<Option<Vacated>> {
        if let Some(acceptor) = &self.worker.shared.acceptor {
            // Boxed, or the task would keep for good what it needs only once.
            Box::pin(handshake::secure(&self.worker, acceptor, &mut self.idle)).await?;
        }
        loop {
            let Some(context) = poll_fn(|cx| self.poll_wake(cx)).await else {
                self.idle.iter_mut().for_each(|conn| conn.transport.say_end());
                return Ok(None);
            };
            let mut lease = Lease::new(&self.worker, context);
            lease.adopt(self.idle.take(), self.number);
            let (manner, served) = match exchanges(&self.worker, &mut lease).await {
                Ok(Next::Wait) => {
                    (self.idle, self.number) = lease.release();
                    continue;
                }
                Ok(Next::Close(manner)) => (manner, Ok(())),
                Err(refused) => refuse(&mut lease, *refused),
            };
            close(&mut lease, manner).await;
            return served.map(|()| lease.vacated.take());
        }
    }

    /// Waits for the first bytes of a request, holding no memory meanwhile. `None` if the connection is over.
    fn poll_wake(&mut self, cx: &mut task::Context<'_>) -> Poll<Option<Box<Context>>> {
        let Connection { worker, idle: Some(conn), number } = self else { return Poll::Ready(None) };
        let timeouts = &worker.shared.bounds.timeouts;
        let limit = if *number == 0 { timeouts.head } else { timeouts.idle };
        // A connection that is polled again was woken, most likely by arriving bytes; reading tells.
        if !conn.is_waiting(Lane::Read) && matches!(conn.transport.poll_read_ready(cx), Some(Poll::Pending)) {
            return match conn.poll_expired(cx, Lane::Read, limit) {
                Poll::Ready(_) => Poll::Ready(None),
                Poll::Pending => poll_idle(conn, *number, cx).map(|()| None),
            };
        }
        // A transport that cannot tell whether it is readable also ends up here: it has to be read to know, and borrows
        // a context for that.
        let mut context = worker.take_context();
        context.swap_workspace(conn);
        let filled = conn.poll_fill(cx, &mut context.incoming.get_mut().input, limit);
        if let Poll::Ready(Ok(1..)) = filled {
            worker.shared.clock.refresh();
            conn.disarm(Lane::Whole);
            if *number > 0 {
                conn.disarm(Lane::Read);
            }
            return Poll::Ready(Some(context));
        }
        context.swap_workspace(conn);
        worker.give_context(context);
        match filled {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => poll_idle(conn, *number, cx).map(|()| None),
        }
    }
}

/// Answers requests until no bytes of a further one have arrived.
///
/// Whatever is awaited here takes up room in the task of idle connections too. So what can be is polled instead, with
/// its state in the context.
#[expect(
    clippy::manual_async_fn,
    reason = "the future of an async function has room for its arguments twice"
)]
fn exchanges<H: Handler>(
    worker: &Worker<H>,
    ctx: &mut Context,
) -> impl Future<Output = Result<Next, Box<Refused>>> {
    async move {
        let mut unsent = 0;
        loop {
            match poll_fn(|cx| ctx.poll_head(cx)).await? {
                Head::End | Head::Silence => return Ok(Next::Close(Manner::AtOnce)),
                Head::Whole => ctx.note_facts(),
            }
            note_expectation(ctx)?;
            if let Some(body_max) = plan_body(worker, ctx)? {
                poll_fn(|cx| ctx.poll_body(cx, body_max)).await?;
            }
            let conn = ctx.conn.clone();
            let handled = handle(worker, conn, pin!(async { worker.handler.handle(ctx).await })).await;
            if ctx.conn.borrow().is_none() {
                ctx.drop_values();
                report_failure(ctx, handled);
                return Ok(Next::Close(Manner::AtOnce));
            }
            settle(ctx, handled)?;
            if !ctx.copy_body() {
                poll_fn(|cx| poll_send(ctx, cx)).await?;
            }
            ctx.drop_values();
            if ctx.persists() && !ctx.is_read() {
                poll_fn(|cx| poll_drain(ctx, cx)).await;
            }
            // A handler that read exactly as much as there was still has its last piece on loan; an idle connection
            // must not.
            ctx.incoming.get_mut().take_back();
            unsent += 1;
            let (next, is_capped) = (ctx.next_step(), ctx.is_capped(unsent));
            let is_idle = next != Next::Wait || ctx.incoming.get_mut().input.is_empty();
            if is_idle || is_capped {
                poll_fn(|cx| ctx.poll_flush(cx)).await?;
                unsent = 0;
            }
            if is_idle {
                return Ok(next);
            }
            ctx.forget_exchange();
            if is_capped {
                // A peer that pipelines endlessly must not keep the core to itself.
                runtime::yield_now().await;
            }
        }
    }
}

/// Notes what the peer expects before it sends its body (RFC 9110 §10.1.1).
#[inline]
fn note_expectation(ctx: &mut Context) -> Result<(), Box<Refused>> {
    match ctx.request.headers.may_have(Name::EXPECT) {
        true => read_expectation(ctx),
        false => Ok(()),
    }
}

#[cold]
fn read_expectation(ctx: &mut Context) -> Result<(), Box<Refused>> {
    let headers = &ctx.request.headers;
    if headers.first(Name::EXPECT).is_none() || ctx.facts.asked.version == Version::Http10 {
        return Ok(());
    }
    if !headers.named(Name::EXPECT).all(|expected| expected.eq_ignore_ascii_case(b"100-continue")) {
        return Err(ExchangeError::Wire(WireError::Expectation).into());
    }
    let incoming = ctx.incoming.get_mut();
    if !incoming.is_read() {
        incoming.expectation = Expectation::Continue;
    }
    Ok(())
}

/// Lets the handler decide by the head what becomes of the body. Returns up to how many bytes it is buffered first, if
/// it is to be.
fn plan_body<H: Handler>(worker: &Worker<H>, ctx: &mut Context) -> Result<Option<usize>, Box<Refused>> {
    let planned = catch_unwind(AssertUnwindSafe(|| worker.handler.on_head(&ctx.request)));
    let plan = planned.map_err(|_| Refused::new(Status::INTERNAL_SERVER_ERROR, RefusalCause::Panic))?;
    match (ctx.facts.asked.connect, plan) {
        (_, BodyPlan::Refuse(status)) => Err(Refused::new(status, RefusalCause::Plan)),
        (true, BodyPlan::Tunnel) => Ok(None),
        // A handler that did not plan for a tunnel would answer 200, which opens one (RFC 9110 §9.3.6).
        (true, _) => Err(Refused::new(Status::NOT_IMPLEMENTED, RefusalCause::Plan)),
        (false, _) if ctx.is_read() && !ctx.facts.detached => Ok(None),
        (false, BodyPlan::Stream) => Ok(None),
        (false, BodyPlan::Buffer | BodyPlan::Tunnel) => Ok(Some(worker.shared.bounds.limits.body_max)),
        (false, BodyPlan::BufferUpTo(body_max)) => Ok(Some(body_max)),
    }
}

/// Sends what is left of the answer. The body's source belongs to the application, and may panic as a handler may.
fn poll_send(ctx: &mut Context, cx: &mut task::Context<'_>) -> Poll<Result<(), Box<Refused>>> {
    let panicked = |_| Poll::Ready(Err(Refused::untold(RefusalCause::Panic)));
    catch_unwind(AssertUnwindSafe(|| ctx.poll_send(cx))).unwrap_or_else(panicked)
}

/// Reads what the handler left of the body, so that another request can follow it.
fn poll_drain(ctx: &mut Context, cx: &mut task::Context<'_>) -> Poll<()> {
    match ready!(ctx.poll_drain(cx)) {
        Ok(true) => {}
        Ok(false) => ctx.stop_persisting(),
        // The answer is good and must arrive, whatever is wrong with the part of the body that the handler did not
        // read.
        Err(error) => {
            ctx.report(None, error.into());
            ctx.stop_persisting();
        }
    }
    Poll::Ready(())
}
