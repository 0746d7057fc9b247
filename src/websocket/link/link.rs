//! [`Link`]: the connection of a WebSocket, which its reader and its writer share.

use std::io;
use std::task::{self, Poll, ready};
use std::time::Duration;

use super::heartbeat::Heartbeat;
use super::ready_state::ReadyState;
use super::role::private::RoleParts;
use super::wakers::Wakers;
use crate::exchange::{ExchangeError, Phase, cut_as_end};
use crate::memory::{LocalCache, Reset};
use crate::net::{Conn, ConnError, IoState, PeerEnd, TimerSlot, Transport};
use crate::runtime::{Budget, MemoryBudget, MemoryShare};
use crate::server::{PendingCounts, WebSocketCounter};
use crate::websocket::codec::{Encoder, Input};
use crate::websocket::frame::{CloseCode, Message, MessagePart, OpCode, close_payload};
use crate::websocket::options::LinkBounds;

/// The connection of a WebSocket, and what is sent over it.
pub(crate) struct Link<R: RoleParts> {
    conn: Conn<R::Locality>,
    pub(crate) bounds: LinkBounds,
    pub(crate) encoder: Encoder,
    state: ReadyState,
    pub(crate) heartbeat: Heartbeat,
    wakers: Wakers,
    /// Whether the peer was behind when bytes were last sent: some of them wait until it has taken others.
    is_behind: bool,
    /// Messages that are compressed to little hardly ever wait for the socket.
    pub(in crate::websocket) budget: Budget,
    /// The part of `memory_budget` that is reserved for messages which wait for a slow peer.
    reserved: MemoryShare,
    memory_budget: MemoryBudget,
    uncounted: PendingCounts,
    /// Dropped last, since the connection must be closed before its server no longer counts it.
    guard: Option<R::Guard>,
}

impl<R: RoleParts> Link<R> {
    pub(crate) fn new(
        mut conn: Conn<R::Locality>,
        bounds: LinkBounds,
        encoder: Encoder,
        memory_budget: MemoryBudget,
        guard: Option<R::Guard>,
    ) -> Link<R> {
        // The timeouts of the exchange no longer apply, such as that of the whole request.
        conn.disarm_all();
        Link {
            conn,
            bounds,
            encoder,
            state: ReadyState::Open,
            heartbeat: Heartbeat::default(),
            wakers: Wakers::default(),
            is_behind: false,
            budget: Budget::default(),
            reserved: MemoryShare::default(),
            memory_budget,
            uncounted: PendingCounts::default(),
            guard,
        }
    }

    /// Counts what went over the connection since the last call.
    pub(super) fn count(&mut self, counter: &WebSocketCounter) {
        self.uncounted.take_traffic(&mut self.conn);
        self.uncounted.count(counter);
    }

    /// Milliseconds since some fixed moment.
    pub(crate) fn now(&self) -> u64 {
        self.conn.now()
    }

    /// How far the WebSocket is closed.
    pub(crate) fn state(&self) -> &ReadyState {
        &self.state
    }

    /// Whether the server stops, since the delay of the stop is over.
    pub(crate) fn is_stopping(&self) -> bool {
        R::is_stopping(&self.conn)
    }

    /// How many bytes wait to be written.
    fn waiting(&mut self) -> usize {
        if self.conn.has_sent_all() { 0 } else { self.conn.write_buffer().len() }
    }

    fn check_open(&mut self) -> io::Result<()> {
        if self.state.is_open() { Ok(()) } else { Err(self.state.error()) }
    }

    /// Sends what was held back, because the handler waits.
    pub(crate) fn flush_held_back(&mut self, cx: &mut task::Context<'_>) {
        self.wakers.set_handler(cx);
        if self.state.is_writable()
            && let Poll::Ready(Err(error)) = self.poll_send(cx, 0)
        {
            self.state.keep_failure(error);
        }
        self.return_memory();
    }

    /// Whether the handler is polled, and no other task.
    pub(crate) fn is_handler(&self, cx: &task::Context<'_>) -> bool {
        self.wakers.is_handler(cx)
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
        if part.is_last {
            self.uncounted.add_message();
        }
        Ok(())
    }

    /// Appends a frame of a whole message, which was encoded before.
    pub(crate) fn write_frame(&mut self, cx: &mut task::Context<'_>, frame: &[u8]) -> io::Result<()> {
        self.check_open()?;
        self.encoder.check_whole()?;
        self.uncounted.add_message();
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
    pub(crate) fn write_message(
        &mut self,
        cx: &mut task::Context<'_>,
        message: Message<'_>,
    ) -> io::Result<()> {
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
        self.uncounted.add_message();
        Ok(())
    }

    fn write_payload(&mut self, cx: &mut task::Context<'_>, mut payload: &[u8]) -> io::Result<()> {
        self.borrow_memory();
        while !payload.is_empty() {
            let limit = self.bounds.write;
            match self.with_waker(cx, |link, cx| link.conn.poll_send(cx, payload, limit)) {
                Poll::Ready(Ok(count)) => payload = &payload[count..],
                Poll::Ready(Err(error)) => return Err(self.fail_write(error)),
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
        self.heartbeat.note_ping();
        Ok(())
    }

    /// Answers a ping. A peer that sends pings and reads nothing gets the answer to the last of them once it reads.
    pub(crate) fn write_pong(&mut self, payload: &[u8]) -> io::Result<()> {
        if !self.state.is_open() {
            return Ok(());
        }
        if self.waiting() > self.bounds.buffer_max {
            self.heartbeat.late_pong = Some(payload.into());
            return Ok(());
        }
        self.heartbeat.late_pong = None;
        self.write(|encoder, out| encoder.control(OpCode::Pong, payload, out))
    }

    /// Appends a close frame, unless one was sent. [`CloseCode::NONE`] is a frame without a code, which has no room for a
    /// reason.
    pub(crate) fn write_close(&mut self, code: CloseCode, reason: &str) -> io::Result<()> {
        if !self.state.is_open() {
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
        self.state.begin_close();
        self.uncounted.note_close(code.0);
        // The close has a time of its own, which a reader in another task has yet to wait for.
        self.end_silence();
        self.wakers.wake();
        Ok(())
    }

    /// Appends a close frame with code 1001, because the server stops: at once between two messages of the peer, or else
    /// once the rest of the message takes too long. Returns whether it did.
    pub(crate) fn try_go_away(&mut self, cx: &mut task::Context<'_>, is_within: bool) -> io::Result<bool> {
        if !self.state.is_open() {
            return Ok(false);
        }
        let limit = self.bounds.close;
        let expired = |link: &mut Link<R>, cx: &mut task::Context<'_>| {
            link.conn.poll_timeout(cx, TimerSlot::Other, limit).is_ready()
        };
        if is_within && !self.with_waker(cx, expired) {
            return Ok(false);
        }
        // The close has this time once more.
        self.conn.disarm(TimerSlot::Other);
        self.write_close(CloseCode::AWAY, "")?;
        Ok(true)
    }

    /// Sends what waits to be written, if it is more than `buffer_max` bytes.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut task::Context<'_>,
        buffer_max: usize,
    ) -> Poll<io::Result<()>> {
        if self.state.has_lost() {
            return Poll::Ready(Err(self.state.error()));
        }
        ready!(self.budget.poll_proceed(cx));
        if self.waiting() <= buffer_max && (buffer_max > 0 || self.conn.has_sent_all()) {
            return Poll::Ready(Ok(()));
        }
        let polled = self.with_waker(cx, Link::poll_flush);
        if polled.is_pending() {
            self.reserve_waiting()?;
        }
        // The handler is about to write again, or to wait.
        if !self.is_handler(cx) {
            self.return_memory();
        }
        polled
    }

    /// Reserves memory for the bytes that wait to be written, if they are many. A message that is here cannot wait for memory, so
    /// the sending ends if there is none, or if a slow peer has had some for too long while others wait.
    fn reserve_waiting(&mut self) -> io::Result<()> {
        let len = self.waiting();
        let is_overdue = self.reserved.is_overdue(&self.memory_budget, self.bounds.write);
        let may_grow = !is_overdue && self.reserved.try_grow_to(&self.memory_budget, len);
        if len <= WAITING_UNRESERVED_MAX || may_grow {
            return Ok(());
        }
        self.fail_write(ConnError::Io(io::ErrorKind::OutOfMemory.into()));
        Err(R::failed(ExchangeError::NoMemory))
    }

    /// Waits until the WebSocket is closed, after a close frame that was sent.
    pub(crate) fn poll_closed(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        if self.state.is_closed() {
            return Poll::Ready(Ok(()));
        }
        self.with_waker(cx, Link::flush_and_check_close)?;
        Poll::Pending
    }

    fn poll_flush(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        let is_idle = self.heartbeat.late_pong.is_none() && self.conn.has_sent_all();
        if is_idle && self.state.is_writable() { Poll::Ready(Ok(())) } else { self.poll_flush_all(cx) }
    }

    fn poll_flush_all(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        if !self.state.is_writable() {
            return Poll::Ready(Err(self.state.error()));
        }
        loop {
            if !self.conn.has_sent_all() {
                ready!(self.poll_flush_once(cx)).map_err(|error| self.fail_write(error))?;
            }
            match self.heartbeat.late_pong.take() {
                Some(payload) => self.write_pong(&payload)?,
                None => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Writes the whole write buffer. A system that takes bytes again has got room because the peer has taken some, which
    /// ends its silence: it may have far to read up to a ping.
    fn poll_flush_once(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), ConnError>> {
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
        self.heartbeat.end_silence();
    }

    /// Reads more bytes into `input`, and sends what waits to be written meanwhile. Returns 0 at the end, and `None` if nothing
    /// came for `read_limit` and no pings are sent. Otherwise, a ping is sent after `read_limit` at the latest.
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut task::Context<'_>,
        input: &mut Input,
        read_limit: Duration,
    ) -> Poll<io::Result<Option<usize>>> {
        self.borrow_memory();
        let polled = self.with_waker(cx, |link, cx| link.poll_fill_once(cx, input, read_limit));
        // Answers to the bytes that are here need memory, too.
        if polled.is_pending() || !self.is_handler(cx) {
            self.return_memory();
        }
        polled
    }

    fn poll_fill_once(
        &mut self,
        cx: &mut task::Context<'_>,
        input: &mut Input,
        read_limit: Duration,
    ) -> Poll<io::Result<Option<usize>>> {
        loop {
            if self.state.is_closed() {
                return Poll::Ready(Err(self.state.error()));
            }
            self.flush_and_check_close(cx)?;
            let silence = match self.state {
                ReadyState::Open => self.bounds.silence,
                // A peer that takes no ping has the time of a close for each next byte.
                ReadyState::ReceiveOnly(_) => self.bounds.close,
                ReadyState::Closing | ReadyState::Closed(_) => Duration::MAX,
            };
            match self.conn.poll_read(cx, input.room(), silence.min(read_limit)).map(cut_as_end) {
                Poll::Ready(Ok(count)) => {
                    self.end_silence();
                    input.filled(count);
                    return Poll::Ready(Ok(Some(count)));
                }
                Poll::Ready(Err(ConnError::TimedOut)) if silence == Duration::MAX => {
                    self.conn.disarm(TimerSlot::Read);
                    return Poll::Ready(Ok(None));
                }
                Poll::Ready(Err(ConnError::TimedOut))
                    if self.state.is_open() && !self.heartbeat.is_silent() =>
                {
                    self.conn.disarm(TimerSlot::Read);
                    self.heartbeat.begin_silence();
                    self.write_ping(&[])?;
                }
                Poll::Ready(Err(error)) => {
                    let phase = if self.state.is_writable() { Phase::Silence } else { Phase::Close };
                    return Poll::Ready(Err(self.fail(error, phase)));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Ready with the error of a connection that was reset while its reader waits for something else. If the peer has merely
    /// closed, all that it has sent is still read.
    pub(crate) fn poll_lost(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Error> {
        self.borrow_memory();
        let end = self.with_waker(cx, |link, cx| link.conn.poll_peer_end(cx));
        self.return_memory();
        match end {
            Poll::Ready(PeerEnd::Failed) => {
                let reset = ConnError::Io(io::ErrorKind::ConnectionReset.into());
                Poll::Ready(self.fail(reset, Phase::Silence))
            }
            Poll::Ready(PeerEnd::Eof) | Poll::Pending => Poll::Pending,
        }
    }

    /// Sends what waits to be written, and fails once the close has taken too long. The error of a write that ends the
    /// sending alone is left to the next call that sends.
    fn flush_and_check_close(&mut self, cx: &mut task::Context<'_>) -> io::Result<()> {
        let is_waiting = match self.state.is_writable().then(|| self.poll_flush(cx)) {
            Some(Poll::Pending) => true,
            Some(Poll::Ready(Err(error))) if self.state.is_closed() => return Err(error),
            Some(Poll::Ready(Err(error))) => {
                self.state.keep_failure(error);
                false
            }
            Some(Poll::Ready(Ok(()))) | None => false,
        };
        // At a stop, a peer that is behind gets its messages and the close frame as long as it takes them. The grace bounds
        // that.
        if self.state.has_sent_close() && !(is_waiting && self.is_stopping()) {
            self.check_close_timeout(cx)?;
        }
        Ok(())
    }

    /// Fails once the close has taken too long.
    fn check_close_timeout(&mut self, cx: &mut task::Context<'_>) -> io::Result<()> {
        match self.conn.poll_timeout(cx, TimerSlot::Other, self.bounds.close) {
            Poll::Ready(error) => Err(self.fail(error, Phase::Close)),
            Poll::Pending => Ok(()),
        }
    }

    /// Appends a close frame, unless one was sent, because both halves are dropped. Returns whether it can still be
    /// written.
    pub(super) fn begin_drop(&mut self) -> bool {
        // If no mask can be made, the connection just ends.
        self.state.is_writable() && self.write_close(R::DROPPED, "").is_ok()
    }

    /// Takes what the server counts the connection by.
    pub(crate) fn take_guard(&mut self) -> Option<R::Guard> {
        self.guard.take()
    }

    /// Sends what waits to be written, and discards what the peer sends until it pauses. A proxy in between stops reading from
    /// the peer once our half is closed, and what the peer still sends would reset it before it has read the close frame.
    pub(crate) fn poll_pause(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        self.with_waker(cx, |link, cx| {
            link.check_close_timeout(cx)?;
            ready!(link.poll_flush(cx))?;
            let paused = ready!(link.conn.poll_linger(cx, link.bounds.close, CLOSE_PAUSE));
            link.conn.disarm(TimerSlot::Read);
            match paused {
                Ok(()) | Err(ConnError::TimedOut) => Poll::Ready(Ok(())),
                Err(error) => Poll::Ready(Err(link.fail(error, Phase::Close))),
            }
        })
    }

    /// Sends what waits to be written, and closes the sending half.
    pub(crate) fn poll_finish(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        self.with_waker(cx, |link, cx| {
            link.check_close_timeout(cx)?;
            ready!(link.poll_flush(cx))?;
            let shut = ready!(link.conn.poll_shutdown(cx, link.bounds.close));
            Poll::Ready(shut.map_err(|error| link.fail(error, Phase::Close)))
        })
    }

    /// Discards what the peer still sends, until it closes, too, or the close has taken too long.
    pub(crate) fn poll_linger(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        self.with_waker(cx, |link, cx| {
            let limit = link.bounds.close;
            if let Err(error) = ready!(link.conn.poll_linger(cx, limit, limit)) {
                link.fail(error, Phase::Close);
            }
            Poll::Ready(())
        })
    }

    /// Closes the connection, and wakes both halves, which then find it closed: a socket that is dropped wakes nobody.
    pub(crate) fn close_now(&mut self) {
        let has_lost = self.waiting() > 0;
        self.state.close(has_lost);
        self.wakers.wake();
        self.conn.transport.try_shutdown();
        self.conn.transport = Transport::Closed;
        self.heartbeat.late_pong = None;
        self.drop_io_state();
        self.guard = None;
    }

    /// The error of a write. A peer that has closed takes nothing more, and its last messages and its close frame may be
    /// here, so that is the end of the sending alone. One that takes nothing for too long is cut off.
    fn fail_write(&mut self, error: ConnError) -> io::Error {
        if let ConnError::TimedOut = error {
            return self.fail(error, Phase::Write);
        }
        self.state.end_sending();
        self.conn.write_buffer().reset();
        self.conn.disarm(TimerSlot::Write);
        self.heartbeat.late_pong = None;
        // A reader in another task has other limits from now on.
        self.end_silence();
        self.wakers.wake();
        R::failed(ExchangeError::during(Phase::Write, self.bounds.write)(error))
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
        R::failed(ExchangeError::during(phase, limit)(error))
    }

    /// Polls with the waker of `cx`, or with that of all tasks that wait for this connection.
    fn with_waker<T>(
        &mut self,
        cx: &mut task::Context<'_>,
        poll: impl FnOnce(&mut Link<R>, &mut task::Context<'_>) -> T,
    ) -> T {
        match self.wakers.register(cx) {
            Some(all) => poll(self, &mut task::Context::from_waker(&all)),
            None => poll(self, cx),
        }
    }

    /// Takes a write buffer from the thread's cache, if there is none.
    fn borrow_memory(&mut self) {
        if !self.conn.has_io_state() {
            let cached = IO_STATES.try_with(|cache| cache.take(|_| true)).ok().flatten();
            self.conn.swap_io_state(&mut cached.or_else(|| Some(Box::default())));
        }
    }

    /// Gives the write buffer back, once all of it was sent, or none of it can be.
    fn return_memory(&mut self) {
        if self.conn.has_sent_all() || !self.state.is_writable() {
            self.drop_io_state();
        }
    }

    fn drop_io_state(&mut self) {
        self.reserved.clear();
        self.uncounted.take_traffic(&mut self.conn);
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

/// How long a peer sends nothing before the connection of a WebSocket that has failed is closed for sending.
const CLOSE_PAUSE: Duration = Duration::from_millis(100);

/// Up to so many bytes wait without memory of their own.
const WAITING_UNRESERVED_MAX: usize = 64 << 10;

/// The payload of a longer message is not copied to the write buffer.
const COPIED_MAX: usize = 16 << 10;
