//! [`off_core`]: work that would hold up a core is done on a thread of its own.

use std::io;
use std::panic;
use std::sync::LazyLock;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task;

use super::available_cores;

/// Does `work` elsewhere, while this core goes on. As much is done at once as there are cores; the rest waits. Whoever
/// gives up waiting for the result lets the work end by itself.
///
/// # Errors
///
/// The runtime stops before the work has begun.
pub(crate) async fn off_core<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    // Where tokio does not run there is nobody else to hold up.
    let Ok(runtime) = Handle::try_current() else { return Ok(work()) };
    let Ok(seat) = SEATS.acquire().await else { return Ok(work()) };
    let worked = runtime.spawn_blocking(move || {
        let result = work();
        drop(seat);
        result
    });
    worked.await.map_err(|error: task::JoinError| match error.try_into_panic() {
        Ok(panicked) => panic::resume_unwind(panicked),
        Err(_) => io::Error::from(io::ErrorKind::Interrupted),
    })
}

/// One for each core: more would only take turns.
static SEATS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(available_cores()));

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn work_is_done_on_another_thread_and_panics_come_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let here = thread::current().id();
        let there = runtime.block_on(off_core(|| thread::current().id())).unwrap();
        assert_ne!(there, here);
        // More of them than seats: a panic gives its seat back.
        for _ in 0..2 * available_cores() {
            let work = || runtime.block_on(off_core(|| -> () { panic!("work") }));
            assert!(panic::catch_unwind(panic::AssertUnwindSafe(work)).is_err());
        }
    }
}
