//! [`HandshakeTurns`]: TLS handshakes take turns, so that a flood of them does not hold up open connections.

use std::future::poll_fn;
use std::mem;
use std::task::{Context, Poll};

use tokio::sync::Semaphore;

use crate::runtime::yield_now;

/// The turns in which the handshakes of a core are polled. A step of a handshake takes the time of some 30 requests, and
/// tasks are served in the order in which they became ready: without turns, a request would wait for all steps of a flood.
pub(super) struct HandshakeTurns(Semaphore);

impl HandshakeTurns {
    pub(super) fn new() -> HandshakeTurns {
        HandshakeTurns(Semaphore::new(STEPS_MAX))
    }

    /// Polls a handshake to its end. Each poll waits for its turn; a peer that keeps the handshake waiting holds none.
    pub(super) async fn run<T>(&self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        loop {
            // The semaphore is fair, and never closed.
            let turn = self.0.acquire().await;
            yield_now().await;
            let polled = poll_fn(|cx| Poll::Ready(poll(cx))).await;
            drop(turn);
            if let Poll::Ready(done) = polled {
                return done;
            }
            pend_once().await;
        }
    }
}

/// Waits until the task is polled once more.
async fn pend_once() {
    let mut is_first = true;
    poll_fn(|_| if mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }).await;
}

/// How many handshakes are polled in the time in which each ready task of the core is polled once.
const STEPS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use super::*;

    /// Another task is served after each few steps of a flood, and the flood comes to its end.
    #[test]
    fn other_tasks_are_served_between_the_steps_of_a_flood() {
        let steps = Rc::new(RefCell::new(Vec::new()));
        let turns = Rc::new(HandshakeTurns::new());
        let local = tokio::task::LocalSet::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..100 {
            let (turns, steps) = (turns.clone(), steps.clone());
            local.spawn_local(async move {
                let left = Cell::new(2);
                turns
                    .run(|cx| {
                        steps.borrow_mut().push('h');
                        left.set(left.get() - 1);
                        cx.waker().wake_by_ref(); // as a peer that answers at once
                        if left.get() == 0 { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
            });
        }
        let other = steps.clone();
        local.spawn_local(async move {
            for _ in 0..40 {
                yield_now().await;
                other.borrow_mut().push('o');
            }
        });
        runtime.block_on(local);
        let order = String::from_iter(&*steps.borrow());
        assert_eq!((order.matches('h').count(), order.matches('o').count()), (200, 40));
        // Before its first turn, the other task stands at the end of the line.
        let served = order[..order.rfind('o').unwrap()].split('o').skip(1);
        assert!(served.map(str::len).all(|steps| steps <= STEPS_MAX), "{order}");
    }

    /// A peer that never answers keeps no turn.
    #[test]
    fn handshakes_that_wait_for_their_peers_hold_up_no_other() {
        let turns = Rc::new(HandshakeTurns::new());
        let local = tokio::task::LocalSet::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..100 {
            let turns = turns.clone();
            local.spawn_local(async move { turns.run(|_| Poll::<()>::Pending).await });
        }
        local.block_on(&runtime, turns.run(|_| Poll::Ready(())));
    }
}
