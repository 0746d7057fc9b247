//! The life of one connection: wait, receive, handle, answer, and again (RFC 9112 §9).

use std::future::poll_fn;
use std::io;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{self, Poll, ready};
use std::time::Duration;

use super::close::{self, Manner};
use super::refuse::{self, Refused};
use super::shared::Shared;
use super::worker::Worker;
use super::{BodyPlan, Cause, Context, Handler, Result};
use crate::exchange::{ExchangeError, Expectation, Head, Phase};
use crate::message::{Name, Status, Version};
use crate::net::{Conn, Lane};
use crate::runtime;
use crate::wire::WireError;

/// Serves a connection until it closes or is taken over.
///
/// # Errors
///
/// What ended it early. The peer has been told already, if it could be.
pub(super) async fn serve<H: Handler>(
    worker: &Worker<H>,
    idle: &mut Option<Conn>,
    id: u64,
) -> io::Result<()> {
    let mut number = 0;
    loop {
        let Some(context) = poll_fn(|cx| poll_wake(worker, idle, number, cx)).await else {
            return Ok(());
        };
        let mut ctx = Lease { worker, context: Some(context) };
        ctx.adopt(idle.take(), id, number);
        let (manner, served) = match exchanges(worker, &mut ctx).await {
            Ok(Next::Wait) => {
                (*idle, number) = ctx.release();
                continue;
            }
            Ok(Next::Close(manner)) => (manner, Ok(())),
            Err(refused) => refuse::refuse(&mut ctx, *refused),
        };
        close::close(&mut ctx, manner).await;
        return served;
    }
}

/// What becomes of a connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another request may come.
    Wait,
    Close(Manner),
}

/// Waits for the first bytes of a request, and holds no memory meanwhile but the connection's own. None: it is over.
fn poll_wake<H: Handler>(
    worker: &Worker<H>,
    idle: &mut Option<Conn>,
    number: u64,
    cx: &mut task::Context<'_>,
) -> Poll<Option<Box<Context>>> {
    let Some(conn) = idle else { return Poll::Ready(None) };
    let timeouts = &worker.shared.bounds.timeouts;
    let limit = if number == 0 { timeouts.head } else { timeouts.idle };
    if let Some(Poll::Pending) = conn.transport.poll_read_ready(cx) {
        return match conn.poll_expired(cx, Lane::Read, limit) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => poll_idle(conn, number, cx).map(|()| None),
        };
    }
    // A transport that cannot tell whether it is readable must be read to know: a context is lent for that.
    let mut context = worker.take_context();
    context.swap_desk(conn);
    let filled = conn.poll_fill(cx, &mut context.incoming.get_mut().input, limit);
    if let Poll::Ready(Ok(1..)) = filled {
        worker.shared.clock.refresh();
        conn.disarm(Lane::Handler);
        if number > 0 {
            conn.disarm(Lane::Read);
        }
        return Poll::Ready(Some(context));
    }
    context.swap_desk(conn);
    worker.give_context(context);
    match filled {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => poll_idle(conn, number, cx).map(|()| None),
    }
}

/// Ready when an idle connection is in the way of a stop. One that is new may have a request on its way.
fn poll_idle(conn: &mut Conn, number: u64, cx: &mut task::Context<'_>) -> Poll<()> {
    match (conn.is_stopping(), number) {
        (false, _) => Poll::Pending,
        (true, 0) => conn.poll_expired(cx, Lane::Handler, NEWCOMER_GRACE).map(drop),
        (true, _) => Poll::Ready(()),
    }
}

/// How long a connection without a request yet may hold up a stop.
const NEWCOMER_GRACE: Duration = Duration::from_secs(1);

/// Answers requests until no more of one is here.
///
/// What is awaited here lies in the task of an idle connection too, so whatever can be is polled instead, with its
/// state in the context.
async fn exchanges<H: Handler>(worker: &Worker<H>, ctx: &mut Context) -> Result<Next, Box<Refused>> {
    let mut unsent = 0;
    loop {
        match poll_fn(|cx| ctx.poll_head(cx)).await? {
            Head::End => return Ok(Next::Close(Manner::Politely)),
            Head::Whole => ctx.begin(),
        }
        worker.shared.stats.requests.add(1);
        let body_max = match plan(worker, ctx)? {
            BodyPlan::Refuse(status) => return Err(Refused::new(status, Cause::Plan)),
            BodyPlan::Buffer | BodyPlan::Tunnel => Some(worker.shared.bounds.limits.body_max),
            BodyPlan::BufferUpTo(body_max) => Some(body_max),
            BodyPlan::Stream => None,
        };
        if let (Some(body_max), false) = (body_max, ctx.is_read()) {
            poll_fn(|cx| ctx.poll_body(cx, body_max)).await?;
        }
        let outcome = handle(worker, ctx).await;
        if ctx.conn.get_mut().is_none() {
            return Ok(Next::Close(Manner::AtOnce));
        }
        settle(ctx, outcome)?;
        poll_fn(|cx| ctx.poll_answer(cx)).await?;
        poll_fn(|cx| poll_drain(ctx, cx)).await;
        let next = ctx.next_step();
        unsent += 1;
        let is_idle = next != Next::Wait || ctx.incoming.get_mut().input.is_empty();
        let is_capped = ctx.is_capped(unsent);
        if is_idle || is_capped {
            poll_fn(|cx| ctx.poll_flush(cx)).await?;
            unsent = 0;
        }
        if is_idle {
            return Ok(next);
        }
        ctx.next();
        if is_capped {
            // A peer that pipelines for ever shall not keep the core for itself.
            runtime::yield_now().await;
        }
    }
}

/// Decides by the head what becomes of the body.
fn plan<H: Handler>(worker: &Worker<H>, ctx: &mut Context) -> Result<BodyPlan, Box<Refused>> {
    let asked = ctx.asked();
    let headers = &ctx.request.headers;
    if headers.may_have(Name::EXPECT) && asked.version == Version::Http11 {
        let expects_continue = |value: &[u8]| value.eq_ignore_ascii_case(b"100-continue");
        if !headers.named(Name::EXPECT).all(expects_continue) {
            return Err(ExchangeError::Wire(WireError::Expectation).into());
        }
        let incoming = ctx.incoming.get_mut();
        if !incoming.is_read() {
            incoming.expectation = Expectation::Continue;
        }
    }
    match (asked.connect, catch_unwind(AssertUnwindSafe(|| worker.handler.on_head(&ctx.request)))) {
        (_, Err(_)) => Err(Refused::new(Status::INTERNAL_SERVER_ERROR, Cause::Panic)),
        // Whoever did not plan for a tunnel would answer as if it were one (RFC 9110 §9.3.6).
        (true, Ok(BodyPlan::Tunnel)) => Ok(BodyPlan::Stream),
        (true, Ok(BodyPlan::Refuse(status))) => Ok(BodyPlan::Refuse(status)),
        (true, Ok(_)) => Ok(BodyPlan::Refuse(Status::NOT_IMPLEMENTED)),
        (false, Ok(plan)) => Ok(plan),
    }
}

/// How a handler ended.
pub(super) enum Outcome {
    Done(Result),
    Panicked,
    TimedOut,
}

/// Runs the handler: its panics stay here, and so does it when its time is over.
pub(super) async fn handle<H: Handler>(worker: &Worker<H>, ctx: &mut Context) -> Outcome {
    let Shared { watch, bounds, .. } = &*worker.shared;
    let timer = bounds.timeouts.handler.map(|_| watch.deadline());
    let mut handling = pin!(async { worker.handler.handle(ctx).await });
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))) {
        Err(_) => Poll::Ready(Outcome::Panicked),
        Ok(Poll::Ready(result)) => Poll::Ready(Outcome::Done(result)),
        Ok(Poll::Pending) => match (&timer, bounds.timeouts.handler) {
            (Some(timer), Some(limit)) => {
                timer.poll_expired(cx, Lane::Handler, limit).map(|()| Outcome::TimedOut)
            }
            _ => Poll::Pending,
        },
    })
    .await
}

/// Makes of what the handler left an answer that can be sent.
pub(super) fn settle(ctx: &mut Context, outcome: Outcome) -> Result<(), Box<Refused>> {
    match (outcome, ctx.outgoing.is_unsent()) {
        (Outcome::Done(Ok(())), true) => refuse::check_status(ctx),
        (Outcome::Done(Ok(())), false) if ctx.outgoing.is_whole() => return Ok(()),
        (Outcome::Done(Ok(())), false) => return Err(ExchangeError::Length.into()),
        (Outcome::Done(Err(error)), true) => refuse::answer_error(ctx, error),
        (Outcome::Done(Err(error)), false) => return Err(Refused::untold(Cause::Handler(error))),
        (Outcome::Panicked, _) => {
            return Err(Refused::new(Status::INTERNAL_SERVER_ERROR, Cause::Panic));
        }
        (Outcome::TimedOut, _) => return Err(ExchangeError::TimedOut(Phase::Handler).into()),
    }
    ctx.write_head(ctx.response.body.announced());
    Ok(())
}

/// Reads what the handler left of the body, if another request is to follow it.
fn poll_drain(ctx: &mut Context, cx: &mut task::Context<'_>) -> Poll<()> {
    if !ctx.persists() || ctx.is_read() {
        return Poll::Ready(());
    }
    match ready!(ctx.poll_drain(cx)) {
        Ok(true) => {}
        Ok(false) => ctx.close(),
        // The answer is good and shall arrive, whatever is wrong with what the handler did not read.
        Err(error) => {
            refuse::say_no(ctx, error.into());
            ctx.close();
        }
    }
    Poll::Ready(())
}

/// A context that goes back to its free list, whatever becomes of the task that has it.
struct Lease<'w, H: Handler> {
    worker: &'w Worker<H>,
    context: Option<Box<Context>>,
}

impl<H: Handler> Deref for Lease<'_, H> {
    type Target = Context;

    fn deref(&self) -> &Context {
        self.context.as_deref().expect("a lease has its context until it is dropped")
    }
}

impl<H: Handler> DerefMut for Lease<'_, H> {
    fn deref_mut(&mut self) -> &mut Context {
        self.context.as_deref_mut().expect("a lease has its context until it is dropped")
    }
}

impl<H: Handler> Drop for Lease<'_, H> {
    fn drop(&mut self) {
        let Some(mut context) = self.context.take() else { return };
        let Context { outgoing, conn, .. } = &mut *context;
        if let (false, false, Some(conn)) = (outgoing.is_unsent(), outgoing.is_whole(), conn.get_mut()) {
            // Whoever was cut off in the middle of an answer shall not take it for the whole.
            conn.transport.reset();
        }
        self.worker.give_context(context);
    }
}
