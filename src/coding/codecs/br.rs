//! `br`: brotli (RFC 7932), in memory that is kept from one content to the next.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};

use brotli::enc::BrotliAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use brotli::{Allocator, BrotliDecompressStream, BrotliResult, BrotliState, SliceWrapper, SliceWrapperMut};

use crate::coding::CodingError;
use crate::coding::codec::{Decode, Flush, Step};
use crate::coding::encode::Encode;
use crate::memory::lock;

/// An encoder for `br`.
pub(super) struct BrEncoder {
    state: BrotliEncoderStateStruct<CachingAlloc>,
    alloc: CachingAlloc,
    level: u32,
}

impl BrEncoder {
    pub(super) fn new(level: u32) -> BrEncoder {
        let (alloc, level) = (CachingAlloc::new(ENCODER_KEPT_MAX), level.min(11));
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
    is_whole: bool,
}

impl BrDecoder {
    pub(super) fn new() -> BrDecoder {
        let alloc = CachingAlloc::new(DECODER_KEPT_MAX);
        BrDecoder { state: decoder_state(&alloc), alloc, is_whole: false }
    }
}

/// A window of more than 16 MiB, which is not part of RFC 7932, is refused.
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
            BrotliResult::ResultFailure => return Err(CodingError::Corrupt),
        };
        Ok(Step { read, written, is_whole: self.is_whole })
    }

    fn reset(&mut self) {
        self.state = decoder_state(&self.alloc);
        self.is_whole = false;
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

    /// How many bytes are kept or in use.
    fn memory(&self) -> usize {
        lock(&self.slices).bytes
    }

    fn allocate<T>(&self, len: usize) -> Vec<T> {
        let memory = Vec::with_capacity(len);
        lock(&self.slices).bytes += size(&memory);
        memory
    }

    /// Takes the smallest free slice that has room for `len`.
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

/// How many slices of one type are kept: more than a codec uses at once.
const SLICES_MAX: usize = 16;

impl<T: Clone + Default + Send + 'static> Allocator<T> for CachingAlloc {
    type AllocatedMemory = CachedSlice<T>;

    fn alloc_cell(&mut self, len: usize) -> CachedSlice<T> {
        if len == 0 {
            return CachedSlice::default();
        }
        let mut memory = self.take(len).unwrap_or_else(|| self.allocate(len));
        // The brotli of C initializes its memory; the brotli of Rust relies on memory that is zeroed, and goes out of
        // bounds without it.
        memory.clear();
        memory.resize(len, T::default());
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
