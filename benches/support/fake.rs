//! [`FakeConn`]: fasthttp's fake connection, for tokio's traits and for hyper's.
//!
//! A read fills whatever buffer it is offered with copies of one request, over and over, so
//! many requests per connection are deeply pipelined; a write is counted and forgotten. Both
//! are always ready. When the connection's share of requests is used up, a read is the end; but
//! the peer does not close before it has been answered, as hyper would take that for a failure.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One connection that wants `left` copies of `text` answered.
pub struct FakeConn {
    text: &'static [u8],
    cut: Cut,
    left: u64,
    /// How much of the current copy was read.
    at: usize,
    /// Was anything written since the last read that got something?
    answered: bool,
    /// Who waits for the end, which comes with the response.
    waiting: Option<Waker>,
    traffic: Rc<Traffic>,
}

impl FakeConn {
    pub fn new(text: &'static [u8], cut: Cut, requests: u64, traffic: Rc<Traffic>) -> FakeConn {
        FakeConn { text, cut, left: requests, at: 0, answered: true, waiting: None, traffic }
    }

    /// Hands out what one read call gets that has `room` bytes to offer.
    #[inline]
    fn pour(
        &mut self,
        cx: &mut Context<'_>,
        mut room: usize,
        mut put: impl FnMut(&'static [u8]),
    ) -> Poll<io::Result<()>> {
        if self.left == 0 && !self.answered {
            self.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.traffic.count_read(room);
        self.answered = self.left == 0;
        while room > 0 && self.left > 0 {
            let end = self.cut.packet_end(self.at, self.text.len()).min(self.at + room);
            put(&self.text[self.at..end]);
            room -= end - self.at;
            self.at = end;
            if end == self.text.len() {
                (self.at, self.left) = (0, self.left - 1);
            }
            if !matches!(self.cut, Cut::Never) {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn discard(&mut self, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.answered = true;
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
        Poll::Ready(Ok(parts.iter().map(|part| self.traffic.count_write(part)).sum()))
    }
}

impl AsyncRead for FakeConn {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.pour(cx, into.remaining(), |bytes| into.put_slice(bytes))
    }
}

impl AsyncWrite for FakeConn {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.discard(&[IoSlice::new(bytes)])
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.discard(parts)
    }

    #[inline]
    fn is_write_vectored(&self) -> bool {
        true
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Read for FakeConn {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.pour(cx, into.remaining(), |bytes| into.put_slice(bytes))
    }
}

impl hyper::rt::Write for FakeConn {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(self, cx, bytes)
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write_vectored(self, cx, parts)
    }

    #[inline]
    fn is_write_vectored(&self) -> bool {
        true
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(self, cx)
    }

    #[inline]
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(self, cx)
    }
}

/// Where the packets of one request end.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// Nowhere: a read gets as many requests as it has room for.
    Never,
    /// After this many bytes, and at the request's end.
    After(usize),
    /// After every so many bytes, and at the request's end.
    Every(usize),
}

impl Cut {
    /// A request is one packet.
    pub const WHOLE: Cut = Cut::Every(usize::MAX);

    #[inline]
    fn packet_end(self, at: usize, len: usize) -> usize {
        match self {
            Cut::Never => len,
            Cut::After(first) if at < first => first.min(len),
            Cut::After(_) => len,
            Cut::Every(size) => size.saturating_add(at).min(len),
        }
    }
}

/// The traffic of all connections of one run.
pub struct Traffic {
    pub reads: Cell<u64>,
    /// Room in the buffers of all reads.
    pub offered: Cell<u64>,
    pub written: Cell<u64>,
    /// The first bytes written, as a sample of the rest.
    pub sample: RefCell<Vec<u8>>,
}

impl Traffic {
    pub fn new() -> Rc<Traffic> {
        let sample = RefCell::new(Vec::with_capacity(SAMPLE_MAX));
        Rc::new(Traffic { reads: Cell::new(0), offered: Cell::new(0), written: Cell::new(0), sample })
    }

    #[inline]
    fn count_read(&self, room: usize) {
        self.reads.set(self.reads.get() + 1);
        self.offered.set(self.offered.get() + room as u64);
    }

    #[inline]
    fn count_write(&self, bytes: &[u8]) -> usize {
        let written = self.written.get();
        if written < SAMPLE_MAX as u64 {
            let room = SAMPLE_MAX - written as usize;
            self.sample.borrow_mut().extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        self.written.set(written + bytes.len() as u64);
        bytes.len()
    }
}

/// As much as one response of these benchmarks, and some more.
const SAMPLE_MAX: usize = 8 << 10;
