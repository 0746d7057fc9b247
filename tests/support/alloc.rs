//! [`Counting`]: how often did this thread ask for memory?
//!
//! The count is per thread and not atomic: an atomic add on every call would slow down
//! those who allocate, and the comparison with them would no longer be fair.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Allocations made by this thread so far; growing in place counts too.
pub fn allocations() -> u64 {
    COUNT.get()
}

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, and a count, once a program has it as its `#[global_allocator]`.
pub struct Counting;

// SAFETY: every call goes to `System` as it came, so its promises are ours.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(old, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(old, layout) }
    }
}

#[inline]
fn count() {
    // A thread that is ending has lost its counter, and its last allocations are nobody's.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}
