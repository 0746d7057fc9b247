//! [`join`]: passes bytes between two connections that were upgraded (RFC 9110 §7.8).

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::runtime;

/// Passes bytes in both directions, until both have ended. Once one of them has, the other has no longer than `linger`.
/// A connection that fails ends both.
pub(super) async fn join<A, B>(mut front: A, mut behind: B, linger: Duration)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut inward, mut outward) = (Direction::default(), Direction::default());
    let mut poll = move |cx: &mut Context<'_>| -> io::Result<[bool; 2]> {
        Ok([inward.poll(cx, &mut front, &mut behind)?, outward.poll(cx, &mut behind, &mut front)?])
    };
    let mut poll_until = |cx: &mut Context<'_>, is_over: fn([bool; 2]) -> bool| match poll(cx) {
        Ok(ended) if !is_over(ended) => Poll::Pending,
        ended => Poll::Ready(ended.map(drop)),
    };
    let one = poll_fn(|cx| poll_until(cx, |ended| ended.contains(&true)));
    if one.await.is_ok() {
        let both = poll_fn(|cx| poll_until(cx, |ended| ended == [true; 2]));
        let _ = runtime::timeout(linger, both).await;
    }
}

/// Bytes in one direction. Only those that the receiver does not take at once are kept.
#[derive(Default)]
struct Direction {
    waiting: Vec<u8>,
    /// How many of them were written.
    written: usize,
    step: Step,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Open,
    /// The sender has ended.
    Ending,
    Over,
}

impl Direction {
    /// Passes on what is here. Returns whether the sender has ended, and the receiver knows.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<bool> {
        match self.poll_pass(cx, from, to) {
            Poll::Ready(ended) => ended.map(|()| true),
            Poll::Pending => Ok(false),
        }
    }

    fn poll_pass(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        while self.step == Step::Open {
            ready!(self.poll_waiting(cx, to))?;
            let mut room = [0; READ_SIZE];
            let mut room = ReadBuf::new(&mut room);
            if Pin::new(&mut *from).poll_read(cx, &mut room)?.is_pending() {
                // TLS may hold back the end of what was written.
                ready!(Pin::new(&mut *to).poll_flush(cx))?;
                return Poll::Pending;
            }
            match room.filled() {
                [] => self.step = Step::Ending,
                bytes => self.pass(cx, bytes, to)?,
            }
        }
        if self.step == Step::Ending {
            ready!(self.poll_waiting(cx, to))?;
            ready!(Pin::new(to).poll_shutdown(cx))?;
            self.step = Step::Over;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes `bytes` as far as the receiver takes them at once, and keeps the rest.
    fn pass(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let written = match Pin::new(to).poll_write(cx, bytes) {
            Poll::Ready(written) => written?,
            Poll::Pending => 0,
        };
        self.waiting.extend_from_slice(&bytes[written..]);
        Ok(())
    }

    /// Writes all that waits.
    fn poll_waiting(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        while self.written < self.waiting.len() {
            let written = ready!(Pin::new(&mut *to).poll_write(cx, &self.waiting[self.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
        }
        (self.waiting, self.written) = (Vec::new(), 0);
        Poll::Ready(Ok(()))
    }
}

/// How much is read at once, into the stack.
const READ_SIZE: usize = 8 << 10;
