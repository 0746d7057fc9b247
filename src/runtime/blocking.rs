//! [`unblock`]: work that must not hold a core up.

use std::io;

use tokio::task::spawn_blocking;

/// Does `work` that may block, on a thread that nobody waits for.
///
/// # Errors
///
/// It panicked, or the runtime ends.
pub(crate) async fn unblock<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    Ok(spawn_blocking(work).await?)
}
