//! [`spawn_blocking`] and [`BlockingLimit`]: blocking work on other threads.

use std::io;
use std::panic;
use std::sync::LazyLock;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

use super::{available_cores, own_wait};

/// Starts `work` at once on one of tokio's threads for blocking work. Dropping the future does not stop the work. A
/// panic in it is resumed in the task that awaits the future. Outside of a runtime, the work is done before this
/// returns.
///
/// # Errors
///
/// Fails if the runtime ends before the work has begun.
pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = io::Result<T>> {
    let begun = match Handle::try_current() {
        Ok(runtime) => Ok(runtime.spawn_blocking(work)),
        // Outside of a runtime, there are no other tasks to hold up.
        Err(_) => Err(work()),
    };
    async {
        match begun {
            Ok(worked) => own_wait(worked).await.map_err(lost),
            Err(result) => Ok(result),
        }
    }
}

fn lost(error: JoinError) -> io::Error {
    match error.try_into_panic() {
        Ok(panicked) => panic::resume_unwind(panicked),
        Err(ended) => ended.into(),
    }
}

/// One permit per core, since more threads would only compete for the cores. Each kind of work has a limit of its own,
/// so that work that waits for a disk does not hold up another kind.
#[allow(dead_code, reason = "unused with the feature `multipart` alone")]
pub(crate) struct BlockingLimit(LazyLock<Semaphore>);

#[allow(dead_code, reason = "unused with the feature `multipart` alone")]
impl BlockingLimit {
    pub(crate) const fn new() -> BlockingLimit {
        BlockingLimit(LazyLock::new(|| Semaphore::new(available_cores())))
    }

    /// Runs `work` by [`spawn_blocking()`], once a permit is free.
    ///
    /// # Errors
    ///
    /// As [`spawn_blocking()`].
    pub(crate) async fn run<T: Send + 'static>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        // The semaphore is never closed.
        let permit = own_wait(self.0.acquire()).await.ok();
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn work_is_done_on_another_thread_and_panics_come_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let here = thread::current().id();
        assert_ne!(
            runtime.block_on(async { spawn_blocking(|| thread::current().id()).await }).unwrap(),
            here
        );
        let work = || runtime.block_on(async { spawn_blocking(|| -> () { panic!("work") }).await });
        assert!(panic::catch_unwind(panic::AssertUnwindSafe(work)).is_err());
    }

    #[test]
    fn work_is_finished_though_its_future_was_dropped() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (done, received) = mpsc::channel();
        runtime.block_on(async { drop(spawn_blocking(move || done.send(()))) });
        assert_eq!(received.recv_timeout(Duration::from_secs(10)), Ok(()));
    }

    #[test]
    fn without_a_runtime_work_is_done_on_this_thread() {
        let (done, received) = mpsc::channel();
        drop(spawn_blocking(move || done.send(thread::current().id())));
        assert_eq!(received.try_recv(), Ok(thread::current().id()));
    }

    #[test]
    fn a_panic_releases_its_permit() {
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
