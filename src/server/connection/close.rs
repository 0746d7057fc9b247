//! The ways to close a connection, and the end of an idle one in a stop (RFC 9112 §9.6).

use std::future::poll_fn;
use std::task::{self, Poll, ready};
use std::time::Duration;

use crate::exchange::{ExchangeError, Phase, Timeouts};
use crate::memory::Reset;
use crate::net::{Conn, TimerSlot, Transport};
use crate::server::Context;
use crate::server::connection_ages::ConnectionAges;
use crate::server::exchange::{CloseMode, Exchange, ReportedEnd, SharedConn};
use crate::server::report::{ConnectionEnd, CutBy};

/// Ends the connection. Any wait for the peer is bounded.
pub(super) async fn close(ctx: &mut Context, mode: CloseMode) {
    let Context { exchange, request, response, .. } = &mut *ctx;
    match mode {
        CloseMode::Now => {
            exchange.conn.with(|conn| conn.transport.try_shutdown());
            exchange.report_end(request, ReportedEnd::Cut(CutBy::Peer));
        }
        CloseMode::Graceful | CloseMode::Linger => {
            let sent = poll_fn(|cx| exchange.poll_send(cx, response)).await.is_ok()
                && poll_fn(|cx| exchange.poll_flush(cx)).await.is_ok();
            let is_whole = sent && exchange.outgoing.is_finished_or_bodyless();
            let end = if is_whole { ReportedEnd::Whole } else { ReportedEnd::Cut(CutBy::Peer) };
            exchange.report_end(request, end);
            let shut = sent && poll_fn(|cx| poll_shutdown(exchange, cx)).await.is_ok();
            if shut && (mode == CloseMode::Linger || has_unread_tls(&exchange.conn)) {
                // Many peers may linger at once, so none of them keeps the memory of its exchange.
                ctx.begin_next();
                ctx.shrink();
                ctx.exchange.incoming.take();
                poll_fn(|cx| poll_linger(&ctx.exchange.conn, cx)).await;
            }
        }
        CloseMode::Reset => {
            // Earlier responses are complete, and are sent if that takes no waiting.
            poll_fn(|cx| Poll::Ready(exchange.poll_flush(cx).is_ready())).await;
            // After a reset, the peer cannot mistake a part of the response for the whole.
            exchange.conn.with(|conn| conn.transport.reset());
            exchange.report_end(request, ReportedEnd::Cut(CutBy::Handler));
        }
    }
}

/// Ends a connection that carried no exchange, and gives the peer time to read why.
pub(super) async fn shutdown_and_linger(exchange: &mut Exchange) {
    if poll_fn(|cx| poll_shutdown(exchange, cx)).await.is_ok() {
        poll_fn(|cx| poll_linger(&exchange.conn, cx)).await;
    }
}

/// How long a connection may be idle, for up to `limit`, before it reaches its age. The result is computed when a wait
/// begins, and kept in `idle_limit_millis` until the wait ends: less is left of the age later, and [`poll_stop`] needs the
/// limit with which the wait began.
#[cold]
pub(super) fn idle_limit_within_age(
    ages: &ConnectionAges,
    conn: &Conn,
    limit: Duration,
    idle_limit_millis: &mut u32,
) -> Duration {
    if conn.is_armed(TimerSlot::Read) {
        return Duration::from_millis((*idle_limit_millis).into());
    }
    // Just after a response, it may have a request on its way.
    let limit = ages.left(conn).map_or(limit, |left| left.max(NEXT_REQUEST_GRACE).min(limit));
    // A limit beyond 49 days is noted as 49 days, so a stop takes the connection for less silent than it is.
    *idle_limit_millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    limit
}

/// Why an idle connection is closed whose time is over.
#[cold]
pub(super) fn idle_end(ages: &ConnectionAges, conn: &Conn) -> ConnectionEnd {
    // Timers count whole milliseconds, and may be early by a part of one.
    let is_aged = ages.left(conn).is_some_and(|left| left <= Duration::from_millis(1));
    if is_aged { ConnectionEnd::Age } else { ConnectionEnd::Idle }
}

/// Ready when an idle connection, which has carried `exchange_count` exchanges and waits for up to `limit`, should
/// close because the server stops.
///
/// A connection that has been silent for longer than its grace is closed at once. Another one is given the rest of it,
/// since a busy client has its next request on its way by then.
pub(super) fn poll_stop(
    conn: &mut Conn,
    exchange_count: u64,
    limit: Duration,
    cx: &mut task::Context<'_>,
) -> Poll<()> {
    // A request that has already arrived is answered. Its peer could not know of the stop.
    if !conn.is_stopping() || conn.transport.has_kernel_input() {
        return Poll::Pending;
    }
    let left = grace(exchange_count).saturating_sub(conn.waited(TimerSlot::Read, limit));
    ready!(conn.poll_timeout(cx, TimerSlot::Other, left));
    // A request may still be on its way, so the sending half is closed without delay.
    conn.poll_shutdown(cx, FIRST_REQUEST_GRACE).map(drop)
}

/// Whether an idle connection, which has carried `exchange_count` exchanges and waits for up to `limit`, should close
/// because there is no room for another one. One that may have a request on its way stays, as in a stop.
pub(super) fn makes_room(conn: &Conn, exchange_count: u64, limit: Duration) -> bool {
    conn.needs_room()
        && conn.waited(TimerSlot::Read, limit) >= grace(exchange_count)
        && conn.take_eviction()
        && !conn.transport.has_kernel_input()
}

/// How long a connection that has carried so many exchanges may be silent.
fn grace(exchange_count: u64) -> Duration {
    if exchange_count == 0 { FIRST_REQUEST_GRACE } else { NEXT_REQUEST_GRACE }
}

/// Ready when a connection that is still being opened should close because the server stops.
pub(super) fn poll_stop_opening(conn: &mut Conn, cx: &mut task::Context<'_>) -> Poll<()> {
    match conn.is_stopping() {
        true => conn.poll_timeout(cx, TimerSlot::Other, FIRST_REQUEST_GRACE).map(drop),
        false => Poll::Pending,
    }
}

/// How long a connection that has sent no request yet may be silent during a stop. Its handshake during a stop may take
/// as long.
const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);
/// How long a connection that has carried a response may be silent during a stop.
const NEXT_REQUEST_GRACE: Duration = Duration::from_millis(100);
/// How long a connection that has carried its last response may be silent during a stop.
const LINGER_GRACE: Duration = Duration::from_millis(250);

/// Closes the sending half.
fn poll_shutdown(exchange: &mut Exchange, cx: &mut task::Context<'_>) -> Poll<Result<(), ExchangeError>> {
    let Exchange { conn, incoming, .. } = exchange;
    conn.poll(|conn, bounds| {
        let limit = bounds.timeouts.write;
        let shut = ready!(conn.poll_shutdown(cx, limit));
        shut.map_err(ExchangeError::during(Phase::Write, limit))?;
        conn.disarm_all();
        incoming.get_mut().reset();
        Poll::Ready(Ok(()))
    })
}

/// Whether a secure peer has sent something since its last request, such as `close_notify` (RFC 8446 §6.1). To close
/// before that is read would cause a reset, as if the peer were still sending.
fn has_unread_tls(conn: &SharedConn) -> bool {
    let is_unread =
        |conn: &mut Conn| matches!(conn.transport, Transport::Tls(_)) && conn.transport.has_kernel_input();
    conn.with(is_unread).unwrap_or_default()
}

/// Lingers until the peer closes, too, or its time is over.
fn poll_linger(conn: &SharedConn, cx: &mut task::Context<'_>) -> Poll<()> {
    let polled: Poll<Result<(), ExchangeError>> =
        conn.poll(|conn, bounds| poll_linger_or_stop(conn, &bounds.timeouts, cx).map(Ok));
    polled.map(drop)
}

fn poll_linger_or_stop(conn: &mut Conn, timeouts: &Timeouts, cx: &mut task::Context<'_>) -> Poll<()> {
    let received = conn.traffic().received;
    let ended = conn.poll_linger(cx, timeouts.linger, timeouts.linger_idle);
    // The peer is not silent, so the grace begins anew.
    if conn.traffic().received > received {
        conn.disarm(TimerSlot::Write);
    }
    match ended {
        Poll::Pending if conn.is_stopping() => {
            conn.poll_timeout(cx, TimerSlot::Write, LINGER_GRACE).map(drop)
        }
        ended => ended.map(drop),
    }
}
