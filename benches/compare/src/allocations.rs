//! [`Counting`]: how often did this process ask for memory?
//!
//! Each thread counts for itself by a plain load and store, so those who allocate are not made slower by an atomic
//! addition, and none loses what another has counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Allocations so far, of all threads; growing in place counts too.
pub(crate) fn allocations() -> u64 {
    COUNTS.iter().map(|count| count.load(Ordering::Relaxed)).sum()
}

static COUNTS: [AtomicU64; THREADS_MAX] = [const { AtomicU64::new(0) }; THREADS_MAX];
/// So many threads live at the same time, at most: ureq asks with 64.
const THREADS_MAX: usize = 256;

/// How many threads have counted so far.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Which of the counts is this thread's.
    static OWN: Cell<Option<usize>> = const { Cell::new(None) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The system's allocator, and a count.
struct Counting;

// SAFETY: every call goes to `System` as it came, so its promises are ours.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(old, layout) }
    }
}

fn count() {
    let own = OWN.get().unwrap_or_else(|| {
        let own = THREADS.fetch_add(1, Ordering::Relaxed) % THREADS_MAX;
        OWN.set(Some(own));
        own
    });
    COUNTS[own].store(COUNTS[own].load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::allocations;

    #[test]
    fn no_thread_loses_what_another_counts() {
        const EACH: u64 = 100_000;
        let before = allocations();
        let work = || (0..EACH).for_each(|at| drop(std::hint::black_box(Box::new(at))));
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
        assert!(allocations() - before >= 4 * EACH);
    }
}
