//! [`IoState`]: what a connection needs only while it is busy: its write buffer, and counts of bytes.

use std::sync::Arc;

use super::waker_set::WakerSet;
use super::write_progress::WriteProgress;
use crate::memory::{Reset, clear_cold};

/// What a connection needs only while it is busy.
#[derive(Default)]
pub(crate) struct IoState {
    pub(super) write_buffer: WriteBuffer,
    pub(super) traffic: Traffic,
    /// Whether a write failed because the peer reset the connection.
    pub(super) is_reset: bool,
    /// Whether a flush of the transport is waited for.
    pub(super) is_flushing: bool,
    /// Whether a handler may have the connection, and parts of it wait with different wakers.
    pub(super) is_shared: bool,
    /// Those who wait, if they have different wakers.
    pub(super) wakers: Option<Arc<WakerSet>>,
    /// How many bytes were sent before those of `traffic`.
    pub(super) sent_before: u64,
    /// Whether the peer takes what is written.
    pub(super) progress: WriteProgress,
}

/// The bytes that wait to be written.
#[derive(Default)]
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    /// How many of them have already been written.
    written: usize,
}

/// How many bytes went through a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

impl WriteBuffer {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many bytes are waiting.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// The buffer to append to.
    #[inline]
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    pub(super) fn advance(&mut self, count: usize) {
        self.written += count;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        } else if self.written > self.len() {
            self.compact();
        }
    }

    /// Moves what waits to the front, once that is less than what was written: a peer may never catch up.
    #[cold]
    fn compact(&mut self) {
        self.bytes.drain(..self.written);
        self.written = 0;
    }
}

impl Reset for IoState {
    fn reset(&mut self) {
        let IoState {
            write_buffer: WriteBuffer { bytes, written },
            traffic,
            is_reset,
            is_flushing,
            is_shared,
            wakers,
            sent_before,
            progress,
        } = self;
        (*is_reset, *is_flushing, *is_shared) = (false, false, false);
        clear_cold(wakers);
        bytes.clear();
        (*written, *sent_before) = (0, 0);
        *traffic = Traffic::default();
        *progress = WriteProgress::default();
    }

    fn shrink(&mut self) {
        self.write_buffer.bytes.shrink_to(KEPT_MAX);
    }
}

/// How much memory is kept.
const KEPT_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// What had been written was once kept until nothing waited any more, so an endless answer to a peer that was always
    /// a little behind filled the memory.
    #[test]
    fn a_peer_that_is_always_behind_does_not_grow_the_output() {
        for (behind, piece) in [(1, 1), (3, 2), (64 << 10, 1500), (1 << 10, 64 << 10)] {
            let (mut write_buffer, mut octets) = (WriteBuffer::default(), (0..=250).cycle());
            write_buffer.bytes().extend(octets.by_ref().take(behind));
            for written in (piece..).step_by(piece).take(100) {
                write_buffer.bytes().extend(octets.by_ref().take(piece));
                write_buffer.advance(piece);
                assert_eq!(
                    (write_buffer.len(), usize::from(write_buffer.waiting()[0])),
                    (behind, written % 251)
                );
                assert!(write_buffer.bytes.len() <= 2 * behind + piece, "{} bytes", write_buffer.bytes.len());
            }
        }
    }
}
