//! [`poll_drain`], [`poll_discard`]: the end of a body whose content nobody wants (RFC 9112 §9.3).

use std::task::{Context, Poll, ready};

use super::{Bounds, ExchangeError, Incoming, Phase};
use crate::net::{Conn, Locality, TimerSlot};

/// Drains the body: reads and drops the rest of it, since the response has announced that the connection persists, and
/// a peer that relies on that sends the end of its body. Returns whether the end was reached. Beyond
/// [`Limits::drain_max`](crate::Limits::drain_max), the peer has [`linger`](super::Timeouts::linger).
pub(crate) fn poll_drain<L: Locality>(
    incoming: &mut Incoming,
    cx: &mut Context<'_>,
    conn: &mut Conn<L>,
    bounds: &Bounds,
) -> Poll<Result<bool, ExchangeError>> {
    if incoming.has_failed() {
        return Poll::Ready(Ok(false));
    }
    let drain_max = bounds.limits.drain_max;
    let linger = bounds.timeouts.linger;
    loop {
        let left = incoming.length_left().unwrap_or_default();
        let is_too_long = incoming.discarded() > drain_max || left > drain_max as u64;
        let is_given_up =
            is_too_long && (linger.is_zero() || conn.poll_timeout(cx, TimerSlot::Other, linger).is_ready());
        if is_given_up {
            return Poll::Ready(Ok(false));
        }
        match ready!(incoming.poll_piece(cx, conn, bounds))? {
            0 => break,
            count => incoming.note_discarded(count),
        }
    }
    conn.disarm(TimerSlot::Other);
    Poll::Ready(Ok(true))
}

/// Discards as much of the body as arrives while a write waits: many peers read nothing of a response before they have
/// sent all of their request. Ready if the connection fails.
pub(crate) fn poll_discard<L: Locality>(
    incoming: &mut Incoming,
    cx: &mut Context<'_>,
    conn: &mut Conn<L>,
    bounds: &Bounds,
) -> Poll<ExchangeError> {
    // The deadline of a read that was abandoned must not end this wait.
    conn.disarm(TimerSlot::Read);
    while !incoming.is_end_stream() {
        match incoming.discard_arrived(bounds) {
            Ok(count) if count > 0 || incoming.is_end_stream() => continue,
            Ok(_) => {}
            // Malformed content is dropped as it comes: a peer that is not read may not read the response.
            Err(_) => incoming.drop_input(),
        }
        match ready!(incoming.poll_read_ahead(cx, conn)) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                return Poll::Ready(ExchangeError::during(Phase::Write, bounds.timeouts.write)(error));
            }
        }
    }
    Poll::Pending
}
