//! [`compute`]: work that keeps a thread busy is done aside, and no more of it at once than there are cores.

use std::io;
use std::sync::LazyLock;

use tokio::sync::Semaphore;

use super::{aside, available_cores};

/// Does `work` [`aside()`]. As much is done at once as there are cores; the rest waits.
///
/// # Errors
///
/// As [`aside()`].
pub(crate) async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    // They are never closed.
    let seat = SEATS.acquire().await.ok();
    let seated = move || {
        let result = work();
        drop(seat);
        result
    };
    aside(seated).await
}

/// One for each core: more would only take turns.
static SEATS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(available_cores()));

#[cfg(test)]
mod tests {
    use std::panic;

    use super::*;

    #[test]
    fn a_panic_gives_its_seat_back() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..2 * available_cores() {
            let work = || runtime.block_on(compute(|| -> () { panic!("work") }));
            assert!(panic::catch_unwind(panic::AssertUnwindSafe(work)).is_err());
        }
        assert_eq!(runtime.block_on(compute(|| 1)).unwrap(), 1);
    }
}
