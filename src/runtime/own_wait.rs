//! [`own_wait`]: waits for work of this crate, as opposed to waits of the application.
//!
//! A peer that has closed its sending half has perhaps left. So a waiting handler is dropped. It stays if it waits only for a
//! disk, for a compressing thread, or for its turn among the tasks of a core. Its response is then about to come.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Awaits `work` of this crate.
pub(crate) async fn own_wait<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| OwnWaits::note(work.as_mut().poll(cx))).await
}

/// How many polls on this thread were pending because of work of this crate. If there are more of them after the poll of a
/// future than before, the future waits for such work, however deep within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnWaits(u64);

impl OwnWaits {
    #[inline]
    pub(crate) fn so_far() -> OwnWaits {
        OwnWaits(COUNT.get())
    }

    /// Counts the poll of such work, if it is pending.
    #[inline]
    pub(crate) fn note<T>(polled: Poll<T>) -> Poll<T> {
        if polled.is_pending() {
            COUNT.set(COUNT.get().wrapping_add(1));
        }
        polled
    }

    /// Whether there have been more since.
    pub(crate) fn have_grown(self) -> bool {
        self != OwnWaits::so_far()
    }
}

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::task::{Context, Waker};

    use super::*;

    fn is_own(work: impl Future) -> bool {
        let before = OwnWaits::so_far();
        let _ = pin!(work).poll(&mut Context::from_waker(Waker::noop()));
        before.have_grown()
    }

    #[test]
    fn only_pending_work_of_this_crate_counts() {
        assert!(is_own(async { own_wait(pending::<()>()).await }));
        assert!(!is_own(own_wait(ready(()))));
        assert!(!is_own(pending::<()>()));
    }
}
