//! The ways to close a connection (RFC 9112 §9.6).

use std::future::poll_fn;
use std::task::{Poll, ready};

use super::Context;
use crate::exchange::Bounds;
use crate::memory::Reset;
use crate::net::{Buffer, Conn, Lane};

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
    let flushed = match manner {
        Manner::AtOnce | Manner::Abort => false,
        Manner::Politely | Manner::Lingering => {
            poll_fn(|cx| ctx.poll_answer(cx)).await.is_ok() && poll_fn(|cx| ctx.poll_flush(cx)).await.is_ok()
        }
    };
    let Context { incoming, conn, shared, .. } = ctx;
    let Some(conn) = conn.get_mut() else { return };
    if manner == Manner::Abort {
        // An end that looks like any other would make half an answer look whole to an HTTP/1.0 peer.
        conn.transport.reset();
    }
    let write_limit = shared.bounds.timeouts.write;
    let shut = flushed && poll_fn(|cx| conn.poll_shutdown(cx, write_limit)).await.is_ok();
    if shut && manner == Manner::Lingering {
        linger(conn, &mut incoming.get_mut().input, &shared.bounds).await;
    }
    shared.count_traffic(conn);
}

/// Reads and drops what the peer still sends, until it has closed too or it is enough.
async fn linger(conn: &mut Conn, input: &mut Buffer, bounds: &Bounds) {
    let mut left = bounds.limits.drain_max;
    input.reset();
    conn.disarm(Lane::Read);
    poll_fn(|cx| {
        while let Ok(count @ 1..) = ready!(conn.poll_fill(cx, input, bounds.timeouts.linger)) {
            input.reset();
            match left.checked_sub(count) {
                Some(rest) => left = rest,
                None => break,
            }
        }
        Poll::Ready(())
    })
    .await;
}
