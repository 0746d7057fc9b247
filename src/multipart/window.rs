//! [`Window`]: the piece of a body that is in memory.

use std::io;
use std::pin::Pin;
use std::task::{self, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// A window of fixed size on a stream of bytes.
pub(super) struct Window {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// How many bytes the source has yielded.
    received: u64,
    /// Whether the source has ended.
    is_end: bool,
}

impl Window {
    /// Creates a window of this size, with `first` in front of all that the source yields.
    pub(super) fn new(size: usize, first: &[u8]) -> Window {
        let mut bytes = vec![0; size.max(first.len())].into_boxed_slice();
        bytes[..first.len()].copy_from_slice(first);
        Window { bytes, start: 0, end: first.len(), received: 0, is_end: false }
    }

    /// Reads more, and returns how much, 0 at the end. There must be room: what is unread must be smaller than the
    /// window.
    pub(super) fn poll_fill<R: AsyncRead + Unpin>(
        &mut self,
        cx: &mut task::Context<'_>,
        source: &mut R,
    ) -> Poll<io::Result<usize>> {
        if self.is_end {
            return Poll::Ready(Ok(0));
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let mut room = ReadBuf::new(&mut self.bytes[self.end..]);
        ready!(Pin::new(source).poll_read(cx, &mut room))?;
        let count = room.filled().len();
        self.end += count;
        self.received += count as u64;
        self.is_end = count == 0;
        Poll::Ready(Ok(count))
    }

    /// Advances the window.
    pub(super) fn consume(&mut self, count: usize) {
        self.take(count);
    }

    /// Advances the window, and returns what it has passed.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let range = self.start..self.end.min(self.start + count);
        self.start = range.end;
        &self.bytes[range]
    }

    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    pub(super) fn is_end(&self) -> bool {
        self.is_end
    }
}
