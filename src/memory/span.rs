//! [`Span`]: a start and a length in one arena.

use std::ops::Range;

/// Refers to bytes of one arena without borrowing it. It means nothing once that arena was cleared, so it never leaves
/// the crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// # Panics
    ///
    /// Panics beyond 4 GiB. The only texts that have spans are heads and targets, whose limits are far below.
    #[inline]
    pub(crate) fn new(start: usize, len: usize) -> Span {
        let end = start.checked_add(len).expect("a span lies in memory");
        assert!(end <= u32::MAX as usize, "a text with spans is at most 4 GiB long");
        Span { start: start as u32, len: len as u32 }
    }

    /// The span of `part`, a slice of `whole`.
    #[inline]
    pub(crate) fn from_slices(part: &[u8], whole: &[u8]) -> Span {
        assert!(whole.len() <= u32::MAX as usize, "a text with spans is at most 4 GiB long");
        let start = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
        debug_assert!(
            start <= whole.len() && part.len() <= whole.len() - start,
            "the part lies in the whole"
        );
        Span { start: start as u32, len: part.len() as u32 }
    }

    /// The part of `len` bytes that begins at `at`.
    #[inline]
    pub(crate) fn part(self, at: usize, len: usize) -> Span {
        debug_assert!(at + len <= self.len(), "the part lies in the whole");
        Span { start: self.start + at as u32, len: len as u32 }
    }

    /// The same bytes in a text that has `len` more bytes in front.
    #[inline]
    pub(crate) fn shifted(self, len: usize) -> Span {
        Span::new(self.start() + len, self.len())
    }

    #[inline]
    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    #[inline]
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end()
    }

    #[inline]
    pub(crate) fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        self.len as usize
    }
}
