//! [`PipelineTask`]: a task that serves a queue over one connection after the other (RFC 9112 §9.3.2).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::queue::{Dequeued, Queue};
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::observe::ExchangeEnd;
use crate::client::pool::{CheckoutMiss, LONG_DIAL, PooledConn, open_new, replace_stale, wait_for_conn};
use crate::client::send::RequestSender;
use crate::client::settings::RequestTimeouts;
use crate::exchange::ExchangeError;
use crate::memory::Reset;
use crate::message::{Response, Timings};
use crate::net::{ConnError, Timer, TimerSlot, TokioTimer};
use crate::runtime::{self, Instant, later};
use crate::wire::ConnectionOption;

/// A task that takes requests from a queue, and stores their responses. The task ends when no request has come for a
/// long time.
pub(super) struct PipelineTask {
    sender: RequestSender,
    /// The timeouts of each request on a connection. Its caller looks at that of the whole exchange.
    timeouts: RequestTimeouts,
    /// The [`origin::key`](crate::client::route::key).
    key: Arc<str>,
    queue: Arc<Queue>,
    /// The requests in flight on the connection, in order.
    in_flight: VecDeque<InFlight>,
    /// The response to the first of them, as far as it has been received.
    response: Response,
    part: ResponsePart,
    /// Whether the connection had already brought a response when it was taken. A new one carries a single request, and
    /// then goes back to the pool.
    has_responded: bool,
    write_state: WriteState,
    /// Why nothing more can be written, if so.
    failure: Option<ClientError>,
    /// Measures how long no request has come.
    idle_timer: TokioTimer,
    /// Whether the task has left the queue.
    has_left_queue: bool,
}

/// A request in flight.
struct InFlight {
    dequeued: Dequeued,
    /// When the connection took it.
    at: Instant,
    /// Where its bytes are among all that are sent over the connection.
    start: u64,
    end: u64,
}

/// The part of the response that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponsePart {
    Head,
    Body,
}

/// Whether bytes are waiting to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteState {
    Pending,
    Flushed,
    /// Nothing more can be written. Requests that were written may still be answered.
    Failed,
}

/// Why a connection is no longer used.
enum ConnEnd {
    /// Nothing is in flight.
    Idle,
    /// The server has announced that it processes nothing after what it has answered (RFC 9112 §9.6).
    Closing,
    /// The first in flight failed, or, without an error, it was answered and no further response will come.
    Broken(Option<ClientError>),
}

impl PipelineTask {
    pub(super) fn new(sender: RequestSender, key: Arc<str>, queue: Arc<Queue>) -> PipelineTask {
        PipelineTask {
            timeouts: RequestTimeouts { deadline: None, total: None, ..sender.timeouts() },
            sender,
            key,
            queue,
            in_flight: VecDeque::new(),
            response: Response::new(),
            part: ResponsePart::Head,
            has_responded: false,
            write_state: WriteState::Flushed,
            failure: None,
            idle_timer: TokioTimer::new(),
            has_left_queue: false,
        }
    }

    /// Serves the queue over one connection after the other, until no more requests come.
    pub(super) async fn run(mut self) {
        while poll_fn(|cx| self.poll_next_request(cx)).await {
            let since = runtime::now();
            let connected = self.connect().await;
            if connected.is_err() || later(since, LONG_DIAL) <= runtime::now() {
                self.queue.lock().avoid();
            }
            match connected {
                Ok(pooled) => self.serve(pooled).await,
                // No permit became free. Requests that came later may still wait for one.
                Err(error) if error.phase() == ClientPhase::Queue => {
                    self.queue.lock().expire(self.timeouts.of_phases(self.sender.settings()).queue);
                }
                Err(error) => self.queue.lock().fail_waiting(error),
            }
        }
    }

    /// Ready with true when a request waits, and with false when the task has left because none came.
    fn poll_next_request(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        debug_assert!(self.in_flight.is_empty(), "each connection ends with nothing in flight");
        let mut state = self.queue.lock();
        let is_closed = state.register_task(cx);
        if state.has_waiting() {
            self.idle_timer.disarm(TimerSlot::Other);
            return Poll::Ready(true);
        }
        if !is_closed {
            let idle = self.sender.settings().timeouts.idle;
            ready!(self.idle_timer.poll_timeout(cx, TimerSlot::Other, idle));
        }
        state.remove_task();
        self.has_left_queue = true;
        Poll::Ready(false)
    }

    /// Takes or opens a connection of the client, which goes back to the client's pool while nothing is in flight.
    async fn connect(&self) -> Result<PooledConn, ClientError> {
        let pool = self.sender.pool(&self.key, None)?;
        if self.queue.lock().needs_new_conn() {
            return open_new(pool, runtime::now(), &self.timeouts).await;
        }
        match PooledConn::checkout(pool, runtime::now()) {
            Ok(mut pooled) => match self.queue.lock().may_repeat_next() || !pooled.is_closed_in_kernel() {
                true => Ok(pooled),
                false => replace_stale(pooled, &self.timeouts).await,
            },
            Err(CheckoutMiss::NoPermit(pool, now)) => {
                let since = self.queue.lock().waiting_since().unwrap_or(now);
                wait_for_conn(CheckoutMiss::NoPermit(pool, since), &self.timeouts).await
            }
            Err(miss) => wait_for_conn(miss, &self.timeouts).await,
        }
    }

    async fn serve(&mut self, mut pooled: PooledConn) {
        self.write_state = WriteState::Flushed;
        self.failure = None;
        self.has_responded = pooled.is_reused();
        let end = poll_fn(|cx| self.poll_serve(cx, &mut pooled)).await;
        match end {
            ConnEnd::Idle if self.write_state == WriteState::Failed => {}
            ConnEnd::Idle => pooled.release(),
            ConnEnd::Closing => self.requeue_all(&pooled),
            ConnEnd::Broken(error) => self.retry_or_fail_all(&mut pooled, error),
        }
    }

    fn poll_serve(&mut self, cx: &mut Context<'_>, pooled: &mut PooledConn) -> Poll<ConnEnd> {
        loop {
            if let Err(error) = self.write(cx, pooled) {
                return Poll::Ready(ConnEnd::Broken(Some(error)));
            }
            if self.in_flight.is_empty() {
                return Poll::Ready(ConnEnd::Idle);
            }
            match self.poll_response(cx, pooled) {
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some(end))) => return Poll::Ready(end),
                Poll::Ready(Err(error)) => return Poll::Ready(ConnEnd::Broken(Some(error))),
                Poll::Pending if self.poll_queue_timeout(cx, pooled).is_ready() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes the requests that wait, and writes them: all that have come since the last time leave together.
    fn write(&mut self, cx: &mut Context<'_>, pooled: &mut PooledConn) -> Result<(), ClientError> {
        loop {
            self.take(cx, pooled);
            if self.write_state != WriteState::Pending {
                return Ok(());
            }
            match pooled.poll_flush(cx) {
                Poll::Ready(Ok(())) => self.write_state = WriteState::Flushed,
                Poll::Ready(Err(error)) if error.is_timeout() => return Err(error),
                // A server that closed may have answered before.
                Poll::Ready(Err(error)) => {
                    self.write_state = WriteState::Failed;
                    self.failure = Some(error);
                }
                Poll::Pending => return Ok(()),
            }
        }
    }

    /// Takes as many requests as there is room for. None are added to those in flight while another request has long waited
    /// for a connection: it gets this one once they are answered.
    fn take(&mut self, cx: &mut Context<'_>, pooled: &mut PooledConn) {
        let before = self.in_flight.len();
        if before > 0 && pooled.permit.pool.is_awaited() {
            return;
        }
        let mut state = self.queue.lock();
        state.register_task(cx);
        let mut now = None;
        while self.may_take(pooled) {
            let sent = pooled.conn.traffic().sent;
            let buffer = pooled.conn.write_buffer();
            let start = sent + buffer.len() as u64;
            let Some(dequeued) = state.take(buffer.bytes(), self.has_responded) else { break };
            let end = sent + buffer.len() as u64;
            let at = *now.get_or_insert_with(runtime::now);
            debug_assert!(start < end, "a request has bytes");
            self.in_flight.push_back(InFlight { dequeued, at, start, end });
        }
        drop(state);
        if self.in_flight.len() > before {
            self.write_state = WriteState::Pending;
        }
        if before == 0 {
            self.begin_response(pooled);
        }
    }

    /// Whether another request may be taken. A new connection carries only one, until its response shows that others
    /// may follow (RFC 9112 §9.3.2), and one whose last response is being received carries no more (§9.6).
    fn may_take(&self, pooled: &mut PooledConn) -> bool {
        let is_open = match self.has_responded {
            false => self.in_flight.is_empty(),
            true => is_within_age(pooled),
        };
        is_open
            && pooled.exchange.persistence.persists
            && self.write_state != WriteState::Failed
            && pooled.conn.write_buffer().len() < pooled.settings().bounds.limits.pipeline_bytes_max
    }

    /// Prepares for the next response.
    fn begin_response(&mut self, pooled: &mut PooledConn) {
        let Some(request) = self.in_flight.front() else { return };
        let queue = request.at.saturating_duration_since(request.dequeued.since);
        let timings = match self.has_responded {
            true => Timings { queue, reused: true, ..Timings::default() },
            false => {
                let opened = pooled.exchange.progress.timings;
                let opening = opened.resolve + opened.connect + opened.tls;
                Timings { queue: queue.saturating_sub(opening), ..opened }
            }
        };
        self.response.reset();
        self.part = ResponsePart::Head;
        let traffic = pooled.conn.total_traffic();
        pooled.exchange.next_response(request.dequeued.request_info, timings, &self.timeouts, traffic);
    }

    /// Receives the response to the first in flight.
    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        pooled: &mut PooledConn,
    ) -> Poll<Result<Option<ConnEnd>, ClientError>> {
        let Some(request) = self.in_flight.front() else { return Poll::Pending };
        let sent = pooled.conn.traffic().sent;
        if sent <= request.start {
            return self.poll_unsolicited(cx, pooled).map(Err);
        }
        if self.part == ResponsePart::Head {
            if sent >= request.end {
                pooled.mark_sent();
            }
            ready!(pooled.poll_response(cx, None, &mut self.response))?;
            pooled.decode(&mut self.response)?;
            self.part = ResponsePart::Body;
        }
        ready!(pooled.poll_whole(cx, &mut self.response))?;
        Poll::Ready(Ok(self.finish(pooled)))
    }

    /// Ready when the connection ends or receives something although the first in flight has not been written yet: the
    /// bytes are not its response.
    fn poll_unsolicited(&mut self, cx: &mut Context<'_>, pooled: &mut PooledConn) -> Poll<ClientError> {
        let input = &mut pooled.exchange.incoming.input;
        let read = match input.is_empty() {
            true => pooled.conn.poll_fill(cx, input, Duration::MAX),
            false => Poll::Ready(Ok(input.unread().len())),
        };
        let cause = match read {
            Poll::Ready(Err(ConnError::Io(error))) => ClientCause::from_exchange(ExchangeError::Io(error)),
            Poll::Pending if self.failure.is_none() => return Poll::Pending,
            Poll::Ready(_) | Poll::Pending => ClientCause::PipelineBroken,
        };
        Poll::Ready(match (cause, self.failure.take()) {
            // The server has said why it closed.
            (ClientCause::Tls(refused), _) => pooled.error(ClientPhase::Send, ClientCause::Tls(refused)),
            (_, Some(error)) => error,
            (_, None) => pooled.error(ClientPhase::Send, ClientCause::PipelineBroken),
        })
    }

    /// Hands out the response that has come. Returns how the connection ends, if that was its last one.
    fn finish(&mut self, pooled: &mut PooledConn) -> Option<ConnEnd> {
        let request = self.in_flight.pop_front()?;
        let is_closing = ConnectionOption::from_headers(&self.response.headers) == ConnectionOption::Close;
        let timings = pooled.exchange.progress.timings;
        let all = runtime::now().saturating_duration_since(request.at);
        // While those before it were answered, it was waiting.
        let wait = all.saturating_sub(timings.send + timings.receive);
        pooled.exchange.progress.timings = Timings { wait, ..timings };
        pooled.exchange.progress.end = None;
        pooled.set_client_info(&mut self.response);
        self.queue.lock().respond(request.dequeued.entry, &mut self.response);
        match (pooled.exchange.persists(), is_closing) {
            // The connection goes back to the pool first, which checks that the server has sent nothing more.
            (true, _) if self.in_flight.is_empty() => Some(ConnEnd::Idle),
            (true, _) => {
                self.begin_response(pooled);
                None
            }
            (false, true) => Some(ConnEnd::Closing),
            (false, false) => Some(ConnEnd::Broken(None)),
        }
    }

    /// Ready when requests have been failed because they waited too long to be taken.
    fn poll_queue_timeout(&self, cx: &mut Context<'_>, pooled: &mut PooledConn) -> Poll<()> {
        let queue = self.timeouts.of_phases(pooled.settings()).queue;
        pooled.conn.disarm(TimerSlot::Other);
        match self.queue.lock().expire(queue) {
            // A timer counts whole milliseconds, and this method is polled again until nothing is left.
            Some(left) => pooled.conn.poll_timeout(cx, TimerSlot::Other, left.max(MILLISECOND)).map(|_| ()),
            None => Poll::Pending,
        }
    }

    /// Puts everything in flight back, to be sent on the next connection: the server has processed none of it.
    fn requeue_all(&mut self, pooled: &PooledConn) {
        let sent = pooled.conn.traffic().sent;
        let mut resent = 0;
        let mut state = self.queue.lock();
        while let Some(request) = self.in_flight.pop_back() {
            resent += u64::from(request.start < sent);
            state.requeue(request.dequeued.entry, false);
        }
        drop(state);
        pooled.permit.pool.events.count_resent(resent);
    }

    /// Sends what is in flight once more, or fails it. `error` is that of the first.
    fn retry_or_fail_all(&mut self, pooled: &mut PooledConn, mut error: Option<ClientError>) {
        let sent = pooled.conn.traffic().sent;
        let events = pooled.permit.pool.events.clone();
        let disconnect = error.as_ref().map_or(Disconnect::Broken, |error| self.disconnect_of(pooled, error));
        let mut resent = 0;
        let mut failed = 0;
        let mut state = self.queue.lock();
        while let Some(request) = self.in_flight.pop_back() {
            let entry = request.dequeued.entry;
            let is_sent = request.start < sent;
            let first = error.take_if(|_| self.in_flight.is_empty());
            let position = match first {
                Some(_) if state.mark_suspect(entry) => Position::HeadAgain,
                Some(_) => Position::Head,
                None => Position::Behind,
            };
            let decision = RetryDecision::new(position, disconnect, is_sent, request.dequeued.may_repeat);
            // The first in flight is the exchange of the connection, and is counted with it.
            match (decision, first) {
                (RetryDecision::Retry, Some(_)) => {
                    pooled.exchange.progress.end = Some(ExchangeEnd::Retried);
                    state.requeue(entry, is_sent);
                }
                (RetryDecision::Retry, None) => {
                    resent += u64::from(is_sent);
                    state.requeue(entry, is_sent);
                }
                (RetryDecision::Fail, Some(error)) => {
                    state.fail(entry, error.on_connection(self.has_responded, is_sent));
                }
                (RetryDecision::Fail, None) => {
                    failed += 1;
                    let error = pooled.describe_error(ClientPhase::Wait, disconnect.cause());
                    state.fail(entry, error.on_connection(self.has_responded, is_sent));
                }
            }
        }
        drop(state);
        // An observer may use the pipeline, so the queue is not locked.
        events.count_resent(resent);
        events.count_unanswered(failed, ClientPhase::Wait);
    }

    /// How the connection broke, by the error that the first in flight met.
    fn disconnect_of(&self, pooled: &PooledConn, error: &ClientError) -> Disconnect {
        let was_closed = matches!(
            error.cause(),
            ClientCause::Closed | ClientCause::Tls(_) | ClientCause::Exchange(ExchangeError::Io(_))
        );
        let has_begun = self.part == ResponsePart::Body || !pooled.exchange.incoming.input.is_empty();
        let may_be_stale = self.has_responded || pooled.exchange.progress.was_idle;
        if error.is_timeout() {
            Disconnect::TimedOut
        } else if was_closed && may_be_stale && !has_begun {
            Disconnect::Clean
        } else {
            Disconnect::Broken
        }
    }
}

impl Drop for PipelineTask {
    /// Fails all requests if the task is dropped because its runtime ends.
    fn drop(&mut self) {
        if self.has_left_queue {
            return;
        }
        let mut state = self.queue.lock();
        while let Some(request) = self.in_flight.pop_front() {
            let error = ClientError::new(ClientPhase::Wait, ClientCause::NoRuntime);
            state.fail(request.dequeued.entry, error.on_connection(self.has_responded, true));
        }
        state.fail_waiting(ClientError::new(ClientPhase::Queue, ClientCause::NoRuntime));
        state.remove_task();
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// Whether the connection is young enough for more requests (see
/// [`ClientTimeouts::connection_age`](crate::client::ClientTimeouts::connection_age)).
fn is_within_age(pooled: &PooledConn) -> bool {
    let pool = &pooled.permit.pool;
    let connection_info =
        pooled.exchange.connection_info.as_ref().filter(|_| pool.settings.timeouts.connection_age.is_some());
    connection_info.is_none_or(|info| pool.is_within_age(info.opened_at, runtime::now()))
}

/// Whether a request is retried that was in flight when its connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryDecision {
    /// The request is sent once more, on the next connection.
    Retry,
    /// The caller gets an error.
    Fail,
}

/// How a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disconnect {
    /// The server took too long.
    TimedOut,
    /// The connection ended between two responses, as it may at any time (§9.5).
    Clean,
    /// The connection ended otherwise, or its bytes can no longer be parsed.
    Broken,
}

impl Disconnect {
    /// The cause for a request that fails because of another one's response.
    fn cause(self) -> ClientCause {
        match self {
            Disconnect::TimedOut => ClientCause::TimedOut,
            Disconnect::Clean | Disconnect::Broken => ClientCause::PipelineBroken,
        }
    }
}

/// Where a request stood in the line of those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// Its response was the next to come, so it may be why the connection broke.
    Head,
    /// The request was also the first when an earlier connection broke.
    HeadAgain,
    /// Others were to be answered first, or one just was.
    Behind,
}

impl RetryDecision {
    /// Decides about one request. `is_sent` if any of it was; `may_repeat` if it does no harm that the server acts on
    /// it twice (RFC 9110 §9.2.2).
    fn new(position: Position, disconnect: Disconnect, is_sent: bool, may_repeat: bool) -> RetryDecision {
        let goes_again = match (position, disconnect) {
            (Position::HeadAgain, _) | (Position::Head, Disconnect::TimedOut) => false,
            _ if !is_sent => true,
            (Position::Head, Disconnect::Clean)
            | (Position::Behind, Disconnect::Clean | Disconnect::Broken) => may_repeat,
            (Position::Head, Disconnect::Broken) | (Position::Behind, Disconnect::TimedOut) => false,
        };
        if goes_again { RetryDecision::Retry } else { RetryDecision::Fail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decisions for a request that is unsent, sent and may be repeated, and sent and may not.
    #[track_caller]
    fn check(position: Position, disconnect: Disconnect, expected: [RetryDecision; 3]) {
        let [unsent, repeatable, other] = expected;
        let rows =
            [(false, true, unsent), (false, false, unsent), (true, true, repeatable), (true, false, other)];
        for (is_sent, may_repeat, decision) in rows {
            assert_eq!(
                RetryDecision::new(position, disconnect, is_sent, may_repeat),
                decision,
                "{is_sent} {may_repeat}"
            );
        }
    }

    #[test]
    fn a_request_goes_again_if_it_does_no_harm_and_is_not_the_reason() {
        use Disconnect::{Broken, Clean, TimedOut};
        use RetryDecision::{Fail, Retry};
        check(Position::Head, TimedOut, [Fail, Fail, Fail]);
        check(Position::Head, Clean, [Retry, Retry, Fail]);
        check(Position::Head, Broken, [Retry, Fail, Fail]);
        check(Position::HeadAgain, TimedOut, [Fail, Fail, Fail]);
        check(Position::HeadAgain, Clean, [Fail, Fail, Fail]);
        check(Position::HeadAgain, Broken, [Fail, Fail, Fail]);
        check(Position::Behind, TimedOut, [Retry, Fail, Fail]);
        check(Position::Behind, Clean, [Retry, Retry, Fail]);
        check(Position::Behind, Broken, [Retry, Retry, Fail]);
    }
}
