//! [`ReadBuffer`]: bytes that have arrived and have not been read; [`WriteBuffer`]: bytes that wait to be written.

use std::cell::RefCell;

use crate::memory::{Arena, Reset, free_beyond};

/// Bytes that have arrived, read from the front. The memory is reused.
#[derive(Default)]
pub(crate) struct ReadBuffer {
    arena: Arena,
    /// The least capacity for the next read. It grows with each read that fills the whole buffer, so that there is
    /// probably more, stays while much arrives, and survives a reset: then the next message is probably large too.
    least: usize,
}

impl ReadBuffer {
    /// The bytes that have not been read.
    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        self.arena.as_slice()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.arena.is_empty()
    }

    /// Counts the first `count` unread bytes as read.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        self.arena.consume(count);
    }

    /// The spare capacity for a socket to read into: more than usually arrives at once, so that a single read takes all
    /// of it.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.room_of(self.least.min(READ_KEPT_MAX))
    }

    /// The spare capacity for a read of a body, which grows with the body.
    pub(super) fn body_room(&mut self) -> &mut [u8] {
        self.room_of(self.least)
    }

    /// Hands `take` at most `most` unread bytes, and returns how many. The memory is given up with the last of them.
    pub(crate) fn hand_out(&mut self, most: usize, take: impl FnOnce(&[u8])) -> usize {
        let count = self.unread().len().min(most);
        take(&self.unread()[..count]);
        self.consume(count);
        if self.is_empty() {
            *self = ReadBuffer::default();
        }
        count
    }

    /// Whether the next read takes more memory than each connection may have.
    #[inline]
    pub(crate) fn reads_much(&self) -> bool {
        self.least > READ_UNCOUNTED_MAX
    }

    /// The least room for the next read of a body.
    pub(crate) fn read_max(&self) -> usize {
        self.least
    }

    /// Whether the next read of a body is a large one.
    #[inline]
    fn reads_large(&self) -> bool {
        self.least == LARGE_READ
    }

    /// Makes do with less for the next read.
    #[cold]
    pub(crate) fn read_less(&mut self) {
        self.least = if self.reads_large() { READ_KEPT_MAX } else { READ_UNCOUNTED_MAX };
    }

    /// Takes the memory of large reads from the thread, if the next read is a large one.
    #[inline]
    pub(super) fn borrow_large(&mut self) {
        if self.reads_large() && !self.is_large() {
            self.trade_large();
        }
    }

    /// Leaves the memory of large reads to the other buffers of the thread.
    #[inline]
    pub(crate) fn return_large(&mut self) {
        if self.is_large() {
            self.trade_large();
        }
    }

    /// Whether the buffer has the memory of large reads.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.arena.capacity() >= LARGE_READ
    }

    /// How much memory the buffer has, if it is more than each connection may have.
    #[inline]
    pub(crate) fn large_len(&self) -> usize {
        Some(self.arena.capacity()).filter(|capacity| *capacity > READ_UNCOUNTED_MAX).unwrap_or_default()
    }

    /// Trades memory with the thread, if one of both has that of large reads, and nothing is in it. If both have, each
    /// keeps its own: then handlers use their chunks for long, such as to write them to a disk.
    #[cold]
    fn trade_large(&mut self) {
        let is_large = self.is_large();
        let is_empty = self.is_empty();
        // A thread that is ending has nothing to trade.
        let _ = LARGE.try_with(|large| {
            let mut large = large.borrow_mut();
            if is_empty && is_large != (large.capacity() >= LARGE_READ) {
                std::mem::swap(&mut self.arena, &mut large);
            }
        });
    }

    #[inline]
    fn room_of(&mut self, least: usize) -> &mut [u8] {
        self.arena.compact();
        let len = self.arena.len();
        // A buffer that was large before may have more capacity than this read may fill.
        let most = least.max(READ_UNCOUNTED_MAX).saturating_sub(len).max(len);
        // Unread bytes are the start of a message, so the rest probably needs less, but half of a read at least.
        let room = self.arena.spare_within(least.max(READ_SIZE).saturating_sub(len).max(READ_SIZE / 2), most);
        let room_len = room.len().min(most);
        &mut room[..room_len]
    }

    /// Adds `count` bytes that were read into [`ReadBuffer::room`] or [`ReadBuffer::body_room`].
    #[inline]
    pub(super) fn filled(&mut self, count: usize) {
        self.arena.commit(count);
        let is_full =
            self.arena.spare(0).is_empty() || self.arena.len() >= self.least.max(READ_UNCOUNTED_MAX);
        self.least = match self.least {
            _ if !is_full && count < READ_KEPT_MAX => READ_SIZE,
            least if !is_full => least,
            ..READ_KEPT_MAX => READ_KEPT_MAX,
            READ_KEPT_MAX.. => LARGE_READ,
        };
    }

    /// Adds `bytes` that were read elsewhere.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.arena.extend(bytes);
    }

    /// Takes the unread bytes with their memory. If there are none, the memory stays: a connection that was upgraded
    /// may live for days, and needs none of it.
    pub(crate) fn take_unread(&mut self) -> ReadBuffer {
        if self.is_empty() { ReadBuffer::default() } else { std::mem::take(self) }
    }

    /// Moves all unread bytes to `content`, which is empty. If there are many, the two swap their memory instead of
    /// copying, unless most of the buffer's would be unused, or the content's is more than twice as large.
    pub(crate) fn move_all_to(&mut self, content: &mut Arena) {
        debug_assert!(content.is_empty(), "memory is traded for empty memory");
        let count = self.arena.len();
        let capacity = self.arena.capacity();
        if count >= TRADED_MIN && count >= capacity / 2 && content.capacity() / 2 <= capacity {
            std::mem::swap(&mut self.arena, content);
        } else {
            content.extend(self.arena.as_slice());
        }
        self.arena.clear();
    }
}

/// The least capacity for a read: the heads of dozens of small requests.
const READ_SIZE: usize = 8 << 10;
/// How much each connection may read without any of the peers' memory.
pub(crate) const READ_UNCOUNTED_MAX: usize = 16 << 10;
/// The capacity for a read of a body of which a lot arrives: a read of 512 KiB takes less time for each byte.
const LARGE_READ: usize = 512 << 10;

thread_local! {
    /// The memory of large reads between two of them. As a rule, a handler has used a chunk when it waits for the next, so
    /// one buffer serves all connections of a core, stays in the processor's cache, and is allocated once.
    static LARGE: RefCell<Arena> = RefCell::default();
}

/// Copying less than this is as fast as allocating memory for the next read.
const TRADED_MIN: usize = 16 << 10;
/// How much memory a read buffer keeps: 64 KiB of content, with their head or the framing of their chunks.
pub(crate) const READ_KEPT_MAX: usize = 68 << 10;

impl Reset for ReadBuffer {
    fn reset(&mut self) {
        let ReadBuffer { arena, least: _ } = self;
        arena.clear();
    }

    fn shrink(&mut self) -> usize {
        let _ = LARGE.try_with(RefCell::take);
        self.arena.shrink(READ_KEPT_MAX)
    }
}

/// The bytes that wait to be written.
#[derive(Default)]
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    /// How many of the bytes have already been written.
    written: usize,
}

impl WriteBuffer {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many bytes wait.
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
        debug_assert!(count <= self.len(), "only waiting bytes can have been written");
        self.written += count;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        } else if self.written > self.len() {
            self.compact();
        }
    }

    /// Moves the waiting bytes to the front, once they are fewer than the written ones: a slow peer may never let the
    /// buffer run empty.
    #[cold]
    fn compact(&mut self) {
        self.bytes.drain(..self.written);
        self.written = 0;
    }
}

impl Reset for WriteBuffer {
    fn reset(&mut self) {
        let WriteBuffer { bytes, written } = self;
        bytes.clear();
        *written = 0;
    }

    fn shrink(&mut self) -> usize {
        free_beyond(&mut self.bytes, WRITE_KEPT_MAX);
        self.bytes.capacity()
    }
}

/// How much memory a write buffer keeps.
const WRITE_KEPT_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(bytes: &[u8]) -> ReadBuffer {
        let mut buffer = ReadBuffer::default();
        buffer.room()[..bytes.len()].copy_from_slice(bytes);
        buffer.filled(bytes.len());
        buffer
    }

    /// After reads of these sizes, each of a message of its own, the next read has room for `offered` bytes.
    #[track_caller]
    fn check_room(reads: &[usize], offered: usize, offered_to_body: usize) {
        let mut buffer = ReadBuffer::default();
        for count in reads {
            assert!(buffer.body_room().len() >= *count, "{count} do not fit");
            buffer.filled(*count);
            buffer.reset();
            buffer.shrink();
        }
        assert_eq!(buffer.room().len(), offered, "after {reads:?}");
        assert_eq!(buffer.body_room().len(), offered_to_body, "for a body after {reads:?}");
    }

    #[test]
    fn a_large_read_makes_the_next_ones_larger() {
        check_room(&[], READ_SIZE, READ_SIZE);
        check_room(&[100, READ_SIZE - 1], READ_SIZE, READ_SIZE);
        check_room(&[100, READ_SIZE], READ_KEPT_MAX, READ_KEPT_MAX);
        check_room(&[READ_SIZE, READ_KEPT_MAX - 1, 100], READ_UNCOUNTED_MAX, READ_UNCOUNTED_MAX);
        check_room(&[READ_SIZE, READ_KEPT_MAX - 1, 100, READ_UNCOUNTED_MAX], READ_KEPT_MAX, READ_KEPT_MAX);
        check_room(&[READ_SIZE, READ_KEPT_MAX], READ_KEPT_MAX, LARGE_READ);
        check_room(&[READ_SIZE, READ_KEPT_MAX, LARGE_READ], READ_KEPT_MAX, LARGE_READ);
        check_room(&[READ_SIZE, READ_KEPT_MAX, LARGE_READ, READ_KEPT_MAX], READ_KEPT_MAX, LARGE_READ);
        check_room(&[READ_SIZE, READ_KEPT_MAX, LARGE_READ, 100], READ_SIZE, READ_SIZE);
    }

    /// Has a buffer read so much that its next read of a body is a large one.
    fn grown() -> ReadBuffer {
        let mut buffer = ReadBuffer::default();
        for count in [READ_SIZE, READ_KEPT_MAX] {
            assert_eq!(buffer.body_room().len(), count);
            buffer.filled(count);
            buffer.consume(count);
        }
        buffer
    }

    #[test]
    fn buffers_of_a_thread_share_the_memory_of_large_reads() {
        let mut buffers = [grown(), grown()];
        let mut memory = Vec::new();
        for buffer in &mut buffers {
            buffer.borrow_large();
            memory.push(buffer.body_room().as_ptr());
            buffer.return_large();
            assert!(!buffer.is_large());
        }
        assert_eq!(memory[0], memory[1], "the second reads where the first has read");
        buffers[0].shrink();
        buffers[1].borrow_large();
        assert!(!buffers[1].is_large(), "the thread has given it back");
    }

    /// Even if the buffer is a large one since an earlier message.
    #[test]
    fn a_read_that_makes_do_with_less_has_less_room() {
        let mut buffer = grown();
        assert!(buffer.arena.capacity() >= READ_KEPT_MAX);
        for (is_large, room) in [(true, READ_KEPT_MAX), (false, READ_UNCOUNTED_MAX)] {
            assert!(buffer.reads_much() && buffer.reads_large() == is_large);
            buffer.read_less();
            assert_eq!(buffer.room().len(), room);
        }
        assert!(!buffer.reads_much());
        buffer.filled(READ_UNCOUNTED_MAX);
        assert!(buffer.reads_much(), "there is probably more");
        buffer.read_less();
        assert_eq!(buffer.room().len(), READ_UNCOUNTED_MAX, "twice as much in all");
    }

    #[test]
    fn memory_in_use_is_not_shared() {
        let mut buffers = [grown(), grown()];
        for buffer in &mut buffers {
            buffer.borrow_large();
            buffer.body_room()[0] = b'x';
            buffer.filled(1);
        }
        buffers[0].return_large();
        assert_eq!((buffers[0].is_large(), buffers[0].unread()), (true, &b"x"[..]));
        // The one that is done first leaves its memory to the thread, and the other keeps its own.
        for (buffer, keeps) in buffers.iter_mut().zip([false, true]) {
            buffer.consume(1);
            buffer.return_large();
            assert_eq!(buffer.is_large(), keeps);
        }
    }

    /// After `len` bytes behind a head were moved to a body with a capacity of `room`, the body has the `expected`
    /// memory.
    #[track_caller]
    fn check_moved(len: usize, room: usize, expected: Whose) {
        let mut buffer = filled(b"head");
        let mut content = Arena::default();
        buffer.append(&vec![b'x'; len]);
        buffer.consume("head".len());
        content.spare(room);
        let arena = buffer.unread().as_ptr();
        let body = content.spare(0).as_ptr();
        buffer.move_all_to(&mut content);
        assert_eq!((buffer.unread(), content.as_slice()), (&b""[..], &vec![b'x'; len][..]));
        let whose = match content.as_slice().as_ptr() {
            now if now == arena => Whose::Buffers,
            now if now == body => Whose::Bodys,
            _ => Whose::New,
        };
        assert_eq!(whose, expected, "{len} bytes into {room}");
    }

    #[derive(Debug, PartialEq)]
    enum Whose {
        Buffers,
        Bodys,
        New,
    }

    #[test]
    fn a_large_body_trades_memory_of_its_own_size() {
        check_moved(TRADED_MIN - 1, 0, Whose::New);
        check_moved(TRADED_MIN - 1, TRADED_MIN, Whose::Bodys);
        check_moved(TRADED_MIN, 0, Whose::Buffers);
        check_moved(60 << 10, 64 << 10, Whose::Buffers);
        check_moved(60 << 10, 1 << 20, Whose::Bodys);
    }

    #[test]
    fn an_empty_buffer_keeps_its_memory() {
        let mut buffer = filled(b"used");
        buffer.consume(4);
        assert_eq!((buffer.take_unread().arena.capacity(), buffer.arena.capacity()), (0, READ_SIZE));
        buffer.append(b"rest");
        assert_eq!((buffer.take_unread().unread(), buffer.arena.capacity()), (&b"rest"[..], 0));
    }

    #[test]
    fn unread_bytes_survive_new_room() {
        let mut buffer = filled(b"usedrest");
        buffer.consume(4);
        buffer.room()[..3].copy_from_slice(b"new");
        buffer.filled(3);
        assert_eq!(buffer.unread(), b"restnew");
    }

    /// Written bytes must be freed even while others wait: an endless response to a peer that is always a little behind
    /// would fill the memory.
    #[test]
    fn a_peer_that_is_always_behind_does_not_grow_the_write_buffer() {
        for (behind, piece) in [(1, 1), (3, 2), (64 << 10, 1500), (1 << 10, 64 << 10)] {
            let mut write_buffer = WriteBuffer::default();
            let mut octets = (0..=250).cycle();
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
