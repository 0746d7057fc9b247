//! [`Link`]: the connection of a WebSocket, which its reader and its writer share.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use super::role::private::Sealed;
use crate::exchange::{ExchangeError, Phase};
use crate::memory::{LocalCache, Reset};
use crate::net::{Conn, ConnError, IoState, TimerSlot, Traffic, Transport, WakerSet};
use crate::runtime::{Budget, Instant, now};
use crate::server::WebSocketCounter;
use crate::websocket::codec::{Encoder, Input};
use crate::websocket::frame::{CloseCode, Error, Message, MessagePart, OpCode, close_payload};
use crate::websocket::options::LinkBounds;

/// The connection of a WebSocket, and what is sent over it.
pub(crate) struct Link<E: Sealed> {
    conn: Conn<E::Locality>,
    pub(crate) bounds: LinkBounds,
    pub(crate) encoder: Encoder,
    /// Whether a close frame was sent, behind which nothing is sent.
    is_close_sent: bool,
    is_over: bool,
    /// Whether the peer was behind when bytes were last sent: some of them wait until it has taken others.
    is_behind: bool,
    /// Whether bytes that waited to be written were lost when the connection ended.
    has_lost: bool,
    /// Whether a ping was sent that nothing has followed.
    is_pinged: bool,
    /// How many pings were sent that no pong has come for, and when the first of them was.
    pings: u32,
    oldest_ping_at: Option<Instant>,
    /// How long a ping has taken, in microseconds.
    round_trip: Option<u32>,
    /// A pong that waits until the peer reads. A newer one takes its place (§5.5.3).
    late_pong: Option<Box<[u8]>>,
    /// Messages that are compressed to little hardly ever wait for the socket.
    budget: Budget,
    /// The bytes and messages that were not counted yet.
    traffic: Traffic,
    sent: u64,
    /// The code of the first close frame, until it is noted.
    close_code: Option<u16>,
    /// The waker of the handler's task. Whenever that task waits, messages that were held back are sent.
    handler: Option<Waker>,
    /// The error of sending what was held back; the next call fails with it.
    failure: Option<io::Error>,
    /// The waker of the last poll, and those of all polls once there is more than one.
    waker: Option<Waker>,
    wakers: Option<Arc<WakerSet>>,
    /// Dropped last, since the connection must be closed before its server no longer counts it.
    guard: Option<E::Guard>,
}

impl<E: Sealed> Link<E> {
    pub(crate) fn new(
        mut conn: Conn<E::Locality>,
        bounds: LinkBounds,
        encoder: Encoder,
        guard: Option<E::Guard>,
    ) -> Link<E> {
        // The timeouts of the exchange no longer apply, such as that of the whole request.
        conn.disarm_all();
        Link {
            conn,
            bounds,
            encoder,
            is_close_sent: false,
            is_over: false,
            is_behind: false,
            has_lost: false,
            is_pinged: false,
            pings: 0,
            oldest_ping_at: None,
            round_trip: None,
            late_pong: None,
            budget: Budget::default(),
            traffic: Traffic::default(),
            sent: 0,
            close_code: None,
            handler: None,
            failure: None,
            waker: None,
            wakers: None,
            guard,
        }
    }

    /// Counts what went over the connection since the last call.
    pub(super) fn count(&mut self, observer: &WebSocketCounter) {
        self.take_traffic();
        let Traffic { received, sent } = self.traffic;
        if received + sent > 0 {
            observer.count_traffic(std::mem::take(&mut self.traffic));
            // Messages that are held back are counted together, with the next bytes.
            observer.count_sent(std::mem::take(&mut self.sent));
        }
        if let Some(code) = self.close_code.take() {
            observer.note_close(code);
        }
    }

    /// Adds the traffic that the connection has noted.
    fn take_traffic(&mut self) {
        let Traffic { received, sent } = self.conn.traffic();
        if received + sent > 0 {
            self.conn.take_traffic();
            self.traffic.received += received;
            self.traffic.sent += sent;
        }
    }

    /// Milliseconds since some fixed moment.
    pub(crate) fn now(&self) -> u64 {
        self.conn.now()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(crate) fn is_close_sent(&self) -> bool {
        self.is_close_sent
    }

    /// Whether the server is about to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        E::is_stopping(&self.conn)
    }

    /// How many bytes wait to be written.
    fn waiting(&mut self) -> usize {
        if self.conn.has_sent_all() { 0 } else { self.conn.write_buffer().len() }
    }

    fn check_open(&mut self) -> io::Result<()> {
        if self.is_close_sent || self.is_over { Err(self.closed()) } else { Ok(()) }
    }

    /// The error of a call on a WebSocket that is closed.
    fn closed(&mut self) -> io::Error {
        self.failure.take().unwrap_or_else(|| Error::Closed.into())
    }

    /// Sends what was held back, because the handler waits.
    pub(crate) fn pause(&mut self, cx: &mut Context<'_>) {
        if !self.is_handler(cx) {
            self.handler = Some(cx.waker().clone());
        }
        if !self.is_over
            && let Poll::Ready(Err(error)) = self.poll_send(cx, 0)
        {
            self.failure = Some(error);
        }
        self.return_memory();
    }

    /// Whether the handler is polled, and no other task.
    pub(crate) fn is_handler(&self, cx: &Context<'_>) -> bool {
        self.handler.as_ref().is_some_and(|handler| handler.will_wake(cx.waker()))
    }

    /// Appends to what waits to be written.
    fn write<T>(
        &mut self,
        encode: impl FnOnce(&mut Encoder, &mut Vec<u8>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.borrow_memory();
        encode(&mut self.encoder, self.conn.write_buffer().bytes())
    }

    /// Appends a part of a message to what waits to be written.
    pub(crate) fn write_part(&mut self, part: MessagePart<'_>) -> io::Result<()> {
        self.check_open()?;
        self.write(|encoder, out| encoder.part(part, out))?;
        self.sent += u64::from(part.is_last);
        Ok(())
    }

    /// Appends a frame of a whole message, which was encoded before.
    pub(crate) fn write_frame(&mut self, cx: &mut Context<'_>, frame: &[u8]) -> io::Result<()> {
        self.check_open()?;
        self.encoder.check_whole()?;
        self.sent += 1;
        if frame.len() >= COPIED_MAX {
            return self.write_payload(cx, frame);
        }
        self.write(|_, out| {
            out.extend_from_slice(frame);
            Ok(())
        })
    }

    /// Appends a message to what waits to be written. The payload of a long one is handed to the system without a copy,
    /// as far as that takes it at once.
    pub(crate) fn write_message(&mut self, cx: &mut Context<'_>, message: Message<'_>) -> io::Result<()> {
        self.check_open()?;
        let len = message.as_bytes().len();
        if self.encoder.compresses(len) {
            self.budget.spend(len);
        }
        let is_head_alone =
            len >= COPIED_MAX && self.write(|encoder, out| encoder.head_alone(message, out))?;
        match is_head_alone {
            true => self.write_payload(cx, message.as_bytes())?,
            false => self.write(|encoder, out| encoder.message(message, out))?,
        }
        self.sent += 1;
        Ok(())
    }

    fn write_payload(&mut self, cx: &mut Context<'_>, mut payload: &[u8]) -> io::Result<()> {
        self.borrow_memory();
        while !payload.is_empty() {
            let limit = self.bounds.write;
            match self.with_waker(cx, |link, cx| link.conn.poll_send(cx, payload, limit)) {
                Poll::Ready(Ok(count)) => payload = &payload[count..],
                Poll::Ready(Err(error)) => return Err(self.fail(error, Phase::Write)),
                // Nothing else may come between, not even a pong.
                Poll::Pending => {
                    self.conn.write_buffer().bytes().extend_from_slice(payload);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Appends a ping.
    pub(crate) fn write_ping(&mut self, payload: &[u8]) -> io::Result<()> {
        self.check_open()?;
        self.write(|encoder, out| encoder.control(OpCode::Ping, payload, out))?;
        self.pings = self.pings.saturating_add(1);
        self.oldest_ping_at.get_or_insert_with(now);
        Ok(())
    }

    /// Whether a pong may be the answer to a ping, of which there is one fewer then.
    pub(crate) fn admit_pong(&mut self) -> bool {
        let left = self.pings.checked_sub(1);
        self.pings = left.unwrap_or(0);
        if let Some(at) = self.oldest_ping_at.take() {
            self.round_trip = Some(u32::try_from(at.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
        left.is_some()
    }

    /// How long a ping has taken, up to its pong.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.map(|micros| Duration::from_micros(micros.into()))
    }

    /// Answers a ping. A peer that sends pings and reads nothing gets the answer to the last of them once it reads.
    pub(crate) fn write_pong(&mut self, payload: &[u8]) -> io::Result<()> {
        if self.is_close_sent {
            return Ok(());
        }
        if self.waiting() > self.bounds.buffer_max {
            self.late_pong = Some(payload.into());
            return Ok(());
        }
        self.late_pong = None;
        self.write(|encoder, out| encoder.control(OpCode::Pong, payload, out))
    }

    /// Appends a close frame, unless one was sent. [`CloseCode::NONE`] is a frame without a code, which has no room for a
    /// reason.
    pub(crate) fn write_close(&mut self, code: CloseCode, reason: &str) -> io::Result<()> {
        if self.is_close_sent || self.is_over {
            return Ok(());
        }
        match code {
            CloseCode::NONE if reason.is_empty() => {
                self.write(|encoder, out| encoder.control(OpCode::Close, &[], out))?;
            }
            code => {
                let payload = close_payload(code, reason)?;
                self.write(|encoder, out| encoder.control(OpCode::Close, payload.as_bytes(), out))?;
            }
        }
        self.is_close_sent = true;
        self.close_code = Some(code.0);
        Ok(())
    }

    /// Appends a close frame with code 1001, because the server stops: at once between two messages of the peer, or else
    /// once the rest of the message takes too long. Returns whether it did.
    pub(crate) fn poll_away(&mut self, cx: &mut Context<'_>, is_within: bool) -> io::Result<bool> {
        if self.is_close_sent || self.is_over {
            return Ok(false);
        }
        let limit = self.bounds.close;
        let expired = |link: &mut Link<E>, cx: &mut Context<'_>| {
            link.conn.poll_expired(cx, TimerSlot::Total, limit).is_ready()
        };
        if is_within && !self.with_waker(cx, expired) {
            return Ok(false);
        }
        // The close has this time once more.
        self.conn.disarm(TimerSlot::Total);
        self.write_close(CloseCode::AWAY, "")?;
        Ok(true)
    }

    /// Sends what waits to be written, if it is more than `buffer_max` bytes.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>, buffer_max: usize) -> Poll<io::Result<()>> {
        if self.has_lost {
            return Poll::Ready(Err(self.closed()));
        }
        ready!(self.budget.poll_proceed(cx));
        if self.waiting() <= buffer_max && (buffer_max > 0 || self.conn.has_sent_all()) {
            return Poll::Ready(Ok(()));
        }
        let polled = self.with_waker(cx, Link::poll_flush);
        // The handler is about to write again, or pauses.
        if !self.is_handler(cx) {
            self.return_memory();
        }
        polled
    }

    /// Waits until the WebSocket is closed, behind a close frame that was sent.
    pub(crate) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_over {
            return Poll::Ready(Ok(()));
        }
        self.with_waker(cx, Link::flush_and_check_close)?;
        Poll::Pending
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_idle = self.late_pong.is_none() && self.conn.has_sent_all();
        if is_idle && !self.is_over { Poll::Ready(Ok(())) } else { self.poll_flush_all(cx) }
    }

    fn poll_flush_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_over {
            return Poll::Ready(Err(self.closed()));
        }
        loop {
            if !self.conn.has_sent_all() {
                ready!(self.poll_flush_once(cx)).map_err(|error| self.fail(error, Phase::Write))?;
            }
            match self.late_pong.take() {
                Some(payload) => self.write_pong(&payload)?,
                None => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Writes the whole write buffer. A system that takes bytes again has got room because the peer has taken some, which
    /// ends its silence: it may have far to read up to a ping.
    fn poll_flush_once(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnError>> {
        let sent = self.is_behind.then(|| self.conn.traffic().sent);
        let polled = self.conn.poll_flush(cx, self.bounds.write);
        self.is_behind = polled.is_pending();
        if sent.is_some_and(|sent| sent < self.conn.traffic().sent) {
            self.end_silence();
        }
        polled
    }

    fn end_silence(&mut self) {
        self.conn.disarm(TimerSlot::Read);
        self.is_pinged = false;
    }

    /// Reads more bytes into `input`, and sends what waits to be written meanwhile. Returns 0 at the end.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>, input: &mut Input) -> Poll<io::Result<usize>> {
        self.borrow_memory();
        let polled = self.with_waker(cx, |link, cx| link.poll_fill_once(cx, input));
        // Answers to the bytes that are here need memory, too.
        if polled.is_pending() || !self.is_handler(cx) {
            self.return_memory();
        }
        polled
    }

    fn poll_fill_once(&mut self, cx: &mut Context<'_>, input: &mut Input) -> Poll<io::Result<usize>> {
        loop {
            if self.is_over {
                return Poll::Ready(Err(self.closed()));
            }
            self.flush_and_check_close(cx)?;
            match self.conn.poll_read(cx, input.room(), self.bounds.silence) {
                Poll::Ready(Ok(count)) => {
                    self.end_silence();
                    input.filled(count);
                    return Poll::Ready(Ok(count));
                }
                Poll::Ready(Err(ConnError::TimedOut)) if !self.is_pinged && !self.is_close_sent => {
                    self.conn.disarm(TimerSlot::Read);
                    self.is_pinged = true;
                    self.write_ping(&[])?;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.fail(error, Phase::Silence))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Sends what waits to be written, and fails once the close has taken too long.
    fn flush_and_check_close(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let is_flushed = match self.poll_flush(cx) {
            Poll::Ready(flushed) => flushed.map(|()| true)?,
            Poll::Pending => false,
        };
        // At a stop, a peer that is behind gets its messages and the close frame as long as it takes them. The grace bounds
        // that.
        if self.is_close_sent && (is_flushed || !self.is_stopping()) {
            self.poll_close_expired(cx)?;
        }
        Ok(())
    }

    /// Fails once the close has taken too long.
    fn poll_close_expired(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.conn.poll_expired(cx, TimerSlot::Total, self.bounds.close) {
            Poll::Ready(error) => Err(self.fail(error, Phase::Close)),
            Poll::Pending => Ok(()),
        }
    }

    /// Appends a close frame, unless one was sent, because both halves are dropped. Returns whether the connection is
    /// still open.
    pub(super) fn begin_drop(&mut self) -> bool {
        // If no mask can be made, the connection just ends.
        !self.is_over && self.write_close(E::DROPPED, "").is_ok()
    }

    /// Takes what the server counts the connection by.
    pub(crate) fn take_guard(&mut self) -> Option<E::Guard> {
        self.guard.take()
    }

    /// Sends what waits to be written, and closes the sending half.
    pub(crate) fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with_waker(cx, |link, cx| {
            link.poll_close_expired(cx)?;
            ready!(link.poll_flush(cx))?;
            let shut = ready!(link.conn.poll_shutdown(cx, link.bounds.close));
            Poll::Ready(shut.map_err(|error| link.fail(error, Phase::Close)))
        })
    }

    /// Reads and discards what the peer still sends, until it closes, too: to close before that would cause a reset,
    /// which could take the close frame away before the peer has read it.
    pub(crate) fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.with_waker(cx, |link, cx| {
            let mut room = [0; DISCARDED_AT_ONCE];
            loop {
                if link.poll_close_expired(cx).is_err() {
                    return Poll::Ready(());
                }
                match ready!(link.conn.poll_read(cx, &mut room, link.bounds.close)) {
                    Ok(1..) => {}
                    Ok(0) | Err(_) => return Poll::Ready(()),
                }
            }
        })
    }

    /// Closes the connection, and wakes both halves, which then find it closed: a socket that is dropped wakes nobody.
    pub(crate) fn close_now(&mut self) {
        self.is_over = true;
        self.has_lost |= self.waiting() > 0;
        let all = self.wakers.take().map(Waker::from);
        self.waker.take().into_iter().chain(all).for_each(Waker::wake);
        self.conn.transport.try_shutdown();
        self.conn.transport = Transport::Closed;
        self.late_pong = None;
        self.drop_io_state();
        self.guard = None;
    }

    /// The error of a connection that has failed in this phase, which is closed.
    fn fail(&mut self, error: ConnError, phase: Phase) -> io::Error {
        let limit = match phase {
            Phase::Silence => self.bounds.silence,
            Phase::Close => self.bounds.close,
            _ => self.bounds.write,
        };
        self.conn.transport.reset();
        self.close_now();
        ExchangeError::during(phase, limit)(error).into()
    }

    /// Polls with the waker of `cx`, or with one that wakes all tasks that use this connection: a socket keeps one
    /// waker only, and the reader and the writer may be in different tasks.
    fn with_waker<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Link<E>, &mut Context<'_>) -> T,
    ) -> T {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) || self.wakers.is_some() {
            let all = self.share_waker(cx);
            if let Some(all) = all {
                return poll(self, &mut Context::from_waker(&all));
            }
        }
        poll(self, cx)
    }

    /// Notes another waker. Returns that of all, if there is more than one.
    fn share_waker(&mut self, cx: &Context<'_>) -> Option<Waker> {
        let Some(first) = &self.waker else {
            self.waker = Some(cx.waker().clone());
            return None;
        };
        let wakers = self.wakers.get_or_insert_with(|| {
            let wakers: Arc<WakerSet> = Arc::default();
            // The first task may wait with its own waker, which the socket is about to forget.
            wakers.register(first);
            wakers
        });
        wakers.register(cx.waker())
    }

    /// Takes a write buffer from the thread's cache, if there is none.
    fn borrow_memory(&mut self) {
        if !self.conn.has_io_state() {
            let cached = IO_STATES.try_with(|cache| cache.take(|_| true)).ok().flatten();
            self.conn.swap_io_state(&mut cached.or_else(|| Some(Box::default())));
        }
    }

    /// Gives the write buffer back, once all of it was sent.
    fn return_memory(&mut self) {
        if self.conn.has_sent_all() {
            self.drop_io_state();
        }
    }

    fn drop_io_state(&mut self) {
        self.take_traffic();
        let mut io_state = None;
        self.conn.swap_io_state(&mut io_state);
        if let Some(mut io_state) = io_state {
            io_state.reset();
            io_state.shrink();
            // On a thread that is ending, the cache is gone.
            let _ = IO_STATES.try_with(|cache| cache.give(io_state));
        }
    }
}

thread_local! {
    /// The write buffers, which sockets have only while bytes wait in them.
    static IO_STATES: LocalCache<Box<IoState>> = const { LocalCache::new() };
}

/// The payload of a longer message is not copied to the write buffer.
const COPIED_MAX: usize = 16 << 10;

/// How many unwanted bytes are read at once.
const DISCARDED_AT_ONCE: usize = 8 << 10;
