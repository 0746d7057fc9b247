//! [`PooledConn`]: one connection of a pool while an exchange uses it (RFC 9112 §9), and the body that it receives
//! (§6).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::ReadBuf;

use super::idle_conns::IdleConn;
use super::pool::{CheckoutMiss, Pool, PoolPermit, ReturnedConn};
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::exchange::{ClientConnection, ClientExchange, OutgoingRequest, ResponseStage, Upload};
use crate::client::observe::ExchangeEnd;
use crate::client::settings::{ClientSettings, ClientTimeouts, RequestTimeouts};
use crate::coding::{CODED_CONTENT_FIELDS, CodingError, ContentDecoder, DECODED_PER_STEP, DecoderChain};
use crate::exchange::{ExchangeError, Expectation, Phase, poll_drain};
use crate::memory::Arena;
use crate::message::{Request, Response, Status, Timings};
use crate::net::{Conn, ReadBuffer, Sendable, TimerSlot, Transport};
use crate::runtime::{self, Instant, timeout};
use crate::wire::parse::Leniency;
use crate::wire::{ConnectionOption, OutgoingFraming};

/// One connection while it is in use. Dropping it closes the connection and frees its permit.
///
/// The struct is three pointers, since it moves from one future to the next.
pub(crate) struct PooledConn {
    pub(in crate::client) conn: Box<Conn<Sendable>>,
    pub(in crate::client) exchange: Box<ClientExchange>,
    /// The last field, so that the permit becomes free after the connection is back in the pool.
    pub(in crate::client) permit: PoolPermit,
}

impl PooledConn {
    pub(in crate::client) fn new(
        conn: Box<Conn<Sendable>>,
        permit: PoolPermit,
        timings: Timings,
    ) -> PooledConn {
        let connection_info = ClientConnection::new(&conn.transport);
        let exchange = permit.pool.take_exchange();
        let now = connection_info.opened_at;
        let mut pooled = PooledConn::from_parts((conn, Arc::new(connection_info)), exchange, permit, now);
        pooled.exchange.progress.timings = timings;
        pooled
    }

    /// Returns an idle connection of `pool`, if there is one and no request waits for it. The usual case, which needs
    /// no future.
    pub(in crate::client) fn checkout(pool: Arc<Pool>, now: Instant) -> Result<PooledConn, CheckoutMiss> {
        let permit = pool.try_acquire().map_err(|pool| CheckoutMiss::NoPermit(pool, now))?;
        PooledConn::from_idle(permit, Duration::ZERO, now).map_err(CheckoutMiss::NoIdle)
    }

    /// Returns an idle connection of the pool of `permit`, for which the request has waited for `queue`; the permit, if
    /// no connection is idle.
    pub(in crate::client) fn from_idle(
        permit: PoolPermit,
        queue: Duration,
        now: Instant,
    ) -> Result<PooledConn, PoolPermit> {
        match permit.pool.take_idle(now) {
            Some((idle_conn, exchange)) => {
                Ok(PooledConn::from_idle_parts(idle_conn, exchange, permit, queue, now))
            }
            None => Err(permit),
        }
    }

    /// Returns a connection that came back while a request of `pool` waited for `queue`, unless its server has closed
    /// it.
    pub(super) fn from_returned(
        returned: ReturnedConn,
        pool: &Arc<Pool>,
        queue: Duration,
        now: Instant,
    ) -> Option<PooledConn> {
        let (idle_conn, permit) = returned.into_parts(pool, now)?;
        let exchange = permit.pool.take_exchange();
        Some(PooledConn::from_idle_parts(idle_conn, exchange, permit, queue, now))
    }

    #[inline]
    fn from_idle_parts(
        IdleConn { conn, connection_info, is_used, .. }: IdleConn,
        exchange: Box<ClientExchange>,
        permit: PoolPermit,
        queue: Duration,
        now: Instant,
    ) -> PooledConn {
        let mut pooled = PooledConn::from_parts((conn, connection_info), exchange, permit, now);
        let progress = &mut pooled.exchange.progress;
        progress.was_idle = true;
        progress.timings.queue = queue;
        progress.timings.reused = is_used;
        pooled
    }

    /// Adds the memory of an exchange to a connection. A phase begins `now`.
    #[inline]
    fn from_parts(
        (mut conn, connection_info): (Box<Conn<Sendable>>, Arc<ClientConnection>),
        mut exchange: Box<ClientExchange>,
        permit: PoolPermit,
        now: Instant,
    ) -> PooledConn {
        debug_assert_eq!(exchange.progress.timings, Timings::default(), "the memory was reset");
        debug_assert_eq!(exchange.progress.stage, ResponseStage::Awaited, "the memory was reset");
        debug_assert!(
            exchange.incoming.input.is_empty() && exchange.target.is_empty(),
            "the memory was reset"
        );
        conn.swap_io_state(&mut exchange.io_state);
        debug_assert!(exchange.io_state.is_none(), "the buffers are with the connection");
        exchange.connection_info = Some(connection_info);
        exchange.progress.phase_start = now;
        PooledConn { conn, exchange, permit }
    }

    /// The settings of the client.
    pub(in crate::client) fn settings(&self) -> &ClientSettings {
        &self.permit.pool.settings
    }

    /// The timeouts of the phases of this exchange.
    pub(in crate::client) fn timeouts(&self) -> &ClientTimeouts {
        self.exchange.spec.timeouts.of_phases(self.settings())
    }

    /// The connection, the exchange and the settings, apart.
    #[inline]
    pub(super) fn parts(&mut self) -> (&mut Conn<Sendable>, &mut ClientExchange, &ClientSettings) {
        (&mut self.conn, &mut self.exchange, &self.permit.pool.settings)
    }

    /// Whether the connection was used before this exchange.
    pub(in crate::client) fn is_reused(&self) -> bool {
        self.exchange.progress.timings.reused
    }

    /// Writes the head of the request to the write buffer, and begins its body.
    pub(in crate::client) fn begin(
        &mut self,
        outgoing: &OutgoingRequest<'_>,
        framing: OutgoingFraming,
        timeouts: &RequestTimeouts,
    ) {
        debug_assert_eq!(self.conn.write_buffer().len(), 0, "the head is the first to be written");
        debug_assert_eq!(self.exchange.progress.stage, ResponseStage::Awaited, "one request at a time");
        let OutgoingRequest { request, .. } = *outgoing;
        self.exchange.spec.fill_from(request, timeouts);
        self.permit.pool.write_head(self.conn.write_buffer().bytes(), outgoing, framing);
        self.exchange.outgoing.begin(framing);
        self.exchange.persistence.persists &=
            ConnectionOption::from_headers(&request.headers) != ConnectionOption::Close;
        let waits =
            framing.expects() && Expectation::from_headers(&request.headers) == Ok(Expectation::Continue);
        self.exchange.progress.upload = if waits { Upload::SendingHead } else { Upload::Sending };
    }

    /// Stores the target of the request for errors, for a caller that keeps no request.
    pub(in crate::client) fn note_target(&mut self, target: &str) {
        self.exchange.target.clear();
        self.exchange.target.push_str(target);
    }

    /// Whether the server has closed this connection, which was idle, as the kernel has it. The runtime may not have noticed.
    pub(in crate::client) fn is_closed_in_kernel(&mut self) -> bool {
        self.exchange.progress.was_idle && !self.conn.transport.is_quiet_in_kernel()
    }

    /// Closes the connection. The rest of the body will not be received.
    pub(in crate::client) fn close(&mut self) {
        self.conn.transport = Transport::Closed;
        self.exchange.incoming.drop_input();
    }

    /// Discards what is left of the body, if that is little and arrives soon, so that the connection can be used again.
    pub(in crate::client) async fn discard(mut self) {
        if !self.exchange.persistence.persists {
            return self.release();
        }
        let drained = poll_fn(|cx| {
            if self.check_deadline(cx, ClientPhase::Receive).is_err() {
                return Poll::Ready(false);
            }
            let (conn, exchange, settings) = self.parts();
            let bounds = exchange.spec.timeouts.bounds(settings);
            let drained = poll_drain(&mut exchange.incoming, cx, conn, bounds);
            drained.map(|drained| drained.unwrap_or(false))
        });
        if timeout(DISCARD_MAX, drained).await.unwrap_or(false) {
            self.release();
        }
    }

    /// Gives the connection back to the pool, if the exchange is complete and another one may follow.
    pub(in crate::client) fn release(self) {
        self.release_at(runtime::now());
    }

    fn release_at(mut self, now: Instant) {
        let persists = self.exchange.persists();
        let ClientExchange { incoming, progress, .. } = &mut *self.exchange;
        incoming.consume_piece();
        // Bytes that answer no request are no response (§9.2), whether they come after the one to this request or
        // before it.
        let is_clean = progress.has_response()
            && incoming.is_end_stream()
            && incoming.input.is_empty()
            && self.conn.has_sent_all();
        if !(persists && is_clean && matches!(progress.upload, Upload::Sent)) {
            self.conn.transport.try_shutdown();
            return;
        }
        let PooledConn { mut conn, mut exchange, permit } = self;
        conn.disarm(TimerSlot::Other);
        conn.swap_io_state(&mut exchange.io_state);
        permit.give(conn, exchange, now);
    }

    /// Whether the failed request can be sent again: nothing has been received, and the server cannot have acted on it,
    /// or acting twice does no harm (RFC 9110 §9.2.2). Of a stream that was taken, the beginning is gone.
    pub(in crate::client) fn may_retry(&self, request: &Request, error: &ClientError) -> bool {
        let traffic = self.conn.traffic();
        let was_closed = matches!(
            error.cause(),
            ClientCause::Closed
                | ClientCause::Tls(_)
                | ClientCause::Exchange(ExchangeError::Io(_) | ExchangeError::Incomplete)
        );
        was_closed
            && !error.is_timeout()
            && self.exchange.progress.was_idle
            && traffic.received == 0
            && (request.method().is_idempotent() || traffic.sent == 0)
            && request.body.rewind()
    }

    /// The error of an exchange that has failed in `phase`.
    pub(in crate::client) fn exchange_error(
        &mut self,
        phase: ClientPhase,
        error: ExchangeError,
    ) -> ClientError {
        match error {
            // A read also flushes what waits to be written.
            ExchangeError::TimedOut(Phase::Write, _) => self.error(ClientPhase::Send, ClientCause::TimedOut),
            ExchangeError::TimedOut(_, limit) => {
                self.error(phase, ClientCause::TimedOut).with_time_limit(limit)
            }
            error => self.error(phase, ClientCause::from_exchange(error)),
        }
    }

    /// The error with which this exchange fails in `phase`.
    #[cold]
    pub(in crate::client) fn error(&mut self, phase: ClientPhase, cause: ClientCause) -> ClientError {
        self.exchange.progress.end = Some(ExchangeEnd::Failed(phase));
        self.describe_error(phase, cause)
    }

    /// An error with the circumstances of this connection: whether it was reused, whether anything was sent, and its
    /// peer.
    #[cold]
    pub(in crate::client) fn describe_error(&self, phase: ClientPhase, cause: ClientCause) -> ClientError {
        let Pool { origin, proxy, .. } = &*self.permit.pool;
        let peer = self.conn.transport.peer_addr();
        let subject = match (proxy, peer) {
            (None, Some(peer)) => peer.to_string(),
            (None, None) => origin.host_and_port(),
            (Some(proxy), _) => proxy.subject(origin),
        };
        let error = ClientError::new(phase, cause)
            .with_subject(subject)
            .with_peer(peer)
            .with_phase_limit(|phase| self.timeouts().phase_limit(phase));
        let error = error.on_connection(self.is_reused(), self.conn.traffic().sent > 0);
        let error = error.with_retries(self.exchange.spec.retries.clone());
        match &*self.exchange.target {
            "" => error,
            target => error.with_url(target).with_origin(origin.key()),
        }
    }

    /// Fails when the time limit of the whole exchange is over; until then, the task is woken at its end. Each poll of
    /// the exchange begins with this check: a server that always sends more, or reads all that comes, would otherwise
    /// never let the exchange wait.
    #[inline]
    pub(in crate::client) fn check_deadline(
        &mut self,
        cx: &mut Context<'_>,
        phase: ClientPhase,
    ) -> Result<(), ClientError> {
        match self.exchange.spec.timeouts.deadline {
            Some(deadline) => self.check_deadline_at(cx, deadline, phase),
            None => Ok(()),
        }
    }

    /// Checks `deadline`. While the connection waits for it, no clock is read.
    #[inline(never)]
    fn check_deadline_at(
        &mut self,
        cx: &mut Context<'_>,
        deadline: Instant,
        phase: ClientPhase,
    ) -> Result<(), ClientError> {
        self.conn.arm(TimerSlot::Other, deadline);
        match self.conn.poll_timeout(cx, TimerSlot::Other, Duration::ZERO) {
            Poll::Ready(_) => Err(self
                .error(phase, ClientCause::TimedOut)
                .with_total_limit(self.exchange.spec.timeouts.total)),
            Poll::Pending => Ok(()),
        }
    }

    /// Stores in `response` how it was received: the timings so far, the version and the connection.
    #[inline]
    pub(in crate::client) fn set_client_info(&self, response: &mut Response) {
        let ClientExchange { connection_info, progress, spec, .. } = &*self.exchange;
        if let Some(info) = connection_info {
            response.set_client_info(&progress.timings, progress.version, info);
        }
        if let Some(retries) = &spec.retries {
            response.set_client_retries(retries);
        }
    }

    /// Ends the wait for more of the body. The time until the next read does not count against the server.
    pub(in crate::client) fn end_wait(&mut self) {
        self.exchange.incoming.end_wait(&mut self.conn);
    }

    /// The connection, to be upgraded, and what the server has already sent.
    pub(in crate::client) fn into_parts(self) -> (Box<Conn<Sendable>>, ReadBuffer) {
        debug_assert!(self.exchange.progress.has_response(), "a final response has been received");
        let PooledConn { mut conn, mut exchange, .. } = self;
        exchange.count_end(ExchangeEnd::Answered, conn.total_traffic());
        conn.swap_io_state(&mut exchange.io_state);
        exchange.incoming.forget_message();
        (conn, exchange.incoming.input.take_unread())
    }
}

/// How long draining a connection may take, for which the next request waits. Opening another one is as fast.
const DISCARD_MAX: Duration = Duration::from_millis(100);

impl PooledConn {
    /// Receives the whole body into `response`, and gives the connection back.
    pub(in crate::client) async fn receive_body(
        mut self,
        response: &mut Response,
    ) -> Result<(), ClientError> {
        let received = poll_fn(|cx| self.poll_whole(cx, response)).await;
        // A part of the body must not pass for the whole.
        received.inspect_err(|_| response.body.clear())?;
        let now = self.exchange.progress.phase_start;
        self.release_at(now);
        Ok(())
    }

    /// Receives the whole body into `response`, with the timings if that takes time, and keeps the connection.
    pub(in crate::client) fn poll_whole(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        self.check_deadline(cx, ClientPhase::Receive)?;
        // Nothing takes time if all of it came with the head, unless it is decoded.
        let takes_time =
            self.exchange.progress.decoder.is_some() || !self.exchange.incoming.has_body_arrived();
        let content = response.body.receive();
        match self.exchange.progress.decoder {
            Some(_) => ready!(self.poll_body_decoded(cx, content))?,
            None => ready!(self.poll_body(cx, content))?,
        }
        let ClientExchange { incoming, progress, .. } = &mut *self.exchange;
        debug_assert!(response.trailers.is_empty(), "the response was reset");
        if !incoming.trailers.is_empty() {
            std::mem::swap(&mut response.trailers, &mut incoming.trailers);
        }
        if takes_time {
            progress.timings.receive = progress.end_phase();
            self.permit.pool.events.count(|counts| counts.receive.count(progress.timings.receive));
            self.set_client_info(response);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_body(&mut self, cx: &mut Context<'_>, content: &mut Arena) -> Poll<Result<(), ClientError>> {
        let (conn, exchange, settings) = self.parts();
        let bounds = exchange.spec.timeouts.bounds(settings);
        let received = exchange.incoming.poll_body(cx, conn, bounds, bounds.limits.body_max, content);
        received.map_err(|error| self.exchange_error(ClientPhase::Receive, error))
    }

    /// The bytes that the last [`PooledConn::poll_piece`] received.
    pub(in crate::client) fn piece(&self) -> &[u8] {
        match &self.exchange.progress.decoder {
            Some(decoder) => decoder.piece(),
            None => self.exchange.incoming.piece(),
        }
    }

    /// Copies as much of the piece as fits into `out`, and as one read may copy. The rest becomes the next piece.
    pub(in crate::client) fn read_piece(&mut self, out: &mut ReadBuf<'_>) {
        let has_deadline = self.exchange.spec.timeouts.deadline.is_some();
        let most =
            if has_deadline { self.exchange.progress.read_size.next(runtime::now()) } else { usize::MAX };
        let piece = self.piece();
        let count = piece.len().min(out.remaining()).min(most);
        out.put_slice(&piece[..count]);
        match &mut self.exchange.progress.decoder {
            Some(decoder) => decoder.truncate_piece(count),
            None => self.exchange.incoming.truncate_piece(count),
        }
    }

    /// Receives the next piece of the body, which stays in the connection until the next call. Returns its length, 0 at
    /// the end.
    pub(in crate::client) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ClientError>> {
        let is_decoded = self.exchange.progress.decoder.is_some();
        let is_over = !is_decoded && self.exchange.incoming.is_end_stream();
        if !is_over {
            self.check_deadline(cx, ClientPhase::Receive)?;
        }
        match is_decoded {
            true => self.poll_decoded(cx, Reading::InPieces),
            false => self.poll_received(cx, Reading::InPieces),
        }
    }

    /// Receives the next piece of the body as it was sent, which stays in `incoming` until the next call.
    fn poll_received(&mut self, cx: &mut Context<'_>, reading: Reading) -> Poll<Result<usize, ClientError>> {
        let (conn, exchange, settings) = self.parts();
        let timeouts = &exchange.spec.timeouts;
        let bounds = match reading {
            Reading::Whole => timeouts.bounds(settings),
            Reading::InPieces => timeouts.streamed_bounds(settings),
        };
        let received = exchange.incoming.poll_piece(cx, conn, bounds);
        received.map_err(|error| self.exchange_error(ClientPhase::Receive, error))
    }

    /// Sets up decoding of the body, if the client decodes, and removes the fields that describe the coded form.
    /// Unknown codings stay, and so do those of a partial content, which cannot be decoded without the other parts (RFC
    /// 9110 §15.3.7).
    pub(in crate::client) fn decode(&mut self, response: &mut Response) -> Result<(), ClientError> {
        let is_whole = !self.exchange.incoming.is_end_stream() && response.status != Status::PARTIAL_CONTENT;
        match self.settings().decode_max.filter(|_| is_whole) {
            Some(most) => self.begin_decoding(response, most),
            None => Ok(()),
        }
    }

    /// Sets up decoding, to no more than `most` bytes. Not inlined, since decoders take much of the stack.
    #[inline(never)]
    fn begin_decoding(&mut self, response: &mut Response, most: usize) -> Result<(), ClientError> {
        match DecoderChain::from_headers(&response.headers, most) {
            Ok(None) | Err(CodingError::Unknown) => {}
            Ok(Some(mut decoders)) => {
                response.headers.remove_each(&CODED_CONTENT_FIELDS);
                if self.settings().leniency != Leniency::None {
                    decoders.ignore_junk();
                }
                self.exchange.progress.decoder = Some(Box::new(ContentDecoder::new(decoders, most)));
            }
            Err(error) => {
                self.close();
                return Err(self.coding_error(error));
            }
        }
        Ok(())
    }

    /// Decodes the next piece of the body, which stays in `decoder` until the next call. Returns its length, 0 at the
    /// end.
    fn poll_decoded(&mut self, cx: &mut Context<'_>, reading: Reading) -> Poll<Result<usize, ClientError>> {
        // A little input may decode to a lot.
        ready!(self.exchange.budget.poll_proceed(cx));
        loop {
            let ClientExchange { incoming, progress, budget, .. } = &mut *self.exchange;
            let Some(decoder) = &mut progress.decoder else { return self.poll_received(cx, reading) };
            match decoder.pull(incoming.piece()) {
                Ok(0) => {}
                Ok(count) => {
                    budget.spend(count);
                    return Poll::Ready(Ok(count));
                }
                Err(error) => return Poll::Ready(Err(self.coding_error(error))),
            }
            let end = decoder.end();
            let received = ready!(self.poll_received(cx, reading))?;
            if received == 0 {
                self.exchange.incoming.trailers.remove_each(&CODED_CONTENT_FIELDS);
                return Poll::Ready(end.map(|()| 0).map_err(|error| self.coding_error(error)));
            }
            // Much input may have arrived during the upload, and may decode to nothing; other tasks run in between.
            let ClientExchange { incoming, budget, .. } = &mut *self.exchange;
            let piece = received.min(DECODED_PER_STEP);
            incoming.truncate_piece(piece);
            budget.spend(piece);
            ready!(budget.poll_proceed(cx));
        }
    }

    /// Decodes the whole body into `content`.
    fn poll_body_decoded(
        &mut self,
        cx: &mut Context<'_>,
        content: &mut Arena,
    ) -> Poll<Result<(), ClientError>> {
        while ready!(self.poll_decoded(cx, Reading::Whole))? > 0 {
            content.extend(self.piece());
            let body_max = self.exchange.spec.timeouts.bounds(self.settings()).limits.body_max;
            if content.len() > body_max {
                return Poll::Ready(Err(
                    self.exchange_error(ClientPhase::Receive, ExchangeError::body_too_large(body_max, None))
                ));
            }
        }
        Poll::Ready(Ok(()))
    }

    fn coding_error(&mut self, error: CodingError) -> ClientError {
        self.error(ClientPhase::Receive, ClientCause::Coding(error))
    }
}

/// How a body is received.
#[derive(Clone, Copy)]
enum Reading {
    Whole,
    /// By a caller that sees the rate. No minimal one applies.
    InPieces,
}
