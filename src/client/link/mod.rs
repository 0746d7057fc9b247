//! [`Link`]: one connection of a pool, and one exchange on it (RFC 9112 §9).

mod decoding;
mod upload;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::ReadBuf;

use super::exchange::{Exchange, INTERIM_MAX, Upload};
use super::pool::{Missing, Place, Pool, Resting};
use super::redirect::Goal;
use super::settings::Settings;
use super::{ClientCause, ClientError, ClientPhase};
use crate::exchange::{ExchangeError, Head, Reply};
use crate::memory::{Arena, Reset};
use crate::message::{Length, Name, Request, Response, Status, Timings};
use crate::net::{Anywhere, Buffer, Conn, Lane, Transport};
use crate::runtime::{self, Instant};
use crate::wire::{Announcement, Asked, Framing, Wish, patience, persists};

/// One connection while it is in use. Dropping it closes the connection and frees its place.
///
/// It moves from one future to the next and so is small: what else the exchange needs lies in a box.
pub(super) struct Link {
    pub(super) conn: Conn<Anywhere>,
    pub(super) exchange: Box<Exchange>,
    /// Last, for whoever waits for it may find the connection in the pool.
    pub(super) place: Place,
}

impl Link {
    pub(super) fn new(conn: Conn<Anywhere>, place: Place, timings: Timings) -> Link {
        let (now, exchange) = (runtime::now(), place.pool.take_exchange());
        Link::over(Resting::new(conn, now), exchange, place, timings, now)
    }

    /// A link over a connection of `pool` that has rested, if there is one and nobody waits for it: what is usual, and
    /// needs no future.
    pub(super) fn rested(pool: Arc<Pool>, now: Instant) -> Result<Link, Missing> {
        let place = pool.try_enter().map_err(|pool| Missing::Place(pool, now))?;
        Link::over_rested(place, Duration::ZERO, now).map_err(Missing::Connection)
    }

    /// The same, for whoever has a place and has waited for it for as long as `queue`. If there is none the place is
    /// left.
    pub(super) fn over_rested(place: Place, queue: Duration, now: Instant) -> Result<Link, Place> {
        let Some((resting, exchange)) = place.pool.take(now) else { return Err(place) };
        let timings = Timings { queue, reused: true, ..Timings::default() };
        Ok(Link::over(resting, exchange, place, timings, now))
    }

    fn over(
        resting: Resting,
        mut exchange: Box<Exchange>,
        place: Place,
        timings: Timings,
        mark: Instant,
    ) -> Link {
        let Resting { mut conn, born, .. } = resting;
        conn.swap_workspace(&mut exchange.workspace);
        (exchange.timings, exchange.born, exchange.mark) = (timings, born, mark);
        Link { conn, exchange, place }
    }

    /// What the client was told.
    pub(super) fn settings(&self) -> &Settings {
        &self.place.pool.settings
    }

    /// Writes the request's head where it waits to be sent. `content` is how long its body will be.
    pub(super) fn begin(
        &mut self,
        (request, goal): (&Request, Goal),
        content: Length,
        cookie: Option<&str>,
        deadline: Option<Instant>,
    ) {
        self.exchange.deadline = deadline;
        self.exchange.asked = Asked::new(request);
        self.exchange.asks_for_upgrade = request.headers.contains("upgrade");
        let announcement = Announcement::of_request(request.method(), content, !request.trailers.is_empty());
        self.place.pool.write_head(self.conn.output().bytes(), (request, goal), announcement, cookie);
        self.exchange.outgoing.begin(announcement.framing());
        self.exchange.persists = Wish::of(&request.headers) != Wish::Close;
        let expects =
            request.headers.first(Name::EXPECT).is_some_and(|it| it.eq_ignore_ascii_case(b"100-continue"));
        self.exchange.upload = if expects && announcement.framing() != Framing::Empty {
            Upload::Expecting
        } else {
            Upload::Sending
        };
    }

    /// Sends `body`, if it is all here, and receives the head of the final answer.
    pub(super) fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        body: Option<&Request>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        while !self.exchange.is_answered {
            let _ = self.poll_upload(cx, body)?;
            match self.poll_head(cx, response) {
                Poll::Ready(Ok(())) => self.settle(response)?,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if self.go_ahead_if_due(cx) => continue,
                Poll::Pending => return self.poll_deadline(cx, self.phase()).map(Err),
            }
        }
        match self.poll_upload(cx, body)? {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending if self.poll_ahead(cx)?.is_ready() => Poll::Ready(Ok(())),
            Poll::Pending => self.poll_deadline(cx, ClientPhase::Send).map(Err),
        }
    }

    /// Receives one head, be it the final one or not.
    fn poll_head(&mut self, cx: &mut Context<'_>, response: &mut Response) -> Poll<Result<(), ClientError>> {
        let Link { conn, exchange, place } = self;
        let bounds = &place.pool.settings.bounds;
        // The server may think about what it has heard only when it has heard it, or will hear no more.
        let is_over = matches!(exchange.upload, Upload::Sent | Upload::Failed(_));
        let limit = if is_over { bounds.timeouts.head } else { Duration::MAX };
        let mut reply = Reply::new(response, exchange.asked);
        loop {
            match exchange.incoming.try_head(&mut reply, bounds) {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => return Poll::Ready(Err(self.fail(ClientPhase::Wait, error))),
            }
            let cause = match ready!(exchange.incoming.poll_head_bytes(cx, conn, limit)) {
                Ok(None) => continue,
                Ok(Some(Head::Silence)) => ClientCause::TimedOut,
                Ok(Some(Head::End | Head::Whole)) => ClientCause::Closed,
                Err(ExchangeError::TimedOut(_)) => ClientCause::TimedOut,
                Err(error) => ClientCause::Exchange(error),
            };
            return Poll::Ready(Err(self.unanswered(cause)));
        }
        let version = reply.version();
        self.exchange.persists &=
            persists(version, Wish::of(&response.headers)) && !self.exchange.incoming.ends_with_close();
        self.exchange.idle = patience(&response.headers);
        Poll::Ready(Ok(()))
    }

    /// Looks at the answer whose head has come: nothing is answered by one that is not the final one.
    fn settle(&mut self, response: &Response) -> Result<(), ClientError> {
        let is_upgrade = response.status == Status::SWITCHING_PROTOCOLS;
        if is_upgrade && !self.exchange.asks_for_upgrade {
            return Err(self.error(ClientPhase::Wait, ClientCause::Upgrade));
        }
        if response.status.is_informational() && !is_upgrade {
            self.exchange.interim += 1;
            if self.exchange.interim > INTERIM_MAX {
                return Err(self.error(ClientPhase::Wait, ClientCause::TooManyInterim));
            }
            if response.status == Status::CONTINUE {
                self.go_ahead();
            }
            self.exchange.incoming.forget_message();
            return Ok(());
        }
        self.exchange.is_answered = true;
        // What follows is not HTTP.
        self.exchange.persists &= !is_upgrade;
        // Many servers answer while they read; but whoever refuses reads no more, nor does who has said all and closes
        // (§9.3, §9.6).
        let has_said_all = Wish::of(&response.headers) == Wish::Close && self.exchange.incoming.has_come();
        let is_refused =
            response.status.is_client_error() || response.status.is_server_error() || has_said_all;
        match self.exchange.upload {
            Upload::Sending if !is_refused => {}
            Upload::Sent | Upload::Failed(_) | Upload::Abandoned => {}
            Upload::Sending | Upload::Expecting | Upload::Waiting => self.exchange.upload = Upload::Abandoned,
        }
        self.conn.disarm(Lane::Read);
        self.exchange.timings.wait = self.lap();
        Ok(())
    }

    /// Receives the final answer's head, if it has not come yet, although the request is not wholly sent.
    pub(super) fn poll_early(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        while !self.exchange.is_answered {
            ready!(self.poll_head(cx, response))?;
            self.settle(response)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Receives the whole body into `response`.
    pub(super) async fn receive_body(mut self, response: &mut Response) -> Result<(), ClientError> {
        poll_fn(|cx| self.poll_whole(cx, response)).await?;
        let now = self.exchange.mark;
        self.rest_from(now);
        Ok(())
    }

    /// The same, and the connection is kept.
    pub(super) fn poll_whole(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        let has_come = self.exchange.incoming.has_come();
        let content = response.body.receive();
        match self.exchange.decoding {
            Some(_) => ready!(self.poll_body_decoded(cx, content))?,
            None => ready!(self.poll_body(cx, content))?,
        }
        std::mem::swap(&mut response.trailers, &mut self.exchange.incoming.trailers);
        if !has_come {
            self.exchange.timings.receive = self.lap();
        }
        *response.timings_mut() = self.exchange.timings;
        Poll::Ready(Ok(()))
    }

    fn poll_body(&mut self, cx: &mut Context<'_>, content: &mut Arena) -> Poll<Result<(), ClientError>> {
        let Link { conn, exchange, place } = self;
        let bounds = &place.pool.settings.bounds;
        let received = exchange.incoming.poll_body(cx, conn, bounds, bounds.limits.body_max, content);
        self.within_deadline(cx, ClientPhase::Receive, received)
    }

    /// The bytes that the last [`Link::poll_chunk`] has received.
    pub(super) fn chunk(&self) -> &[u8] {
        match &self.exchange.decoding {
            Some(decoding) => decoding.piece(),
            None => self.exchange.incoming.chunk(),
        }
    }

    /// Copies as much of the chunk as fits into `out`; the rest is the next one.
    pub(super) fn read_chunk(&mut self, out: &mut ReadBuf<'_>) {
        let chunk = self.chunk();
        let count = chunk.len().min(out.remaining());
        out.put_slice(&chunk[..count]);
        match &mut self.exchange.decoding {
            Some(decoding) => decoding.took(count),
            None => self.exchange.incoming.took(count),
        }
    }

    /// Receives the next piece of the body: it lies in the link until the next call. None: it is at its end.
    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ClientError>> {
        match self.exchange.decoding {
            Some(_) => self.poll_decoded(cx),
            None => self.poll_received(cx),
        }
    }

    /// Receives the next piece of the body as it is sent: it lies in the incoming until the next call.
    pub(super) fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ClientError>> {
        let Link { conn, exchange, place } = self;
        let received = exchange.incoming.poll_chunk(cx, conn, &place.pool.settings.bounds);
        self.within_deadline(cx, ClientPhase::Receive, received)
    }

    /// Closes the connection. What was not received of the body never will be.
    pub(super) fn close(&mut self) {
        self.conn.transport = Transport::Closed;
        self.exchange.incoming.input.reset();
    }

    /// Drops what is left of the body, if that is little, for the sake of the connection.
    pub(super) async fn discard(mut self) {
        if !self.exchange.persists {
            return;
        }
        let drained = poll_fn(|cx| {
            let Link { conn, exchange, place } = &mut self;
            match exchange.incoming.poll_drain(cx, conn, &place.pool.settings.bounds) {
                Poll::Ready(drained) => Poll::Ready(drained.unwrap_or(false)),
                Poll::Pending => self.poll_deadline(cx, ClientPhase::Receive).map(|_| false),
            }
        });
        if drained.await {
            self.rest();
        }
    }

    /// Gives the connection back, if all of the exchange is over and another one may follow.
    pub(super) fn rest(self) {
        self.rest_from(runtime::now());
    }

    fn rest_from(mut self, now: Instant) {
        self.exchange.incoming.take_back();
        // What has come unasked is no answer (§9.2), be it behind the one that was asked for or before it.
        let is_clean = self.exchange.is_answered
            && self.exchange.incoming.is_read()
            && self.exchange.incoming.input.is_empty()
            && self.conn.has_sent_all();
        if !(self.exchange.persists && is_clean && matches!(self.exchange.upload, Upload::Sent)) {
            return;
        }
        let Link { mut conn, mut exchange, place } = self;
        conn.disarm(Lane::Whole);
        conn.swap_workspace(&mut exchange.workspace);
        place.pool.give(conn, exchange, now);
    }

    /// Whether the request can be sent again though it failed: nobody has answered any of it, and nobody can have
    /// acted on it, or it does not matter if they do so twice (RFC 9110 §9.2.2). A body that is a stream is gone.
    pub(super) fn may_retry(&self, request: &Request, error: &ClientError) -> bool {
        let traffic = self.conn.traffic();
        let was_closed = matches!(
            error.cause(),
            ClientCause::Closed | ClientCause::Exchange(ExchangeError::Io(_) | ExchangeError::Incomplete)
        );
        was_closed
            && !error.is_timeout()
            && self.exchange.timings.reused
            && traffic.received == 0
            && (request.method().is_idempotent() || traffic.sent == 0)
            && !request.body.is_stream()
    }

    pub(super) fn fail(&self, phase: ClientPhase, error: ExchangeError) -> ClientError {
        match error {
            ExchangeError::TimedOut(_) => self.error(phase, ClientCause::TimedOut),
            error => self.error(phase, ClientCause::Exchange(error)),
        }
    }

    pub(super) fn error(&self, phase: ClientPhase, cause: ClientCause) -> ClientError {
        ClientError::new(phase, cause).on(self.exchange.timings.reused, self.conn.traffic().sent > 0)
    }

    /// What it means that no answer comes: the request may have failed before.
    fn unanswered(&mut self, cause: ClientCause) -> ClientError {
        match std::mem::replace(&mut self.exchange.upload, Upload::Sent) {
            Upload::Failed(error) => self.fail(ClientPhase::Send, error),
            Upload::Sent | Upload::Abandoned => self.error(ClientPhase::Wait, cause),
            Upload::Sending | Upload::Expecting | Upload::Waiting => self.error(ClientPhase::Send, cause),
        }
    }

    fn phase(&self) -> ClientPhase {
        match self.exchange.upload {
            Upload::Sent | Upload::Abandoned => ClientPhase::Wait,
            Upload::Sending | Upload::Expecting | Upload::Waiting | Upload::Failed(_) => ClientPhase::Send,
        }
    }

    /// Ready when the time of the whole exchange is over.
    pub(super) fn poll_deadline(&mut self, cx: &mut Context<'_>, phase: ClientPhase) -> Poll<ClientError> {
        let Some(deadline) = self.exchange.deadline else { return Poll::Pending };
        self.conn.arm(Lane::Whole, deadline);
        ready!(self.conn.poll_expired(cx, Lane::Whole, Duration::ZERO));
        Poll::Ready(self.error(phase, ClientCause::TimedOut))
    }

    /// What became of `polled`, as the caller is told it: while it waits, the time of the whole exchange may be over.
    #[inline]
    pub(super) fn within_deadline<T>(
        &mut self,
        cx: &mut Context<'_>,
        phase: ClientPhase,
        polled: Poll<Result<T, ExchangeError>>,
    ) -> Poll<Result<T, ClientError>> {
        match polled {
            Poll::Ready(result) => Poll::Ready(result.map_err(|error| self.fail(phase, error))),
            Poll::Pending => self.poll_deadline(cx, phase).map(Err),
        }
    }

    /// How long the phase at hand took; the next one begins.
    pub(super) fn lap(&mut self) -> Duration {
        let began = std::mem::replace(&mut self.exchange.mark, runtime::now());
        self.exchange.mark.saturating_duration_since(began)
    }

    /// The connection, for whoever takes it over, and what its server has sent already.
    pub(super) fn into_parts(self) -> (Conn<Anywhere>, Buffer) {
        let Link { mut conn, mut exchange, .. } = self;
        conn.swap_workspace(&mut exchange.workspace);
        exchange.incoming.forget_message();
        (conn, exchange.incoming.input)
    }
}
