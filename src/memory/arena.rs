//! [`Arena`]: one growable byte store; [`Span`]: a start and a length in one.

use std::ops::Range;

use bytes::Bytes;

use super::free_list::free_beyond;

/// Bytes that are appended, read through [`Span`]s or from the front, and all forgotten at once, while the memory
/// stays.
///
/// The spare capacity after the content is initialized too, so that a socket can read into it without `unsafe`. Its
/// zeros are written only once, when the arena grows.
#[derive(Default)]
pub(crate) struct Arena {
    /// The consumed bytes, the content, and the spare capacity, in this order.
    bytes: Vec<u8>,
    /// Where the content starts. At most `end`.
    start: usize,
    /// Where the content ends. At most `bytes.len()`.
    end: usize,
}

impl Arena {
    /// Creates an arena with a copy of `content`, and spare capacity for at least `room` bytes after it.
    pub(crate) fn with_content(content: &[u8], room: usize) -> Arena {
        let mut bytes = Vec::with_capacity(content.len() + room);
        bytes.extend_from_slice(content);
        bytes.resize(bytes.capacity(), 0);
        Arena { bytes, start: 0, end: content.len() }
    }

    /// Appends a copy of `part`.
    #[inline]
    pub(crate) fn push(&mut self, part: &[u8]) -> Span {
        let span = Span::new(self.end, part.len());
        self.extend(part);
        span
    }

    /// Appends a copy of `part`, which may be too long for a span.
    #[inline]
    pub(crate) fn extend(&mut self, part: &[u8]) {
        let end = self.end + part.len();
        // A range in bounds also means that the capacity suffices.
        match self.bytes.get_mut(self.end..end) {
            Some(room) => {
                room.copy_from_slice(part);
                self.end = end;
            }
            None => self.extend_anew(part),
        }
    }

    /// Appends a copy of `part`, and reserves for no more than the `left_max` bytes that can still come, `part` included.
    pub(crate) fn extend_up_to(&mut self, part: &[u8], left_max: usize) {
        self.spare_within(part.len(), left_max)[..part.len()].copy_from_slice(part);
        self.commit(part.len());
    }

    #[cold]
    fn extend_anew(&mut self, part: &[u8]) {
        self.make_room(part.len(), usize::MAX);
        self.extend(part);
    }

    /// Appends copies of all `parts`.
    #[inline]
    pub(crate) fn push_all<const N: usize>(&mut self, parts: [&[u8]; N]) -> Span {
        let span = Span::new(self.end, parts.iter().map(|part| part.len()).sum());
        if self.bytes.len() < span.end() {
            self.make_room(span.len(), usize::MAX);
        }
        let mut room = &mut self.bytes[span.range()];
        for part in parts {
            let (here, rest) = room.split_at_mut(part.len());
            here.copy_from_slice(part);
            room = rest;
        }
        self.end = span.end();
        span
    }

    /// Returns the spare capacity after the content, at least `least` bytes. Bytes written there become content with
    /// [`Arena::commit`].
    #[inline]
    pub(crate) fn spare(&mut self, least: usize) -> &mut [u8] {
        self.spare_within(least, usize::MAX)
    }

    /// Returns the spare capacity as [`Arena::spare`] does. At most `most` bytes are still to come, so the arena does
    /// not grow beyond those.
    #[inline]
    pub(crate) fn spare_within(&mut self, least: usize, most: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < least.min(most) {
            self.make_room(least.min(most), most);
        }
        &mut self.bytes[self.end..]
    }

    /// Writes `part` over the front of `old`, which must be at least as long.
    pub(crate) fn overwrite(&mut self, old: Span, part: &[u8]) -> Span {
        debug_assert!(
            part.len() <= old.len() && old.end() <= self.end,
            "the old bytes have room for the new"
        );
        let start = old.range().start;
        self.bytes[old.range()][..part.len()].copy_from_slice(part);
        Span::new(start, part.len())
    }

    /// Makes the first `count` bytes of the spare capacity part of the content.
    #[inline]
    pub(crate) fn commit(&mut self, count: usize) {
        assert!(count <= self.bytes.len() - self.end, "only what was offered can have been filled");
        self.end += count;
    }

    /// Forgets the content.
    #[inline]
    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Forgets the first `count` bytes of the content.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end, "only content can be consumed");
        if self.is_empty() {
            self.clear();
        }
    }

    /// Moves the content to the front, so that the capacity of consumed bytes can be used again. Spans become invalid.
    pub(crate) fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.len());
        }
    }

    /// Frees memory beyond `kept_max` bytes, unless it is in use, and returns how many bytes are kept.
    pub(crate) fn shrink(&mut self, kept_max: usize) -> usize {
        if self.bytes.capacity() > kept_max && self.end <= kept_max {
            self.bytes.truncate(if self.end == 0 { 0 } else { kept_max });
            free_beyond(&mut self.bytes, kept_max);
        }
        self.bytes.capacity()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The length to which the content may grow without a new allocation.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Returns the bytes of `span`, if all of them are content.
    #[inline]
    pub(crate) fn get(&self, span: Span) -> Option<&[u8]> {
        // The spare capacity is out of bounds, since it still has bytes of an earlier message.
        self.bytes[..self.end].get(span.range())
    }

    /// Returns the content in the memory in which it is.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from(self.bytes).slice(self.start..self.end)
    }

    /// Doubles the capacity, so that content which grows step by step is not moved at each step, but allocates no more
    /// than the `most` bytes that are still to come.
    #[cold]
    fn make_room(&mut self, least: usize, most: usize) {
        let needed = self.end.checked_add(least).expect("an arena fits memory");
        let doubled = (2 * self.bytes.len()).max(64).min(self.end.saturating_add(most));
        self.bytes.reserve_exact(needed.max(doubled) - self.bytes.len());
        self.bytes.resize(self.bytes.capacity(), 0);
    }
}

impl Clone for Arena {
    fn clone(&self) -> Arena {
        Arena { bytes: self.as_slice().to_vec(), start: 0, end: self.len() }
    }

    fn clone_from(&mut self, source: &Arena) {
        self.clear();
        self.extend(source.as_slice());
    }
}

/// Refers to bytes of one arena without borrowing it. A span is invalid once its arena was cleared, so spans never
/// leave the crate.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_find_what_was_pushed() {
        let mut arena = Arena::default();
        let (first, second) = (arena.push(b"host"), arena.push(b"example.com"));
        assert_eq!((arena.get(first), arena.get(second)), (Some(&b"host"[..]), Some(&b"example.com"[..])));
        arena.clear();
        arena.extend(b"hos");
        assert_eq!((arena.get(first), arena.get(second)), (None, None), "spare bytes are no content");
    }

    #[test]
    fn spare_bytes_count_once_they_were_committed() {
        let mut arena = Arena::default();
        arena.spare(3)[..3].copy_from_slice(b"abc");
        assert_eq!(arena.as_slice(), b"");
        arena.commit(2);
        assert_eq!(arena.as_slice(), b"ab");
    }

    #[test]
    fn memory_is_kept_when_cleared_and_given_back_when_shrunk() {
        let mut arena = Arena::default();
        arena.extend(&[7; 10_000]);
        arena.clear();
        assert!(arena.spare(0).len() >= 10_000);
        arena.shrink(100);
        assert_eq!(arena.capacity(), 0, "a part of it would be in the way of the next");
        arena.extend(&[7; 200]);
        arena.shrink(100);
        assert_eq!(arena.as_slice(), [7; 200]);
    }

    #[test]
    fn capacity_is_doubled_up_to_the_bytes_still_to_come() {
        let mut arena = Arena::default();
        for (filled, least, most, room) in [
            (0, 100, 1000, 100),
            (100, 100, 900, 100),
            (100, 100, 800, 200),
            (200, 100, 600, 400),
            (400, 100, 200, 200),
            (200, 100, 0, 0),
        ] {
            arena.commit(filled);
            assert_eq!(
                arena.spare_within(least, most).len(),
                room,
                "{} of {}",
                arena.len(),
                arena.len() + most
            );
        }
        assert_eq!(arena.spare(1).len(), 1000, "what is to come is not known");
    }

    #[test]
    fn consumed_bytes_become_spare_when_the_rest_has_moved() {
        let mut arena = Arena::default();
        arena.extend(b"usedrest");
        let room = arena.spare(0).len();
        arena.consume(4);
        assert_eq!((arena.len(), arena.spare(0).len()), (4, room));
        arena.compact();
        assert_eq!((arena.len(), arena.spare(0).len()), (4, room + 4));
        assert_eq!(arena.as_slice(), b"rest");
        arena.consume(4);
        assert_eq!((arena.is_empty(), arena.spare(0).len()), (true, room + 8));
    }

    #[test]
    fn shrinking_keeps_the_rest_of_the_content() {
        let mut arena = Arena::default();
        arena.extend(&[7; 200]);
        arena.consume(150);
        arena.shrink(100);
        assert_eq!(arena.as_slice(), [7; 50]);
    }

    #[test]
    #[should_panic(expected = "only what was offered")]
    fn growing_beyond_the_spare_room_is_a_bug() {
        Arena::default().commit(1);
    }
}
