//! [`Pipe`]: a task that serves a board over one connection after the other (RFC 9112 §9.3.2).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::Shared;
use super::board::Board;
use super::fate::{Break, Fate, Standing};
use super::tickets::Taken;
use crate::client::pool::CheckoutMiss;
use crate::client::pooled_conn::PooledConn;
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::exchange::ExchangeError;
use crate::memory::Reset;
use crate::message::{Response, Timings};
use crate::net::{Timer, TimerSlot, TokioTimer};
use crate::runtime::{self, Instant};
use crate::wire::Wish;

/// A task that takes requests from a board, and brings the answers. It ends when no request has come for a long time.
pub(super) struct Pipe {
    shared: Arc<Shared>,
    board: Arc<Board>,
    /// The requests in flight on the connection, in order.
    flight: VecDeque<Flying>,
    /// The answer to the first of them, as far as it has been received.
    response: Response,
    stage: Stage,
    /// Whether the connection had already brought an answer when it was taken. A new one carries a single request, and
    /// then rests in the pool.
    has_answered: bool,
    writing: Writing,
    /// Why nothing more can be written, if so.
    failure: Option<ClientError>,
    /// Measures how long no request has come.
    patience: TokioTimer,
    /// Whether the board knows that this pipe no longer serves it.
    has_left: bool,
}

/// A request in flight.
struct Flying {
    taken: Taken,
    /// When the connection took it.
    at: Instant,
    /// Where its bytes are among all that are sent over the connection.
    start: u64,
    end: u64,
}

/// What is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Head,
    Body,
}

/// Whether bytes are waiting to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Waiting,
    Flushed,
    /// The connection takes no more. What it has taken may still be answered.
    Failed,
}

/// Why a connection is no longer used.
enum End {
    /// Nothing is in flight.
    Idle,
    /// The server has announced that it processes nothing after what it has answered (RFC 9112 §9.6).
    Closing,
    /// The first in flight failed, or, without an error, it was answered and no further answer will come.
    Broken(Option<ClientError>),
}

impl Pipe {
    pub(super) fn new(shared: Arc<Shared>, board: Arc<Board>) -> Pipe {
        Pipe {
            shared,
            board,
            flight: VecDeque::new(),
            response: Response::new(),
            stage: Stage::Head,
            has_answered: false,
            writing: Writing::Flushed,
            failure: None,
            patience: TokioTimer::new(),
            has_left: false,
        }
    }

    /// Serves the board over one connection after the other, until no more requests come.
    pub(super) async fn run(mut self) {
        while poll_fn(|cx| self.poll_wanted(cx)).await {
            match self.connect().await {
                Ok(pooled) => self.serve(pooled).await,
                // There was no place. Requests that came later may still wait for one.
                Err(error) if error.phase() == ClientPhase::Queue => {
                    self.board.lock().expire(self.shared.client.shared.settings.timeouts.queue);
                }
                Err(error) => self.board.lock().refuse(error),
            }
        }
    }

    /// Ready with true when a request waits, and with false when the pipe has left because none came.
    fn poll_wanted(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut tickets = self.board.lock();
        let is_closed = tickets.watch(cx);
        if tickets.is_waited_for() {
            self.patience.disarm(TimerSlot::Total);
            return Poll::Ready(true);
        }
        if !is_closed {
            let idle = self.shared.client.shared.settings.pool.idle;
            ready!(self.patience.poll_expired(cx, TimerSlot::Total, idle));
        }
        tickets.leave();
        self.has_left = true;
        Poll::Ready(false)
    }

    /// Takes or opens a connection of the client. It goes back to the client's pool while nothing is in flight.
    async fn connect(&self) -> Result<PooledConn, ClientError> {
        let client = &self.shared.client;
        match PooledConn::checkout(client.pool(&self.shared.key)?, runtime::now()) {
            Ok(pooled) => Ok(pooled),
            Err(CheckoutMiss::NoPermit(pool, now)) => {
                let since = self.board.lock().waiting_since().unwrap_or(now);
                client.wait_for_conn(CheckoutMiss::NoPermit(pool, since), None).await
            }
            Err(miss) => client.wait_for_conn(miss, None).await,
        }
    }

    async fn serve(&mut self, mut pooled: PooledConn) {
        (self.writing, self.failure) = (Writing::Flushed, None);
        self.has_answered = pooled.is_reused();
        let end = poll_fn(|cx| self.poll_serve(cx, &mut pooled)).await;
        match end {
            End::Idle if self.writing == Writing::Failed => {}
            End::Idle => pooled.release(),
            End::Closing => self.put_all_back(),
            End::Broken(error) => self.break_up(&pooled, error),
        }
    }

    fn poll_serve(&mut self, cx: &mut Context<'_>, pooled: &mut PooledConn) -> Poll<End> {
        loop {
            if let Err(error) = self.write(cx, pooled) {
                return Poll::Ready(End::Broken(Some(error)));
            }
            if self.flight.is_empty() {
                return Poll::Ready(End::Idle);
            }
            match self.poll_answer(cx, pooled) {
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some(end))) => return Poll::Ready(end),
                Poll::Ready(Err(error)) => return Poll::Ready(End::Broken(Some(error))),
                Poll::Pending if self.poll_queue(cx, pooled).is_ready() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes the requests that wait, and writes them: all that have come since the last time leave together.
    fn write(&mut self, cx: &mut Context<'_>, pooled: &mut PooledConn) -> Result<(), ClientError> {
        loop {
            self.take(cx, pooled);
            if self.writing != Writing::Waiting {
                return Ok(());
            }
            match pooled.poll_flush(cx) {
                Poll::Ready(Ok(())) => self.writing = Writing::Flushed,
                Poll::Ready(Err(error)) if error.is_timeout() => return Err(error),
                // A server that closed may have answered before.
                Poll::Ready(Err(error)) => {
                    (self.writing, self.failure) = (Writing::Failed, Some(error));
                }
                Poll::Pending => return Ok(()),
            }
        }
    }

    /// Takes as many requests as there is room for.
    fn take(&mut self, cx: &mut Context<'_>, pooled: &mut PooledConn) {
        let before = self.flight.len();
        let mut tickets = self.board.lock();
        tickets.watch(cx);
        let mut now = None;
        while self.may_take(pooled) {
            let (sent, output) = (pooled.conn.traffic().sent, pooled.conn.write_buffer());
            let start = sent + output.len() as u64;
            let Some(taken) = tickets.take(output.bytes(), self.has_answered) else { break };
            let end = sent + output.len() as u64;
            let at = *now.get_or_insert_with(runtime::now);
            self.flight.push_back(Flying { taken, at, start, end });
        }
        drop(tickets);
        if self.flight.len() > before {
            self.writing = Writing::Waiting;
        }
        if before == 0 {
            self.next_answer(pooled);
        }
    }

    /// Whether another request may be taken. A new connection carries only one, until its answer shows that others may
    /// follow (RFC 9112 §9.3.2), and one whose last answer is being received carries no more (§9.6).
    fn may_take(&self, pooled: &mut PooledConn) -> bool {
        let is_open = match self.has_answered {
            false => self.flight.is_empty(),
            true => is_within_age(pooled),
        };
        is_open
            && pooled.exchange.persistence.persists
            && self.writing != Writing::Failed
            && pooled.conn.write_buffer().len() < pooled.settings().bounds.limits.pipeline_bytes_max
    }

    /// Prepares for the next answer.
    fn next_answer(&mut self, pooled: &mut PooledConn) {
        let Some(flying) = self.flight.front() else { return };
        let queue = flying.at.saturating_duration_since(flying.taken.since);
        let timings = match self.has_answered {
            true => Timings { queue, reused: true, ..Timings::default() },
            false => {
                let opened = pooled.exchange.progress.timings;
                let opening = opened.resolve + opened.connect + opened.tls;
                Timings { queue: queue.saturating_sub(opening), ..opened }
            }
        };
        self.response.reset();
        self.stage = Stage::Head;
        pooled.exchange.next_answer(flying.taken.asked, timings);
    }

    /// Receives the answer to the first in flight.
    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        pooled: &mut PooledConn,
    ) -> Poll<Result<Option<End>, ClientError>> {
        let Some(flying) = self.flight.front() else { return Poll::Pending };
        let sent = pooled.conn.traffic().sent;
        if sent <= flying.start {
            return self.poll_unasked(cx, pooled).map(Err);
        }
        if self.stage == Stage::Head {
            if sent >= flying.end {
                pooled.mark_sent();
            }
            ready!(pooled.poll_answer(cx, None, &mut self.response))?;
            pooled.decode(&mut self.response)?;
            self.stage = Stage::Body;
        }
        ready!(pooled.poll_whole(cx, &mut self.response))?;
        Poll::Ready(Ok(self.finish(pooled)))
    }

    /// Ready when the connection ends or receives something although the first in flight has not been written yet:
    /// whatever comes, it is not the answer.
    fn poll_unasked(&mut self, cx: &mut Context<'_>, pooled: &mut PooledConn) -> Poll<ClientError> {
        if let Some(error) = self.failure.take() {
            return Poll::Ready(error);
        }
        let input = &mut pooled.exchange.incoming.input;
        if input.is_empty() {
            let _ = ready!(pooled.conn.poll_fill(cx, input, Duration::MAX));
        }
        Poll::Ready(pooled.error(ClientPhase::Send, ClientCause::OutOfStep))
    }

    /// Hands out the answer that has come. Returns how the connection ends, if that was its last one.
    fn finish(&mut self, pooled: &mut PooledConn) -> Option<End> {
        let flying = self.flight.pop_front()?;
        let is_closing = Wish::of(&self.response.headers) == Wish::Close;
        let timings = pooled.exchange.progress.timings;
        let all = runtime::now().saturating_duration_since(flying.at);
        // While those before it were answered, it was waiting.
        let wait = all.saturating_sub(timings.send + timings.receive);
        *self.response.timings_mut() = Timings { wait, ..timings };
        self.board.lock().answer(flying.taken.ticket, &mut self.response);
        match (pooled.exchange.persistence.persists, is_closing) {
            // The connection goes back to the pool first, which checks that the server has said nothing unasked.
            (true, _) if self.flight.is_empty() => Some(End::Idle),
            (true, _) => {
                self.next_answer(pooled);
                None
            }
            (false, true) => Some(End::Closing),
            (false, false) => Some(End::Broken(None)),
        }
    }

    /// Ready when requests have been failed because they waited too long to be taken.
    fn poll_queue(&self, cx: &mut Context<'_>, pooled: &mut PooledConn) -> Poll<()> {
        let queue = pooled.settings().timeouts.queue;
        pooled.conn.disarm(TimerSlot::Total);
        match self.board.lock().expire(queue) {
            // A timer knows no less than a millisecond, and this is asked again until nothing is left.
            Some(left) => pooled.conn.poll_expired(cx, TimerSlot::Total, left.max(MILLISECOND)).map(|_| ()),
            None => Poll::Pending,
        }
    }

    /// Puts everything in flight back, to be sent on the next connection: the server has processed none of it.
    fn put_all_back(&mut self) {
        let mut tickets = self.board.lock();
        while let Some(flying) = self.flight.pop_back() {
            tickets.put_back(flying.taken.ticket, false);
        }
    }

    /// Sends what is in flight once more, or fails it. `error` is that of the first.
    fn break_up(&mut self, pooled: &PooledConn, mut error: Option<ClientError>) {
        let sent = pooled.conn.traffic().sent;
        let how = error.as_ref().map_or(Break::Amiss, |error| self.blame(pooled, error));
        let mut tickets = self.board.lock();
        while let Some(flying) = self.flight.pop_back() {
            let (ticket, is_sent) = (flying.taken.ticket, flying.start < sent);
            let first = error.take_if(|_| self.flight.is_empty());
            let standing = match first {
                Some(_) if tickets.suspect(ticket) => Standing::FirstAgain,
                Some(_) => Standing::First,
                None => Standing::Behind,
            };
            match Fate::of(standing, how, is_sent, flying.taken.may_repeat) {
                Fate::Again => tickets.put_back(ticket, is_sent),
                Fate::Fails => {
                    let error = first.unwrap_or_else(|| pooled.error(ClientPhase::Wait, how.cause()));
                    tickets.fail(ticket, error.on_connection(self.has_answered, is_sent));
                }
            }
        }
    }

    /// How the connection broke, by the error that the first in flight met.
    fn blame(&self, pooled: &PooledConn, error: &ClientError) -> Break {
        let was_closed =
            matches!(error.cause(), ClientCause::Closed | ClientCause::Exchange(ExchangeError::Io(_)));
        let has_begun = self.stage == Stage::Body || !pooled.exchange.incoming.input.is_empty();
        if error.is_timeout() {
            Break::TimedOut
        } else if was_closed && self.has_answered && !has_begun {
            Break::Between
        } else {
            Break::Amiss
        }
    }
}

impl Drop for Pipe {
    /// Fails all requests if the task is dropped because its runtime ends.
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let mut tickets = self.board.lock();
        while let Some(flying) = self.flight.pop_front() {
            let error = ClientError::new(ClientPhase::Wait, ClientCause::NoRuntime);
            tickets.fail(flying.taken.ticket, error.on_connection(self.has_answered, true));
        }
        tickets.refuse(ClientError::new(ClientPhase::Queue, ClientCause::NoRuntime));
        tickets.leave();
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// Whether the connection is young enough for more requests (see
/// [`ClientBuilder::age_max`](crate::ClientBuilder::age_max)).
fn is_within_age(pooled: &PooledConn) -> bool {
    let pool = &pooled.permit.pool;
    pool.settings.pool.age.is_none()
        || pool.is_within_age(pooled.exchange.persistence.opened_at, runtime::now())
}
