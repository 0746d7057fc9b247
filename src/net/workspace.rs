//! [`Workspace`]: what a connection needs only while it is at work: what waits to be written, and counts of bytes.

use crate::memory::Reset;

/// What a connection needs only while it is at work.
#[derive(Default)]
pub(crate) struct Workspace {
    pub(super) output: Output,
    pub(super) traffic: Traffic,
    /// Whether a write has heard that the peer has reset the connection.
    pub(super) is_reset: bool,
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

/// What stays warm.
const OUTPUT_KEPT_MAX: usize = 64 << 10;
