//! The ways to close a connection, and when an idle one closes (RFC 9112 §9.6).

use std::future::poll_fn;
use std::task::{self, Poll, ready};
use std::time::Duration;

use crate::memory::Reset;
use crate::net::{Conn, Fault, Lane};
use crate::server::Context;
use crate::server::context::Manner;

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
}

/// Ends a connection that was never used, and lets the peer read why.
pub(super) async fn hang_up(ctx: &mut Context) {
    if poll_fn(|cx| ctx.poll_shutdown(cx)).await.is_ok() {
        poll_fn(|cx| ctx.poll_linger(cx)).await;
    }
}

/// Ready when an idle connection is in the way of a stop. One that is new may have a request on its way.
pub(super) fn poll_idle(conn: &mut Conn, number: u64, cx: &mut task::Context<'_>) -> Poll<()> {
    match (conn.is_stopping(), number) {
        (false, _) => Poll::Pending,
        (true, 0) => conn.poll_expired(cx, Lane::Whole, NEWCOMER_GRACE).map(drop),
        // Nobody has told the peer not to send the request that is here already.
        (true, _) if conn.transport.has_unnoticed() => Poll::Pending,
        // At once, for one may be on its way.
        (true, _) => conn.poll_shutdown(cx, NEWCOMER_GRACE).map(drop),
    }
}

/// How long a connection without a request yet may hold up a stop.
const NEWCOMER_GRACE: Duration = Duration::from_secs(1);

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
        let (drain_max, linger) = (shared.bounds.limits.drain_max, shared.bounds.timeouts.linger);
        incoming.get_mut().poll_discard(cx, conn, drain_max, linger)
    }
}
