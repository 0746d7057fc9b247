//! [`Conn`]: one transport with its write buffer and its time limits; [`Locality`]: whether it stays on one core. A
//! connection carries bytes, and has no notion of HTTP.

use std::any::Any;
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::task::coop;
use tokio::time::Instant;

use super::io_state::{IoState, Life, Traffic};
use super::{
    AnyStream, ConnEntry, Peer, PeerAddr, PeerEnd, ReadBuffer, Stream, Timer, TimerSlot, TokioTimer,
    Transport, WriteBuffer,
};

/// One connection. The timer of a server's is its [`ConnEntry`], which holds more than deadlines.
pub(crate) struct Conn<L: Locality = Local> {
    pub(crate) transport: Transport<L::Boxed>,
    timer: L::Timer,
    /// Present while the connection is busy, so that an idle one is small.
    io_state: Option<Box<IoState>>,
}

/// How much of what waits is written.
#[derive(Clone, Copy)]
enum Amount {
    All,
    /// Over TLS, as many whole records as there are.
    WholeRecords,
}

/// Why a connection failed.
#[derive(Debug)]
pub(crate) enum ConnError {
    /// A wait has taken longer than its limit.
    TimedOut,
    Io(io::Error),
}

impl<L: Locality> Conn<L> {
    pub(crate) fn new(transport: Transport<L::Boxed>, timer: L::Timer) -> Conn<L> {
        Conn { transport, timer, io_state: None }
    }

    /// Swaps the connection's I/O state with that of its owner, when the connection becomes busy or idle.
    #[inline]
    pub(crate) fn swap_io_state(&mut self, io_state: &mut Option<Box<IoState>>) {
        std::mem::swap(&mut self.io_state, io_state);
    }

    /// Whether the connection has an I/O state.
    #[inline]
    pub(crate) fn has_io_state(&self) -> bool {
        self.io_state.is_some()
    }

    /// The bytes that wait to be written.
    #[inline]
    pub(crate) fn write_buffer(&mut self) -> &mut WriteBuffer {
        &mut self.io_state().write_buffer
    }

    /// Whether nothing waits to be written or flushed.
    pub(crate) fn has_sent_all(&self) -> bool {
        let is_flushed = |io_state: &IoState| io_state.write_buffer.is_empty() && !io_state.is_flushing;
        self.io_state.as_deref().is_none_or(is_flushed) && !self.transport.has_tls_records()
    }

    #[inline]
    fn io_state(&mut self) -> &mut IoState {
        self.io_state.get_or_insert_with(new_io_state)
    }

    /// Reads once into `input`, with the outcome of [`Conn::poll_read`].
    #[inline]
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut ReadBuffer,
        limit: Duration,
    ) -> Poll<Result<usize, ConnError>> {
        let count = ready!(self.poll_read(cx, input.room(), limit))?;
        input.filled(count);
        Poll::Ready(Ok(count))
    }

    /// Reads as [`Conn::poll_fill`] does, into a buffer that may grow for a large body.
    pub(crate) fn poll_fill_body(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut ReadBuffer,
        limit: Duration,
    ) -> Poll<Result<usize, ConnError>> {
        if L::STAYS_ON_THREAD {
            input.borrow_large();
        }
        let read = self.poll_read(cx, input.body_room(), limit);
        if L::STAYS_ON_THREAD && read.is_pending() {
            input.return_large();
        }
        let count = ready!(read)?;
        input.filled(count);
        Poll::Ready(Ok(count))
    }

    /// Reads once into `room`. Returns 0 at the end of the stream.
    ///
    /// The time limit applies to all calls together, until [`Conn::disarm`] ends the wait.
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut [u8],
        limit: Duration,
    ) -> Poll<Result<usize, ConnError>> {
        match self.transport.poll_read(cx, room) {
            Poll::Ready(Ok(0)) if self.io_state().is_reset => {
                Poll::Ready(Err(ConnError::Io(io::ErrorKind::ConnectionReset.into())))
            }
            Poll::Ready(Ok(count)) => {
                charge_budget(cx, count);
                self.io_state().traffic.received += count as u64;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(ConnError::Io(error))),
            Poll::Pending => self.poll_timeout(cx, TimerSlot::Read, limit).map(Err),
        }
    }

    /// Ready once the peer has ended. Bytes that it sends before that are left to the next read.
    pub(crate) fn poll_peer_end(&mut self, cx: &mut Context<'_>) -> Poll<PeerEnd> {
        self.share_wakers(cx.waker());
        self.io_state().wakers.note_end(cx.waker());
        self.transport.poll_end(cx)
    }

    /// Writes the whole write buffer. `limit` bounds the time without progress.
    #[inline]
    pub(crate) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        limit: Duration,
    ) -> Poll<Result<(), ConnError>> {
        while !self.write_buffer().is_empty() {
            ready!(self.poll_write(cx, &[], Amount::All, limit))?;
        }
        while self.transport.has_tls_records() && self.poll_write_tls(cx)?.is_pending() {
            ready!(self.poll_space(cx, limit, |conn| conn.transport.write_to_kernel(&[])))?;
        }
        // A boxed transport may hold bytes back, too.
        match self.transport.poll_flush(cx) {
            Poll::Ready(flushed) => {
                // Without a pending flush, a write may be waiting, such as one of a file, and its time goes on.
                if std::mem::take(&mut self.io_state().is_flushing) {
                    self.disarm(TimerSlot::Write);
                }
                Poll::Ready(flushed.map_err(|error| self.note_write_error(error)))
            }
            Poll::Pending => {
                self.io_state().is_flushing = true;
                self.poll_timeout(cx, TimerSlot::Write, limit).map(Err)
            }
        }
    }

    /// Writes the write buffer followed by `body`, as much as the transport takes at once. Returns how much of the body
    /// was written. TLS takes whole records, and leaves bytes that do not fill one to what follows, or to a flush.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        body: &[u8],
        limit: Duration,
    ) -> Poll<Result<usize, ConnError>> {
        self.poll_write(cx, body, Amount::WholeRecords, limit)
    }

    #[inline(always)]
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        body: &[u8],
        amount: Amount,
        limit: Duration,
    ) -> Poll<Result<usize, ConnError>> {
        loop {
            // Records that are still held back would leave no room for whole ones.
            let is_blocked = self.transport.has_tls_records() && self.poll_write_tls(cx)?.is_pending();
            let waiting = self.io_state.get_or_insert_with(new_io_state).write_buffer.waiting();
            let parts = match amount {
                Amount::WholeRecords => self.transport.whole_records(waiting, body),
                Amount::All => (waiting, body),
            };
            let sent = match parts {
                _ if is_blocked => Poll::Pending,
                (bytes, []) | ([], bytes) => self.transport.poll_write(cx, bytes),
                (first, second) => {
                    self.transport.poll_write_vectored(cx, &[IoSlice::new(first), IoSlice::new(second)])
                }
            };
            let count = match sent {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(ConnError::Io(io::ErrorKind::WriteZero.into())));
                }
                Poll::Ready(Ok(count)) => count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.note_write_error(error))),
                Poll::Pending => match ready!(self.poll_space(cx, limit, |conn| conn.write_to_kernel(body)))?
                {
                    // TLS has written records, and can take new content now.
                    0 => continue,
                    count => count as usize,
                },
            };
            charge_budget(cx, count);
            self.end_wait();
            let IoState { write_buffer, traffic, .. } = self.io_state();
            traffic.sent += count as u64;
            let buffered = count.min(write_buffer.len());
            write_buffer.advance(buffered);
            // A stream that returns more than it was given must not make its caller count too far.
            return Poll::Ready(Ok((count - buffered).min(body.len())));
        }
    }

    /// Ends the wait for the peer to take more.
    #[inline]
    fn end_wait(&mut self) {
        self.disarm(TimerSlot::Write);
        self.io_state().progress.end_wait();
    }

    /// Waits for space in the system's send buffer. Ready with the outcome of `write` if the kernel takes bytes before
    /// the runtime has noticed, or with an error when the peer has taken nothing for `limit` (`WriteProgress`).
    fn poll_space(
        &mut self,
        cx: &mut Context<'_>,
        limit: Duration,
        mut write: impl FnMut(&mut Self) -> io::Result<u64>,
    ) -> Poll<Result<u64, ConnError>> {
        let Some(buffer_len) = self.transport.send_buffer_len() else {
            return self.poll_timeout(cx, TimerSlot::Write, limit).map(Err);
        };
        if self.io_state().progress.fills_kernel
            && coop::has_budget_remaining()
            && let Some(written) = self.try_kernel(&mut write)
        {
            return Poll::Ready(written);
        }
        // The timer of a slice that has begun already runs.
        let mut slice = match self.io_state().progress.is_waiting() {
            true => limit,
            false => self.begin_slice(limit),
        };
        loop {
            ready!(self.poll_timeout(cx, TimerSlot::Write, slice));
            if let Some(written) = self.try_kernel(&mut write) {
                return Poll::Ready(written);
            }
            let IoState { traffic, before, progress, .. } = self.io_state();
            // Bytes beyond the capacity of the system's buffer have reached the peer.
            if !progress.goes_on((before.sent + traffic.sent).saturating_sub(buffer_len)) {
                return Poll::Ready(Err(ConnError::TimedOut));
            }
            self.disarm(TimerSlot::Write);
            slice = self.begin_slice(limit);
        }
    }

    /// Performs `write`, past the runtime, which ends the wait. `None` if the kernel takes nothing.
    fn try_kernel(
        &mut self,
        write: &mut impl FnMut(&mut Self) -> io::Result<u64>,
    ) -> Option<Result<u64, ConnError>> {
        let written = write(self);
        let is_full = matches!(&written, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        self.io_state().progress.fills_kernel = !is_full;
        if is_full {
            return None;
        }
        self.end_wait();
        Some(written.map_err(|error| self.note_write_error(error)))
    }

    /// Begins the next slice of a wait for the peer, of `limit` in all. Returns how long it may take.
    fn begin_slice(&mut self, limit: Duration) -> Duration {
        let now = self.timer.now();
        self.io_state().progress.begin_slice(now, limit)
    }

    /// Writes some of the write buffer, or else of `body`, straight to the kernel, whether or not the runtime has
    /// noticed space. A TLS connection writes the records that it holds back instead.
    fn write_to_kernel(&mut self, body: &[u8]) -> io::Result<u64> {
        let write_buffer = &self.io_state.get_or_insert_with(new_io_state).write_buffer;
        let bytes = if write_buffer.is_empty() { body } else { write_buffer.waiting() };
        self.transport.write_to_kernel(bytes)
    }

    /// Writes the records that TLS holds back. Each record that the peer takes ends the wait.
    #[cold]
    fn poll_write_tls(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnError>> {
        while self.transport.has_tls_records() {
            ready!(self.transport.poll_write_tls(cx)).map_err(|error| self.note_write_error(error))?;
            self.end_wait();
        }
        Poll::Ready(Ok(()))
    }

    /// Moves some of a range of `file` to the peer, and returns how much. The write buffer must be empty.
    pub(super) fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        range: Range<u64>,
        limit: Duration,
    ) -> Poll<Result<u64, ConnError>> {
        debug_assert!(self.write_buffer().is_empty(), "a file follows the head");
        let count = match self.transport.poll_send_file(cx, file, range.clone()) {
            Poll::Ready(sent) => sent.map_err(|error| self.note_write_error(error))?,
            Poll::Pending => {
                let send = |conn: &mut Self| conn.transport.send_file_to_kernel(file, range.clone());
                ready!(self.poll_space(cx, limit, send))?
            }
        };
        debug_assert!(count <= range.end - range.start, "no more is sent than the range");
        self.end_wait();
        self.io_state().traffic.sent += count;
        Poll::Ready(Ok(count))
    }

    /// Notes a reset that a write has met, and returns the error. The operating system reports a reset only once, and a
    /// later read would see an end of stream instead. TLS needs no note, since it marks its end itself (RFC 8446 §6.1).
    #[cold]
    fn note_write_error(&mut self, error: io::Error) -> ConnError {
        let is_plain = !matches!(self.transport, Transport::Tls(_));
        self.io_state().is_reset |= is_plain && error.kind() == io::ErrorKind::ConnectionReset;
        ConnError::Io(error)
    }

    /// Closes the sending half.
    pub(crate) fn poll_shutdown(
        &mut self,
        cx: &mut Context<'_>,
        limit: Duration,
    ) -> Poll<Result<(), ConnError>> {
        loop {
            match self.transport.poll_shutdown(cx) {
                Poll::Ready(shut) => return Poll::Ready(shut.map_err(ConnError::Io)),
                Poll::Pending => ready!(self.poll_space(cx, limit, |conn| conn.write_to_kernel(&[])))?,
            };
        }
    }

    /// Lingers after the last byte was sent: reads and drops what the peer still sends, until it closes, too. To close before
    /// that would cause a reset, which could take the last bytes away before the peer has read them (RFC 9112 §9.6). Fails
    /// once that has taken longer than `total`, or the peer was silent for longer than `silence`.
    pub(crate) fn poll_linger(
        &mut self,
        cx: &mut Context<'_>,
        total: Duration,
        silence: Duration,
    ) -> Poll<Result<(), ConnError>> {
        let mut room = [0; LINGER_READ];
        loop {
            // Checked before each read: a peer that sends all the time never makes a read wait.
            if let Poll::Ready(error) = self.poll_timeout(cx, TimerSlot::Other, total) {
                return Poll::Ready(Err(error));
            }
            if ready!(self.poll_read(cx, &mut room, silence))? == 0 {
                return Poll::Ready(Ok(()));
            }
            self.disarm(TimerSlot::Read);
        }
    }

    /// Arms the slot, unless it is armed. Ready with an error when its wait has taken longer than `limit`.
    #[inline]
    pub(crate) fn poll_timeout(
        &mut self,
        cx: &mut Context<'_>,
        slot: TimerSlot,
        limit: Duration,
    ) -> Poll<ConnError> {
        self.share_wakers(cx.waker());
        self.timer.poll_timeout(cx, slot, limit).map(|()| ConnError::TimedOut)
    }

    /// Makes a waker set once a second waker waits. The second waker has displaced the first in the socket, so both
    /// tasks are woken to poll again, as members of the set.
    #[inline]
    fn share_wakers(&mut self, waker: &Waker) {
        if let Some(io_state) = &mut self.io_state
            && io_state.wakers.is_shared
            && io_state.wakers.all.is_none()
            && let Some(other) = self.timer.other_waker(waker).or_else(|| io_state.wakers.other_end(waker))
        {
            io_state.wakers.all = Some(Arc::default());
            other.wake();
            waker.wake_by_ref();
        }
    }

    /// Ends the wait in this slot.
    #[inline]
    pub(crate) fn disarm(&mut self, slot: TimerSlot) {
        self.timer.disarm(slot);
    }

    /// Ends all waits.
    pub(crate) fn disarm_all(&mut self) {
        [TimerSlot::Read, TimerSlot::Write, TimerSlot::Other].into_iter().for_each(|slot| self.disarm(slot));
    }

    /// Milliseconds since some fixed moment.
    pub(crate) fn now(&self) -> u64 {
        self.timer.now()
    }

    /// The bytes received and sent since the last [`Conn::take_traffic`].
    pub(crate) fn traffic(&self) -> Traffic {
        self.io_state.as_ref().map(|io_state| io_state.traffic).unwrap_or_default()
    }

    /// Takes the counts of bytes received and sent since the last call.
    pub(crate) fn take_traffic(&mut self) -> Traffic {
        let IoState { traffic, before, .. } = self.io_state();
        before.received += traffic.received;
        before.sent += traffic.sent;
        std::mem::take(traffic)
    }

    /// The bytes received and sent since the connection was last idle.
    pub(crate) fn total_traffic(&self) -> Traffic {
        self.io_state.as_deref().map(IoState::total_traffic).unwrap_or_default()
    }

    /// Splits an upgraded connection into its transport, and its timer or entry.
    pub(crate) fn into_parts(self) -> (Transport<L::Boxed>, L::Timer) {
        (self.transport, self.timer)
    }
}

/// Cold, since the owner of a connection swaps its own I/O state in before the connection is used.
#[cold]
fn new_io_state() -> Box<IoState> {
    Box::default()
}

/// Charges moved bytes to tokio's budget of the task. tokio allows 128 calls before a task must yield, and one call may
/// move a hundred bytes or a megabyte; so a large transfer counts as several calls. Once the budget is used up, the
/// next read or write is pending, and tokio wakes the task after all others.
#[inline]
fn charge_budget(cx: &mut Context<'_>, count: usize) {
    for _ in 0..count / BYTES_PER_CALL {
        match coop::poll_proceed(cx) {
            Poll::Ready(call) => call.made_progress(),
            Poll::Pending => return,
        }
    }
}

/// How many bytes count as one call. 128 calls are 2 MiB.
pub(super) const BYTES_PER_CALL: usize = 16 << 10;

/// How many unwanted bytes are read at once.
const LINGER_READ: usize = 16 << 10;

impl Conn<Sendable> {
    /// Begins a wait in this slot that expires at `until`, unless one has begun.
    pub(crate) fn arm(&mut self, slot: TimerSlot, until: Instant) {
        self.timer.arm(slot, until);
    }
}

impl Conn {
    /// From here on several tasks may wait; before, a new waker replaced the old.
    #[inline]
    pub(crate) fn share(&mut self) {
        self.io_state().wakers.is_shared = true;
    }

    /// The waker that wakes all tasks that wait for the connection, if there are several, and `waker` is of one of them.
    #[inline]
    pub(crate) fn shared_waker(&self, waker: &Waker) -> Option<Waker> {
        self.io_state.as_ref()?.wakers.all.as_ref()?.register(waker)
    }

    /// Whether each response is the last one of its connection, because a stop has been ordered.
    pub(crate) fn is_stop_ordered(&self) -> bool {
        self.timer.is_stop_ordered()
    }

    /// Whether a stop has been ordered and its delay is over, so that idle connections close and streams end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.timer.is_stopping()
    }

    /// Whether idle connections of the core are to close for others.
    #[inline]
    pub(crate) fn needs_room(&self) -> bool {
        self.timer.needs_room()
    }

    /// Whether this idle connection is to close for another one. See [`ConnEntry::take_eviction`].
    pub(crate) fn take_eviction(&self) -> bool {
        self.timer.take_eviction()
    }

    /// Whether there is a wait in this slot.
    #[inline]
    pub(crate) fn is_armed(&self, slot: TimerSlot) -> bool {
        self.timer.is_armed(slot)
    }

    /// For how long the wait in this slot, which may take `limit`, has gone on. See [`ConnEntry::waited`].
    pub(crate) fn waited(&self, slot: TimerSlot, limit: Duration) -> Duration {
        self.timer.waited(slot, limit)
    }

    /// Replaces the address of the peer by the one that a proxy has reported.
    pub(crate) fn set_peer_addr(&self, addr: PeerAddr) {
        self.timer.set_peer_addr(addr);
    }

    /// The state that few connections have, and that lives as long as they do.
    pub(crate) fn rare_state(&self) -> Option<Rc<dyn Any>> {
        self.timer.rare_state()
    }

    pub(crate) fn set_rare_state(&self, rare_state: Rc<dyn Any>) {
        self.timer.set_rare_state(rare_state);
    }

    pub(crate) fn set_life(&self, life: Life) {
        self.timer.set_life(life);
    }

    /// Adds the bytes since the connection was last idle to its life, before it becomes idle again.
    pub(crate) fn add_traffic_to_life(&self) {
        self.timer.add_traffic(self.total_traffic());
    }

    /// The life of the connection until it was last idle, if that is noted.
    pub(crate) fn life(&self) -> Life {
        self.timer.life()
    }

    /// The address of the peer, and the number of the connection.
    #[inline]
    pub(crate) fn peer(&self) -> Peer {
        self.timer.peer()
    }
}

/// The differences between the connections of a server and those of a client.
pub(crate) trait Locality {
    /// The box of a stream that the application supplied.
    type Boxed: AnyStream;
    /// The timer for its waits; at a server its entry in the table of its core.
    type Timer: Timer;

    /// Whether more of a body is read only once the write buffer has been flushed. A server must not pile up responses
    /// for a peer that does not read them; a client must read the response even if the server does not read the
    /// request.
    const FLUSHES_BEFORE_READ: bool;

    /// Whether all polls are made by one thread, whose connections share the memory of large reads.
    const STAYS_ON_THREAD: bool;
}

/// Connections of a server. They never leave their core, in whose table they have an entry.
pub(crate) enum Local {}

impl Locality for Local {
    type Boxed = Pin<Box<dyn Stream>>;
    type Timer = ConnEntry;

    const FLUSHES_BEFORE_READ: bool = true;
    const STAYS_ON_THREAD: bool = true;
}

/// Connections of a client. Their futures may move to another thread between two polls.
pub(crate) enum Sendable {}

impl Locality for Sendable {
    type Boxed = Pin<Box<dyn Stream + Send>>;
    type Timer = TokioTimer;

    const FLUSHES_BEFORE_READ: bool = false;
    const STAYS_ON_THREAD: bool = false;
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(200);

    /// A connection whose socket buffer is full, and its peer.
    async fn full() -> (Conn<Sendable>, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        near.writable().await.unwrap();
        let mut conn = Conn::new(Transport::Unix(near.into()), TokioTimer::new());
        let mut fill =
            |cx: &mut Context<'_>| Poll::Ready(conn.poll_send(cx, &[b'x'; 4096], LIMIT).is_pending());
        while !poll_fn(&mut fill).await {}
        (conn, far)
    }

    fn block_on(future: impl Future<Output = ()>) {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
    }

    /// The runtime reports space only when there is much, and such a peer must not be cut off.
    #[test]
    fn a_peer_that_takes_little_takes_something() {
        block_on(async {
            let (mut conn, mut far) = full().await;
            for _ in 0..3 {
                far.read_exact(&mut [0; 8192]).await.unwrap();
                let start = Instant::now();
                let sent = poll_fn(|cx| conn.poll_send(cx, &[b'x'; 4096], LIMIT));
                assert_eq!(sent.await.unwrap(), 4096);
                assert!(start.elapsed() < LIMIT);
            }
        });
    }

    #[test]
    fn a_peer_that_takes_nothing_is_given_up_at_the_limit() {
        block_on(async {
            let (mut conn, _far) = full().await;
            let start = Instant::now();
            let sent = poll_fn(|cx| conn.poll_send(cx, &[b'x'; 4096], LIMIT)).await;
            assert!(matches!(sent, Err(ConnError::TimedOut)), "{sent:?}");
            assert!(start.elapsed() < 2 * LIMIT);
        });
    }

    #[test]
    fn a_peer_that_has_taken_much_has_the_limit_once_more() {
        block_on(async {
            let (mut conn, mut far) = full().await;
            let mut much = vec![0; 1 << 20];
            let mut left = much.len();
            let send = poll_fn(|cx| {
                while left > 0 {
                    left -= ready!(conn.poll_send(cx, &[b'x'; 4096][..left.min(4096)], LIMIT)).unwrap();
                }
                Poll::Ready(())
            });
            tokio::join!(send, async { far.read_exact(&mut much).await.unwrap() });
            let mut fill =
                |cx: &mut Context<'_>| Poll::Ready(conn.poll_send(cx, &[b'x'; 4096], LIMIT).is_pending());
            while !poll_fn(&mut fill).await {}
            let start = Instant::now();
            let sent = timeout(4 * LIMIT, poll_fn(|cx| conn.poll_send(cx, &[b'x'; 4096], LIMIT))).await;
            assert!(matches!(sent, Ok(Err(ConnError::TimedOut))), "{sent:?}");
            assert!(start.elapsed() > LIMIT + LIMIT / 2, "{:?}", start.elapsed());
        });
    }
}
