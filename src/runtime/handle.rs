//! [`Handle`]: the current tokio runtime; and [`block_on`], for where there is none.

use std::io;

pub(crate) use tokio::runtime::Id;
use tokio::runtime::{self, Builder, LocalOptions};

/// The current tokio runtime.
#[derive(Clone, Debug)]
pub(crate) struct Handle(runtime::Handle);

impl Handle {
    /// Returns the current runtime, if there is one.
    pub(crate) fn current() -> Option<Handle> {
        runtime::Handle::try_current().ok().map(Handle)
    }

    /// Returns its id, which no other living runtime has.
    pub(crate) fn id(&self) -> Id {
        self.0.id()
    }

    /// Runs `task` in that runtime. If the runtime ends first, the task is dropped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task);
    }
}

/// Runs `future` to its end, where there is no runtime: in a small program, a test or a build script.
///
/// Each call makes a tokio runtime of its own, and the connections that a client opened in it end with it. So requests
/// that should share connections belong in one future. As on the core of a server, `tokio::task::spawn_local` works.
///
/// # Errors
///
/// Fails if the operating system cannot provide what a runtime needs.
///
/// # Panics
///
/// Panics inside of a runtime, which would wait for itself.
///
/// # Examples
///
/// ```
/// assert_eq!(corehttp::block_on(async { 40 + 2 })?, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn block_on<F: Future>(future: F) -> io::Result<F::Output> {
    Ok(Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?.block_on(future))
}
