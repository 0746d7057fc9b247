//! [`Queue`]: where callers leave requests for one task, and find the answers.

use std::sync::Mutex;
use std::task::{Context, Poll};

use super::queue_guard::QueueGuard;
use super::queue_state::{EntryMeta, QueueState};
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::message::Response;

/// Where the callers of one task leave requests, and find the answers.
#[derive(Default)]
pub(super) struct Queue(Mutex<QueueState>);

/// A caller's claim to an answer. If it is dropped, the answer is discarded.
pub(super) struct PendingResponse<'a> {
    queue: &'a Queue,
    /// `None` once the answer was fetched.
    entry: Option<usize>,
}

impl Queue {
    /// Leaves a request, which `write` writes. Returns whether a task must be started to take it.
    pub(super) fn push(
        &self,
        meta: EntryMeta,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> (PendingResponse<'_>, bool) {
        let (entry, needs_task) = self.lock().push(meta, write);
        (PendingResponse { queue: self, entry: Some(entry) }, needs_task)
    }

    /// How many requests have no answer yet.
    pub(super) fn unanswered(&self) -> usize {
        self.lock().unanswered()
    }

    /// Notes that the pipeline was dropped.
    pub(super) fn close(&self) {
        self.lock().close();
    }

    pub(super) fn lock(&self) -> QueueGuard<'_> {
        QueueGuard::new(&self.0)
    }
}

impl PendingResponse<'_> {
    /// Fetches the answer, once it is there.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        let Some(at) = self.entry else { return Poll::Pending };
        let polled = self.queue.lock().poll(at, cx, response);
        self.entry.take_if(|_| polled.is_ready());
        polled
    }

    /// The error for a caller that stops waiting because of `cause`.
    pub(super) fn error(&self, cause: ClientCause) -> ClientError {
        match self.entry {
            Some(at) => self.queue.lock().error(at, cause),
            None => ClientError::new(ClientPhase::Queue, cause),
        }
    }
}

impl Drop for PendingResponse<'_> {
    fn drop(&mut self) {
        if let Some(at) = self.entry {
            self.queue.lock().abandon(at);
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

    /// A waker that notes whether the queue was unlocked when it was woken.
    struct LockProbe(Arc<Queue>, AtomicBool);

    impl Wake for LockProbe {
        fn wake(self: Arc<LockProbe>) {
            self.1.store(self.0.0.try_lock().is_ok(), Ordering::Relaxed);
        }
    }

    fn meta(permits: &Arc<Semaphore>) -> EntryMeta {
        let permit = permits.clone().try_acquire_owned().expect("there is room");
        EntryMeta::new(&Request::get("/").expect("it is a path"), permit)
    }

    /// A waker may do anything: one that asks at once once waited for itself.
    #[test]
    fn no_task_is_woken_under_the_lock() {
        let failed = || ClientError::new(ClientPhase::Wait, TimedOut);
        let ends: [fn(&Queue, ClientError); 3] = [
            |queue, error| queue.lock().fail(0, error),
            |queue, error| queue.lock().fail_waiting(error),
            |queue, _| assert_eq!(queue.lock().expire(Duration::ZERO), None),
        ];
        for (at, end) in ends.into_iter().enumerate() {
            let (queue, permits) = (Arc::<Queue>::default(), Arc::new(Semaphore::new(2)));
            let probe = [(); 2].map(|()| Arc::new(LockProbe(queue.clone(), AtomicBool::new(false))));
            let wakers = probe.clone().map(Waker::from);
            let (mut near, mut response) = (Vec::new(), Response::new());
            for waker in &wakers {
                let (mut pending, _) = queue.push(meta(&permits), |_| {});
                assert!(pending.poll(&mut Context::from_waker(waker), &mut response).is_pending());
                near.push(pending);
            }
            end(&queue, failed());
            let woken = || probe.each_ref().map(|probe| probe.1.swap(false, Ordering::Relaxed));
            assert_eq!(woken(), [true, at > 0], "end {at}");
            // The first claim fetches its answer and the second is given up; a task waits for the place of each.
            let mut waits = wakers.each_ref().map(|waker| (Box::pin(permits.acquire()), waker));
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
        let (queue, permits) = (Arc::<Queue>::default(), Arc::new(Semaphore::new(1)));
        let tasks = [(); 2].map(|()| Arc::new(LockProbe(queue.clone(), AtomicBool::new(false))));
        let (mut pending, mut response) = (queue.push(meta(&permits), |_| {}).0, Response::new());
        for task in &tasks {
            let waker = Waker::from(task.clone());
            assert!(pending.poll(&mut Context::from_waker(&waker), &mut response).is_pending());
        }
        queue.lock().fail(0, ClientError::new(ClientPhase::Wait, TimedOut));
        assert_eq!(tasks.map(|task| task.1.load(Ordering::Relaxed)), [false, true]);
    }

    /// A waker that notes whether the queue was unlocked when it was dropped.
    struct DropProbe(Arc<Queue>, Arc<AtomicBool>);

    impl Wake for DropProbe {
        fn wake(self: Arc<DropProbe>) {
            drop(self);
        }
    }

    impl Drop for DropProbe {
        fn drop(&mut self) {
            self.1.store(self.0.0.try_lock().is_ok(), Ordering::Relaxed);
        }
    }

    /// It may be the last that holds its task, which may hold a claim: dropping that once waited for itself.
    #[test]
    fn no_waker_is_dropped_under_the_lock() {
        let ends: [fn(PendingResponse<'_>, &mut Response); 2] = [
            |mut pending, response| {
                assert!(pending.poll(&mut Context::from_waker(Waker::noop()), response).is_pending());
            },
            |pending, _| drop(pending),
        ];
        for (at, end) in ends.into_iter().enumerate() {
            let (queue, permits) = (Arc::<Queue>::default(), Arc::new(Semaphore::new(1)));
            let (was_free, mut response) = (Arc::new(AtomicBool::new(false)), Response::new());
            let waker = Waker::from(Arc::new(DropProbe(queue.clone(), was_free.clone())));
            let (mut pending, _) = queue.push(meta(&permits), |_| {});
            assert!(pending.poll(&mut Context::from_waker(&waker), &mut response).is_pending());
            drop(waker);
            end(pending, &mut response);
            assert!(was_free.load(Ordering::Relaxed), "end {at}");
        }
    }

    #[test]
    fn the_task_is_not_woken_under_the_lock() {
        let permits = Arc::new(Semaphore::new(1));
        let calls: [fn(&Queue, EntryMeta); 2] =
            [|queue, meta| drop(queue.push(meta, |_| {})), |queue, _| queue.close()];
        for call in calls {
            let queue = Arc::<Queue>::default();
            let probe = Arc::new(LockProbe(queue.clone(), AtomicBool::new(false)));
            let waker = Waker::from(probe.clone());
            assert!(!queue.lock().register_task(&Context::from_waker(&waker)));
            call(&queue, meta(&permits));
            assert!(probe.1.load(Ordering::Relaxed));
        }
    }
}
