//! [`Transform`]: what changes a streamed answer on its way out (RFC 9110 §7.7).

use std::any::Any;
use std::io;
use std::task::{self, Poll, ready};

use crate::coding::Flush;
use crate::exchange::{Bounds, ExchangeError, Outgoing};
use crate::message::Response;
use crate::net::Conn;
use crate::runtime::give_way;

/// Changes what a handler streams, on its way to the peer: the work of middleware that cannot wait until the answer is
/// there. A middleware puts one into [`Context::transform`](super::Context::transform) before it calls its handler;
/// answers that are not streamed are in `ctx.response` when the handler returns, and are changed there.
///
/// # Examples
///
/// ```
/// use std::io;
/// use corehttp::{Context, Course, Flush, Handler, Response, Result, Transform};
///
/// struct Upper;
///
/// impl Transform for Upper {
///     fn begin(&mut self, response: &mut Response) -> Course {
///         match response.headers.content_type() {
///             Some("text/plain") => Course::Through,
///             _ => Course::Around,
///         }
///     }
///
///     fn apply(&mut self, data: &[u8], _: Flush, out: &mut Vec<u8>) -> io::Result<()> {
///         out.extend(data.to_ascii_uppercase());
///         Ok(())
///     }
/// }
///
/// struct Shouting<H>(H);
///
/// impl<H: Handler> Handler for Shouting<H> {
///     async fn handle(&self, ctx: &mut Context) -> Result {
///         ctx.transform = Some(Box::new(Upper));
///         self.0.handle(ctx).await
///     }
/// }
/// ```
pub trait Transform: Any {
    /// The head is about to leave, and may still be changed: whoever changes how long the content is removes its
    /// `content-length`. Says whether the content goes through [`Transform::apply`].
    fn begin(&mut self, response: &mut Response) -> Course;

    /// Takes `data` in, a few KiB at a time, and appends to `out` what of the content is to be sent now. It is called
    /// once with [`Flush::End`], the last time.
    ///
    /// # Errors
    ///
    /// Whatever makes it impossible to go on: the connection is closed then.
    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> io::Result<()>;
}

/// Which way the content of a streamed answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Through [`Transform::apply`].
    Through,
    /// Straight to the peer.
    Around,
}

/// The way of a streamed answer through its transform.
pub(super) struct Passage<'a> {
    transform: &'a mut dyn Transform,
    /// What came out of it, and how much of that was sent.
    out: &'a mut Vec<u8>,
    sent: usize,
    /// What was put in last.
    last: Flush,
    /// So much was put in since others had their turn.
    busy: usize,
}

impl<'a> Passage<'a> {
    pub(super) fn new(transform: &'a mut dyn Transform, out: &'a mut Vec<u8>) -> Passage<'a> {
        out.clear();
        Passage { transform, out, sent: 0, last: Flush::Now, busy: 0 }
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
        if self.busy >= BUSY_MAX {
            // Whoever writes without end, to a peer that reads without end, shall not keep the core for itself.
            self.busy = 0;
            give_way(cx);
            return Poll::Pending;
        }
        let piece = &data[..data.len().min(PIECE)];
        self.busy += piece.len();
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

/// What is put in at once, and how much until others have their turn.
const PIECE: usize = 16 << 10;
const BUSY_MAX: usize = 256 << 10;

/// What stays warm of what came out.
pub(super) const KEPT_MAX: usize = 16 << 10;
