//! [`Conn`]: one transport with its write buffer and its deadline. It knows bytes, not HTTP.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::home::Timer;
use super::{Buffer, Home, Lane, OneCore, Peer, Transport};
use crate::memory::Reset;

/// One connection.
pub(crate) struct Conn<H: Home = OneCore> {
    pub(crate) transport: Transport<H::Boxed>,
    timer: H::Timer,
    /// Lent to it while it has something to do: an idle connection is to be small.
    desk: Option<Box<Desk>>,
}

/// What a connection needs only while it is at work.
#[derive(Default)]
pub(crate) struct Desk {
    output: Output,
    traffic: Traffic,
}

/// What waits to be written.
#[derive(Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    /// So many of them have been written already.
    written: usize,
}

/// How many bytes went through a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// Why a connection does not go on.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The peer let a limit of time pass.
    Expired,
    Io(io::Error),
}

impl<H: Home> Conn<H> {
    pub(crate) fn new(transport: Transport<H::Boxed>, timer: H::Timer) -> Conn<H> {
        Conn { transport, timer, desk: None }
    }

    /// Gives the connection a desk for the one it has.
    #[inline]
    pub(crate) fn swap_desk(&mut self, desk: &mut Option<Box<Desk>>) {
        std::mem::swap(&mut self.desk, desk);
    }

    /// What waits to be written.
    #[inline]
    pub(crate) fn output(&mut self) -> &mut Output {
        &mut self.desk().output
    }

    /// Whether nothing waits to be written.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.desk.as_ref().is_none_or(|desk| desk.output.is_empty()) && !self.transport.has_unsent()
    }

    #[inline]
    fn desk(&mut self) -> &mut Desk {
        self.desk.get_or_insert_default()
    }

    /// Reads once into `input`, whatever comes. See [`Conn::poll_read`].
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

    /// Reads once into `room`, whatever comes. None is the end: the peer will send no more.
    ///
    /// The wait goes on over several calls, until [`Conn::disarm`] says that what was waited for is there.
    #[inline]
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut [u8],
        limit: Duration,
    ) -> Poll<Result<usize, Fault>> {
        match self.transport.poll_read(cx, room) {
            Poll::Ready(Ok(count)) => {
                self.desk().traffic.received += count as u64;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Fault::Io(error))),
            Poll::Pending => self.poll_expired(cx, Lane::Read, limit).map(Err),
        }
    }

    /// Writes all of the output. `limit` is for the time in which nothing moves.
    #[inline]
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>, limit: Duration) -> Poll<Result<(), Fault>> {
        while !self.output().is_empty() {
            ready!(self.poll_send(cx, &[], limit))?;
        }
        // A boxed transport may hold bytes back, as TLS does.
        match self.transport.poll_flush(cx) {
            Poll::Ready(flushed) => {
                self.disarm(Lane::Write);
                Poll::Ready(flushed.map_err(Fault::Io))
            }
            Poll::Pending => self.poll_expired(cx, Lane::Write, limit).map(Err),
        }
    }

    /// Writes the output with `body` behind it, as much as goes at once, and answers how much of the body went.
    pub(crate) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        body: &[u8],
        limit: Duration,
    ) -> Poll<Result<usize, Fault>> {
        let output = &mut self.desk.get_or_insert_default().output;
        let (waiting, of_output) = (output.waiting(), output.len());
        let sent = match (waiting, body) {
            (bytes, []) | ([], bytes) => self.transport.poll_write(cx, bytes),
            _ => self.transport.poll_write_vectored(cx, &[IoSlice::new(waiting), IoSlice::new(body)]),
        };
        match sent {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(Fault::Io(io::ErrorKind::WriteZero.into()))),
            Poll::Ready(Ok(count)) => {
                self.disarm(Lane::Write);
                let Desk { output, traffic } = self.desk();
                traffic.sent += count as u64;
                let of_output = count.min(of_output);
                output.advance(of_output);
                Poll::Ready(Ok(count - of_output))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Fault::Io(error))),
            Poll::Pending => self.poll_expired(cx, Lane::Write, limit).map(Err),
        }
    }

    /// Moves some of a range of `file` to the peer, and answers how much. The output must have been flushed.
    pub(crate) fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        range: Range<u64>,
        limit: Duration,
    ) -> Poll<Result<u64, Fault>> {
        match self.transport.poll_send_file(cx, file, range) {
            Poll::Ready(Ok(count)) => {
                self.disarm(Lane::Write);
                self.desk().traffic.sent += count;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(Fault::Io(error))),
            Poll::Pending => self.poll_expired(cx, Lane::Write, limit).map(Err),
        }
    }

    /// Tells the peer that no more will come.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>, limit: Duration) -> Poll<Result<(), Fault>> {
        match self.transport.poll_shutdown(cx) {
            Poll::Ready(shut) => Poll::Ready(shut.map_err(Fault::Io)),
            Poll::Pending => self.poll_expired(cx, Lane::Write, limit).map(Err),
        }
    }

    /// Ready with a fault when the wait in this lane has taken longer than `limit`.
    #[inline]
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>, lane: Lane, limit: Duration) -> Poll<Fault> {
        self.timer.poll_expired(cx, lane, limit).map(|()| Fault::Expired)
    }

    /// What was waited for in this lane is there.
    #[inline]
    pub(crate) fn disarm(&mut self, lane: Lane) {
        self.timer.disarm(lane);
    }

    /// What went through since the last call of [`Conn::take_traffic`].
    pub(crate) fn traffic(&self) -> Traffic {
        self.desk.as_ref().map(|desk| desk.traffic).unwrap_or_default()
    }

    /// Milliseconds since some moment.
    pub(crate) fn now(&self) -> u64 {
        self.timer.now()
    }

    /// What went through since the last call.
    pub(crate) fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.desk().traffic)
    }

    /// Takes the transport apart from its bookkeeping, for whoever takes the connection over.
    pub(crate) fn into_parts(self) -> (Transport<H::Boxed>, H::Timer) {
        (self.transport, self.timer)
    }
}

impl Conn {
    /// Whether the server is about to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.timer.is_stopping()
    }

    /// Who is at the other end.
    pub(crate) fn peer(&self) -> Peer {
        self.timer.peer()
    }
}

impl Output {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many bytes wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Where more is appended.
    #[inline]
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn waiting(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    fn advance(&mut self, count: usize) {
        self.written += count;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
    }
}

impl Reset for Desk {
    fn reset(&mut self) {
        let Desk { output: Output { bytes, written }, traffic } = self;
        bytes.clear();
        *written = 0;
        *traffic = Traffic::default();
    }

    fn shrink(&mut self) {
        self.output.bytes.shrink_to(OUTPUT_KEPT_MAX);
    }
}

/// What stays warm.
const OUTPUT_KEPT_MAX: usize = 64 << 10;
