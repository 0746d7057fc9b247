//! Work that blocks: it runs where it holds up no core.

use std::io;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

/// Runs `work` on a thread for such work.
///
/// # Errors
///
/// Work that panicked, or a runtime that has ended.
pub(crate) async fn run_aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    Ok(spawn_blocking(work).await?)
}

/// As [`run_aside`], but nobody waits for it. Without a runtime it runs at once.
pub(crate) fn leave_aside(work: impl FnOnce() + Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}
