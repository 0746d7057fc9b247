//! [`Conn`]: one transport with its write buffer and its time limits. It knows bytes, not HTTP.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::task::coop;
use tokio::time::Instant;

use super::timer::Timer;
use super::workspace::{Output, Traffic, Workspace};
use super::{Anywhere, Buffer, Home, Lane, OneCore, Peer, Transport};

/// One connection.
pub(crate) struct Conn<H: Home = OneCore> {
    pub(crate) transport: Transport<H::Boxed>,
    timer: H::Timer,
    /// Lent to the connection while it is busy, so that an idle one is small.
    workspace: Option<Box<Workspace>>,
}

/// Why a connection failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A time limit was exceeded.
    Expired,
    Io(io::Error),
}

impl<H: Home> Conn<H> {
    pub(crate) fn new(transport: Transport<H::Boxed>, timer: H::Timer) -> Conn<H> {
        Conn { transport, timer, workspace: None }
    }

    /// Exchanges the connection's workspace for another one.
    #[inline]
    pub(crate) fn swap_workspace(&mut self, workspace: &mut Option<Box<Workspace>>) {
        std::mem::swap(&mut self.workspace, workspace);
    }

    /// The bytes that wait to be written.
    #[inline]
    pub(crate) fn output(&mut self) -> &mut Output {
        &mut self.workspace().output
    }

    /// Whether nothing waits to be written or flushed.
    pub(crate) fn has_sent_all(&self) -> bool {
        let is_flushed = |workspace: &Workspace| workspace.output.is_empty() && !workspace.is_flushing;
        self.workspace.as_deref().is_none_or(is_flushed) && !self.transport.has_unsent()
    }

    #[inline]
    fn workspace(&mut self) -> &mut Workspace {
        self.workspace.get_or_insert_with(new_workspace)
    }

    /// Reads once into `input`. See [`Conn::poll_read`].
    #[inline]
    pub(crate) fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut Buffer,
        limit: Duration,
    ) -> Poll<Result<usize, Fault>> {
        let count = ready!(self.poll_read(cx, input.room(), limit))?;
        input.filled(count);
        Poll::Ready(Ok(count))
    }

    /// Reads once into `room`. Returns 0 at the end, when the peer will send no more.
    ///
    /// The time limit applies to all calls together, until [`Conn::disarm`] ends the wait.
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut [u8],
        limit: Duration,
    ) -> Poll<Result<usize, Fault>> {
        if let Some(all) = self.join(cx) {
            return self.poll_read(&mut Context::from_waker(&all), room, limit);
        }
        match self.transport.poll_read(cx, room) {
            Poll::Ready(Ok(0)) if self.workspace().is_reset => {
                Poll::Ready(Err(Fault::Io(io::ErrorKind::ConnectionReset.into())))
            }
            Poll::Ready(Ok(count)) => {
                charge(cx, count);
                self.workspace().traffic.received += count as u64;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Fault::Io(error))),
            Poll::Pending => self.poll_expired(cx, Lane::Read, limit).map(Err),
        }
    }

    /// Writes all of the output. `limit` is for the time without progress.
    #[inline]
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>, limit: Duration) -> Poll<Result<(), Fault>> {
        if let Some(all) = self.join(cx) {
            return self.poll_flush(&mut Context::from_waker(&all), limit);
        }
        while !self.output().is_empty() {
            ready!(self.poll_send(cx, &[], limit))?;
        }
        if self.transport.has_unsent() && self.poll_unload(cx)?.is_pending() {
            return self.poll_expired(cx, Lane::Write, limit).map(Err);
        }
        // A boxed transport may hold bytes back, too.
        match self.transport.poll_flush(cx) {
            Poll::Ready(flushed) => {
                // To have nothing to flush is no progress of a write that waits, such as one of a file.
                if std::mem::take(&mut self.workspace().is_flushing) {
                    self.disarm(Lane::Write);
                }
                Poll::Ready(flushed.map_err(|error| self.unwritten(error)))
            }
            Poll::Pending => {
                self.workspace().is_flushing = true;
                self.poll_expired(cx, Lane::Write, limit).map(Err)
            }
        }
    }

    /// Writes the output followed by `body`, as much as goes at once. Returns how much of the body was written.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        body: &[u8],
        limit: Duration,
    ) -> Poll<Result<usize, Fault>> {
        if let Some(all) = self.join(cx) {
            return self.poll_send(&mut Context::from_waker(&all), body, limit);
        }
        if self.transport.has_unsent() {
            let _ = self.poll_unload(cx)?;
        }
        let output = &mut self.workspace.get_or_insert_with(new_workspace).output;
        let (waiting, of_output) = (output.waiting(), output.len());
        let sent = match (waiting, body) {
            (bytes, []) | ([], bytes) => self.transport.poll_write(cx, bytes),
            _ => self.transport.poll_write_vectored(cx, &[IoSlice::new(waiting), IoSlice::new(body)]),
        };
        match sent {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(Fault::Io(io::ErrorKind::WriteZero.into()))),
            Poll::Ready(Ok(count)) => {
                charge(cx, count);
                self.disarm(Lane::Write);
                let Workspace { output, traffic, .. } = self.workspace();
                traffic.sent += count as u64;
                let of_output = count.min(of_output);
                output.advance(of_output);
                Poll::Ready(Ok(count - of_output))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.unwritten(error))),
            Poll::Pending => self.poll_expired(cx, Lane::Write, limit).map(Err),
        }
    }

    /// Sends what TLS holds back. A peer that takes some of it is not one that takes nothing.
    #[cold]
    fn poll_unload(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        while self.transport.has_unsent() {
            ready!(self.transport.poll_unload(cx)).map_err(|error| self.unwritten(error))?;
            self.disarm(Lane::Write);
        }
        Poll::Ready(Ok(()))
    }

    /// Moves some of a range of `file` to the peer, and returns how much. The output must have been flushed.
    pub(super) fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        range: Range<u64>,
        limit: Duration,
    ) -> Poll<Result<u64, Fault>> {
        if let Some(all) = self.join(cx) {
            return self.poll_send_file(&mut Context::from_waker(&all), file, range, limit);
        }
        match self.transport.poll_send_file(cx, file, range) {
            Poll::Ready(Ok(count)) => {
                self.disarm(Lane::Write);
                self.workspace().traffic.sent += count;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(self.unwritten(error))),
            Poll::Pending => self.poll_expired(cx, Lane::Write, limit).map(Err),
        }
    }

    /// The fault of a failed write. The operating system reports a reset only once, and a later read would see an end
    /// of stream instead; so the reset is noted. TLS needs no note, since it marks its end itself.
    #[cold]
    fn unwritten(&mut self, error: io::Error) -> Fault {
        let is_plain = !matches!(self.transport, Transport::Tls(_));
        self.workspace().is_reset |= is_plain && error.kind() == io::ErrorKind::ConnectionReset;
        Fault::Io(error)
    }

    /// Tells the peer that nothing more will be sent.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>, limit: Duration) -> Poll<Result<(), Fault>> {
        if let Some(all) = self.join(cx) {
            return self.poll_shutdown(&mut Context::from_waker(&all), limit);
        }
        match self.transport.poll_shutdown(cx) {
            Poll::Ready(shut) => Poll::Ready(shut.map_err(Fault::Io)),
            Poll::Pending => self.poll_expired(cx, Lane::Write, limit).map(Err),
        }
    }

    /// Ready with a fault when the wait in this lane has taken longer than `limit`.
    #[inline]
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>, lane: Lane, limit: Duration) -> Poll<Fault> {
        self.meet(cx.waker());
        self.timer.poll_expired(cx, lane, limit).map(|()| Fault::Expired)
    }

    /// The waker to wait with instead, if there is a crowd and `cx` does not have its waker already.
    #[inline]
    fn join(&self, cx: &Context<'_>) -> Option<Waker> {
        self.workspace.as_ref()?.crowd.as_ref()?.join(cx.waker())
    }

    /// Makes a crowd once a second waker waits. It has displaced the first, which nobody would wake, so both are woken to
    /// ask again, as a crowd.
    #[inline]
    fn meet(&mut self, waker: &Waker) {
        if let Some(workspace) = &mut self.workspace
            && workspace.is_shared
            && workspace.crowd.is_none()
            && let Some(other) = self.timer.waker_but(waker)
        {
            workspace.crowd = Some(Arc::default());
            other.wake();
            waker.wake_by_ref();
        }
    }

    /// Ends the wait in this lane.
    #[inline]
    pub(crate) fn disarm(&mut self, lane: Lane) {
        self.timer.disarm(lane);
    }

    /// Milliseconds since some fixed moment.
    pub(crate) fn now(&self) -> u64 {
        self.timer.now()
    }

    /// The bytes received and sent since the last [`Conn::take_traffic`].
    pub(crate) fn traffic(&self) -> Traffic {
        self.workspace.as_ref().map(|workspace| workspace.traffic).unwrap_or_default()
    }

    /// Takes the counts of bytes received and sent since the last call.
    pub(crate) fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.workspace().traffic)
    }

    /// Splits the connection into transport and timer, to be taken over.
    pub(crate) fn into_parts(self) -> (Transport<H::Boxed>, H::Timer) {
        (self.transport, self.timer)
    }
}

/// Rarely made: a connection that wakes from its rest is lent one.
#[cold]
fn new_workspace() -> Box<Workspace> {
    Box::default()
}

/// Charges what was moved to the task's budget. tokio allows 128 calls before a task must yield, and one call may move
/// a hundred bytes or a megabyte; so a large one counts as several. Once the budget is used up, the next read or write
/// is pending, and the task is woken after all others had their turn.
#[inline]
fn charge(cx: &mut Context<'_>, count: usize) {
    for _ in 0..count / CALL {
        match coop::poll_proceed(cx) {
            Poll::Ready(call) => call.made_progress(),
            Poll::Pending => return,
        }
    }
}

/// How many bytes count as one call. 128 of them are 2 MiB.
const CALL: usize = 16 << 10;

impl Conn<Anywhere> {
    /// Begins a wait in this lane that is over at `until`, unless one has begun.
    pub(crate) fn arm(&mut self, lane: Lane, until: Instant) {
        self.timer.arm(lane, until);
    }
}

impl Conn {
    /// Notes that a handler may use the connection, and wait for it with several wakers. Until then one task waits, even
    /// if its waker changes.
    #[inline]
    pub(crate) fn share(&mut self) {
        self.workspace().is_shared = true;
    }

    /// Whether the server is about to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.timer.is_stopping()
    }

    /// Whether there is a wait in this lane.
    #[inline]
    pub(crate) fn is_waiting(&self, lane: Lane) -> bool {
        self.timer.is_armed(lane)
    }

    /// For how long the wait in this lane, which may take `limit`, has gone on. See [`Deadline::waited`].
    pub(crate) fn waited(&self, lane: Lane, limit: Duration) -> Duration {
        self.timer.waited(lane, limit)
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self) -> Peer {
        self.timer.peer()
    }
}
