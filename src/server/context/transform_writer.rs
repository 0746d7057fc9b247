//! [`TransformWriter`]: the way of a streamed answer through its transform.

use std::io;
use std::task::{self, Poll, ready};

use super::Transform;
use crate::coding::Flush;
use crate::exchange::{Bounds, ExchangeError, Outgoing};
use crate::message::Headers;
use crate::net::Conn;
use crate::runtime::Budget;

/// The way of a streamed answer through its transform.
pub(super) struct TransformWriter<'a> {
    /// `None` once it has ended or failed, so that the answer cannot end as if it were whole.
    transform: Option<&'a mut dyn Transform>,
    /// The transform's output, and how much of it has been sent.
    out: &'a mut Vec<u8>,
    sent: usize,
    /// The last flush that the transform was asked for.
    last: Flush,
    budget: Budget,
}

impl<'a> TransformWriter<'a> {
    pub(super) fn new(transform: &'a mut dyn Transform, out: &'a mut Vec<u8>) -> TransformWriter<'a> {
        out.clear();
        TransformWriter {
            transform: Some(transform),
            out,
            sent: 0,
            last: Flush::Now,
            budget: Budget::default(),
        }
    }

    /// Transforms a piece from the front of `data`, once earlier output has been sent. Returns the length of the piece.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut task::Context<'_>,
        outgoing: &mut Outgoing,
        conn: &mut Conn,
        data: &[u8],
        bounds: &Bounds,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(cx, outgoing, conn, bounds))?;
        ready!(self.budget.poll_proceed(cx));
        let piece = &data[..data.len().min(PIECE)];
        self.budget.spend(piece.len());
        self.apply(piece, Flush::Later)?;
        Poll::Ready(Ok(piece.len()))
    }

    /// Flushes the transform, and sends its output.
    pub(super) fn poll_flush(
        &mut self,
        cx: &mut task::Context<'_>,
        outgoing: &mut Outgoing,
        conn: &mut Conn,
        flush: Flush,
        bounds: &Bounds,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(cx, outgoing, conn, bounds))?;
        if self.last != flush && self.last != Flush::End {
            self.apply(&[], flush)?;
        }
        self.poll_sent(cx, outgoing, conn, bounds).map_err(io::Error::from)
    }

    /// Ends the transform, after the last flush. It may change the trailers.
    pub(super) fn end(&mut self, trailers: &mut Headers) {
        if let Some(transform) = self.transform.take() {
            transform.end(trailers);
        }
    }

    fn apply(&mut self, data: &[u8], flush: Flush) -> io::Result<()> {
        let transform = self.transform.take().filter(|_| self.last != Flush::End);
        let transform = transform.ok_or(ExchangeError::Length)?;
        transform.apply(data, flush, self.out)?;
        self.last = flush;
        self.transform = Some(transform);
        Ok(())
    }

    /// Sends the output.
    fn poll_sent(
        &mut self,
        cx: &mut task::Context<'_>,
        outgoing: &mut Outgoing,
        conn: &mut Conn,
        bounds: &Bounds,
    ) -> Poll<Result<(), ExchangeError>> {
        while self.sent < self.out.len() {
            self.sent += ready!(outgoing.poll_write(cx, conn, &self.out[self.sent..], bounds))?;
        }
        self.out.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

/// How many bytes are transformed in one step.
const PIECE: usize = 16 << 10;

/// How much memory of the output is kept for the next exchange.
pub(super) const KEPT_MAX: usize = 16 << 10;
