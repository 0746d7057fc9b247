//! [`Wakers`]: the tasks that wait for the connection of a WebSocket.

use std::sync::Arc;
use std::task::{self, Waker};

use crate::net::WakerSet;

/// The tasks that wait for the connection of a WebSocket: as a rule one, which reads and writes. A socket keeps one waker
/// only, so a reader and a writer in different tasks wait with the waker of a set.
#[derive(Default)]
pub(super) struct Wakers {
    /// The waker of the handler's task. Whenever that task waits, messages that were held back are sent.
    handler: Option<Waker>,
    /// The waker of the first poll.
    first: Option<Waker>,
    /// The wakers of all polls, once there is more than one.
    all: Option<Arc<WakerSet>>,
}

impl Wakers {
    /// Notes that the handler is polled.
    pub(super) fn set_handler(&mut self, cx: &task::Context<'_>) {
        if !self.is_handler(cx) {
            self.handler = Some(cx.waker().clone());
        }
    }

    /// Whether the handler is polled, and no other task.
    pub(super) fn is_handler(&self, cx: &task::Context<'_>) -> bool {
        self.handler.as_ref().is_some_and(|handler| handler.will_wake(cx.waker()))
    }

    /// Notes that a task waits. Returns the waker of all that do, to wait with instead, if there is more than one.
    pub(super) fn register(&mut self, cx: &task::Context<'_>) -> Option<Waker> {
        let is_first = self.first.as_ref().is_some_and(|first| first.will_wake(cx.waker()));
        if is_first && self.all.is_none() { None } else { self.share(cx.waker()) }
    }

    fn share(&mut self, waker: &Waker) -> Option<Waker> {
        let Some(first) = &self.first else {
            self.first = Some(waker.clone());
            return None;
        };
        let all = self.all.get_or_insert_with(|| {
            let all: Arc<WakerSet> = Arc::default();
            // The first task may wait with its own waker, which the socket is about to forget.
            all.register(first);
            all
        });
        all.register(waker)
    }

    /// Wakes and forgets the tasks that wait.
    pub(super) fn wake(&mut self) {
        let all = self.all.take().map(Waker::from);
        self.first.take().into_iter().chain(all).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Count>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// How often each task is woken by the waker that the last of these polls waits with.
    #[track_caller]
    fn check(polls: &[usize], expected: [usize; 3]) {
        let mut wakers = Wakers::default();
        let counts = [(); 3].map(|()| Arc::new(Count::default()));
        let tasks = counts.clone().map(Waker::from);
        let waits = polls.iter().map(|task| {
            let waker = wakers.register(&task::Context::from_waker(&tasks[*task]));
            waker.unwrap_or_else(|| tasks[*task].clone())
        });
        waits.last().expect("a poll").wake();
        assert_eq!(counts.each_ref().map(|count| count.0.load(Relaxed)), expected, "{polls:?}");
    }

    #[test]
    fn the_last_poll_waits_for_all_tasks() {
        check(&[0], [1, 0, 0]);
        check(&[0, 0], [1, 0, 0]);
        check(&[0, 1], [1, 1, 0]);
        check(&[0, 1, 0], [1, 1, 0]);
        check(&[0, 1, 1, 2], [1, 1, 1]);
    }
}
