//! [`CachingAlloc`]: keeps the memory of brotli codecs, which make their state anew for every content.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};

use brotli::enc::BrotliAlloc;
use brotli::{Allocator, SliceWrapper, SliceWrapperMut};

use crate::memory::lock;

/// Slices of all types that a codec allocates, kept when it frees them. Clones share them.
#[derive(Clone, Default)]
pub(super) struct CachingAlloc {
    /// A `Vec<Vec<T>>` for each type. The lock is only for the compiler, since a codec is used by one thread at a time.
    free: Arc<Mutex<Vec<Box<dyn Any + Send>>>>,
    /// How many bytes are kept of one type.
    kept_max: usize,
}

impl CachingAlloc {
    pub(super) fn new(kept_max: usize) -> CachingAlloc {
        CachingAlloc { free: Arc::default(), kept_max }
    }

    /// Takes the smallest free slice that has room for `len`.
    fn take<T: Send + 'static>(&self, len: usize) -> Option<Vec<T>> {
        let mut free = lock(&self.free);
        let of_type = free.iter_mut().find_map(|free| free.downcast_mut::<Vec<Vec<T>>>())?;
        let fitting = of_type.iter().enumerate().filter(|(_, free)| free.capacity() >= len);
        let (best, _) = fitting.min_by_key(|(_, free)| free.capacity())?;
        Some(of_type.swap_remove(best))
    }

    /// Keeps a slice. If that is too much, the largest go: they are what large content needed step by step, and usual
    /// content does without them.
    fn give<T: Send + 'static>(&self, memory: Vec<T>) {
        let size = |memory: &Vec<T>| memory.capacity() * size_of::<T>();
        if size(&memory) > self.kept_max {
            return;
        }
        let mut free = lock(&self.free);
        let found = free.iter_mut().find_map(|free| free.downcast_mut::<Vec<Vec<T>>>());
        let Some(of_type) = found else { return free.push(Box::new(vec![memory])) };
        of_type.push(memory);
        while of_type.len() > SLICES_MAX || of_type.iter().map(size).sum::<usize>() > self.kept_max {
            let largest = of_type.iter().enumerate().max_by_key(|(_, free)| free.capacity());
            let Some((at, _)) = largest else { return };
            of_type.swap_remove(at);
        }
    }
}

/// How many slices of one type are kept: more than a codec uses at once.
const SLICES_MAX: usize = 16;

impl<T: Clone + Default + Send + 'static> Allocator<T> for CachingAlloc {
    type AllocatedMemory = CachedSlice<T>;

    fn alloc_cell(&mut self, len: usize) -> CachedSlice<T> {
        if len == 0 {
            return CachedSlice::default();
        }
        let mut memory = self.take(len).unwrap_or_else(|| Vec::with_capacity(len));
        // The brotli of C initializes what it has to; that of Rust relies on memory that is clean, and goes out of
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

/// A slice that returns to its alloc when it is dropped.
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

    /// An encoder that needed a larger slice with each step once kept all the smaller ones: 16 MiB for a single stream.
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
