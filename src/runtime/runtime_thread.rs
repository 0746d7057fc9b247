//! [`RuntimeThread`]: a runtime on a thread of its own, for callers that are in none.

use std::sync::Arc;
use std::thread;
use std::{io, panic};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// A runtime on a thread of its own, which ends when the last clone is dropped. It drives what callers on other threads wait
/// for.
#[derive(Clone)]
pub(crate) struct RuntimeThread {
    handle: Handle,
    /// Dropped with the last clone.
    _stop: Arc<oneshot::Sender<()>>,
}

/// The error of a caller that is in a runtime, which would have to wait for another one.
#[derive(Debug)]
pub(crate) struct InRuntime;

impl RuntimeThread {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Fails if the operating system cannot provide what a runtime needs.
    pub(crate) fn start(name: &str) -> io::Result<RuntimeThread> {
        let runtime = build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let drive = move || {
            // All senders are gone.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        thread::Builder::new().name(name.to_owned()).spawn(drive)?;
        Ok(RuntimeThread { handle, _stop: Arc::new(stop) })
    }

    /// Waits for `future`, in this runtime.
    ///
    /// # Errors
    ///
    /// Fails if the caller is in a runtime.
    pub(crate) fn wait<F: Future>(&self, future: F) -> Result<F::Output, InRuntime> {
        match Handle::try_current() {
            Ok(_) => Err(InRuntime),
            Err(_) => Ok(self.handle.block_on(future)),
        }
    }
}

/// Builds a runtime that may be used from any thread.
fn build() -> io::Result<Runtime> {
    // tokio panics if there are no descriptors for its signals.
    panic::catch_unwind(|| Builder::new_current_thread().enable_all().build())
        .unwrap_or_else(|_| Err(io::Error::other("no runtime can be built, perhaps for lack of descriptors")))
}
