//! [`Pipe`]: one connection of a pipeline, and the next one when it ends (RFC 9112 §9.3.2).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::Shared;
use super::board::{Board, Taken};
use crate::client::link::Link;
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::exchange::ExchangeError;
use crate::memory::Reset;
use crate::message::{Response, Timings};
use crate::net::Lane;
use crate::runtime::{self, Instant};
use crate::wire::Wish;

/// Takes requests from a board, and brings the answers: a task, which ends when its connection has rested too long.
pub(super) struct Pipe {
    shared: Arc<Shared>,
    board: Arc<Board>,
    /// What the connection has taken and not answered, in order.
    flight: VecDeque<Flying>,
    /// The answer to the first of them, as far as it has come.
    response: Response,
    stage: Stage,
    /// So many bytes the connection has taken.
    taken: u64,
    has_answered: bool,
    writing: Writing,
    /// Why nothing can be written any more.
    failure: Option<ClientError>,
    /// Whether the connection was left alone for a while.
    has_rested: bool,
    /// Whether the board knows that nobody serves it any more.
    has_left: bool,
}

/// A request that a connection has taken.
struct Flying {
    taken: Taken,
    /// When.
    at: Instant,
    /// Where its bytes are among all that the connection has taken.
    start: u64,
    end: u64,
}

/// What is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Head,
    Body,
}

/// Whether bytes wait to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    Waiting,
    Flushed,
    /// The connection takes no more. What it has taken may be answered all the same.
    Failed,
}

/// Why a connection is not used any more.
enum End {
    /// Nobody needs it any more, but it is good.
    Free,
    /// Nothing was in flight, and it is too old, closed or odd.
    Quiet,
    /// The server has said that it looks at nothing behind what it has answered (RFC 9112 §9.6).
    Closing,
    /// The first in flight failed, or, with no error, it was answered and nothing more will be.
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
            taken: 0,
            has_answered: false,
            writing: Writing::Flushed,
            failure: None,
            has_rested: false,
            has_left: false,
        }
    }

    /// Serves the board over one connection after the other, until nobody needs another one.
    pub(super) async fn run(mut self) {
        loop {
            match self.connect().await {
                Ok(link) => self.serve(link).await,
                Err(error) => self.board.lock().refuse(error),
            }
            if self.board.lock().leave() {
                self.has_left = true;
                return;
            }
        }
    }

    /// Opens a connection, which counts as one of the client's. One that has rested would be of less use: it may be
    /// closed by now, and much would be in flight when that is seen.
    async fn connect(&self) -> Result<Link, ClientError> {
        let client = &self.shared.client;
        let pool = client.pool(&self.shared.key)?;
        let place = pool.enter(runtime::now(), None).await?;
        client.fresh(place, Duration::ZERO, None).await
    }

    async fn serve(&mut self, mut link: Link) {
        (self.taken, self.writing, self.failure) = (0, Writing::Flushed, None);
        (self.has_answered, self.has_rested) = (false, false);
        let end = poll_fn(|cx| self.poll_serve(cx, &mut link)).await;
        match end {
            End::Free => link.rest(),
            End::Quiet => {}
            End::Closing => self.put_all_back(),
            End::Broken(error) => self.break_up(&link, error),
        }
    }

    fn poll_serve(&mut self, cx: &mut Context<'_>, link: &mut Link) -> Poll<End> {
        loop {
            let is_new = !self.has_answered && !self.has_rested;
            if self.flight.is_empty() && !is_new && self.poll_rest(cx, link).is_ready() {
                return Poll::Ready(End::Quiet);
            }
            let is_closed = match self.write(cx, link) {
                Ok(is_closed) => is_closed,
                Err(error) => return Poll::Ready(End::Broken(Some(error))),
            };
            if self.flight.is_empty() && is_closed {
                return Poll::Ready(End::Free);
            }
            if self.flight.is_empty() {
                self.has_rested = true;
                return self.poll_rest(cx, link).map(|()| End::Quiet);
            }
            match self.poll_answer(cx, link) {
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some(end))) => return Poll::Ready(end),
                Poll::Ready(Err(error)) => return Poll::Ready(End::Broken(Some(error))),
                Poll::Pending if self.poll_queue(cx, link).is_ready() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Ready when a connection on which nothing is in flight is of no use any more: its server has closed it or said
    /// something unasked, which must not be taken for the answer to what is asked next; or it is too old.
    fn poll_rest(&self, cx: &mut Context<'_>, link: &mut Link) -> Poll<()> {
        let idle = link.place.pool.idle_max(&link.exchange);
        let input = &mut link.exchange.incoming.input;
        // Whether it is quiet is seen even when the task has no budget left, and what comes later wakes it.
        let is_over = self.writing == Writing::Failed
            || !input.is_empty()
            || !link.conn.transport.is_quiet()
            || link.conn.poll_fill(cx, input, idle).is_ready()
            || !is_young(link);
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes what waits, and writes it: all that has come since the last time leaves together. Says whether nobody
    /// will ever come again.
    fn write(&mut self, cx: &mut Context<'_>, link: &mut Link) -> Result<bool, ClientError> {
        loop {
            let (has_taken, is_closed) = self.take(cx, link);
            if self.writing != Writing::Waiting {
                return Ok(is_closed);
            }
            match link.poll_flush(cx) {
                Poll::Ready(Ok(())) => self.writing = Writing::Flushed,
                Poll::Ready(Err(error)) if error.is_timeout() => return Err(error),
                // Whoever cannot be written to may have answered before it closed.
                Poll::Ready(Err(error)) => {
                    (self.writing, self.failure) = (Writing::Failed, Some(error));
                }
                Poll::Pending => return Ok(is_closed),
            }
            if !has_taken {
                return Ok(is_closed);
            }
        }
    }

    /// Takes as many requests as there is room for. Says whether any, and whether nobody will ever come again.
    fn take(&mut self, cx: &mut Context<'_>, link: &mut Link) -> (bool, bool) {
        let before = self.flight.len();
        let mut tickets = self.board.lock();
        let is_closed = tickets.watch(cx);
        let mut now = None;
        while self.may_take(link) {
            let output = link.conn.output().bytes();
            let len = output.len();
            let Some(taken) = tickets.take(output) else { break };
            let start = self.taken;
            self.taken += (output.len() - len) as u64;
            let at = *now.get_or_insert_with(runtime::now);
            self.flight.push_back(Flying { taken, at, start, end: self.taken });
        }
        drop(tickets);
        let has_taken = self.flight.len() > before;
        if has_taken {
            self.writing = Writing::Waiting;
        }
        if before == 0 {
            self.next_answer(link);
        }
        (has_taken, is_closed)
    }

    /// A connection is asked one thing alone, until it has shown that others may follow (RFC 9112 §9.3.2).
    fn may_take(&self, link: &mut Link) -> bool {
        let is_open = self.writing != Writing::Failed && is_young(link);
        is_open
            && (self.has_answered || self.flight.is_empty())
            && link.conn.output().len() < link.settings().bounds.limits.pipeline_bytes_max
    }

    /// Makes ready for the next answer.
    fn next_answer(&mut self, link: &mut Link) {
        let Some(flying) = self.flight.front() else { return };
        let queue = flying.at.saturating_duration_since(flying.taken.since);
        let timings = match self.has_answered {
            true => Timings { queue, reused: true, ..Timings::default() },
            false => {
                let opening =
                    link.exchange.timings.resolve + link.exchange.timings.connect + link.exchange.timings.tls;
                Timings { queue: queue.saturating_sub(opening), ..link.exchange.timings }
            }
        };
        self.response.reset();
        self.stage = Stage::Head;
        link.exchange.next_answer(flying.taken.asked, timings);
        link.conn.disarm(Lane::Read);
        link.lap();
    }

    /// Receives the answer to the first in flight.
    fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        link: &mut Link,
    ) -> Poll<Result<Option<End>, ClientError>> {
        let Some(flying) = self.flight.front() else { return Poll::Pending };
        let sent = link.conn.traffic().sent;
        if sent <= flying.start {
            return self.poll_unasked(cx, link).map(Err);
        }
        if self.stage == Stage::Head {
            if sent >= flying.end {
                link.sent();
            }
            ready!(link.poll_answer(cx, None, &mut self.response))?;
            link.decode(&mut self.response)?;
            self.stage = Stage::Body;
        }
        ready!(link.poll_whole(cx, &mut self.response))?;
        Poll::Ready(Ok(self.finish(link)))
    }

    /// Ready when the connection is over, or says something, although the first in flight is not written yet: whatever
    /// it says is not the answer.
    fn poll_unasked(&mut self, cx: &mut Context<'_>, link: &mut Link) -> Poll<ClientError> {
        if let Some(error) = self.failure.take() {
            return Poll::Ready(error);
        }
        let input = &mut link.exchange.incoming.input;
        if input.is_empty() {
            let _ = ready!(link.conn.poll_fill(cx, input, Duration::MAX));
        }
        Poll::Ready(link.error(ClientPhase::Send, ClientCause::OutOfStep))
    }

    /// Hands out the answer that has come. Says if it was the connection's last.
    fn finish(&mut self, link: &mut Link) -> Option<End> {
        let flying = self.flight.pop_front()?;
        let is_closing = Wish::of(&self.response.headers) == Wish::Close;
        let timings = self.response.timings_mut();
        let all = runtime::now().saturating_duration_since(flying.at);
        // It was waiting while those before it were answered.
        timings.wait = all.saturating_sub(timings.send + timings.receive);
        self.board.lock().answer(flying.taken.ticket, &mut self.response);
        self.has_answered = true;
        match (link.exchange.persists, is_closing) {
            (true, _) => {
                self.next_answer(link);
                None
            }
            (false, true) => Some(End::Closing),
            (false, false) => Some(End::Broken(None)),
        }
    }

    /// Ready when requests were failed because they have waited too long to be taken.
    fn poll_queue(&self, cx: &mut Context<'_>, link: &mut Link) -> Poll<()> {
        let queue = link.settings().timeouts.queue;
        link.conn.disarm(Lane::Whole);
        match self.board.lock().expire(queue) {
            Some(left) => link.conn.poll_expired(cx, Lane::Whole, left).map(|_| ()),
            None => Poll::Pending,
        }
    }

    /// Nothing in flight was looked at: all of it is sent on the next connection.
    fn put_all_back(&mut self) {
        let mut tickets = self.board.lock();
        while let Some(flying) = self.flight.pop_back() {
            tickets.put_back(flying.taken.ticket);
        }
    }

    /// Decides what becomes of what was in flight: `error` is that of the first.
    fn break_up(&mut self, link: &Link, error: Option<ClientError>) {
        let sent = link.conn.traffic().sent;
        let is_timeout = error.as_ref().is_some_and(ClientError::is_timeout);
        let is_lost = error.as_ref().is_some_and(|error| self.is_lost(link, error));
        let mut error = error;
        let mut tickets = self.board.lock();
        while let Some(flying) = self.flight.pop_back() {
            let (ticket, is_sent) = (flying.taken.ticket, flying.start < sent);
            let may_repeat = tickets.may_repeat(ticket);
            let first = error.take_if(|_| self.flight.is_empty());
            let goes_again = match first {
                Some(_) => !is_timeout && (!is_sent || (is_lost && may_repeat)) && !tickets.suspect(ticket),
                None => !is_sent || (!is_timeout && may_repeat),
            };
            if goes_again {
                tickets.put_back(ticket);
                continue;
            }
            let cause = if is_timeout { ClientCause::TimedOut } else { ClientCause::OutOfStep };
            let error = first.unwrap_or_else(|| ClientError::new(ClientPhase::Wait, cause));
            tickets.fail(ticket, error.on(self.has_answered, is_sent));
        }
    }

    /// Whether the connection was closed between two answers, as it may be at any time (RFC 9112 §9.5): what is first
    /// in flight then need not be the reason.
    fn is_lost(&self, link: &Link, error: &ClientError) -> bool {
        let was_closed =
            matches!(error.cause(), ClientCause::Closed | ClientCause::Exchange(ExchangeError::Io(_)));
        let has_begun = self.stage == Stage::Body || !link.exchange.incoming.input.is_empty();
        was_closed && self.has_answered && !has_begun
    }
}

impl Drop for Pipe {
    /// The runtime ends, and this task with it.
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let mut tickets = self.board.lock();
        while let Some(flying) = self.flight.pop_front() {
            let error = ClientError::new(ClientPhase::Wait, ClientCause::NoRuntime);
            tickets.fail(flying.taken.ticket, error.on(self.has_answered, true));
        }
        tickets.refuse(ClientError::new(ClientPhase::Queue, ClientCause::NoRuntime));
        tickets.leave();
    }
}

/// Whether the connection may be asked more (see [`ClientBuilder::age_max`](crate::ClientBuilder::age_max)).
fn is_young(link: &Link) -> bool {
    let pool = &link.place.pool;
    pool.bounds.age.is_none() || pool.is_young(link.exchange.born, runtime::now())
}
