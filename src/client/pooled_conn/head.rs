//! How a [`PooledConn`] receives the head of an answer while it sends the request (RFC 9112 §4, §9.3).

use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::PooledConn;
use crate::client::exchange::{Exchange, INTERIM_MAX, ResponseStage, Upload};
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::exchange::{ExchangeError, Head, Reply};
use crate::message::{Request, Response, Status};
use crate::net::TimerSlot;
use crate::wire::Wish;

impl PooledConn {
    /// Sends the body of `request`, if it is known in advance, and receives the head of the final answer, or of an interim
    /// one that somebody takes.
    pub(in crate::client) fn poll_answer(
        &mut self,
        cx: &mut Context<'_>,
        request: Option<&Request>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        self.check_deadline(cx, self.phase())?;
        while self.exchange.progress.stage == ResponseStage::Awaited {
            let _ = self.poll_upload(cx, request)?;
            match self.poll_head(cx, response) {
                Poll::Ready(Ok(())) => self.process_head(response)?,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if self.continue_if_due(cx) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
        match self.poll_upload(cx, request)? {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => self.poll_read_ahead(cx),
        }
    }

    /// Receives one head, interim or final.
    fn poll_head(&mut self, cx: &mut Context<'_>, response: &mut Response) -> Poll<Result<(), ClientError>> {
        let PooledConn { conn, exchange, permit } = self;
        let bounds = &permit.pool.settings.bounds;
        // The time for the answer runs only once the server has the whole request, or will get no more of it.
        let is_over = matches!(exchange.progress.upload, Upload::Sent | Upload::Failed(_));
        let limit = if is_over { bounds.timeouts.head } else { Duration::MAX };
        let mut reply = Reply::new(response, exchange.spec.asked);
        loop {
            if !exchange.incoming.input.is_empty() {
                match exchange.incoming.try_head(&mut reply, bounds) {
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(error) => return Poll::Ready(Err(self.fail_and_close(ClientCause::Exchange(error)))),
                }
            }
            let cause = match ready!(exchange.incoming.poll_head_bytes(cx, conn, limit)) {
                Ok(None) => continue,
                Ok(Some(Head::Silence)) => ClientCause::TimedOut,
                Ok(Some(Head::End | Head::Whole)) => ClientCause::Closed,
                Err(error) => match exchange.incoming.blame(error, &mut reply, bounds) {
                    ExchangeError::TimedOut(..) => ClientCause::TimedOut,
                    error => ClientCause::Exchange(error),
                },
            };
            return Poll::Ready(Err(self.no_response(cause)));
        }
        let (version, ends_with_close) = (reply.version(), exchange.incoming.ends_with_close());
        exchange.persistence.note(version, &response.headers, ends_with_close);
        permit.pool.note_version(version);
        Poll::Ready(Ok(()))
    }

    /// Acts on the head that has come. An interim answer only counts, unless somebody takes it.
    fn process_head(&mut self, response: &Response) -> Result<(), ClientError> {
        let is_upgrade = response.status == Status::SWITCHING_PROTOCOLS;
        if is_upgrade && !self.exchange.spec.asks_for_upgrade {
            return Err(self.fail_and_close(ClientCause::Upgrade));
        }
        if response.status.is_informational() && !is_upgrade {
            let progress = &mut self.exchange.progress;
            progress.interim += 1;
            if progress.interim > INTERIM_MAX {
                let error = self.fail_and_close(ClientCause::TooManyInterim);
                return Err(error.with_detail(format!("more than {INTERIM_MAX}")));
            }
            if response.status == Status::CONTINUE {
                self.continue_upload();
            }
            let progress = &mut self.exchange.progress;
            if progress.wants_interim {
                progress.stage = ResponseStage::Interim;
            }
            return Ok(());
        }
        let Exchange { incoming, persistence, progress, .. } = &mut *self.exchange;
        progress.stage = ResponseStage::Final;
        // What follows 101 is not HTTP.
        persistence.persists &= !is_upgrade;
        // Many servers answer while they still read. But one that refuses reads no more, and neither does one that has
        // sent all of its answer and closes (§9.3, §9.6).
        let has_said_all = Wish::of(&response.headers) == Wish::Close && incoming.has_arrived();
        let is_refused =
            response.status.is_client_error() || response.status.is_server_error() || has_said_all;
        match progress.upload {
            Upload::Sending if !is_refused => {}
            Upload::Sent | Upload::Failed(_) | Upload::Abandoned => {}
            Upload::Sending | Upload::Expecting | Upload::Waiting => progress.upload = Upload::Abandoned,
        }
        self.conn.disarm(TimerSlot::Read);
        progress.timings.wait = progress.end_phase();
        Ok(())
    }

    /// Receives the head of the final answer, unless it has come, before the request has been sent completely. Pending
    /// while an interim one waits to be taken.
    pub(in crate::client) fn poll_early(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        match (ready!(self.poll_stage(cx, response))?, &self.exchange.progress.upload) {
            (ResponseStage::Final, _) => Poll::Ready(Ok(())),
            // Nothing else ends the wait if nobody takes it.
            (ResponseStage::Interim, Upload::Failed(_)) => {
                let limit = self.settings().timeouts.wait;
                ready!(self.conn.poll_expired(cx, TimerSlot::Read, limit));
                Poll::Ready(Err(self.no_response(ClientCause::TimedOut)))
            }
            (ResponseStage::Interim | ResponseStage::Awaited, _) => Poll::Pending,
        }
    }

    /// Takes the head of the next interim answer, which is then in `response`. Returns false once the final one has
    /// come, whose head then stays there.
    pub(in crate::client) fn poll_interim(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<bool, ClientError>> {
        self.exchange.progress.wants_interim = true;
        self.check_deadline(cx, ClientPhase::Wait)?;
        match ready!(self.poll_stage(cx, response))? {
            ResponseStage::Final => Poll::Ready(Ok(false)),
            ResponseStage::Interim | ResponseStage::Awaited => {
                self.exchange.progress.stage = ResponseStage::Awaited;
                Poll::Ready(Ok(true))
            }
        }
    }

    /// Receives heads until one is to be taken.
    fn poll_stage(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<ResponseStage, ClientError>> {
        while self.exchange.progress.stage == ResponseStage::Awaited {
            ready!(self.poll_head(cx, response))?;
            self.process_head(response)?;
        }
        Poll::Ready(Ok(self.exchange.progress.stage))
    }

    /// The error for an answer that breaks the rules. The connection is closed: to whoever asks again, such as the other
    /// half of a call, what follows would be the answer.
    fn fail_and_close(&mut self, cause: ClientCause) -> ClientError {
        let error = self.error(ClientPhase::Wait, cause);
        self.close();
        error
    }

    /// The error for an answer that will not come. If sending failed before, that is the reason.
    fn no_response(&mut self, cause: ClientCause) -> ClientError {
        let send = self.settings().timeouts.send;
        let Upload::Failed(error) = &mut self.exchange.progress.upload else {
            return self.error(self.phase(), cause);
        };
        // It stays a failure: should an answer come after all, it is still not one to a whole request.
        let again = ExchangeError::again(error.kind(), send);
        let error = std::mem::replace(error, again);
        self.fail(ClientPhase::Send, error)
    }

    fn phase(&self) -> ClientPhase {
        match self.exchange.progress.upload {
            Upload::Sent | Upload::Abandoned => ClientPhase::Wait,
            Upload::Sending | Upload::Expecting | Upload::Waiting | Upload::Failed(_) => ClientPhase::Send,
        }
    }
}
