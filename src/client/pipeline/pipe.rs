//! [`Pipe`]: one connection of a pipeline, and the next one when it ends (RFC 9112 §9.3.2).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::Shared;
use super::board::Board;
use super::tickets::Taken;
use crate::client::link::Link;
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::exchange::ExchangeError;
use crate::memory::Reset;
use crate::message::{Response, Timings};
use crate::net::{Lane, Stopwatch, Timer};
use crate::runtime::{self, Instant};
use crate::wire::Wish;

/// Takes requests from a board, and brings the answers: a task, which ends when nobody has come for long.
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
    /// Whether the connection has brought an answer before.
    has_answered: bool,
    writing: Writing,
    /// Why nothing can be written any more.
    failure: Option<ClientError>,
    /// How long nobody has come.
    patience: Stopwatch,
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
    /// Nothing is in flight.
    Idle,
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
            patience: Stopwatch::new(),
            has_left: false,
        }
    }

    /// Serves the board over one connection after the other, until nobody comes any more.
    pub(super) async fn run(mut self) {
        while poll_fn(|cx| self.poll_wanted(cx)).await {
            match self.connect().await {
                Ok(link) => self.serve(link).await,
                Err(error) => self.board.lock().refuse(error),
            }
        }
    }

    /// Ready when a request waits. Says if none does, and the pipe has left.
    fn poll_wanted(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut tickets = self.board.lock();
        let is_closed = tickets.watch(cx);
        if tickets.is_waited_for() {
            self.patience.disarm(Lane::Whole);
            return Poll::Ready(true);
        }
        if !is_closed {
            let idle = self.shared.client.shared.settings.pool.idle;
            ready!(self.patience.poll_expired(cx, Lane::Whole, idle));
        }
        tickets.leave();
        self.has_left = true;
        Poll::Ready(false)
    }

    /// A connection of the client's. While nothing is in flight it rests with the others, and whoever needs one has it.
    async fn connect(&self) -> Result<Link, ClientError> {
        let client = &self.shared.client;
        match Link::rested(client.pool(&self.shared.key)?, runtime::now()) {
            Ok(link) => Ok(link),
            Err(missing) => client.link(missing, None).await,
        }
    }

    async fn serve(&mut self, mut link: Link) {
        (self.taken, self.writing, self.failure) = (0, Writing::Flushed, None);
        self.has_answered = link.exchange.timings.reused;
        let end = poll_fn(|cx| self.poll_serve(cx, &mut link)).await;
        match end {
            End::Idle if self.writing == Writing::Failed => {}
            End::Idle => link.rest(),
            End::Closing => self.put_all_back(),
            End::Broken(error) => self.break_up(&link, error),
        }
    }

    fn poll_serve(&mut self, cx: &mut Context<'_>, link: &mut Link) -> Poll<End> {
        loop {
            if let Err(error) = self.write(cx, link) {
                return Poll::Ready(End::Broken(Some(error)));
            }
            if self.flight.is_empty() {
                return Poll::Ready(End::Idle);
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

    /// Takes what waits, and writes it: all that has come since the last time leaves together.
    fn write(&mut self, cx: &mut Context<'_>, link: &mut Link) -> Result<(), ClientError> {
        loop {
            let has_taken = self.take(cx, link);
            if self.writing != Writing::Waiting {
                return Ok(());
            }
            match link.poll_flush(cx) {
                Poll::Ready(Ok(())) => self.writing = Writing::Flushed,
                Poll::Ready(Err(error)) if error.is_timeout() => return Err(error),
                // Whoever cannot be written to may have answered before it closed.
                Poll::Ready(Err(error)) => {
                    (self.writing, self.failure) = (Writing::Failed, Some(error));
                }
                Poll::Pending => return Ok(()),
            }
            if !has_taken {
                return Ok(());
            }
        }
    }

    /// Takes as many requests as there is room for. Says whether any.
    fn take(&mut self, cx: &mut Context<'_>, link: &mut Link) -> bool {
        let before = self.flight.len();
        let mut tickets = self.board.lock();
        tickets.watch(cx);
        let mut now = None;
        while self.may_take(link) {
            let output = link.conn.output().bytes();
            let len = output.len();
            let Some(taken) = tickets.take(output, self.has_answered) else { break };
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
        has_taken
    }

    /// A new connection is asked one thing alone, until it has shown that others may follow (RFC 9112 §9.3.2).
    fn may_take(&self, link: &mut Link) -> bool {
        let is_open = match self.has_answered {
            false => self.flight.is_empty(),
            true => is_young(link),
        };
        is_open
            && self.writing != Writing::Failed
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
            // What comes next is not asked before it is seen that the connection has nothing to say by itself.
            (true, _) if self.flight.is_empty() => Some(End::Idle),
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
    pool.settings.pool.age.is_none() || pool.is_young(link.exchange.born, runtime::now())
}
