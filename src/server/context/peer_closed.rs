//! [`poll_peer_closed`] and [`poll_peer_gone`]: whether the peer closes, and still waits, while its answer is being worked on.

use std::task::{self, Poll, ready};

use super::SharedConn;
use crate::exchange::{Bounds, ExchangeError, HalfClose, Incoming};
use crate::net::TimerSlot;

/// Ready when the peer has closed the connection, or its sending half. What it sends meanwhile is kept.
pub(super) fn poll_peer_closed(
    cx: &mut task::Context<'_>,
    conn: &SharedConn,
    incoming: &mut Incoming,
) -> Poll<()> {
    poll_peer_end(cx, conn, incoming).map(drop)
}

/// Ready with the error of a peer that does not wait for its answer any more. Closing its sending half behind a whole
/// request is no sign of that, unless the server takes it for one. Nothing more can come then, so no waker is kept.
pub(super) fn poll_peer_gone(
    cx: &mut task::Context<'_>,
    conn: &SharedConn,
    incoming: &mut Incoming,
    bounds: &Bounds,
) -> Poll<ExchangeError> {
    match (ready!(poll_peer_end(cx, conn, incoming)), bounds.half_close) {
        (PeerEnd::Eof, HalfClose::Waits) if incoming.is_cut_short() => Poll::Ready(ExchangeError::Incomplete),
        (PeerEnd::Eof, HalfClose::Waits) => Poll::Pending,
        (PeerEnd::Eof, HalfClose::Gone) | (PeerEnd::Failed, _) => Poll::Ready(ExchangeError::PeerClosed),
    }
}

/// How the peer has ended what it sends.
enum PeerEnd {
    /// It has closed the connection, or its sending half, which looks the same.
    Eof,
    /// The connection has failed, or was taken over.
    Failed,
}

fn poll_peer_end(cx: &mut task::Context<'_>, conn: &SharedConn, incoming: &mut Incoming) -> Poll<PeerEnd> {
    let mut conn = conn.borrow_mut();
    let Some(conn) = conn.as_mut() else { return Poll::Ready(PeerEnd::Failed) };
    // The deadline of a read that was abandoned must not end this wait.
    conn.disarm(TimerSlot::Read);
    while incoming.input.unread().len() <= UNREAD_MAX {
        match ready!(incoming.poll_read_ahead(cx, conn)) {
            Ok(1..) => {}
            Ok(0) => return Poll::Ready(PeerEnd::Eof),
            Err(_) => return Poll::Ready(PeerEnd::Failed),
        }
    }
    Poll::Pending
}

/// How much is kept of what arrives while waiting for the close.
const UNREAD_MAX: usize = 64 << 10;
