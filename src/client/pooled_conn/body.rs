//! How a [`PooledConn`] receives the body of an answer, and decodes it as it arrives (RFC 9112 §6, RFC 9110 §8.4).

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use super::PooledConn;
use crate::client::exchange::Exchange;
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::coding::{CodingError, DECODED_AT_ONCE, Decoders, Decoding, OF_CODED};
use crate::exchange::ExchangeError;
use crate::memory::Arena;
use crate::message::{Response, Status};
use crate::runtime;

impl PooledConn {
    /// Receives the whole body into `response`, and gives the connection back.
    pub(in crate::client) async fn receive_body(
        mut self,
        response: &mut Response,
    ) -> Result<(), ClientError> {
        poll_fn(|cx| self.poll_whole(cx, response)).await?;
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
        let takes_time = self.exchange.progress.decoding.is_some() || !self.exchange.incoming.has_arrived();
        let content = response.body.receive();
        match self.exchange.progress.decoding {
            Some(_) => ready!(self.poll_body_decoded(cx, content))?,
            None => ready!(self.poll_body(cx, content))?,
        }
        let Exchange { incoming, progress, .. } = &mut *self.exchange;
        std::mem::swap(&mut response.trailers, &mut incoming.trailers);
        if takes_time {
            progress.timings.receive = progress.end_phase();
            *response.timings_mut() = progress.timings;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_body(&mut self, cx: &mut Context<'_>, content: &mut Arena) -> Poll<Result<(), ClientError>> {
        let PooledConn { conn, exchange, permit } = self;
        let bounds = &permit.pool.settings.bounds;
        let received = exchange.incoming.poll_body(cx, conn, bounds, bounds.limits.body_max, content);
        received.map_err(|error| self.fail(ClientPhase::Receive, error))
    }

    /// The bytes that the last [`PooledConn::poll_chunk`] received.
    pub(in crate::client) fn chunk(&self) -> &[u8] {
        match &self.exchange.progress.decoding {
            Some(decoding) => decoding.piece(),
            None => self.exchange.incoming.chunk(),
        }
    }

    /// Copies as much of the chunk as fits into `out`, and as the reader may have at once. The rest becomes the next
    /// chunk.
    pub(in crate::client) fn read_chunk(&mut self, out: &mut ReadBuf<'_>) {
        let has_deadline = self.exchange.spec.deadline.is_some();
        let most =
            if has_deadline { self.exchange.progress.read_size.next(runtime::now()) } else { usize::MAX };
        let chunk = self.chunk();
        let count = chunk.len().min(out.remaining()).min(most);
        out.put_slice(&chunk[..count]);
        match &mut self.exchange.progress.decoding {
            Some(decoding) => decoding.truncate_piece(count),
            None => self.exchange.incoming.truncate_chunk(count),
        }
    }

    /// Receives the next piece of the body, which stays in the connection until the next call. Returns its length, 0 at the
    /// end.
    pub(in crate::client) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, ClientError>> {
        let is_decoded = self.exchange.progress.decoding.is_some();
        let is_over = !is_decoded && self.exchange.incoming.is_read();
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
        let PooledConn { conn, exchange, permit } = self;
        let settings = &permit.pool.settings;
        let bounds = match reading {
            Reading::Whole => &settings.bounds,
            Reading::InPieces => &settings.bounds_in_pieces,
        };
        let received = exchange.incoming.poll_chunk(cx, conn, bounds);
        received.map_err(|error| self.fail(ClientPhase::Receive, error))
    }

    /// Sets up decoding of the body, if the client decodes, and removes the fields that describe the coded form.
    /// Unknown codings stay, and so do those of a partial content, which cannot be decoded without the other parts (RFC
    /// 9110 §15.3.7).
    pub(in crate::client) fn decode(&mut self, response: &mut Response) -> Result<(), ClientError> {
        let is_whole = !self.exchange.incoming.is_read() && response.status != Status::PARTIAL_CONTENT;
        match self.settings().decode_max.filter(|_| is_whole) {
            Some(most) => self.begin_decoding(response, most),
            None => Ok(()),
        }
    }

    /// Sets up decoding, to no more than `most` bytes. Separate, since it makes large things on the stack.
    #[inline(never)]
    fn begin_decoding(&mut self, response: &mut Response, most: usize) -> Result<(), ClientError> {
        match Decoders::of(&response.headers, most) {
            Ok(None) | Err(CodingError::Unknown) => {}
            Ok(Some(decoders)) => {
                response.headers.remove_each(&OF_CODED);
                self.exchange.progress.decoding = Some(Box::new(Decoding::new(decoders, most)));
            }
            Err(error) => {
                self.close();
                return Err(self.coding_error(error));
            }
        }
        Ok(())
    }

    /// Decodes the next piece of the body, which stays in `decoding` until the next call. Returns its length, 0 at the
    /// end.
    fn poll_decoded(&mut self, cx: &mut Context<'_>, reading: Reading) -> Poll<Result<usize, ClientError>> {
        // A little input may decode to a lot.
        ready!(self.exchange.budget.poll_proceed(cx));
        loop {
            let Exchange { incoming, progress, budget, .. } = &mut *self.exchange;
            let Some(decoding) = &mut progress.decoding else { return self.poll_received(cx, reading) };
            match decoding.pull(incoming.chunk()) {
                Ok(0) => {}
                Ok(count) => {
                    budget.spend(count);
                    return Poll::Ready(Ok(count));
                }
                Err(error) => return Poll::Ready(Err(self.coding_error(error))),
            }
            let end = decoding.end();
            let received = ready!(self.poll_received(cx, reading))?;
            if received == 0 {
                self.exchange.incoming.trailers.remove_each(&OF_CODED);
                return Poll::Ready(end.map(|()| 0).map_err(|error| self.coding_error(error)));
            }
            // Much that has come during the upload may decode to nothing, and that must not hold up the other tasks.
            let Exchange { incoming, budget, .. } = &mut *self.exchange;
            let piece = received.min(DECODED_AT_ONCE);
            incoming.truncate_chunk(piece);
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
            content.extend(self.chunk());
            let body_max = self.settings().bounds.limits.body_max;
            if content.len() > body_max {
                return Poll::Ready(Err(
                    self.fail(ClientPhase::Receive, ExchangeError::body_too_large(body_max, None))
                ));
            }
        }
        Poll::Ready(Ok(()))
    }

    fn coding_error(&self, error: CodingError) -> ClientError {
        self.error(ClientPhase::Receive, ClientCause::Coding(error))
    }
}

/// How a body is received.
#[derive(Clone, Copy)]
enum Reading {
    Whole,
    /// By a caller who sees how fast it comes.
    InPieces,
}
