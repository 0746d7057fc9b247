//! `br`: brotli (RFC 7932), in memory that is kept from one content to the next.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};

use brotli::enc::BrotliAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use brotli::{Allocator, BrotliDecompressStream, BrotliResult, BrotliState, SliceWrapper, SliceWrapperMut};

use crate::coding::codec::{Decode, Flush, Step};
use crate::coding::encode::Encode;
use crate::coding::{Coding, CodingError};
use crate::memory::lock;

/// An encoder for `br`.
pub(super) struct BrEncoder {
    state: BrotliEncoderStateStruct<CachingAlloc>,
    alloc: CachingAlloc,
    level: u32,
}

impl BrEncoder {
    pub(super) fn new(level: u32) -> BrEncoder {
        let alloc = CachingAlloc::new(ENCODER_KEPT_MAX);
        let level = level.min(11);
        BrEncoder { state: encoder_state(&alloc, level), alloc, level }
    }
}

fn encoder_state(alloc: &CachingAlloc, level: u32) -> BrotliEncoderStateStruct<CachingAlloc> {
    let mut state = BrotliEncoderStateStruct::new(alloc.clone());
    state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, level);
    state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, WINDOW_BITS);
    state
}

/// 512 KiB. A larger window costs each stream that much memory, and gains little on content that is made for each
/// response.
const WINDOW_BITS: u32 = 19;

/// The tables of the levels that are suitable for responses are smaller.
const ENCODER_KEPT_MAX: usize = 4 << 20;

impl Encode for BrEncoder {
    fn step(&mut self, input: &[u8], room: &mut [u8], flush: Flush) -> Result<Step, CodingError> {
        let operation = match flush {
            Flush::Later => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            Flush::Now => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            Flush::End => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let (mut unread, mut read, mut unwritten, mut written) = (input.len(), 0, room.len(), 0);
        let went_well = self.state.compress_stream(
            operation,
            &mut unread,
            input,
            &mut read,
            &mut unwritten,
            room,
            &mut written,
            &mut None,
            &mut |_, _, _, _| (),
        );
        if !went_well {
            return Err(CodingError::Encoder);
        }
        let is_whole = match flush {
            Flush::Later | Flush::Now => unread == 0 && !self.state.has_more_output(),
            Flush::End => self.state.is_finished(),
        };
        Ok(Step { read, written, is_whole })
    }

    fn reset(&mut self) {
        self.state = encoder_state(&self.alloc, self.level);
    }

    fn memory(&self) -> usize {
        size_of::<BrEncoder>() + self.alloc.memory()
    }
}

/// A decoder for `br`.
pub(super) struct BrDecoder {
    state: BrotliState<CachingAlloc, CachingAlloc, CachingAlloc>,
    alloc: CachingAlloc,
    content_max: usize,
    /// Whether the octet that announces the window has been read.
    has_begun: bool,
    is_whole: bool,
}

impl BrDecoder {
    pub(super) fn new() -> BrDecoder {
        let alloc = CachingAlloc::new(DECODER_KEPT_MAX);
        let content_max = usize::MAX;
        BrDecoder { state: decoder_state(&alloc), alloc, content_max, has_begun: false, is_whole: false }
    }

    fn decode(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError> {
        let (mut unread, mut read, mut unwritten, mut written) = (input.len(), 0, room.len(), 0);
        let result = BrotliDecompressStream(
            &mut unread,
            &mut read,
            input,
            &mut unwritten,
            &mut written,
            room,
            &mut 0,
            &mut self.state,
        );
        self.is_whole = match result {
            BrotliResult::ResultSuccess => true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => false,
            // Beyond the most that it may become, content is read with too small a window.
            BrotliResult::ResultFailure if self.decoded() > self.content_max => {
                return Err(CodingError::TooLarge(self.content_max));
            }
            BrotliResult::ResultFailure if self.decoded() == 0 => {
                return Err(CodingError::NotCoded(Coding::Br));
            }
            BrotliResult::ResultFailure => return Err(CodingError::Corrupt),
        };
        Ok(Step { read, written, is_whole: self.is_whole })
    }

    /// How many bytes were decoded. Some of them may not have been written yet.
    fn decoded(&self) -> usize {
        let turns = self.state.rb_roundtrips.saturating_mul(self.state.ringbuffer_size as usize);
        turns.saturating_add(self.state.pos as usize)
    }
}

/// Narrows the window that the first octet of some content announces (RFC 7932 §9.1) to the smallest one, of 256 KiB or
/// more, that content of at most `content_max` bytes cannot tell from it.
///
/// The decoder allocates the whole window before any content has arrived, and a few octets would otherwise cost 16 MiB.
/// A reference reaches back to the first byte of the content, or to the last byte of the window if that is nearer
/// (§4), so content that is shorter than its window means the same with any larger window.
fn narrow_window(first: u8, content_max: usize) -> u8 {
    let announced = match first & 1 {
        1 => first >> 1 & 7,
        _ => 0,
    };
    let needed = usize::BITS - content_max.saturating_add(WINDOW_GAP - 1).leading_zeros();
    match needed.saturating_sub(WIDE_BITS_BASE).clamp(1, 7) as u8 {
        needed if needed < announced => first & !(7 << 1) | needed << 1,
        _ => first,
    }
}

/// A window of 2^n bytes reaches back by that many less.
const WINDOW_GAP: usize = 16;

/// Windows of more than 2^17 bytes are announced by a bit that is set, and three for the exponent beyond 17. Three that
/// are zero announce smaller ones in other bits.
const WIDE_BITS_BASE: u32 = 17;

/// The low bits of an octet that announces no window of RFC 7932 (§9.1). In its place, encoders announce one of more than 16
/// MiB.
const LARGE_WINDOW: u8 = 0b001_0001;

/// Such a window is refused here as well.
fn decoder_state(alloc: &CachingAlloc) -> BrotliState<CachingAlloc, CachingAlloc, CachingAlloc> {
    BrotliState::new_strict(alloc.clone(), alloc.clone(), alloc.clone())
}

/// The memory of large windows, which few senders use, is not kept.
const DECODER_KEPT_MAX: usize = 1 << 20;

impl Decode for BrDecoder {
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, CodingError> {
        if self.is_whole {
            let nothing = Step { is_whole: true, ..Step::default() };
            return if input.is_empty() { Ok(nothing) } else { Err(CodingError::Corrupt) };
        }
        match input {
            [first, ..] if !self.has_begun && first & 0x7f == LARGE_WINDOW => {
                Err(CodingError::Window(Coding::Br))
            }
            [first, ..] if !self.has_begun => {
                self.has_begun = true;
                self.decode(&[narrow_window(*first, self.content_max)], room)
            }
            _ => self.decode(input, room),
        }
    }

    fn set_content_max(&mut self, content_max: usize) {
        self.content_max = content_max;
    }

    fn window_len(&self, next: &[u8]) -> usize {
        if self.has_begun && self.state.window_bits > 0 {
            return 1 << self.state.window_bits;
        }
        // Content whose first octet is still to come may announce the widest window.
        let first = narrow_window(next.first().copied().unwrap_or(u8::MAX), self.content_max);
        let wide_bits = if first & 1 == 1 { u32::from(first >> 1 & 7) } else { 0 };
        1 << (WIDE_BITS_BASE + wide_bits)
    }

    fn reset(&mut self) {
        self.state = decoder_state(&self.alloc);
        (self.has_begun, self.is_whole) = (false, false);
    }

    fn memory(&self) -> usize {
        size_of::<BrDecoder>() + self.alloc.memory()
    }
}

/// Slices of all types that a codec allocates, kept when it frees them. Clones share them.
#[derive(Clone, Default)]
pub(super) struct CachingAlloc {
    /// The lock is never contended, since a codec is used by one thread at a time.
    slices: Arc<Mutex<Slices>>,
    /// How many bytes are kept of one type.
    kept_max: usize,
}

#[derive(Default)]
struct Slices {
    /// A `Vec<Vec<T>>` for each type.
    free: Vec<Box<dyn Any + Send>>,
    /// How many bytes were allocated, and are kept or in use.
    bytes: usize,
}

impl CachingAlloc {
    pub(super) fn new(kept_max: usize) -> CachingAlloc {
        CachingAlloc { slices: Arc::default(), kept_max }
    }

    /// How many bytes are kept or in use, or reserved for a window.
    fn memory(&self) -> usize {
        lock(&self.slices).bytes
    }

    /// Allocates a slice. A window that is too large to be kept takes pages that the system clears when they are used.
    fn allocate<T: Clone + Default>(&self, len: usize) -> Vec<T> {
        let is_window = size_of::<T>() == 1 && len > self.kept_max;
        let mut memory = vec![T::default(); if is_window { len.max(MAPPED_MIN) } else { len }];
        memory.truncate(len);
        lock(&self.slices).bytes += size(&memory);
        memory
    }

    /// Takes the smallest free slice that has room for `len`, as it was given.
    fn take<T: Send + 'static>(&self, len: usize) -> Option<Vec<T>> {
        let Slices { free, .. } = &mut *lock(&self.slices);
        let of_type = free.iter_mut().find_map(|free| free.downcast_mut::<Vec<Vec<T>>>())?;
        let fitting = of_type.iter().enumerate().filter(|(_, free)| free.capacity() >= len);
        let (best, _) = fitting.min_by_key(|(_, free)| free.capacity())?;
        Some(of_type.swap_remove(best))
    }

    /// Keeps a slice. If too much is kept, the largest slices are dropped: large content needed them step by step, and
    /// usual content does not need them.
    fn give<T: Send + 'static>(&self, memory: Vec<T>) {
        let Slices { free, bytes } = &mut *lock(&self.slices);
        if size(&memory) > self.kept_max {
            *bytes -= size(&memory);
            return;
        }
        let found = free.iter_mut().find_map(|free| free.downcast_mut::<Vec<Vec<T>>>());
        let Some(of_type) = found else { return free.push(Box::new(vec![memory])) };
        of_type.push(memory);
        while of_type.len() > SLICES_MAX || of_type.iter().map(size).sum::<usize>() > self.kept_max {
            let largest = of_type.iter().enumerate().max_by_key(|(_, free)| free.capacity());
            let Some((at, _)) = largest else { return };
            *bytes -= size(&of_type.swap_remove(at));
        }
    }
}

fn size<T>(memory: &Vec<T>) -> usize {
    memory.capacity() * size_of::<T>()
}

/// How many bytes glibc always takes from the system, and returns to it. Of fewer it may keep some that were freed, and
/// has to clear them all for the next window, which a peer fills or not: 2 ms and 16 MiB. Pages that are not used cost
/// nothing.
const MAPPED_MIN: usize =
    if cfg!(all(target_env = "gnu", target_pointer_width = "64")) { (32 << 20) + 1 } else { 0 };

/// How many slices of one type are kept: more than a codec uses at once.
const SLICES_MAX: usize = 16;

impl<T: Clone + Default + Send + 'static> Allocator<T> for CachingAlloc {
    type AllocatedMemory = CachedSlice<T>;

    fn alloc_cell(&mut self, len: usize) -> CachedSlice<T> {
        if len == 0 {
            return CachedSlice::default();
        }
        // The brotli of C initializes its memory; the brotli of Rust relies on memory that is zeroed, and goes out of
        // bounds without it.
        let memory = match self.take(len) {
            Some(mut memory) => {
                memory.clear();
                memory.resize(len, T::default());
                memory
            }
            None => self.allocate(len),
        };
        CachedSlice { memory, alloc: Some(self.clone()) }
    }

    fn free_cell(&mut self, memory: CachedSlice<T>) {
        drop(memory);
    }
}

impl BrotliAlloc for CachingAlloc {}

/// A slice that returns to its [`CachingAlloc`] when it is dropped.
pub(super) struct CachedSlice<T: Send + 'static> {
    memory: Vec<T>,
    alloc: Option<CachingAlloc>,
}

impl<T: Send + 'static> Drop for CachedSlice<T> {
    fn drop(&mut self) {
        if let Some(alloc) = &self.alloc {
            alloc.give(std::mem::take(&mut self.memory));
        }
    }
}

impl<T: Send + 'static> Default for CachedSlice<T> {
    fn default() -> CachedSlice<T> {
        CachedSlice { memory: Vec::new(), alloc: None }
    }
}

impl<T: Send + 'static> SliceWrapper<T> for CachedSlice<T> {
    fn slice(&self) -> &[T] {
        &self.memory
    }
}

impl<T: Send + 'static> SliceWrapperMut<T> for CachedSlice<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.memory
    }
}

impl fmt::Debug for CachingAlloc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachingAlloc").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocates slices of these lengths and frees them all.
    fn alloc_and_free(alloc: &mut CachingAlloc, lengths: impl IntoIterator<Item = usize>) {
        let slices: Vec<CachedSlice<u16>> = lengths.into_iter().map(|len| alloc.alloc_cell(len)).collect();
        drop(slices);
    }

    /// The lengths of all free slices, which are taken.
    fn free(alloc: &CachingAlloc) -> Vec<usize> {
        std::iter::from_fn(|| alloc.take::<u16>(0)).map(|memory| memory.capacity()).collect()
    }

    /// Encodes `content` with a window of 16 MiB.
    fn encode_with_widest_window(content: &[u8]) -> Vec<u8> {
        let mut encoder = BrEncoder::new(5);
        encoder.state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, 24);
        let mut coded = vec![0; content.len() + 1024];
        let step = encoder.step(content, &mut coded, Flush::End).unwrap();
        assert!(step.is_whole && step.read == content.len());
        coded.truncate(step.written);
        coded
    }

    /// Decodes what may become `content_max` bytes, with a window of `taken` bytes.
    fn decode(coded: &[u8], content_max: usize, taken: &mut usize) -> Result<Vec<u8>, CodingError> {
        let mut decoder = BrDecoder::new();
        let mut room = [0; 4096];
        let mut content = Vec::new();
        decoder.set_content_max(content_max);
        let mut rest = coded;
        loop {
            let step = decoder.step(rest, &mut room)?;
            *taken = decoder.state.ringbuffer_size as usize;
            content.extend_from_slice(&room[..step.written]);
            rest = &rest[step.read..];
            if content.len() > content_max {
                return Err(CodingError::TooLarge(content_max));
            }
            if step == Step::default() || step.is_whole {
                return Ok(content);
            }
        }
    }

    /// Numbers without a pattern, of which the encoder finds only those that it has seen before.
    fn noise(len: usize) -> impl Iterator<Item = u8> {
        let step = |seed: &u32| Some(seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        std::iter::successors(Some(1u32), step).map(|seed| (seed >> 24) as u8).take(len)
    }

    #[test]
    fn a_window_is_no_larger_than_the_content_may_be_rfc7932_9_1() {
        for (content_max, kilobytes) in
            [(0, 256), (200 << 10, 256), (1 << 20, 2 << 10), (4 << 20, 8 << 10), (9 << 20, 16 << 10)]
        {
            let mut taken = 0;
            let decoded = decode(b"\xcf\xff\xff\xff", content_max, &mut taken);
            assert_eq!(decoded, Ok(Vec::new()));
            assert_eq!(taken, kilobytes << 10, "content of {content_max}");
        }
    }

    /// References reach as far back as the window allows, and words of the dictionary stand beyond them.
    #[test]
    fn content_is_read_with_a_narrow_window_as_with_the_announced_one_rfc7932_4() {
        let words = b"the government of the people, by the people, for the people";
        for len in [1, (256 << 10) - 17, (256 << 10) - 16, (256 << 10) - 15, 256 << 10, 300 << 10] {
            let mut content = Vec::from_iter(noise(1 << 10).chain([0].repeat(len)));
            content.truncate(len.saturating_sub(words.len() + (1 << 10)));
            content.extend_from_slice(words);
            content.extend(noise(1 << 10));
            let coded = encode_with_widest_window(&content);
            let len = content.len();
            let mut taken = 0;
            assert!(coded.len() < 3 << 10, "the encoder has found the repetition");
            assert!(decode(&coded, len, &mut taken).as_ref() == Ok(&content), "{len} bytes");
            assert!(taken <= 1 << 20, "{taken} bytes for content of {len}");
            assert!(decode(&coded, usize::MAX, &mut taken) == Ok(content), "{len} bytes");
            assert_eq!(decode(&coded, len - 1, &mut taken), Err(CodingError::TooLarge(len - 1)));
            assert_eq!(decode(&coded, len / 2, &mut taken), Err(CodingError::TooLarge(len / 2)));
        }
    }

    #[test]
    fn only_wide_windows_are_narrowed_rfc7932_9_1() {
        let codes = [(0b0, 16), (0b1000_0001u8 >> 7, 17), (0b0011, 18), (0b1101, 23), (0b1111, 24)];
        for (code, bits) in codes {
            for content_max in
                [0, 1 << 17, (1 << 18) - 16, (1 << 18) - 15, (1 << 22) - 16, 1 << 23, usize::MAX]
            {
                let narrow = narrow_window(code, content_max);
                let has = if narrow & 1 == 1 && narrow >> 1 & 7 > 0 {
                    17 + u32::from(narrow >> 1 & 7)
                } else {
                    bits
                };
                let holds_all = (1usize << has) - WINDOW_GAP >= content_max;
                assert!(has == bits || has < bits && has >= 18 && holds_all, "{code:b}, {content_max}");
                assert!(
                    has <= 18 || (1usize << (has - 1)) - WINDOW_GAP < content_max,
                    "{code:b}, {content_max}"
                );
            }
        }
        (0..=255u8).for_each(|first| assert_eq!(narrow_window(first, usize::MAX), first));
        (0..=255u8).for_each(|first| assert_eq!(narrow_window(first, 0) & !0b1110, first & !0b1110));
    }

    #[test]
    fn slices_are_kept_up_to_a_number() {
        let mut alloc = CachingAlloc::new(1 << 10);
        alloc_and_free(&mut alloc, 0..=SLICES_MAX);
        assert_eq!(free(&alloc), Vec::from_iter(1..=SLICES_MAX));
        alloc_and_free(&mut alloc, 1..=SLICES_MAX + 1);
        assert_eq!(free(&alloc), Vec::from_iter(1..=SLICES_MAX));
    }

    #[test]
    fn memory_is_known_whether_it_is_in_use_or_kept() {
        let mut alloc = CachingAlloc::new(64);
        let slices: [CachedSlice<u16>; 2] = [32, 33].map(|len| alloc.alloc_cell(len));
        assert_eq!(alloc.memory(), 2 * (32 + 33));
        drop(slices);
        assert_eq!(alloc.memory(), 2 * 32);
        alloc_and_free(&mut alloc, [32, 16]);
        assert_eq!(alloc.memory(), 2 * 16, "the larger one has gone");
        let mut encoder = BrEncoder::new(5);
        encoder.step(b"content", &mut [0; 256], Flush::End).unwrap();
        let before = encoder.memory();
        encoder.reset();
        assert!(before > 100 << 10 && encoder.memory() <= before, "{before}");
    }

    /// An encoder may need a larger slice with each step. All the smaller ones together would be 16 MiB for a single
    /// stream.
    #[test]
    fn slices_are_kept_up_to_a_size() {
        let mut alloc = CachingAlloc::new(64);
        alloc_and_free(&mut alloc, [33, 32]);
        assert_eq!(free(&alloc), [32]);
        (1..=16).for_each(|len| alloc_and_free(&mut alloc, [len]));
        assert_eq!(free(&alloc), Vec::from_iter(1..=7));
    }

    #[test]
    fn the_smallest_slice_with_enough_room_is_taken() {
        let mut alloc = CachingAlloc::new(64);
        alloc_and_free(&mut alloc, [8, 2, 4]);
        for (len, found) in [(3, Some(4)), (3, Some(8)), (3, None), (2, Some(2))] {
            assert_eq!(alloc.take::<u16>(len).map(|memory| memory.capacity()), found);
        }
    }
}
