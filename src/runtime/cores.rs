//! A thread with a current-thread runtime for each core.

use std::io;
use std::num::NonZero;
use std::thread::{self, JoinHandle};

use tokio::task;
pub(crate) use tokio::task::yield_now;

use super::block_on;

/// Whether a thread stays on one core of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pinning {
    /// The operating system moves threads as it likes.
    #[default]
    Free,
    /// The n-th thread runs on the n-th core that the process may use.
    Pinned,
}

/// Returns how many cores the process may use.
pub(crate) fn available_cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Runs the future that `work` returns to its end, on a thread and in a runtime of its own. When it ends, so do all
/// tasks it spawned.
///
/// # Errors
///
/// Fails if the thread cannot be started. If the runtime cannot, the thread returns the error.
pub(crate) fn block_on_core<W, F, T>(
    index: usize,
    pinning: Pinning,
    work: W,
) -> io::Result<JoinHandle<io::Result<T>>>
where
    W: FnOnce() -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    thread::Builder::new().name(format!("corehttp-{index}")).spawn(move || {
        if pinning == Pinning::Pinned {
            pin(index);
        }
        block_on(async move { work().await })
    })
}

/// Runs `task` on this core, concurrently with the others.
pub(crate) fn spawn<T: 'static>(task: impl Future<Output = T> + 'static) -> task::JoinHandle<T> {
    task::spawn_local(task)
}

/// Pins this thread to a core. If that is impossible, the thread runs unpinned.
fn pin(index: usize) {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if let Some(core) = cores.get(index % cores.len().max(1)) {
        core_affinity::set_for_current(*core);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_future_on_a_core_need_not_be_send() {
        let core = block_on_core(7, Pinning::Pinned, || async {
            let (own, (sender, receiver)) = (Rc::new(41), mpsc::channel());
            let task = own.clone();
            spawn(async move { sender.send(*task + 1).unwrap() });
            yield_now().await;
            (thread::current().name().map(str::to_owned), receiver.try_recv())
        });
        assert_eq!(core.unwrap().join().unwrap().unwrap(), (Some("corehttp-7".into()), Ok(42)));
    }
}
