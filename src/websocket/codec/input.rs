//! [`Input`]: bytes that have arrived: a message, perhaps incomplete, and after it bytes that were not parsed yet.

use std::ops::Range;

use crate::memory::{LocalCache, Reset, free_beyond};

/// Bytes that have arrived. The payloads of a fragmented message are moved together where they are, so that the message
/// is one view.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// Initialized throughout, so that a socket can read into it.
    bytes: Vec<u8>,
    message: Range<usize>,
    /// The bytes that were not parsed. They begin after the message.
    raw: Range<usize>,
    /// Whether the last read filled all room, so that there is probably more.
    is_full: bool,
}

impl Input {
    /// Creates an input that begins with `bytes`.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Input {
        if bytes.is_empty() {
            return Input::default();
        }
        Input { bytes: bytes.to_vec(), raw: 0..bytes.len(), ..Input::default() }
    }

    /// Takes memory from the thread's cache, if this input has none.
    pub(crate) fn borrow_memory(&mut self) {
        if self.bytes.is_empty() {
            let cached = CACHE.try_with(|cache| cache.take(|_| true));
            *self = cached.ok().flatten().unwrap_or_default();
        }
    }

    /// Gives the memory to the thread's cache, if nothing is in it.
    pub(crate) fn return_memory(&mut self) {
        if self.is_empty() && !self.bytes.is_empty() {
            let mut memory = std::mem::take(self);
            memory.reset();
            if memory.shrink() > 0 {
                // On a thread that is ending, the cache is gone.
                let _ = CACHE.try_with(|cache| cache.give(memory));
            }
        }
    }

    /// Frees the room of a long message that was taken, though the beginning of the next one is here.
    pub(crate) fn give_back_room(&mut self) {
        if self.message.is_empty() && self.raw.len() < READ_SIZE {
            *self = Input::from_bytes(&self.bytes[self.raw.clone()]);
        }
    }

    /// The message, or its part.
    pub(super) fn message(&self) -> &[u8] {
        &self.bytes[self.message.clone()]
    }

    /// Forgets the message.
    pub(crate) fn clear_message(&mut self) {
        self.message = self.raw.start..self.raw.start;
        if self.raw.is_empty() {
            (self.message, self.raw) = (0..0, 0..0);
        }
    }

    /// The bytes that were not parsed.
    pub(crate) fn raw(&mut self) -> &mut [u8] {
        &mut self.bytes[self.raw.clone()]
    }

    /// Whether there are bytes that were not parsed.
    pub(crate) fn has_raw(&self) -> bool {
        !self.raw.is_empty()
    }

    /// Whether there is neither a message nor anything else.
    pub(super) fn is_empty(&self) -> bool {
        self.message.is_empty() && self.raw.is_empty()
    }

    /// How many bytes are here.
    pub(crate) fn len(&self) -> usize {
        self.message.len() + self.raw.len()
    }

    /// Skips `count` bytes that were parsed.
    pub(crate) fn skip(&mut self, count: usize) {
        self.raw.start += count;
        debug_assert!(self.raw.start <= self.raw.end, "only bytes that are here can be skipped");
        if self.message.is_empty() {
            self.message = self.raw.start..self.raw.start;
        }
    }

    /// Appends the next `count` bytes to the message, and returns them.
    pub(super) fn append_raw(&mut self, count: usize) -> &[u8] {
        let appended = self.message.end..self.message.end + count;
        if appended.start != self.raw.start {
            self.bytes.copy_within(self.raw.start..self.raw.start + count, appended.start);
        }
        self.message.end = appended.end;
        self.raw.start += count;
        debug_assert!(self.raw.start <= self.raw.end, "only bytes that are here can be appended");
        &self.bytes[appended]
    }

    /// The room for the next read: more than usually arrives at once, and more for a message of which much is here.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        let least = if self.is_full { READ_MAX } else { READ_SIZE };
        if self.bytes.len() - self.raw.end < least {
            self.make_room(least);
        }
        let len = self.room_len();
        &mut self.bytes[self.raw.end..][..len]
    }

    fn room_len(&self) -> usize {
        (self.bytes.len() - self.raw.end).min(READ_MAX.max(self.raw.end))
    }

    /// Adds `count` bytes that were read into the room.
    pub(crate) fn filled(&mut self, count: usize) {
        self.is_full = count == self.room_len();
        self.raw.end += count;
    }

    /// Moves all bytes to the front, and doubles the memory if that is not enough.
    fn make_room(&mut self, least: usize) {
        let (message, raw) = (self.message.len(), self.raw.len());
        self.bytes.copy_within(self.message.clone(), 0);
        self.bytes.copy_within(self.raw.clone(), message);
        (self.message, self.raw) = (0..message, message..message + raw);
        let needed = self.raw.end + least / 2;
        if self.bytes.len() < needed {
            let len = (self.raw.end + least).max(2 * self.bytes.len());
            self.bytes.reserve_exact(len - self.bytes.len());
            self.bytes.resize(len, 0);
        }
    }
}

impl Reset for Input {
    fn reset(&mut self) {
        let Input { bytes: _, message, raw, is_full } = self;
        (*message, *raw, *is_full) = (0..0, 0..0, false);
    }

    fn shrink(&mut self) -> usize {
        if self.bytes.len() > KEPT_MAX {
            self.bytes.clear();
            free_beyond(&mut self.bytes, KEPT_MAX);
        }
        self.bytes.capacity()
    }
}

thread_local! {
    /// The memory for reads, which sockets have only while bytes are in it.
    static CACHE: LocalCache<Input> = const { LocalCache::new() };
}

/// How much is read at once.
const READ_SIZE: usize = 8 << 10;
/// How much is read at once where much arrives.
const READ_MAX: usize = 68 << 10;
/// How much memory is kept for other sockets: enough for the longest message that is received by default. The system
/// would take longer to map it anew for each message than the message takes.
const KEPT_MAX: usize = (1 << 20) + 2 * READ_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(input: &mut Input, bytes: &[u8]) {
        input.room()[..bytes.len()].copy_from_slice(bytes);
        input.filled(bytes.len());
    }

    #[test]
    fn payloads_are_moved_together() {
        let mut input = Input::default();
        fill(&mut input, b"h1onehh2");
        input.skip(2);
        assert_eq!(input.append_raw(3), b"one");
        input.skip(3);
        (0..100).for_each(|_| fill(&mut input, &[b'x'; 1000]));
        assert_eq!(input.message(), b"one");
        assert_eq!(input.raw().len(), 100_000);
        assert_eq!(input.append_raw(100_000), [b'x'; 100_000]);
        assert_eq!((input.message().len(), input.has_raw()), (100_003, false));
        input.clear_message();
        assert!(input.is_empty());
        input.return_memory();
        assert_eq!(input.bytes.capacity(), 0);
        input.borrow_memory();
        assert!(!input.bytes.is_empty());
        assert!(input.room().len() <= READ_MAX, "small messages are read in pieces that fit the caches");
        for _ in 0..2 {
            let len = input.room().len();
            input.filled(len);
        }
        assert!(input.room().len() > READ_MAX);
        input.reset();
        input.bytes.resize(KEPT_MAX + 1, 0);
        input.shrink();
        assert_eq!(input.bytes.capacity(), 0);
    }

    #[test]
    fn the_room_of_a_long_message_is_given_back_though_more_is_here() {
        let mut input = Input::default();
        (0..200).for_each(|_| fill(&mut input, &[b'x'; 1000]));
        fill(&mut input, b"h");
        assert_eq!(input.append_raw(200_000).len(), 200_000);
        input.clear_message();
        input.give_back_room();
        assert_eq!(input.raw(), b"h");
        assert!(input.bytes.capacity() < READ_SIZE, "{}", input.bytes.capacity());
    }
}
