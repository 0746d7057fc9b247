//! The ways to close a connection (RFC 9112 §9.6).

use std::future::poll_fn;
use std::task::{self, Poll, ready};

use super::Context;
use crate::memory::Reset;
use crate::net::{Fault, Lane};

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Nobody is there any more.
    AtOnce,
    /// The peer knows that this is the end.
    Politely,
    /// The peer may be sending still: a reset would take the answer from it before it has read it.
    Lingering,
    /// In the middle of an answer, so that nobody takes it for the whole.
    Abort,
}

/// Ends the connection. The wait for the peer has its bounds.
pub(super) async fn close(ctx: &mut Context, manner: Manner) {
    match manner {
        Manner::AtOnce => {}
        Manner::Politely | Manner::Lingering => {
            let sent = poll_fn(|cx| ctx.poll_send(cx)).await.is_ok()
                && poll_fn(|cx| ctx.poll_flush(cx)).await.is_ok();
            let shut = sent && poll_fn(|cx| ctx.poll_shutdown(cx)).await.is_ok();
            if shut && manner == Manner::Lingering {
                poll_fn(|cx| ctx.poll_linger(cx)).await;
            }
        }
        Manner::Abort => {
            // The answers before the one that fails are whole, and shall arrive if they can without a wait.
            poll_fn(|cx| Poll::Ready(ctx.poll_flush(cx).is_ready())).await;
            ctx.abort();
        }
    }
    ctx.count_traffic();
}

/// Ends a connection that was never used, and lets the peer read why.
pub(super) async fn hang_up(ctx: &mut Context) {
    if poll_fn(|cx| ctx.poll_shutdown(cx)).await.is_ok() {
        poll_fn(|cx| ctx.poll_linger(cx)).await;
    }
    ctx.count_traffic();
}

/// The steps of it, which are polled: what is awaited would lie in the task of every idle connection.
impl Context {
    /// Ends the connection such that nobody takes what was sent for the whole.
    fn abort(&mut self) {
        self.conn.borrow().iter().for_each(|conn| conn.transport.reset());
    }

    fn poll_shutdown(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), Fault>> {
        let limit = self.shared.bounds.timeouts.write;
        let mut conn = self.conn.borrow_mut();
        let Some(conn) = &mut *conn else { return Poll::Ready(Ok(())) };
        ready!(conn.poll_shutdown(cx, limit))?;
        conn.disarm(Lane::Read);
        self.incoming.get_mut().reset();
        Poll::Ready(Ok(()))
    }

    /// Reads and drops what the peer still sends, until it has closed too or it is enough.
    fn poll_linger(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        let Context { incoming, conn, shared, .. } = self;
        let mut conn = conn.borrow_mut();
        let Some(conn) = &mut *conn else { return Poll::Ready(()) };
        let (limits, linger) = (&shared.bounds.limits, shared.bounds.timeouts.linger);
        while ready!(incoming.get_mut().poll_discard(cx, conn, linger)) <= limits.drain_max {}
        Poll::Ready(())
    }

    fn count_traffic(&mut self) {
        let Context { conn, shared, .. } = self;
        conn.borrow_mut().iter_mut().for_each(|conn| shared.count_traffic(conn));
    }
}
