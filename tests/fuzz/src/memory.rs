//! How much memory this thread has, and had at most.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Runs `body`, which may take `most` bytes of memory beyond what this thread had before.
///
/// # Panics
///
/// If it takes more.
#[track_caller]
pub fn bounded<T>(most: usize, body: impl FnOnce() -> T) -> T {
    let before = NOW.get();
    PEAK.set(before);
    let done = body();
    let grown = PEAK.get() - before;
    assert!(grown <= most as isize, "{grown} bytes were taken at once, where {most} would do");
    done
}

thread_local! {
    // Memory that another thread has allocated may be freed here, so the count may be negative.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The system's allocator, and how many bytes each thread has of it.
struct Counting;

// SAFETY: every call goes to `System` as it came, so its promises are ours.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size as isize - layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        grow(-(layout.size() as isize));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(old, layout) }
    }
}

fn grow(bytes: isize) {
    // A thread that is ending has lost its counters, and nobody reads them any more.
    let _ = NOW.try_with(|now| {
        now.set(now.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now.get())));
    });
}
