//! The life of one connection: wait, receive, handle, answer, and again (RFC 9112 §9).

use std::future::poll_fn;
use std::io;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{self, Poll};
use std::time::Duration;

use super::close::{self, Manner};
use super::refuse::{self, Refused};
use super::shared::Shared;
use super::worker::Worker;
use super::{BodyPlan, Cause, Context, Handler, Result};
use crate::exchange::{ExchangeError, Expectation, Head, Phase};
use crate::message::{Name, Response, Status, Version};
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
        match exchanges(worker, &mut ctx).await {
            Ok(Next::Wait) => (*idle, number) = ctx.release(),
            Ok(Next::Close(manner)) => {
                close::close(&mut ctx, manner).await;
                return Ok(());
            }
            Err(refused) => return refuse::refuse(&mut ctx, refused).await,
        }
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
    let filled = conn.poll_fill(cx, &mut context.incoming.get_mut().input, limit);
    if let Poll::Ready(Ok(1..)) = filled {
        worker.shared.clock.refresh();
        conn.disarm(Lane::Handler);
        if number > 0 {
            conn.disarm(Lane::Read);
        }
        return Poll::Ready(Some(context));
    }
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
async fn exchanges<H: Handler>(worker: &Worker<H>, ctx: &mut Context) -> Result<Next, Box<Refused>> {
    let limits = &worker.shared.bounds.limits;
    let mut unsent = 0;
    loop {
        let next = exchange(worker, ctx).await?;
        let waiting = ctx.conn.get_mut().as_ref().map_or(0, |conn| conn.output.len());
        unsent += 1;
        let is_capped = unsent >= limits.pipeline_answers_max || waiting >= limits.pipeline_bytes_max;
        let is_idle = ctx.incoming.get_mut().input.is_empty();
        if next != Next::Wait || is_idle || is_capped {
            flush(ctx).await?;
            unsent = 0;
        }
        if next != Next::Wait || is_idle {
            return Ok(next);
        }
        ctx.next();
        if is_capped {
            // A peer that pipelines for ever shall not keep the core for itself.
            runtime::yield_now().await;
        }
    }
}

/// Receives one request and answers it.
async fn exchange<H: Handler>(worker: &Worker<H>, ctx: &mut Context) -> Result<Next, Box<Refused>> {
    match poll_fn(|cx| poll_head(ctx, cx)).await? {
        Head::End => return Ok(Next::Close(Manner::Politely)),
        Head::Whole => ctx.begin(),
    }
    worker.shared.stats.requests.add(1);
    match plan(worker, ctx)? {
        BodyPlan::Refuse(status) => return Err(Refused::new(status, Cause::Plan)),
        _ if ctx.incoming.get_mut().is_read() => {}
        BodyPlan::Stream => {}
        BodyPlan::Buffer | BodyPlan::Tunnel => ctx.receive_body(worker.shared.bounds.limits.body_max).await?,
        BodyPlan::BufferUpTo(body_max) => ctx.receive_body(body_max).await?,
    }
    let outcome = handle(worker, ctx).await;
    if ctx.conn.get_mut().is_none() {
        return Ok(Next::Close(Manner::AtOnce));
    }
    settle(ctx, outcome).await
}

fn poll_head(ctx: &mut Context, cx: &mut task::Context<'_>) -> Poll<Result<Head, ExchangeError>> {
    let Context { request, incoming, conn, shared, .. } = ctx;
    match conn.get_mut() {
        Some(conn) => incoming.get_mut().poll_head(cx, conn, request, &shared.bounds, &shared.clock),
        None => Poll::Ready(Ok(Head::End)),
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
    let limit = bounds.timeouts.handler.map(|limit| (watch.deadline(), limit));
    let mut handling = pin!(async { worker.handler.handle(ctx).await });
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx))) {
        Err(_) => Poll::Ready(Outcome::Panicked),
        Ok(Poll::Ready(result)) => Poll::Ready(Outcome::Done(result)),
        Ok(Poll::Pending) => match &limit {
            Some((deadline, limit)) => {
                deadline.poll_expired(cx, Lane::Handler, *limit).map(|()| Outcome::TimedOut)
            }
            None => Poll::Pending,
        },
    })
    .await
}

/// Sends what the handler left to be sent.
pub(super) async fn settle(ctx: &mut Context, outcome: Outcome) -> Result<Next, Box<Refused>> {
    match outcome {
        Outcome::Done(Ok(())) if ctx.outgoing.is_unsent() => refuse::check_status(ctx),
        Outcome::Done(Ok(())) if ctx.outgoing.is_whole() => {}
        Outcome::Done(Ok(())) => return Err(ExchangeError::Length.into()),
        Outcome::Done(Err(error)) if ctx.outgoing.is_unsent() => refuse::answer_error(ctx, error),
        Outcome::Done(Err(error)) => return Err(Refused::untold(Cause::Handler(error))),
        Outcome::Panicked => {
            return Err(Refused::new(Status::INTERNAL_SERVER_ERROR, Cause::Panic));
        }
        Outcome::TimedOut => return Err(ExchangeError::TimedOut(Phase::Handler).into()),
    }
    if ctx.outgoing.is_unsent() {
        answer(ctx).await?;
    }
    if ctx.persists() {
        match drain(ctx).await {
            Ok(true) => {}
            Ok(false) => ctx.close(),
            // The answer is good and shall arrive, whatever is wrong with what the handler did not read.
            Err(error) => {
                refuse::say_no(ctx, error.into());
                ctx.close();
            }
        }
    }
    Ok(match (ctx.persists(), ctx.may_hear_more()) {
        (true, _) => Next::Wait,
        (false, true) => Next::Close(Manner::Lingering),
        (false, false) => Next::Close(Manner::Politely),
    })
}

/// Sends `ctx.response`.
#[inline]
pub(super) async fn answer(ctx: &mut Context) -> Result<(), ExchangeError> {
    ctx.write_head(ctx.response.body.announced());
    let Context { response, outgoing, conn, shared, .. } = ctx;
    let Some(conn) = conn.get_mut() else { return Ok(()) };
    let Response { body, trailers, .. } = response;
    poll_fn(|cx| outgoing.poll_send(cx, conn, body, trailers, &shared.bounds)).await
}

/// Reads what the handler left of the body. Says whether that was possible.
async fn drain(ctx: &mut Context) -> Result<bool, ExchangeError> {
    let Context { incoming, conn, shared, .. } = ctx;
    let (incoming, Some(conn)) = (incoming.get_mut(), conn.get_mut().as_mut()) else { return Ok(false) };
    if incoming.is_read() {
        return Ok(true);
    }
    let mut drained = 0;
    poll_fn(|cx| incoming.poll_drain(cx, conn, &shared.bounds, &mut drained)).await
}

/// Sends all answers that wait.
pub(super) async fn flush(ctx: &mut Context) -> Result<(), ExchangeError> {
    let limit = ctx.shared.bounds.timeouts.write;
    let Some(conn) = ctx.conn.get_mut() else { return Ok(()) };
    let flushed = poll_fn(|cx| conn.poll_flush(cx, limit)).await;
    ctx.shared.count_traffic(conn);
    flushed.map_err(ExchangeError::during(Phase::Write))
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
        self.context.take().into_iter().for_each(|context| self.worker.give_context(context));
    }
}
