//! [`BlockingLimit`]: work that keeps a thread busy, of which no more is done at once than there are cores.

use std::io;
use std::sync::LazyLock;

use tokio::sync::Semaphore;

use super::{available_cores, spawn_blocking};

/// One permit per core, since more would only compete for the cores. Each kind of work has its own seats, so that work
/// that waits for a disk does not keep another kind from going on.
pub(crate) struct BlockingLimit(LazyLock<Semaphore>);

impl BlockingLimit {
    pub(crate) const fn new() -> BlockingLimit {
        BlockingLimit(LazyLock::new(|| Semaphore::new(available_cores())))
    }

    /// Does `work` by [`spawn_blocking()`], once a permit is free.
    ///
    /// # Errors
    ///
    /// As [`spawn_blocking()`].
    pub(crate) async fn run<T: Send + 'static>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        // The semaphore is never closed.
        let permit = self.0.acquire().await.ok();
        let work_then_release = move || {
            let result = work();
            drop(permit);
            result
        };
        spawn_blocking(work_then_release).await
    }
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_panic_gives_its_seat_back() {
        static LIMIT: BlockingLimit = BlockingLimit::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..2 * available_cores() {
            let work = || runtime.block_on(LIMIT.run(|| -> () { panic!("work") }));
            assert!(panic::catch_unwind(panic::AssertUnwindSafe(work)).is_err());
        }
        assert_eq!(runtime.block_on(LIMIT.run(|| 1)).unwrap(), 1);
    }

    #[test]
    fn no_more_work_is_done_at_once_than_there_are_cores() {
        static LIMIT: BlockingLimit = BlockingLimit::new();
        static AT_WORK: AtomicUsize = AtomicUsize::new(0);
        let work = || {
            let others = AT_WORK.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(2));
            AT_WORK.fetch_sub(1, Ordering::SeqCst);
            others
        };
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
            let works: Vec<_> = (0..8 * available_cores()).map(|_| tokio::spawn(LIMIT.run(work))).collect();
            for work in works {
                assert!(work.await.unwrap().unwrap() < available_cores());
            }
        });
    }
}
