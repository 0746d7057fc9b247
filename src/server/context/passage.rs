//! [`Passage`]: the way of a streamed answer through its transform.

use std::io;
use std::task::{self, Poll, ready};

use super::Transform;
use crate::coding::Flush;
use crate::exchange::{Bounds, ExchangeError, Outgoing};
use crate::net::Conn;
use crate::runtime::Turn;

/// The way of a streamed answer through its transform.
pub(super) struct Passage<'a> {
    transform: &'a mut dyn Transform,
    /// What came out of it, and how much of that was sent.
    out: &'a mut Vec<u8>,
    sent: usize,
    /// What was put in last.
    last: Flush,
    turn: Turn,
}

impl<'a> Passage<'a> {
    pub(super) fn new(transform: &'a mut dyn Transform, out: &'a mut Vec<u8>) -> Passage<'a> {
        out.clear();
        Passage { transform, out, sent: 0, last: Flush::Now, turn: Turn::default() }
    }

    /// Puts some of the front of `data` in, once what came out before was sent, and says how much.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut task::Context<'_>,
        outgoing: &mut Outgoing,
        conn: &mut Conn,
        data: &[u8],
        bounds: &Bounds,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(cx, outgoing, conn, bounds))?;
        ready!(self.turn.poll(cx));
        let piece = &data[..data.len().min(PIECE)];
        self.turn.note(piece.len());
        self.last = Flush::Later;
        self.transform.apply(piece, Flush::Later, self.out)?;
        Poll::Ready(Ok(piece.len()))
    }

    /// Puts all out that is in, and sends it.
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
            self.last = flush;
            self.transform.apply(&[], flush, self.out)?;
        }
        self.poll_sent(cx, outgoing, conn, bounds).map_err(io::Error::from)
    }

    /// Sends what came out.
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

/// What is put in at once.
const PIECE: usize = 16 << 10;

/// What stays warm of what came out.
pub(super) const KEPT_MAX: usize = 16 << 10;
