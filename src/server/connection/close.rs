//! The ways to close a connection, and when a stop closes an idle one (RFC 9112 §9.6).

use std::future::poll_fn;
use std::task::{self, Poll, ready};
use std::time::Duration;

use crate::memory::Reset;
use crate::net::{Conn, ConnError, TimerSlot, Transport};
use crate::server::Context;
use crate::server::context::CloseMode;

/// Ends the connection. Any wait for the peer is bounded.
pub(super) async fn close(ctx: &mut Context, mode: CloseMode) {
    match mode {
        CloseMode::Now => ctx.close_now(),
        CloseMode::Graceful | CloseMode::Linger => {
            let sent = poll_fn(|cx| ctx.poll_send(cx)).await.is_ok()
                && poll_fn(|cx| ctx.poll_flush(cx)).await.is_ok();
            let shut = sent && poll_fn(|cx| ctx.poll_shutdown(cx)).await.is_ok();
            if shut && (mode == CloseMode::Linger || ctx.has_unread_tls()) {
                // Many peers may linger at once, so none keeps what its exchange needed.
                ctx.reset_exchange();
                ctx.shrink();
                ctx.incoming.take();
                poll_fn(|cx| ctx.poll_linger(cx)).await;
            }
        }
        CloseMode::Reset => {
            // Earlier answers are complete, and are sent if that takes no waiting.
            poll_fn(|cx| Poll::Ready(ctx.poll_flush(cx).is_ready())).await;
            ctx.reset_transport();
        }
    }
}

/// Ends a connection that carried no exchange, and gives the peer time to read why.
pub(super) async fn shutdown_and_linger(ctx: &mut Context) {
    if poll_fn(|cx| ctx.poll_shutdown(cx)).await.is_ok() {
        poll_fn(|cx| ctx.poll_linger(cx)).await;
    }
}

/// Ready when a connection that waits for a request, for up to `limit`, should close because the server stops. It has
/// carried `number` of them.
pub(super) fn poll_stop(
    conn: &mut Conn,
    number: u64,
    limit: Duration,
    cx: &mut task::Context<'_>,
) -> Poll<()> {
    match (conn.is_stopping(), number) {
        (false, _) => Poll::Pending,
        (true, 0) => poll_stop_new(conn, cx),
        // A request has already arrived, from a peer that was never told to stop sending; it is answered.
        (true, _) if conn.transport.has_kernel_input() => Poll::Pending,
        (true, _) => poll_stop_idle(conn, limit, cx),
    }
}

/// A new connection is given time, since its first request may be on its way.
pub(super) fn poll_stop_new(conn: &mut Conn, cx: &mut task::Context<'_>) -> Poll<()> {
    match conn.is_stopping() {
        true => conn.poll_expired(cx, TimerSlot::Total, FIRST_REQUEST_GRACE).map(drop),
        false => Poll::Pending,
    }
}

/// A connection that has just carried an answer is given time, too: a busy client has sent its next request by then.
fn poll_stop_idle(conn: &mut Conn, limit: Duration, cx: &mut task::Context<'_>) -> Poll<()> {
    if conn.waited(TimerSlot::Read, limit) <= NEXT_REQUEST_GRACE {
        ready!(conn.poll_expired(cx, TimerSlot::Total, NEXT_REQUEST_GRACE));
    }
    // A request may still be on its way, so the sending half is closed without delay.
    conn.poll_shutdown(cx, FIRST_REQUEST_GRACE).map(drop)
}

/// How long a connection that has sent no request yet, or may linger but is silent, may hold up a stop.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);
/// How long a connection that has just carried an answer may hold up a stop.
const NEXT_REQUEST_GRACE: Duration = Duration::from_millis(250);

/// How much of what nobody wants is read at once.
const DISCARDED_AT_ONCE: usize = 16 << 10;

/// The steps of closing.
impl Context {
    /// Resets the connection, so that the peer cannot mistake what was sent for the whole answer.
    fn reset_transport(&mut self) {
        self.conn.borrow().iter().for_each(|conn| conn.transport.reset());
    }

    fn close_now(&mut self) {
        self.conn.borrow_mut().iter_mut().for_each(|conn| conn.transport.try_shutdown());
    }

    fn poll_shutdown(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), ConnError>> {
        let limit = self.shared.bounds.timeouts.write;
        let mut conn = self.conn.borrow_mut();
        let Some(conn) = &mut *conn else { return Poll::Ready(Ok(())) };
        ready!(conn.poll_shutdown(cx, limit))?;
        for slot in [TimerSlot::Read, TimerSlot::Write, TimerSlot::Total] {
            conn.disarm(slot);
        }
        self.incoming.get_mut().reset();
        Poll::Ready(Ok(()))
    }

    /// Whether a secure peer has said something since its last request, such as that it ends (RFC 8446 §6.1). Closing
    /// before that is read would cause a reset, as if the peer were still sending.
    fn has_unread_tls(&self) -> bool {
        let conn = self.conn.borrow();
        conn.iter().any(|Conn { transport, .. }| {
            matches!(transport, Transport::Tls(_)) && transport.has_kernel_input()
        })
    }

    /// Reads and discards what the peer still sends, until it closes too, or its time is over.
    fn poll_linger(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        let Context { conn, shared, .. } = self;
        let mut conn = conn.borrow_mut();
        let Some(conn) = &mut *conn else { return Poll::Ready(()) };
        let (timeouts, mut room) = (&shared.bounds.timeouts, [0; DISCARDED_AT_ONCE]);
        loop {
            // Checked before each read: a peer that sends all the time never makes a read wait.
            if conn.poll_expired(cx, TimerSlot::Total, timeouts.linger).is_ready() {
                return Poll::Ready(());
            }
            match conn.poll_read(cx, &mut room, timeouts.linger_idle) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending if conn.is_stopping() => {
                    return conn.poll_expired(cx, TimerSlot::Write, FIRST_REQUEST_GRACE).map(drop);
                }
                Poll::Pending => return Poll::Pending,
            }
            conn.disarm(TimerSlot::Read);
            conn.disarm(TimerSlot::Write);
        }
    }
}
