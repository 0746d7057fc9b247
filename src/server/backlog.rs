//! [`Backlog`]: whether the tasks of a core wait for their turn, and for how long.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use crate::runtime::{Instant, now, yield_now};

/// How far a core is behind. One that keeps up measures nothing.
///
/// A task of the core passes through its queue again and again. A task that runs before its turn has joined the queue before
/// it, and has waited for at least as long.
#[derive(Default)]
pub(super) struct Backlog {
    /// Whether tasks have waited, and the core has not caught up since.
    is_behind: Cell<bool>,
    /// The pass that has begun, and the one before.
    pass: Cell<Option<Pass>>,
    last_pass: Cell<Option<Pass>>,
}

impl Backlog {
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind.get()
    }

    /// Notes that a task has run so much later than it was due.
    pub(super) fn note_delay(&self, delay: Duration) {
        if delay > LATE_MIN {
            self.is_behind.set(true);
        }
    }

    /// Passes through the queue of a core that is behind until the core has caught up: it has served all that was ready
    /// several times, each time soon. Then nothing is left that has waited. Never ready, since the core may fall behind again.
    pub(super) async fn catch_up<T>(&self) -> T {
        let mut soon = 0;
        while self.is_behind() {
            let began = now();
            let last = self.pass.replace(Some(Pass::begin(began)));
            self.last_pass.set(last.map(|pass| pass.with_turn(began)));
            yield_now().await;
            let took = now().saturating_duration_since(began);
            soon = if took > LATE_MIN { 0 } else { soon + 1 };
            self.is_behind.set(soon < CAUGHT_UP_PASSES);
        }
        self.pass.set(None);
        self.last_pass.set(None);
        pending().await
    }

    /// Whether the task that has its turn has waited in the queue for about `limit` or longer, behind many others. To be called
    /// once in a turn.
    ///
    /// Either the tasks before it have taken so long, or the queue was as long when the task joined it. So a task that passes
    /// has waited for up to twice the limit, and longer by the time in which the runtime had not seen what it waited for.
    pub(super) fn has_delayed(&self, limit: Duration) -> bool {
        let pass = self.pass.get().map(|pass| pass.with_turn(now()));
        self.pass.set(pass);
        [pass, self.last_pass.get()].into_iter().flatten().any(|pass| pass.is_longer_than(limit))
    }
}

/// How late a task is if the core is behind. A core that keeps up takes less for all that is ready at once.
const LATE_MIN: Duration = Duration::from_millis(10);

/// A new connection is accepted in one pass, and its request is read in the next. The first pass may have begun halfway.
const CAUGHT_UP_PASSES: u32 = 3;

/// A pass through the queue, so far.
#[derive(Clone, Copy)]
struct Pass {
    began: Instant,
    /// When the last turn began.
    turn_began: Instant,
    longest_turn: Duration,
}

impl Pass {
    fn begin(now: Instant) -> Pass {
        Pass { began: now, turn_began: now, longest_turn: Duration::ZERO }
    }

    /// With the end of a turn, and the beginning of the next.
    fn with_turn(self, now: Instant) -> Pass {
        let turn = now.saturating_duration_since(self.turn_began);
        Pass { turn_began: now, longest_turn: self.longest_turn.max(turn), ..self }
    }

    /// Whether the pass took longer than `limit`, in many turns. After a few long ones, tasks that have waited are served at once.
    fn is_longer_than(&self, limit: Duration) -> bool {
        let took = self.turn_began.saturating_duration_since(self.began);
        took > limit.max(self.longest_turn * MANY)
    }
}

/// How many turns of the longest kind make a queue.
const MANY: u32 = 8;

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::thread::sleep;

    use super::*;
    use crate::runtime::{Pinning, block_on_core, spawn};

    const STEP: Duration = Duration::from_millis(12);

    /// Which of some tasks, which join the queue together, have waited for longer than ten steps. Each takes a step, and the
    /// first one so many.
    async fn delayed(backlog: &Rc<Backlog>, first: u32) -> Vec<bool> {
        let turn = async |backlog: Rc<Backlog>, steps: u32| {
            let is_late = backlog.has_delayed(10 * STEP);
            sleep(steps * STEP);
            is_late
        };
        let tasks: Vec<_> =
            (0..14).map(|index| spawn(turn(backlog.clone(), if index == 0 { first } else { 1 }))).collect();
        let mut delayed = Vec::new();
        for task in tasks {
            delayed.push(task.await.unwrap());
        }
        delayed
    }

    /// Runs `work` on a core that is behind.
    fn behind<T: Send + 'static>(work: impl AsyncFnOnce(Rc<Backlog>) -> T + Send + 'static) -> T {
        let behind = async || {
            let backlog = Rc::new(Backlog::default());
            backlog.note_delay(STEP);
            let passing = Rc::clone(&backlog);
            spawn(async move { passing.catch_up::<()>().await });
            work(backlog).await
        };
        block_on_core(0, Pinning::Free, behind, || Duration::ZERO).unwrap().join().unwrap().unwrap()
    }

    #[test]
    fn a_task_has_waited_for_the_tasks_before_it() {
        let delayed = behind(async |backlog| delayed(&backlog, 1).await);
        assert!(!delayed[..8].contains(&true) && delayed[12..] == [true; 2], "{delayed:?}");
    }

    #[test]
    fn a_task_that_joined_a_long_queue_has_waited_too() {
        let again = behind(async |backlog| {
            delayed(&backlog, 1).await;
            delayed(&backlog, 1).await
        });
        assert_eq!(again, [true; 14]);
    }

    #[test]
    fn a_task_behind_a_single_long_one_is_not_behind_many() {
        assert_eq!(behind(async |backlog| delayed(&backlog, 30).await), [false; 14]);
    }

    #[test]
    fn a_core_that_has_caught_up_delays_nothing() {
        let is_late = behind(async |backlog| {
            delayed(&backlog, 1).await;
            crate::runtime::sleep(2 * STEP).await;
            (backlog.is_behind(), backlog.has_delayed(Duration::ZERO))
        });
        assert_eq!(is_late, (false, false));
    }
}
