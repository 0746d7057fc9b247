//! [`WakerSet`]: all who wait for one connection.

use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use crate::memory::lock;

/// Wakes all who wait for one connection.
///
/// A socket and a deadline table know one waker each, that of whoever asked last, and as a rule all who ask are one task. But a
/// handler may poll its parts with wakers of their own, as `FuturesUnordered` does, and while it waits, the server sends
/// what it has written. Then whoever was not the last to ask would wait for ever.
#[derive(Default)]
pub(super) struct WakerSet(Mutex<Vec<Waker>>);

impl WakerSet {
    /// Adds `waker`, and returns the one that wakes all, to wait with instead; `None` if `waker` is that one.
    #[cold]
    pub(super) fn register(self: &Arc<WakerSet>, waker: &Waker) -> Option<Waker> {
        let all = Waker::from(self.clone());
        // `will_wake` compares vtables as well, and a program may contain several for one type.
        if waker.data() == all.data() {
            return None;
        }
        self.add(waker);
        Some(all)
    }

    fn add(&self, waker: &Waker) {
        let mut waiting = lock(&self.0);
        if waiting.iter().any(|known| known.will_wake(waker)) {
            return;
        }
        // Somebody makes a waker for each poll. Nobody waits in vain if all are woken now.
        let stale = if waiting.len() < WAKERS_MAX { Vec::new() } else { mem::take(&mut *waiting) };
        waiting.push(waker.clone());
        drop(waiting);
        stale.into_iter().for_each(Waker::wake);
    }
}

impl Wake for WakerSet {
    fn wake(self: Arc<WakerSet>) {
        let waiting = mem::take(&mut *lock(&self.0));
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// More than a handler has parts: if more wait, such as for the peer to leave, they wake each other for ever.
const WAKERS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Count>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn all_who_have_joined_are_woken_once() {
        let (set, counts) = (Arc::new(WakerSet::default()), [(); 3].map(|()| Arc::new(Count::default())));
        let woken = || counts.each_ref().map(|count| count.0.load(Ordering::SeqCst));
        let wakers = counts.clone().map(Waker::from);
        let all = set.register(&wakers[0]).expect("the waker of all");
        set.register(&wakers[1]);
        set.register(&wakers[1]);
        // What waits for all is no further one.
        assert!(set.register(&all).is_none());
        all.wake_by_ref();
        assert_eq!(woken(), [1, 1, 0]);
        set.register(&wakers[2]);
        all.wake_by_ref();
        assert_eq!(woken(), [1, 1, 1]);
    }

    /// More than sixteen once were, as if all but the last had been of earlier polls.
    #[test]
    fn many_who_wait_are_not_woken_by_each_other() {
        let (set, counts) = (Arc::new(WakerSet::default()), [(); 500].map(|()| Arc::new(Count::default())));
        for count in counts.iter().chain(&counts) {
            set.register(&count.clone().into());
        }
        assert!(counts.iter().all(|count| count.0.load(Ordering::SeqCst) == 0));
        set.wake();
        assert!(counts.iter().all(|count| count.0.load(Ordering::SeqCst) == 1));
    }

    #[test]
    fn a_waker_for_each_poll_does_not_fill_the_memory() {
        let (set, first) = (Arc::new(WakerSet::default()), Arc::new(Count::default()));
        set.register(&first.clone().into());
        for _ in 0..WAKERS_MAX + 9 {
            set.register(&Waker::from(Arc::new(Count::default())));
        }
        assert!(lock(&set.0).len() <= WAKERS_MAX);
        assert_eq!(first.0.load(Ordering::SeqCst), 1);
    }
}
