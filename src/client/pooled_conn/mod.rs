//! [`PooledConn`]: one connection of a pool, with one exchange on it (RFC 9112 §9).

mod body;
mod head;
mod upload;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::exchange::{Exchange, ExchangeSpec, Upload};
use super::pool::{CheckoutMiss, IdleConn, Pool, PoolPermit};
use super::redirect::RedirectTaint;
use super::settings::Settings;
use super::{ClientCause, ClientError, ClientPhase};
use crate::exchange::{ExchangeError, Expectation, Phase};
use crate::message::{Request, Timings};
use crate::net::{Conn, ReadBuffer, Sendable, TimerSlot, Transport};
use crate::runtime::{self, Instant, timeout};
use crate::wire::{Announcement, Wish};

/// One connection while it is in use. Dropping it closes the connection and frees its permit.
///
/// It is three pointers, since it moves from one future to the next, and what it holds goes back to the pool.
pub(super) struct PooledConn {
    pub(super) conn: Box<Conn<Sendable>>,
    pub(super) exchange: Box<Exchange>,
    /// The last field, so that the permit becomes free after the connection is back in the pool.
    pub(super) permit: PoolPermit,
}

impl PooledConn {
    pub(super) fn new(conn: Box<Conn<Sendable>>, permit: PoolPermit, timings: Timings) -> PooledConn {
        let (now, exchange) = (runtime::now(), permit.pool.take_exchange());
        PooledConn::over((conn, now), exchange, permit, timings, now)
    }

    /// A connection over a resting connection of `pool`, if there is one and no request waits for it. This is the usual case,
    /// and needs no future.
    pub(super) fn checkout(pool: Arc<Pool>, now: Instant) -> Result<PooledConn, CheckoutMiss> {
        let permit = pool.try_acquire().map_err(|pool| CheckoutMiss::NoPermit(pool, now))?;
        PooledConn::from_idle(permit, Duration::ZERO, now).map_err(CheckoutMiss::NoIdle)
    }

    /// A connection over a resting connection of the pool of `permit`, for which the request has waited for `queue`. Returns
    /// the permit if no connection rests there.
    pub(super) fn from_idle(
        permit: PoolPermit,
        queue: Duration,
        now: Instant,
    ) -> Result<PooledConn, PoolPermit> {
        let Some((IdleConn { conn, opened_at, .. }, exchange)) = permit.pool.take_idle(now) else {
            return Err(permit);
        };
        let timings = Timings { queue, reused: true, ..Timings::default() };
        Ok(PooledConn::over((conn, opened_at), exchange, permit, timings, now))
    }

    /// A connection over a connection that was opened at `opened_at`.
    fn over(
        (mut conn, opened_at): (Box<Conn<Sendable>>, Instant),
        mut exchange: Box<Exchange>,
        permit: PoolPermit,
        timings: Timings,
        phase_start: Instant,
    ) -> PooledConn {
        conn.swap_io_state(&mut exchange.io_state);
        exchange.persistence.opened_at = opened_at;
        (exchange.progress.timings, exchange.progress.phase_start) = (timings, phase_start);
        PooledConn { conn, exchange, permit }
    }

    /// The settings of the client.
    pub(super) fn settings(&self) -> &Settings {
        &self.permit.pool.settings
    }

    /// Whether the connection was used before this exchange.
    pub(super) fn is_reused(&self) -> bool {
        self.exchange.progress.timings.reused
    }

    /// Writes the head of the request to the output, and begins its body.
    pub(super) fn begin(
        &mut self,
        (request, taint): (&Request, RedirectTaint),
        announcement: Announcement,
        cookie: Option<&[u8]>,
        deadline: Option<Instant>,
    ) {
        self.exchange.spec = ExchangeSpec::of(request, deadline);
        self.permit.pool.write_head(self.conn.write_buffer().bytes(), (request, taint), announcement, cookie);
        self.exchange.outgoing.begin(announcement);
        self.exchange.persistence.persists &= Wish::of(&request.headers) != Wish::Close;
        let waits = announcement.expects() && Expectation::of(&request.headers) == Ok(Expectation::Continue);
        self.exchange.progress.upload = if waits { Upload::Expecting } else { Upload::Sending };
    }

    /// Notes the target of the request, for a caller that goes on without the request.
    pub(super) fn note_target(&mut self, target: &str) {
        self.exchange.target.clear();
        self.exchange.target.push_str(target);
    }

    /// Closes the connection. The rest of the body will not be received.
    pub(super) fn close(&mut self) {
        self.conn.transport = Transport::Closed;
        self.exchange.incoming.drop_input();
    }

    /// Discards what is left of the body, if that is little and arrives soon, so that the connection can be used again.
    pub(super) async fn discard(mut self) {
        if !self.exchange.persistence.persists {
            return self.release();
        }
        let drained = poll_fn(|cx| {
            if self.check_deadline(cx, ClientPhase::Receive).is_err() {
                return Poll::Ready(false);
            }
            let PooledConn { conn, exchange, permit } = &mut self;
            let drained = exchange.incoming.poll_drain(cx, conn, &permit.pool.settings.bounds);
            drained.map(|drained| drained.unwrap_or(false))
        });
        if timeout(DISCARD_MAX, drained).await.unwrap_or(false) {
            self.release();
        }
    }

    /// Gives the connection back to the pool, if the exchange is complete and another one may follow.
    pub(super) fn release(self) {
        self.release_at(runtime::now());
    }

    fn release_at(mut self, now: Instant) {
        let Exchange { incoming, persistence, progress, .. } = &mut *self.exchange;
        incoming.consume_chunk();
        // Bytes that nobody asked for are no answer (§9.2), whether they come after the one that was asked for or
        // before it.
        let is_clean = progress.is_answered()
            && incoming.is_read()
            && incoming.input.is_empty()
            && self.conn.has_sent_all();
        if !(persistence.persists && is_clean && matches!(progress.upload, Upload::Sent)) {
            self.conn.transport.try_shutdown();
            return;
        }
        let PooledConn { mut conn, mut exchange, permit } = self;
        conn.disarm(TimerSlot::Total);
        conn.swap_io_state(&mut exchange.io_state);
        permit.pool.give(conn, exchange, now);
    }

    /// Whether the failed request can be sent again: nothing has been received, and the server cannot have acted on it,
    /// or acting twice does no harm (RFC 9110 §9.2.2). A body that is a stream is gone.
    pub(super) fn may_retry(&self, request: &Request, error: &ClientError) -> bool {
        let traffic = self.conn.traffic();
        let was_closed = matches!(
            error.cause(),
            ClientCause::Closed | ClientCause::Exchange(ExchangeError::Io(_) | ExchangeError::Incomplete)
        );
        was_closed
            && !error.is_timeout()
            && self.is_reused()
            && traffic.received == 0
            && (request.method().is_idempotent() || traffic.sent == 0)
            && !request.body.is_stream()
    }

    /// The error of a caller whose exchange has failed in `phase`.
    pub(super) fn fail(&self, phase: ClientPhase, error: ExchangeError) -> ClientError {
        match error {
            // Whoever receives sends what waits, too.
            ExchangeError::TimedOut(Phase::Write, _) => self.error(ClientPhase::Send, ClientCause::TimedOut),
            ExchangeError::TimedOut(_, limit) => {
                self.error(phase, ClientCause::TimedOut).with_time_limit(limit)
            }
            error => self.error(phase, ClientCause::Exchange(error)),
        }
    }

    /// An error with what is known about this connection: whether it was reused, whether anything was sent, and to whom.
    #[cold]
    pub(super) fn error(&self, phase: ClientPhase, cause: ClientCause) -> ClientError {
        let Pool { origin, proxy, settings, .. } = &*self.permit.pool;
        let peer = self.conn.transport.peer_addr();
        let subject = match (proxy, peer) {
            (None, Some(peer)) => peer.to_string(),
            (None, None) => origin.host_and_port(),
            (Some(proxy), _) => proxy.subject(origin),
        };
        let error = ClientError::new(phase, cause)
            .with_subject(subject)
            .with_peer(peer)
            .with_phase_limit(|phase| settings.timeouts.of_phase(phase));
        let error = error.on_connection(self.is_reused(), self.conn.traffic().sent > 0);
        match &*self.exchange.target {
            "" => error,
            target => error.with_url(target).with_origin(origin.key()),
        }
    }

    /// Fails when the time limit of the whole exchange is over; until then, the task is woken at its end. Each poll of the
    /// exchange begins with this check: a server that always sends more, or reads all that comes, would otherwise never
    /// let the exchange wait.
    #[inline]
    pub(super) fn check_deadline(
        &mut self,
        cx: &mut Context<'_>,
        phase: ClientPhase,
    ) -> Result<(), ClientError> {
        match self.exchange.spec.deadline {
            Some(deadline) => self.check_passed(cx, deadline, phase),
            None => Ok(()),
        }
    }

    /// Checks `deadline`. While the connection waits for it, no clock is read.
    #[inline(never)]
    fn check_passed(
        &mut self,
        cx: &mut Context<'_>,
        deadline: Instant,
        phase: ClientPhase,
    ) -> Result<(), ClientError> {
        self.conn.arm(TimerSlot::Total, deadline);
        match self.conn.poll_expired(cx, TimerSlot::Total, Duration::ZERO) {
            Poll::Ready(_) => {
                Err(self.error(phase, ClientCause::TimedOut).with_total_limit(self.exchange.spec.total))
            }
            Poll::Pending => Ok(()),
        }
    }

    /// Ends the wait for more of the body. The time until the next wait does not count against the server.
    pub(super) fn pause(&mut self) {
        self.exchange.incoming.pause(&mut self.conn);
    }

    /// The connection, to be taken over, and what the server has already sent.
    pub(super) fn into_parts(self) -> (Box<Conn<Sendable>>, ReadBuffer) {
        let PooledConn { mut conn, mut exchange, .. } = self;
        conn.swap_io_state(&mut exchange.io_state);
        exchange.incoming.forget_message();
        (conn, exchange.incoming.input.take_unread())
    }
}

/// How long draining a connection is worth the wait: opening another one is faster.
const DISCARD_MAX: Duration = Duration::from_secs(1);
