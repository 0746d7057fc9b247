//! [`Workspace`]: what a connection needs only while it is busy: its write buffer, and counts of bytes.

use crate::memory::Reset;

/// What a connection needs only while it is busy.
#[derive(Default)]
pub(crate) struct Workspace {
    pub(super) output: Output,
    pub(super) traffic: Traffic,
    /// Whether a write failed because the peer reset the connection.
    pub(super) is_reset: bool,
}

/// The bytes that wait to be written.
#[derive(Default)]
pub(crate) struct Output {
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

impl Output {
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
        }
    }
}

impl Reset for Workspace {
    fn reset(&mut self) {
        let Workspace { output: Output { bytes, written }, traffic, is_reset } = self;
        *is_reset = false;
        bytes.clear();
        *written = 0;
        *traffic = Traffic::default();
    }

    fn shrink(&mut self) {
        self.output.bytes.shrink_to(OUTPUT_KEPT_MAX);
    }
}

/// How much memory is kept.
const OUTPUT_KEPT_MAX: usize = 64 << 10;
