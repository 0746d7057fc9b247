//! [`Here`]: the runtime that a future is polled in, whoever made it; and [`block_on`], where there is none.

use std::io;

pub(crate) use tokio::runtime::Id;
use tokio::runtime::{Builder, Handle};

/// The runtime that is entered.
#[derive(Clone, Debug)]
pub(crate) struct Here(Handle);

impl Here {
    /// None if there is no tokio runtime.
    pub(crate) fn get() -> Option<Here> {
        Handle::try_current().ok().map(Here)
    }

    /// No other runtime that lives has this one.
    pub(crate) fn id(&self) -> Id {
        self.0.id()
    }

    /// Runs `task` there, until the runtime ends: then it is dropped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task);
    }
}

/// Runs `future` to its end where there is no runtime: in a small program, a test, a build script.
///
/// Each call makes a runtime of its own, and what a client has connected in it ends with it: requests that shall share
/// connections belong in one future.
///
/// # Errors
///
/// The system has no room for another runtime.
///
/// # Panics
///
/// Inside of a runtime, which would wait for itself.
///
/// # Examples
///
/// ```
/// assert_eq!(corehttp::block_on(async { 40 + 2 })?, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    Ok(Builder::new_current_thread().enable_all().build()?.block_on(future))
}
