//! [`CallExchange`]: the exchange of a call, polled by the [`Call`](super::Call) itself, by one of its halves, or by a
//! gateway, which uses both sides in one task.

use std::future::poll_fn;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::ReadBuf;

use super::outcome_recorder::{BalancedOutcome, OutcomeRecorder};
use super::response_reader::ResponseReader;
use crate::client::cookies::RequestCookies;
use crate::client::error::{ClientCause, ClientError, ClientPhase, RetryLog, RetryReport};
use crate::client::exchange::Upload;
use crate::client::observe::ClientSpan;
use crate::client::pool::PooledConn;
use crate::coding::{CODED_CONTENT_FIELDS, DecoderChain, weaken_etag};
use crate::exchange::ExchangeError;
use crate::memory::Reset;
use crate::message::{BodyLength, Headers, Request, Response, Status};
use crate::net::{Conn, ReadBuffer, Sendable};
use crate::runtime::MemoryBudget;
use crate::wire::parse::Leniency;

/// A call as it is polled: a request whose head has been sent, and its response.
pub(crate) struct CallExchange {
    pooled: PooledConn,
    /// The head that has arrived and was not taken yet: of an interim response, or of the final one, if that came before
    /// the body was complete, or if there is none to write.
    response_head: Box<Response>,
    head: Option<Box<CallHead>>,
    cookies: RequestCookies<'static>,
    recorder: OutcomeRecorder,
}

/// The parts of its request's head that a call keeps. Boxed, since a call moves from one future to the next.
pub(in crate::client) struct CallHead {
    trailers: Headers,
    /// The fields that were sent with the head, if trailers may follow.
    sent_fields: Option<Headers>,
}

impl CallHead {
    /// The head of `request`, whose body has this length. `None`: nothing of it need be kept.
    pub(in crate::client) fn new(request: &Request, length: BodyLength) -> Option<Box<CallHead>> {
        let keeps_fields = length == BodyLength::Unknown;
        (keeps_fields || !request.trailers.is_empty()).then(|| {
            let sent_fields = keeps_fields.then(|| request.headers.clone());
            Box::new(CallHead { trailers: request.trailers.clone(), sent_fields })
        })
    }
}

impl CallExchange {
    /// A call whose head has been sent. If there is no body to write, its response has begun to come.
    pub(in crate::client) fn new(
        mut pooled: PooledConn,
        head: Option<Box<CallHead>>,
        cookies: RequestCookies<'static>,
        span: ClientSpan,
    ) -> CallExchange {
        let response_head = pooled.exchange.call_response.take().unwrap_or_default();
        let recorder = OutcomeRecorder::from_span(span);
        CallExchange { pooled, response_head, head, cookies, recorder }
    }

    /// The fields that were sent with the head, if trailers may follow. No trailer that a gateway forwards may be confused
    /// with them.
    pub(crate) fn sent_fields(&self) -> Option<&Headers> {
        self.head.as_ref()?.sent_fields.as_ref()
    }

    /// Records the outcome for a balancer as well.
    pub(super) fn set_balanced(&mut self, outcome: BalancedOutcome) {
        self.recorder.set_balanced(outcome);
    }

    /// Sets the attempts before this one, if a policy for retries had a say.
    pub(super) fn set_retries(&mut self, retries: Option<Arc<RetryLog>>) {
        self.pooled.exchange.spec.retries = retries;
    }

    /// The attempts before this one.
    pub(super) fn retries(&self) -> &[RetryReport] {
        self.pooled.exchange.spec.retries.as_deref().map_or(&[], |log| &log.retries)
    }

    /// The address of the server, or of the proxy in front of it.
    pub(super) fn peer_addr(&self) -> Option<SocketAddr> {
        self.pooled.exchange.connection_info.as_ref()?.peer_addr()
    }

    /// The head of the final response, if that has come with the call, and how it was received.
    pub(super) fn first_response(&mut self) -> Option<&Response> {
        self.has_response().then(|| {
            self.pooled.set_client_info(&mut self.response_head);
            &*self.response_head
        })
    }

    /// Whether faults of the response are overlooked.
    pub(crate) fn is_lenient(&self) -> bool {
        self.pooled.settings().leniency != Leniency::None
    }

    /// Whether the server still reads the body.
    pub(crate) fn is_body_wanted(&self) -> bool {
        self.pooled.is_body_wanted()
    }

    /// Whether all of the request has been sent.
    pub(crate) fn is_sent(&self) -> bool {
        matches!(self.pooled.exchange.progress.upload, Upload::Sent)
    }

    /// Takes the trailers of the request.
    pub(super) fn take_trailers(&mut self) -> Headers {
        self.head.as_mut().map(|head| mem::take(&mut head.trailers)).unwrap_or_default()
    }

    /// Writes some bytes from the front of `data`, or drops them once the server reads no more.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, ClientError>> {
        let written = self.pooled.poll_write(cx, &mut self.response_head, data);
        self.recorder.record_poll_failure(written)
    }

    /// Sends what has been written so far.
    pub(crate) fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        let sent = self.pooled.poll_unless_refused(cx, &mut self.response_head, (), PooledConn::poll_flush);
        self.recorder.record_poll_failure(sent)
    }

    /// Ends the body with these trailers, of which only those of the first call count, and sends all of it.
    pub(crate) fn poll_end(
        &mut self,
        cx: &mut Context<'_>,
        trailers: &Headers,
    ) -> Poll<Result<(), ClientError>> {
        let end = |pooled: &mut PooledConn, cx: &mut Context<'_>| pooled.poll_end(cx, trailers);
        let ended = self.pooled.poll_unless_refused(cx, &mut self.response_head, (), end);
        self.recorder.record_poll_failure(ended)
    }

    /// Ends the body with the trailers of the request, and sends all of it.
    pub(super) fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        // They are written by the first call, whatever later calls still wait for.
        let trailers = self.take_trailers();
        self.poll_end(cx, &trailers)
    }

    /// Fails the upload, because the rest of the body will not come.
    pub(super) fn fail_upload(&mut self) {
        self.pooled.fail_upload(ExchangeError::Length);
    }

    /// Whether the head of the final response has come.
    pub(crate) fn has_response(&self) -> bool {
        self.pooled.exchange.progress.has_response()
    }

    /// The error of a body that is read without its head.
    pub(super) fn no_head(&self) -> ClientError {
        let cause = "the body was read before the head of its response";
        self.pooled.describe_error(ClientPhase::Receive, ClientCause::Other(cause.into()))
    }

    /// Takes the next interim response, which is then in [`CallExchange::response_head`]. Returns false once the final one
    /// has come.
    pub(crate) fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, ClientError>> {
        let has_come = self.pooled.poll_interim(cx, &mut self.response_head);
        self.recorder.record_poll_failure(has_come)
    }

    /// Checks how many bytes the heads of the interim responses had that were taken, but are sent to nobody.
    pub(crate) fn check_dropped_interim(&mut self, bytes: usize) -> Result<(), ClientError> {
        let checked = self.pooled.check_dropped_interim(bytes);
        self.recorder.record_failure(checked)
    }

    /// Receives the head of the final response into `response`. If it has arrived before, `response` is swapped with
    /// [`CallExchange::response_head`], also if the time for the call is over.
    pub(crate) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        let has_response = self.has_response();
        if has_response {
            mem::swap(response, &mut *self.response_head);
        }
        let checked = self.pooled.check_deadline(cx, ClientPhase::Wait);
        self.recorder.record_failure(checked)?;
        if !has_response {
            let head = self.pooled.poll_final_head(cx, response);
            ready!(self.recorder.record_poll_failure(head))?;
        }
        Poll::Ready(self.complete_head(response))
    }

    /// Receives the head of the final response, as [`CallExchange::poll_head`] does, but leaves it in
    /// [`CallExchange::response_head`].
    pub(crate) fn poll_own_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        let checked = self.pooled.check_deadline(cx, ClientPhase::Wait);
        self.recorder.record_failure(checked)?;
        if !self.has_response() {
            let head = self.pooled.poll_final_head(cx, &mut self.response_head);
            ready!(self.recorder.record_poll_failure(head))?;
        }
        let CallExchange { pooled, response_head, cookies, recorder, .. } = self;
        Poll::Ready(complete_head(pooled, cookies, recorder, response_head))
    }

    /// Completes a head that has been received: its timings, cookies and decoding, and the record of a balancer.
    pub(super) fn complete_head(&mut self, response: &mut Response) -> Result<(), ClientError> {
        complete_head(&mut self.pooled, &mut self.cookies, &mut self.recorder, response)
    }

    /// Adjusts the head of a response whose content was decoded, before it is forwarded: removes the fields of the coded octets,
    /// and weakens a strong `etag` (RFC 9110 §8.8.1). The head of a response to HEAD is adjusted likewise (§9.3.2).
    pub(crate) fn adjust_decoded_head(&mut self) {
        let Some(decoded_max) = self.pooled.settings().decode_max else { return };
        let Response { status, headers, .. } = &mut *self.response_head;
        let is_decoded = match self.pooled.exchange.incoming.is_end_stream() {
            true => matches!(DecoderChain::from_headers(headers, decoded_max), Ok(Some(_))),
            false => self.pooled.exchange.progress.decoder.is_some(),
        };
        if is_decoded {
            headers.remove_each(&CODED_CONTENT_FIELDS);
            headers.remove("accept-ranges");
        }
        // The response that a 304 confirms may have been decoded.
        if is_decoded || *status == Status::NOT_MODIFIED {
            weaken_etag(headers, &mut Vec::new());
        }
    }

    /// The interim response that was taken, or the response that was swapped for the final one.
    pub(crate) fn response_head(&mut self) -> &mut Response {
        &mut self.response_head
    }

    /// Has large reads of the response take memory of the server that passes it on.
    pub(crate) fn set_memory_budget(&mut self, budget: MemoryBudget) {
        self.pooled.exchange.incoming.large_input.set_budget(budget);
    }

    /// Receives the next piece of the body, which is then in [`CallExchange::piece`]. Returns its length, 0 at the end.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ClientError>> {
        let received = ready!(self.pooled.poll_piece(cx));
        match received {
            Ok(0) => self.recorder.end(),
            Ok(_) => {}
            Err(_) => self.pooled.close(),
        }
        Poll::Ready(self.recorder.record_failure(received))
    }

    /// The piece of the body that was received last.
    pub(crate) fn piece(&self) -> &[u8] {
        self.pooled.piece()
    }

    /// The trailers of the response, once its body has come to its end.
    pub(crate) fn received_trailers(&self) -> &Headers {
        &self.pooled.exchange.incoming.trailers
    }

    /// Aborts the exchange, unless all of the response has been read. Returns whether the exchange was aborted.
    pub(super) fn abort_unless_read(&mut self) -> bool {
        let is_read = self.has_response() && self.pooled.exchange.incoming.is_end_stream();
        if !is_read {
            self.pooled.close();
            self.pooled.exchange.progress.drop_interim();
            // An error of the writer is no longer the server's fault.
            self.recorder.end();
        }
        !is_read
    }

    /// Gives the connection back to the pool, if both sides have come to their ends.
    pub(crate) fn release(mut self) {
        // The response that was swapped in may hold values of the application, which must not be dropped
        // under the pool's lock.
        self.response_head.reset();
        self.pooled.exchange.call_response = Some(self.response_head);
        self.pooled.release();
    }

    /// Discards what is left of the response, if that is little and comes soon, and gives the connection back to the pool. It
    /// is closed if the request was not sent completely.
    pub(crate) async fn discard(mut self) {
        if !self.is_sent() {
            return;
        }
        self.response_head.reset();
        self.pooled.exchange.call_response = Some(self.response_head);
        self.pooled.discard().await;
    }

    /// Hands the connection over, on which the server has switched to another protocol: with what has already come, how
    /// long the server may take nothing, and the guard by which a balancer counts the connection as pending.
    pub(crate) fn into_upgraded(self) -> (Box<Conn<Sendable>>, ReadBuffer, Duration, impl Sized) {
        let write_limit = self.pooled.timeouts().send;
        let (conn, early) = self.pooled.into_parts();
        (conn, early, write_limit, self.recorder.into_balanced())
    }

    /// Ends the body with these trailers, and receives the head of the response into `response`.
    pub(super) async fn finish(
        mut self,
        trailers: &Headers,
        response: &mut Response,
    ) -> Result<ResponseReader, ClientError> {
        response.reset();
        let pooled = &mut self.pooled;
        pooled.end(trailers)?;
        pooled.exchange.progress.drop_interim();
        if pooled.exchange.progress.has_response() {
            mem::swap(response, &mut *self.response_head);
        }
        let answered = poll_fn(|cx| pooled.poll_response(cx, None, response)).await;
        self.recorder.record_failure(answered)?;
        self.complete_head(response)?;
        Ok(ResponseReader::new(self.pooled).balanced_by(self.recorder.into_balanced()))
    }

    /// Drops interim responses from here on. Returns whether one was waiting to be taken.
    pub(super) fn drop_interim(&mut self) -> bool {
        self.pooled.exchange.progress.drop_interim()
    }

    /// Copies as much of the piece as fits into `out`, and as the reader may have at once.
    pub(super) fn read_piece(&mut self, out: &mut ReadBuf<'_>) {
        self.pooled.read_piece(out);
    }

    /// Ends the wait for more of the body. The time until the next wait does not count against the server.
    pub(super) fn end_wait(&mut self) {
        self.pooled.end_wait();
    }

    /// Moves the trailers of the response to `trailers`, once its body has come to its end.
    pub(super) fn swap_received_trailers(&mut self, trailers: &mut Headers) {
        mem::swap(trailers, &mut self.pooled.exchange.incoming.trailers);
    }
}

/// See [`CallExchange::complete_head`].
fn complete_head(
    pooled: &mut PooledConn,
    cookies: &mut RequestCookies<'static>,
    recorder: &mut OutcomeRecorder,
    response: &mut Response,
) -> Result<(), ClientError> {
    pooled.set_client_info(response);
    cookies.end(response);
    let decoded = pooled.decode(response);
    recorder.record(decoded.as_ref().map(|()| &*response));
    decoded
}
