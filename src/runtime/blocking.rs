//! [`spawn_blocking`]: work that would block a core is done on another thread.

use std::io;
use std::panic;

use tokio::runtime::Handle;
use tokio::task::JoinError;

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
            Ok(worked) => worked.await.map_err(lost),
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

#[cfg(test)]
mod tests {
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
    fn work_is_finished_though_nobody_waits_for_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (done, heard) = mpsc::channel();
        runtime.block_on(async { drop(spawn_blocking(move || done.send(()))) });
        assert_eq!(heard.recv_timeout(Duration::from_secs(10)), Ok(()));
    }

    #[test]
    fn without_a_runtime_work_is_done_on_this_thread() {
        let (done, heard) = mpsc::channel();
        drop(spawn_blocking(move || done.send(thread::current().id())));
        assert_eq!(heard.try_recv(), Ok(thread::current().id()));
    }
}
