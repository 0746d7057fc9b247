//! [`Backlog`]: whether the tasks of a core wait for their turn, and for how long.

use std::cell::Cell;
use std::future::pending;
use std::time::{Duration, Instant};

use crate::runtime::{now, yield_now};

/// How far a core is behind. One that keeps up measures nothing.
///
/// A task of the core passes through its queue again and again. A task that runs before its turn has joined the queue before
/// it, and has waited for at least as long.
#[derive(Default)]
pub(super) struct Backlog {
    /// Whether tasks have waited, and the core has not caught up since.
    is_behind: Cell<bool>,
    /// By when the core's own task has its next turn, unless the core is behind.
    turn_by: Cell<Option<Instant>>,
    /// The pass that has begun, and the one before.
    pass: Cell<Option<Pass>>,
    last_pass: Cell<Option<Pass>>,
}

impl Backlog {
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind.get()
    }

    /// Notes when the core's own task is due next, if it is.
    pub(super) fn expect_turn(&self, due: Option<Instant>) {
        self.turn_by.set(due.map(|due| due + LATE_MIN));
    }

    /// Looks whether the core is behind, at this time. Tasks look as well: while a long queue is run, the core's own task waits
    /// in it.
    #[inline]
    pub(super) fn look(&self, now: Instant) -> bool {
        if self.turn_by.get().is_some_and(|turn_by| now > turn_by) {
            self.fall_behind(now);
        }
        self.is_behind()
    }

    #[cold]
    fn fall_behind(&self, now: Instant) {
        let began = self.turn_by.take();
        if !self.is_behind.replace(true) {
            // The core's own task has joined the queue when it was due.
            self.pass.set(began.map(|began| Pass::begin(began - LATE_MIN).with_turn(now)));
        }
    }

    /// Passes through the queue of a core that is behind until the core has caught up: it has served all that was ready
    /// several times, each time soon. Then nothing is left that has waited. Never ready, since the core may fall behind again.
    pub(super) async fn catch_up<T>(&self) -> T {
        let mut soon = 0;
        while self.is_behind() {
            let began = now().into_std();
            let last = self.pass.replace(Some(Pass::begin(began)));
            self.last_pass.set(last.map(|pass| pass.with_turn(began)));
            yield_now().await;
            let took = now().into_std().saturating_duration_since(began);
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
        let pass = self.pass.get().map(|pass| pass.with_turn(now().into_std()));
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
    turns: u32,
}

impl Pass {
    fn begin(now: Instant) -> Pass {
        Pass { began: now, turn_began: now, longest_turn: Duration::ZERO, turns: 0 }
    }

    /// With the end of a turn, and the beginning of the next.
    fn with_turn(self, now: Instant) -> Pass {
        let turn = now.saturating_duration_since(self.turn_began);
        let longest_turn = self.longest_turn.max(turn);
        Pass { turn_began: now, longest_turn, turns: self.turns.saturating_add(1), ..self }
    }

    /// Whether the pass took longer than `limit` even without its longest turn, and through many turns. After one long turn, or
    /// a few, all that have waited are served at once.
    fn is_longer_than(&self, limit: Duration) -> bool {
        let took = self.turn_began.saturating_duration_since(self.began);
        took.saturating_sub(self.longest_turn) > limit && self.turns > FEW
    }
}

/// How many turns make no queue, however long they take. The turns of some tasks can be two in a pass.
const FEW: u32 = 16;

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::thread::sleep;

    use super::*;
    use crate::runtime::{Pinning, block_on_core, spawn};

    const STEP: Duration = Duration::from_millis(12);

    /// Which of some tasks, which join the queue together, have waited for longer than ten steps. Each takes a step, and the
    /// first one so many.
    async fn delayed(backlog: &Rc<Backlog>, tasks: usize, first: u32) -> Vec<bool> {
        let turn = async |backlog: Rc<Backlog>, steps: u32| {
            let is_late = backlog.has_delayed(10 * STEP);
            sleep(steps * STEP);
            is_late
        };
        let tasks: Vec<_> = (0..tasks)
            .map(|index| spawn(turn(backlog.clone(), if index == 0 { first } else { 1 })))
            .collect();
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
            backlog.is_behind.set(true);
            let passing = Rc::clone(&backlog);
            spawn(async move { passing.catch_up::<()>().await });
            work(backlog).await
        };
        block_on_core(0, Pinning::Free, behind, || Duration::ZERO).unwrap().join().unwrap().unwrap()
    }

    #[test]
    fn a_task_has_waited_for_the_tasks_before_it() {
        let delayed = behind(async |backlog| delayed(&backlog, 24, 1).await);
        assert!(!delayed[..10].contains(&true) && delayed[20..] == [true; 4], "{delayed:?}");
    }

    #[test]
    fn a_task_that_joined_a_long_queue_has_waited_too() {
        let again = behind(async |backlog| {
            delayed(&backlog, 24, 1).await;
            delayed(&backlog, 3, 1).await
        });
        assert_eq!(again, [true; 3]);
    }

    #[test]
    fn a_task_behind_a_single_long_one_is_served() {
        assert_eq!(behind(async |backlog| delayed(&backlog, 6, 30).await), [false; 6]);
    }

    #[test]
    fn a_task_finds_a_core_behind_whose_own_task_waits() {
        let backlog = Backlog::default();
        let due = now().into_std();
        backlog.expect_turn(Some(due));
        assert!(!backlog.look(due + LATE_MIN) && backlog.look(due + 2 * LATE_MIN));
        let pass = backlog.pass.get().unwrap();
        assert_eq!((pass.began, pass.longest_turn), (due, 2 * LATE_MIN));
        backlog.expect_turn(None);
        assert!(!Backlog::default().look(due));
    }

    #[test]
    fn a_core_that_has_caught_up_delays_nothing() {
        let is_late = behind(async |backlog| {
            delayed(&backlog, 24, 1).await;
            while backlog.is_behind() {
                crate::runtime::sleep(STEP).await;
            }
            backlog.has_delayed(Duration::ZERO)
        });
        assert!(!is_late);
    }
}
