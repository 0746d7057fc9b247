//! How a [`PooledConn`] sends a request, and receives the head of the response meanwhile (RFC 9112 §4, §9.3).

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::pooled_conn::PooledConn;
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::exchange::{ClientExchange, Interim, ResponseStage, Upload};
use crate::exchange::{ExchangeError, HeadOutcome, IncomingResponse, MessageHead, Phase, poll_flush};
use crate::message::{Headers, Request, Response, Status};
use crate::net::TimerSlot;
use crate::runtime::{self, later};
use crate::wire::ConnectionOption;
use crate::wire::parse::Leniency;

impl PooledConn {
    /// Sends the body of `request`, if there is one, and receives the head of the final response, or of an interim one
    /// that the caller takes.
    pub(in crate::client) fn poll_response(
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
        let (conn, exchange, settings) = self.parts();
        let bounds = exchange.spec.timeouts.bounds(settings);
        // The time for the response runs only once the server has the whole request, or will get no more of it.
        let is_over = matches!(exchange.progress.upload, Upload::Sent | Upload::Failed(_));
        let limit = if is_over { bounds.timeouts.head } else { Duration::MAX };
        let mut message = IncomingResponse::new(response, exchange.spec.request_info, settings.leniency);
        loop {
            if !exchange.incoming.input.is_empty() {
                match exchange.incoming.try_head(&mut message, bounds) {
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(error) => return Poll::Ready(Err(self.fail_and_close(ClientCause::Exchange(error)))),
                }
            }
            let cause = match ready!(exchange.incoming.poll_head_bytes(cx, conn, bounds, limit)) {
                Ok(None) => continue,
                Ok(Some(HeadOutcome::Idle)) => ClientCause::TimedOut,
                Ok(Some(HeadOutcome::Closed | HeadOutcome::Complete)) => ClientCause::Closed,
                Err(error) => {
                    let text = exchange.incoming.input.unread();
                    ClientCause::from_head(message.unfinished_error(error, text, &bounds.limits))
                }
            };
            return Poll::Ready(Err(self.no_response(cause)));
        }
        let version = message.version();
        let ends_with_close = exchange.incoming.ends_with_close();
        let is_last = ends_with_close || message.leniency() == Leniency::Used;
        exchange.persistence.note(version, &response.headers, is_last);
        exchange.progress.version = version;
        self.permit.pool.note_version(version);
        Poll::Ready(Ok(()))
    }

    /// Processes the head that has arrived. An interim response is dropped, unless the caller takes it.
    fn process_head(&mut self, response: &mut Response) -> Result<(), ClientError> {
        debug_assert_eq!(self.exchange.progress.stage, ResponseStage::Awaited, "one head at a time");
        let is_upgrade = response.status == Status::SWITCHING_PROTOCOLS;
        if is_upgrade && let Err(reason) = self.exchange.spec.check_switch(&response.headers) {
            return Err(self.fail_and_close(ClientCause::Upgrade).with_detail(reason));
        }
        if response.status.is_informational() && !is_upgrade {
            if response.status == Status::CONTINUE {
                self.continue_upload();
            }
            let progress = &mut self.exchange.progress;
            let Interim::Dropped(bytes) = &mut progress.interim else {
                progress.stage = ResponseStage::Interim;
                return Ok(());
            };
            *bytes += response.headers.text_received().len();
            let dropped = *bytes;
            // If no other head comes, these are not the status and the fields of the response.
            response.status = Status::OK;
            response.headers.clear();
            return self.check_dropped_interim(dropped);
        }
        let ClientExchange { incoming, persistence, progress, .. } = &mut *self.exchange;
        progress.stage = ResponseStage::Final;
        progress.status = Some(response.status);
        // The bytes after a 101 are not HTTP.
        persistence.persists &= !is_upgrade;
        // Many servers answer while they still read. But one that refuses reads no more, and neither does one that has
        // sent all of its response and closes (§9.3, §9.6).
        let is_whole_and_last = ConnectionOption::from_headers(&response.headers) == ConnectionOption::Close
            && incoming.has_body_arrived();
        let ends_upload =
            response.status.is_client_error() || response.status.is_server_error() || is_whole_and_last;
        match progress.upload {
            Upload::Sending if !ends_upload => {}
            Upload::Sent | Upload::Failed(_) | Upload::Abandoned => {}
            Upload::Sending | Upload::SendingHead | Upload::AwaitingContinue => {
                progress.upload = Upload::Abandoned
            }
        }
        self.conn.disarm(TimerSlot::Read);
        progress.timings.wait = progress.end_phase();
        Ok(())
    }

    /// Checks how many bytes the heads of the dropped interim responses had. All may have as many as one head, since an endless
    /// sequence would be a hang.
    pub(in crate::client) fn check_dropped_interim(&mut self, bytes: usize) -> Result<(), ClientError> {
        let head_max = self.settings().bounds.limits.head_max;
        if bytes <= head_max {
            return Ok(());
        }
        Err(self.fail_and_close(ClientCause::TooManyInformational).with_interim_max(head_max))
    }

    /// Receives the head of the final response, unless it has come, before the request has been sent completely.
    /// Pending while an interim one waits to be taken.
    pub(in crate::client) fn poll_final_head(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        match (ready!(self.poll_stage(cx, response))?, &self.exchange.progress.upload) {
            (ResponseStage::Final, _) => Poll::Ready(Ok(())),
            // No other timer ends the wait if the caller does not take it.
            (ResponseStage::Interim, Upload::Failed(_)) => {
                let limit = self.timeouts().wait;
                ready!(self.conn.poll_timeout(cx, TimerSlot::Read, limit));
                Poll::Ready(Err(self.no_response(ClientCause::TimedOut)))
            }
            (ResponseStage::Interim | ResponseStage::Awaited, _) => Poll::Pending,
        }
    }

    /// Takes the head of the next interim response, which is then in `response`. Returns false once the final one has
    /// come, whose head then stays there.
    pub(in crate::client) fn poll_interim(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<bool, ClientError>> {
        self.exchange.progress.interim = Interim::Taken;
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

    /// The error for a response that breaks the rules. The connection is closed, or another poll, such as that of the
    /// other half of a call, would take the next bytes for the response.
    fn fail_and_close(&mut self, cause: ClientCause) -> ClientError {
        let error = self.error(ClientPhase::Wait, cause);
        self.close();
        error
    }

    /// The error for a response that will not come. If sending failed before, that is the reason, unless the server has
    /// given one.
    fn no_response(&mut self, cause: ClientCause) -> ClientError {
        let send = self.timeouts().send;
        let error = match &mut self.exchange.progress.upload {
            Upload::Failed(error) if !matches!(cause, ClientCause::Tls(_)) => error,
            _ => return self.error(self.phase(), cause),
        };
        // The upload stays failed: should a response arrive after all, the server still has not received a whole
        // request.
        let again = ExchangeError::from_failed_write(error.kind(), send);
        let error = std::mem::replace(error, again);
        self.exchange_error(ClientPhase::Send, error)
    }

    fn phase(&self) -> ClientPhase {
        match self.exchange.progress.upload {
            Upload::Sent | Upload::Abandoned => ClientPhase::Wait,
            Upload::Sending | Upload::SendingHead | Upload::AwaitingContinue | Upload::Failed(_) => {
                ClientPhase::Send
            }
        }
    }
}

impl PooledConn {
    /// Sends what may be sent of the request. Ready when nothing is left to send, or nothing more will be.
    #[inline]
    pub(super) fn poll_upload(
        &mut self,
        cx: &mut Context<'_>,
        request: Option<&Request>,
    ) -> Poll<Result<(), ClientError>> {
        match self.exchange.progress.upload {
            Upload::Sending => self.poll_unsent(cx, request),
            Upload::SendingHead => self.poll_unsent(cx, None),
            Upload::AwaitingContinue | Upload::Sent | Upload::Abandoned | Upload::Failed(_) => {
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Sends what is left of the head, and of the body of `request`.
    #[inline(never)]
    fn poll_unsent(
        &mut self,
        cx: &mut Context<'_>,
        request: Option<&Request>,
    ) -> Poll<Result<(), ClientError>> {
        let (conn, exchange, settings) = self.parts();
        let bounds = exchange.spec.timeouts.bounds(settings);
        let sent = match request {
            Some(Request { body, trailers, .. }) => {
                match ready!(exchange.outgoing.poll_send(cx, conn, body, trailers, bounds)) {
                    Ok(()) => ready!(poll_flush(cx, conn, bounds)),
                    failed => failed,
                }
            }
            None => ready!(poll_flush(cx, conn, bounds)),
        };
        match sent {
            Ok(()) if matches!(exchange.progress.upload, Upload::SendingHead) => {
                exchange.progress.upload = Upload::AwaitingContinue;
            }
            Ok(()) => self.mark_sent(),
            // A server that closed may have answered before.
            Err(error @ ExchangeError::Io(_)) => exchange.progress.upload = Upload::Failed(error),
            Err(error @ ExchangeError::TimedOut(..)) if exchange.has_whole_response() => {
                exchange.progress.upload = Upload::Failed(error);
            }
            Err(error) => return Poll::Ready(Err(self.exchange_error(ClientPhase::Send, error))),
        }
        Poll::Ready(Ok(()))
    }

    /// Buffers what arrives of the response while the request is being sent, up to the limit of a body: a server that
    /// answers while it reads would otherwise wait for us while we wait for it. Ready once the connection has failed.
    pub(super) fn poll_read_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        let PooledConn { conn, exchange, permit } = self;
        let incoming = &mut exchange.incoming;
        let body_max = exchange.spec.timeouts.bounds(&permit.pool.settings).limits.body_max;
        while incoming.input.unread().len() < body_max {
            match incoming
                .poll_read_ahead(cx, conn)
                .map_err(ExchangeError::during(Phase::Body, Duration::MAX))
            {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0)) | Poll::Pending => break,
                // The error is reported only once, and a body that ends with the connection would seem to be complete.
                Poll::Ready(Err(error)) if incoming.ends_with_close() => {
                    return Poll::Ready(Err(self.exchange_error(ClientPhase::Receive, error)));
                }
                Poll::Ready(Err(error)) => {
                    exchange.progress.upload = Upload::Failed(error);
                    return Poll::Ready(Ok(()));
                }
            }
        }
        Poll::Pending
    }

    /// Marks the request as sent, and starts the wait for its response.
    pub(in crate::client) fn mark_sent(&mut self) {
        let (conn, exchange, settings) = self.parts();
        let wait = exchange.spec.timeouts.of_phases(settings).wait;
        let progress = &mut exchange.progress;
        if matches!(progress.upload, Upload::Sending) {
            progress.upload = Upload::Sent;
            progress.timings.send = progress.end_phase();
            conn.disarm(TimerSlot::Read);
            match progress.has_response() {
                // A response that came earlier was not waited for.
                true => progress.timings.send += std::mem::take(&mut progress.timings.wait),
                false => conn.arm(TimerSlot::Read, later(progress.phase_start, wait)),
            }
        }
    }

    /// Writes some bytes from the front of `data` after the head. They are dropped once the server reads no more, as in
    /// [`PooledConn::poll_unless_refused`].
    pub(in crate::client) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Response,
        data: &[u8],
    ) -> Poll<Result<usize, ClientError>> {
        let written = self.poll_unless_refused(cx, head, data.len(), |pooled, cx| pooled.poll_data(cx, data));
        if let Poll::Ready(Err(error)) = &written {
            self.exchange.outgoing.fail(error.kind());
        }
        written
    }

    fn poll_data(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, ClientError>> {
        if matches!(self.exchange.progress.upload, Upload::SendingHead) {
            ready!(self.poll_upload(cx, None))?;
        }
        if matches!(self.exchange.progress.upload, Upload::AwaitingContinue) && !self.continue_if_due(cx) {
            return Poll::Pending;
        }
        let (conn, exchange, settings) = self.parts();
        let written = exchange.outgoing.poll_write(cx, conn, data, exchange.spec.timeouts.bounds(settings));
        written.map_err(|error| self.exchange_error(ClientPhase::Send, error))
    }

    /// Polls `poll`, or returns `dropped` once the server reads no more. The response that refuses the body may arrive
    /// while nothing can be sent, or may have arrived before the connection failed; its head is then in `head`.
    pub(in crate::client) fn poll_unless_refused<T>(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Response,
        dropped: T,
        mut poll: impl FnMut(&mut PooledConn, &mut Context<'_>) -> Poll<Result<T, ClientError>>,
    ) -> Poll<Result<T, ClientError>> {
        self.check_deadline(cx, ClientPhase::Send)?;
        loop {
            let polled = match self.exchange.progress.upload {
                Upload::Abandoned => return Poll::Ready(Ok(dropped)),
                Upload::Failed(_) => Poll::Pending,
                _ => poll(self, cx),
            };
            match polled {
                Poll::Pending => {}
                Poll::Ready(Ok(done)) => return Poll::Ready(Ok(done)),
                Poll::Ready(Err(error)) => match error.into_failure() {
                    // The response may already be in the socket, unread.
                    Ok(failure) => {
                        (self.exchange.progress.upload, self.exchange.progress.end) =
                            (Upload::Failed(failure), None);
                    }
                    Err(error) if self.has_finished_reading(&error) => {
                        self.exchange.progress.end = None;
                        break;
                    }
                    Err(error) => {
                        self.fail_upload(match error.is_timeout() {
                            true => ExchangeError::from_failed_write(
                                io::ErrorKind::TimedOut,
                                self.timeouts().send,
                            ),
                            false => ExchangeError::Length,
                        });
                        return Poll::Ready(Err(error));
                    }
                },
            }
            let waits = matches!(self.exchange.progress.upload, Upload::AwaitingContinue);
            match (self.poll_final_head(cx, head)?, &self.exchange.progress.upload) {
                // The `100 Continue` that the body waited for has come.
                (Poll::Pending, Upload::Sending) if waits => {}
                (Poll::Pending, _) => return Poll::Pending,
                (Poll::Ready(()), Upload::Failed(_) | Upload::Abandoned) => break,
                (Poll::Ready(()), _) => return Poll::Pending,
            }
        }
        self.exchange.progress.upload = Upload::Abandoned;
        Poll::Ready(Ok(dropped))
    }

    /// Whether the server still wants the body of the request.
    pub(in crate::client) fn is_body_wanted(&self) -> bool {
        !matches!(self.exchange.progress.upload, Upload::Abandoned)
    }

    /// Whether a failed write means that the server has finished with the request, which a write that failed at the
    /// deadline of the whole exchange does not.
    fn has_finished_reading(&self, error: &ClientError) -> bool {
        let is_over = self.exchange.spec.timeouts.deadline.is_some_and(|deadline| deadline <= runtime::now());
        error.is_timeout() && !is_over && self.exchange.has_whole_response()
    }

    /// Writes the end of the body, unless it was written before, or the server reads no more.
    pub(in crate::client) fn end(&mut self, trailers: &Headers) -> Result<(), ClientError> {
        if !self.is_body_wanted() {
            return Ok(());
        }
        self.continue_upload();
        let (conn, exchange, settings) = self.parts();
        let ended = exchange.outgoing.finish(conn, trailers, exchange.spec.timeouts.bounds(settings));
        ended.map_err(|error| self.exchange_error(ClientPhase::Send, error))
    }

    /// Writes the end of the body, as [`PooledConn::end`] does, and sends all of it.
    pub(in crate::client) fn poll_end(
        &mut self,
        cx: &mut Context<'_>,
        trailers: &Headers,
    ) -> Poll<Result<(), ClientError>> {
        self.end(trailers)?;
        ready!(self.poll_flush(cx))?;
        self.mark_sent();
        Poll::Ready(Ok(()))
    }

    /// Marks the upload as failed, because of `why`. The time for the response begins.
    pub(in crate::client) fn fail_upload(&mut self, why: ExchangeError) {
        let upload = &mut self.exchange.progress.upload;
        if matches!(upload, Upload::SendingHead | Upload::AwaitingContinue | Upload::Sending) {
            *upload = Upload::Failed(why);
            self.conn.disarm(TimerSlot::Read);
        }
    }

    /// Sends what was written so far.
    pub(in crate::client) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        self.check_deadline(cx, ClientPhase::Send)?;
        let (conn, exchange, settings) = self.parts();
        let flushed = poll_flush(cx, conn, exchange.spec.timeouts.bounds(settings));
        flushed.map_err(|error| self.exchange_error(ClientPhase::Send, error))
    }

    /// Lets the body be sent without further waiting.
    pub(super) fn continue_upload(&mut self) {
        let upload = &mut self.exchange.progress.upload;
        if matches!(upload, Upload::SendingHead | Upload::AwaitingContinue) {
            *upload = Upload::Sending;
            self.conn.disarm(TimerSlot::Write);
        }
    }

    /// Lets the body be sent once enough time has passed without a `100 Continue`, which old servers never send.
    /// Returns whether it did.
    pub(super) fn continue_if_due(&mut self, cx: &mut Context<'_>) -> bool {
        let waits = matches!(self.exchange.progress.upload, Upload::AwaitingContinue);
        if waits && self.conn.poll_timeout(cx, TimerSlot::Write, self.timeouts().expect_continue).is_ready() {
            self.continue_upload();
            return true;
        }
        false
    }
}
