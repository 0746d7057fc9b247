//! [`OwnedTask`]: a task that ends with its owner.

use std::convert::Infallible;
use std::sync::Mutex;

use tokio::sync::oneshot;

use crate::memory::lock;
use crate::runtime::{Handle, select};

/// A task that looks after its owner, of which it must hold no more than a [`Weak`](std::sync::Weak). It ends when this is
/// dropped or stopped, even in the middle of a wait.
#[derive(Debug, Default)]
pub(super) struct OwnedTask {
    /// Nothing is ever sent; the task ends with its sender.
    running: Mutex<Option<oneshot::Sender<Infallible>>>,
}

impl OwnedTask {
    /// Starts the task in this runtime, unless it is running, be it in another one. Without a runtime, none can be started.
    pub(super) fn start<F>(&self, make: impl FnOnce() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut running = lock(&self.running);
        // The receiver is gone with the runtime of the task.
        if running.as_ref().is_some_and(|sender| !sender.is_closed()) {
            return;
        }
        let Some(handle) = Handle::current() else { return };
        let (sender, gone) = oneshot::channel();
        *running = Some(sender);
        let task = make();
        handle.spawn(async move {
            let gone = async {
                let Err(_) = gone.await;
            };
            select(gone, task).await;
        });
    }

    pub(super) fn stop(&self) {
        *lock(&self.running) = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_task_runs_once_and_ends_with_its_owner() {
        let runs = Arc::new(AtomicUsize::new(0));
        let run = || {
            runs.fetch_add(1, Ordering::Relaxed);
            let held = runs.clone();
            async move {
                std::future::pending::<()>().await;
                drop(held);
            }
        };
        let task = OwnedTask::default();
        for (count, starts) in [(1, 2), (2, 1)] {
            (0..starts).for_each(|_| task.start(run));
            tokio::task::yield_now().await;
            assert_eq!((runs.load(Ordering::Relaxed), Arc::strong_count(&runs)), (count, 2));
            task.stop();
            tokio::task::yield_now().await;
            assert_eq!(Arc::strong_count(&runs), 1);
        }
    }
}
