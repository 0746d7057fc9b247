//! [`queue_wait`]: how long tasks wait in the queue of their core.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::spawn_local;

use super::time::{Instant, now};

/// Returns the least time that the current task has waited in the queue of its core: zero if that is not known yet, and
/// always in a runtime that is no core's.
///
/// The task has waited for longer, by the time in which the runtime had not seen what the task waited for.
pub(crate) fn queue_wait() -> Duration {
    PROBE.with(|probe| probe.get().map_or(Duration::ZERO, QueueProbe::wait))
}

thread_local! {
    static PROBE: OnceCell<Rc<QueueProbe>> = const { OnceCell::new() };
}

/// A task that passes through the queue of a core. Tasks that run before its turn have joined the queue before it, so
/// they have waited for at least as long.
///
/// The task is spawned by the first call of [`queue_wait`]. It joins the queue when a call finds it elsewhere, so a core
/// without such calls has no task, and one that is idle is not woken.
#[derive(Default)]
pub(super) struct QueueProbe {
    /// When the task joined the queue, if it is there.
    queued_at: Cell<Option<Instant>>,
    on_queued: Notify,
    is_spawned: Cell<bool>,
}

impl QueueProbe {
    /// Makes [`queue_wait`] measure on this thread, which must be that of a core.
    pub(super) fn install() {
        PROBE.with(|probe| drop(probe.set(Rc::default())));
    }

    fn wait(self: &Rc<Self>) -> Duration {
        match self.queued_at.get() {
            Some(queued_at) => now().saturating_duration_since(queued_at),
            None => {
                self.join_queue();
                Duration::ZERO
            }
        }
    }

    fn join_queue(self: &Rc<Self>) {
        self.queued_at.set(Some(now()));
        self.on_queued.notify_one();
        if !self.is_spawned.replace(true) {
            spawn_local(self.clone().pass());
        }
    }

    async fn pass(self: Rc<Self>) {
        loop {
            self.on_queued.notified().await;
            self.queued_at.set(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;
    use crate::runtime::{Pinning, block_on, block_on_core, spawn};

    const STEP: Duration = Duration::from_millis(2);

    /// The waits of tasks that join the queue together, of which each takes a step.
    async fn waits() -> Vec<Duration> {
        let step = async || {
            let wait = queue_wait();
            sleep(STEP);
            wait
        };
        let tasks: Vec<_> = (0..3).map(|_| spawn(step())).collect();
        let mut waits = Vec::new();
        for task in tasks {
            waits.push(task.await.unwrap());
        }
        waits
    }

    #[test]
    fn a_task_has_waited_for_the_tasks_before_it() {
        let work = || async { [waits().await, waits().await] };
        let core = block_on_core(0, Pinning::Free, work, || Duration::ZERO);
        for waits in core.unwrap().join().unwrap().unwrap() {
            assert!(waits[0].is_zero() && waits[1] >= STEP && waits[2] >= 2 * STEP, "{waits:?}");
        }
        assert_eq!(block_on(waits()).unwrap(), [Duration::ZERO; 3]);
    }
}
