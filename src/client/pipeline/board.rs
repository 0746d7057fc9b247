//! [`Board`]: where callers leave requests for one pipe, and find the answers.

use std::sync::Mutex;
use std::task::{Context, Poll};

use super::guard::Guard;
use super::tickets::{Job, Tickets};
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::message::Response;

/// Where the callers of one pipe leave requests, and find the answers.
#[derive(Default)]
pub(super) struct Board(Mutex<Tickets>);

/// A caller's claim to an answer. If it is dropped, the answer is discarded.
pub(super) struct Claim<'a> {
    board: &'a Board,
    /// `None` once the answer was fetched.
    ticket: Option<usize>,
}

impl Board {
    /// Leaves a request, which `write` writes. Returns whether a pipe must be started to take it.
    pub(super) fn hand_in(&self, job: Job, write: impl FnOnce(&mut Vec<u8>)) -> (Claim<'_>, bool) {
        let (ticket, needs_pipe) = self.lock().hand_in(job, write);
        (Claim { board: self, ticket: Some(ticket) }, needs_pipe)
    }

    /// How many requests have no answer yet.
    pub(super) fn pending(&self) -> usize {
        self.lock().pending()
    }

    /// Notes that the pipeline was dropped.
    pub(super) fn close(&self) {
        self.lock().close();
    }

    pub(super) fn lock(&self) -> Guard<'_> {
        Guard::new(&self.0)
    }
}

impl Claim<'_> {
    /// Fetches the answer, once it is there.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        let Some(at) = self.ticket else { return Poll::Pending };
        let polled = self.board.lock().poll(at, cx, response);
        self.ticket.take_if(|_| polled.is_ready());
        polled
    }

    /// The error for a caller that stops waiting because of `cause`.
    pub(super) fn error(&self, cause: ClientCause) -> ClientError {
        match self.ticket {
            Some(at) => self.board.lock().error(at, cause),
            None => ClientError::new(ClientPhase::Queue, cause),
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(at) = self.ticket {
            self.board.lock().abandon(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Wake, Waker};
    use std::time::Duration;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::client::ClientCause::TimedOut;
    use crate::message::Request;

    /// A waker that notes whether the board was unlocked when it was woken.
    struct Curious(Arc<Board>, AtomicBool);

    impl Wake for Curious {
        fn wake(self: Arc<Curious>) {
            self.1.store(self.0.0.try_lock().is_ok(), Ordering::Relaxed);
        }
    }

    fn job(room: &Arc<Semaphore>) -> Job {
        let permit = room.clone().try_acquire_owned().expect("there is room");
        Job::new(&Request::get("/").expect("it is a path"), permit)
    }

    /// A waker may do anything: one that asks at once once waited for itself.
    #[test]
    fn no_task_is_woken_under_the_lock() {
        let failed = || ClientError::new(ClientPhase::Wait, TimedOut);
        let ends: [fn(&Board, ClientError); 3] = [
            |board, error| board.lock().fail(0, error),
            |board, error| board.lock().refuse(error),
            |board, _| assert_eq!(board.lock().expire(Duration::ZERO), None),
        ];
        for (at, end) in ends.into_iter().enumerate() {
            let (board, room) = (Arc::<Board>::default(), Arc::new(Semaphore::new(2)));
            let curious = [(); 2].map(|()| Arc::new(Curious(board.clone(), AtomicBool::new(false))));
            let wakers = curious.clone().map(Waker::from);
            let (mut near, mut response) = (Vec::new(), Response::new());
            for waker in &wakers {
                let (mut claim, _) = board.hand_in(job(&room), |_| {});
                assert!(claim.poll(&mut Context::from_waker(waker), &mut response).is_pending());
                near.push(claim);
            }
            end(&board, failed());
            let woken = || curious.each_ref().map(|curious| curious.1.swap(false, Ordering::Relaxed));
            assert_eq!(woken(), [true, at > 0], "end {at}");
            // The first claim fetches its answer and the second is given up; a task waits for the place of each.
            let mut waits = wakers.each_ref().map(|waker| (Box::pin(room.acquire()), waker));
            for (waits, waker) in &mut waits {
                assert!(waits.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
            }
            let fetched = near[0].poll(&mut Context::from_waker(Waker::noop()), &mut response);
            assert!(fetched.is_ready());
            assert_eq!(woken(), [true, false]);
            near.clear();
            assert_eq!(woken(), [false, true]);
        }
    }

    /// The caller of one poll may be another task than that of the next.
    #[test]
    fn the_task_that_asked_last_is_woken() {
        let (board, room) = (Arc::<Board>::default(), Arc::new(Semaphore::new(1)));
        let tasks = [(); 2].map(|()| Arc::new(Curious(board.clone(), AtomicBool::new(false))));
        let (mut claim, mut response) = (board.hand_in(job(&room), |_| {}).0, Response::new());
        for task in &tasks {
            let waker = Waker::from(task.clone());
            assert!(claim.poll(&mut Context::from_waker(&waker), &mut response).is_pending());
        }
        board.lock().fail(0, ClientError::new(ClientPhase::Wait, TimedOut));
        assert_eq!(tasks.map(|task| task.1.load(Ordering::Relaxed)), [false, true]);
    }

    /// A waker that notes whether the board was unlocked when it was dropped.
    struct Last(Arc<Board>, Arc<AtomicBool>);

    impl Wake for Last {
        fn wake(self: Arc<Last>) {
            drop(self);
        }
    }

    impl Drop for Last {
        fn drop(&mut self) {
            self.1.store(self.0.0.try_lock().is_ok(), Ordering::Relaxed);
        }
    }

    /// It may be the last that holds its task, which may hold a claim: dropping that once waited for itself.
    #[test]
    fn no_waker_is_dropped_under_the_lock() {
        let ends: [fn(Claim<'_>, &mut Response); 2] = [
            |mut claim, response| {
                assert!(claim.poll(&mut Context::from_waker(Waker::noop()), response).is_pending());
            },
            |claim, _| drop(claim),
        ];
        for (at, end) in ends.into_iter().enumerate() {
            let (board, room) = (Arc::<Board>::default(), Arc::new(Semaphore::new(1)));
            let (was_free, mut response) = (Arc::new(AtomicBool::new(false)), Response::new());
            let waker = Waker::from(Arc::new(Last(board.clone(), was_free.clone())));
            let (mut claim, _) = board.hand_in(job(&room), |_| {});
            assert!(claim.poll(&mut Context::from_waker(&waker), &mut response).is_pending());
            drop(waker);
            end(claim, &mut response);
            assert!(was_free.load(Ordering::Relaxed), "end {at}");
        }
    }

    #[test]
    fn the_pipe_is_not_woken_under_the_lock() {
        let room = Arc::new(Semaphore::new(1));
        let calls: [fn(&Board, Job); 2] =
            [|board, job| drop(board.hand_in(job, |_| {})), |board, _| board.close()];
        for call in calls {
            let board = Arc::<Board>::default();
            let curious = Arc::new(Curious(board.clone(), AtomicBool::new(false)));
            let waker = Waker::from(curious.clone());
            assert!(!board.lock().watch(&Context::from_waker(&waker)));
            call(&board, job(&room));
            assert!(curious.1.load(Ordering::Relaxed));
        }
    }
}
