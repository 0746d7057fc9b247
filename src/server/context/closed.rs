//! [`poll_closed`]: has the peer closed, while its answer is still being worked on?

use std::task::{self, Poll, ready};
use std::time::Duration;

use super::SharedConn;
use crate::exchange::Incoming;
use crate::net::Lane;

/// Ready when the peer has closed the connection, or its sending half. What it sends meanwhile is kept.
pub(super) fn poll_closed(
    cx: &mut task::Context<'_>,
    conn: &SharedConn,
    incoming: &mut Incoming,
) -> Poll<()> {
    let mut conn = conn.borrow_mut();
    let Some(conn) = conn.as_mut() else { return Poll::Ready(()) };
    // The deadline of a read that was abandoned must not end this wait.
    conn.disarm(Lane::Read);
    while incoming.input.unread().len() <= UNREAD_MAX {
        let Ok(1..) = ready!(conn.poll_fill(cx, &mut incoming.input, Duration::MAX)) else {
            return Poll::Ready(());
        };
    }
    Poll::Pending
}

/// How much is kept of what arrives while waiting for the close.
const UNREAD_MAX: usize = 64 << 10;
