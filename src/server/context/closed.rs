//! [`poll_closed`] and [`poll_left`]: whether the peer closes, and still waits, while its answer is being worked on.

use std::task::{self, Poll, ready};

use super::SharedConn;
use crate::exchange::{Bounds, ExchangeError, HalfClose, Incoming};
use crate::net::Lane;

/// Ready when the peer has closed the connection, or its sending half. What it sends meanwhile is kept.
pub(super) fn poll_closed(
    cx: &mut task::Context<'_>,
    conn: &SharedConn,
    incoming: &mut Incoming,
) -> Poll<()> {
    poll_end(cx, conn, incoming).map(drop)
}

/// Ready with the error of a peer that does not wait for its answer any more. Closing its sending half behind a whole
/// request is no sign of that, unless the server takes it for one. Nothing more can come then, so no waker is kept.
pub(super) fn poll_left(
    cx: &mut task::Context<'_>,
    conn: &SharedConn,
    incoming: &mut Incoming,
    bounds: &Bounds,
) -> Poll<ExchangeError> {
    match (ready!(poll_end(cx, conn, incoming)), bounds.half_close) {
        (End::Orderly, HalfClose::Waits) if incoming.is_cut_short() => Poll::Ready(ExchangeError::Incomplete),
        (End::Orderly, HalfClose::Waits) => Poll::Pending,
        (End::Orderly, HalfClose::Gone) | (End::Failed, _) => Poll::Ready(ExchangeError::PeerClosed),
    }
}

/// How the peer has ended what it sends.
enum End {
    /// It has closed the connection, or its sending half, which looks the same.
    Orderly,
    /// The connection has failed, or was taken over.
    Failed,
}

fn poll_end(cx: &mut task::Context<'_>, conn: &SharedConn, incoming: &mut Incoming) -> Poll<End> {
    let mut conn = conn.borrow_mut();
    let Some(conn) = conn.as_mut() else { return Poll::Ready(End::Failed) };
    // The deadline of a read that was abandoned must not end this wait.
    conn.disarm(Lane::Read);
    while incoming.input.unread().len() <= UNREAD_MAX {
        match ready!(incoming.poll_ahead(cx, conn)) {
            Ok(1..) => {}
            Ok(0) => return Poll::Ready(End::Orderly),
            Err(_) => return Poll::Ready(End::Failed),
        }
    }
    Poll::Pending
}

/// How much is kept of what arrives while waiting for the close.
const UNREAD_MAX: usize = 64 << 10;
