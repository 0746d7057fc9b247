//! [`Queue`]: where callers leave requests for one task of a pipeline, and find the responses.

use std::collections::VecDeque;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::pool::LONG_DIAL;
use crate::memory::{Reset, free_beyond, lock};
use crate::message::{Request, Response};
use crate::runtime::{self, Instant, later};
use crate::wire::RequestInfo;

/// Where the callers of one task leave requests, and find the responses.
#[derive(Default)]
pub(super) struct Queue(Mutex<QueueState>);

/// The response that a caller waits for. If it is dropped, the response is discarded.
pub(super) struct PendingResponse<'a> {
    queue: &'a Queue,
    /// `None` once the response was fetched.
    entry: Option<usize>,
}

impl Queue {
    /// Adds a request, which `write` writes. Returns whether a task must be started to take it.
    pub(super) fn push(
        &self,
        meta: EntryMeta,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> (PendingResponse<'_>, bool) {
        let (entry, needs_task) = self.lock().push(meta, write);
        (PendingResponse { queue: self, entry: Some(entry) }, needs_task)
    }

    /// Whether the queue has difficulties to get a connection, and how many requests have no response yet.
    pub(super) fn load(&self, now: Instant) -> (bool, usize) {
        let state = self.lock();
        (state.lacks_conn(now), state.unanswered())
    }

    /// Closes the queue, because the pipeline was dropped.
    pub(super) fn close(&self) {
        self.lock().close();
    }

    pub(super) fn lock(&self) -> QueueGuard<'_> {
        QueueGuard::new(&self.0)
    }
}

impl PendingResponse<'_> {
    /// Fetches the response, once it is there.
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

/// The state of a queue, locked. Tasks are woken after the lock is released, since a waker may run any code, and most
/// likely uses the queue again.
pub(super) struct QueueGuard<'a> {
    /// Present until this is dropped.
    state: Option<MutexGuard<'a, QueueState>>,
}

impl<'a> QueueGuard<'a> {
    fn new(state: &'a Mutex<QueueState>) -> QueueGuard<'a> {
        QueueGuard { state: Some(lock(state)) }
    }
}

impl Deref for QueueGuard<'_> {
    type Target = QueueState;

    fn deref(&self) -> &QueueState {
        self.state.as_ref().expect("a guard has its state until it is dropped")
    }
}

impl DerefMut for QueueGuard<'_> {
    fn deref_mut(&mut self) -> &mut QueueState {
        self.state.as_mut().expect("a guard has its state until it is dropped")
    }
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        let deferred = state.take_deferred();
        drop(state);
        deferred.for_each(Deferred::run);
    }
}

/// The requests of the callers of one task. Entries are reused, with their memory.
#[derive(Default)]
pub(super) struct QueueState {
    all: Vec<QueueEntry>,
    free: Vec<usize>,
    /// The entries that no connection has taken yet, in order.
    waiting: VecDeque<usize>,
    /// Until when other queues are preferred, since the task has hardly got a connection.
    avoided_until: Option<Instant>,
    /// Wakes the task when another request waits.
    task: Option<Waker>,
    /// Wakers and permits to be used once the lock is released.
    deferred: Vec<Deferred>,
    has_task: bool,
    is_closed: bool,
}

/// One request and its response.
#[derive(Default)]
struct QueueEntry {
    /// The whole request as it is sent.
    wire: Vec<u8>,
    /// `None` while the entry is free.
    meta: Option<EntryMeta>,
    state: State,
    /// Whether it may be the reason why a connection ended.
    is_suspect: bool,
    /// Whether the server may have seen it on a connection before this one.
    was_sent: bool,
    waker: Option<Waker>,
    response: Response,
}

/// The properties of a request besides its bytes.
pub(super) struct EntryMeta {
    request_info: RequestInfo,
    /// Whether it does no harm if the server acts on it twice (RFC 9110 §9.2.2).
    may_repeat: bool,
    /// When it began to wait for a connection.
    since: Instant,
    /// The permit of one request in flight, which becomes free with the entry.
    _permit: OwnedSemaphorePermit,
}

impl EntryMeta {
    pub(super) fn new(request: &Request, permit: OwnedSemaphorePermit) -> EntryMeta {
        EntryMeta {
            request_info: RequestInfo::new(request),
            may_repeat: request.method().is_idempotent(),
            since: runtime::now(),
            _permit: permit,
        }
    }
}

#[derive(Default)]
enum State {
    /// The request waits for a connection.
    #[default]
    Waiting,
    /// A connection has taken it. `is_reused`: it had carried a request before.
    Taken {
        is_reused: bool,
    },
    /// A connection has taken it, and the caller has given up.
    Abandoned,
    Over(Result<(), ClientError>),
}

/// A request that a task has taken from the queue.
pub(super) struct Dequeued {
    pub(super) entry: usize,
    pub(super) request_info: RequestInfo,
    pub(super) may_repeat: bool,
    /// When it began to wait.
    pub(super) since: Instant,
}

/// Work that is deferred until the lock is released: waking a caller whose response has come or a task that has a
/// request to take, releasing the permit of a request that is over, which wakes a caller, and dropping the waker of a
/// caller that waits no more, which may run any code.
enum Deferred {
    Wake(Waker),
    Release(EntryMeta),
    Drop(Waker),
}

impl Deferred {
    fn run(self) {
        match self {
            Deferred::Wake(waker) => waker.wake(),
            Deferred::Release(meta) => drop(meta),
            Deferred::Drop(waker) => drop(waker),
        }
    }
}

impl QueueState {
    /// Adds a request, which `write` writes. Returns its entry, and whether a task must be started to take it.
    pub(super) fn push(&mut self, meta: EntryMeta, write: impl FnOnce(&mut Vec<u8>)) -> (usize, bool) {
        let at = self.free.pop().unwrap_or(self.all.len());
        if at == self.all.len() {
            self.all.push(QueueEntry::default());
        }
        let entry = &mut self.all[at];
        debug_assert!(entry.meta.is_none() && entry.wire.is_empty(), "a free entry is empty");
        write(&mut entry.wire);
        entry.meta = Some(meta);
        entry.state = State::Waiting;
        self.waiting.push_back(at);
        self.wake_task();
        (at, !mem::replace(&mut self.has_task, true))
    }

    /// How many requests have no response yet.
    pub(super) fn unanswered(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Whether requests of the queue wait for its connection, or would probably have to.
    fn lacks_conn(&self, now: Instant) -> bool {
        let is_stuck = self.waiting_since().is_some_and(|since| later(since, LONG_DIAL) <= now);
        is_stuck || self.avoided_until.is_some_and(|until| now < until)
    }

    /// Notes that no connection could be opened, or only late.
    pub(super) fn avoid(&mut self) {
        self.avoided_until = Some(later(runtime::now(), AVOIDED));
    }

    /// Closes the queue: no more requests will be pushed.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.wake_task();
    }

    /// Fetches the response to a request, once it is there, and frees the entry.
    pub(super) fn poll(
        &mut self,
        at: usize,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        let entry = &mut self.all[at];
        let State::Over(result) = &mut entry.state else {
            if !entry.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                let replaced = entry.waker.replace(cx.waker().clone());
                self.deferred.extend(replaced.map(Deferred::Drop));
            }
            return Poll::Pending;
        };
        let result = mem::replace(result, Ok(()));
        mem::swap(response, &mut entry.response);
        self.release(at);
        Poll::Ready(result)
    }

    /// The error for a caller that stops waiting because of `cause`.
    pub(super) fn error(&self, at: usize, cause: ClientCause) -> ClientError {
        let entry = &self.all[at];
        match entry.state {
            State::Waiting => ClientError::new(ClientPhase::Queue, cause).sent_before(entry.was_sent),
            State::Taken { is_reused } => {
                ClientError::new(ClientPhase::Wait, cause).on_connection(is_reused, true)
            }
            State::Abandoned | State::Over(_) => ClientError::new(ClientPhase::Wait, cause).sent_before(true),
        }
    }

    /// Abandons a request, whose caller waits no more.
    pub(super) fn abandon(&mut self, at: usize) {
        match self.all[at].state {
            State::Taken { .. } | State::Abandoned => self.all[at].state = State::Abandoned,
            State::Over(_) => self.release(at),
            State::Waiting => {
                self.waiting.retain(|waiting| *waiting != at);
                self.release(at);
            }
        }
    }

    /// Takes the next request for a connection, used before or not, and appends it to `out`.
    pub(super) fn take(&mut self, out: &mut Vec<u8>, is_reused: bool) -> Option<Dequeued> {
        let at = self.waiting.pop_front()?;
        let entry = &mut self.all[at];
        debug_assert!(matches!(entry.state, State::Waiting), "only a waiting request is taken");
        let meta = entry.meta.as_ref()?;
        out.extend_from_slice(&entry.wire);
        entry.state = State::Taken { is_reused };
        Some(Dequeued {
            entry: at,
            request_info: meta.request_info,
            may_repeat: meta.may_repeat,
            since: meta.since,
        })
    }

    /// Whether a request waits for a connection.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Since when the next request has waited.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let at = *self.waiting.front()?;
        self.all[at].meta.as_ref().map(|meta| meta.since)
    }

    /// Whether the next request may be sent again, if its connection turns out to be stale.
    pub(super) fn may_repeat_next(&self) -> bool {
        let next = self.waiting.front().and_then(|at| self.all[*at].meta.as_ref());
        next.is_none_or(|meta| meta.may_repeat)
    }

    /// Whether the next request has met a stale connection, and must not meet another one.
    pub(super) fn needs_new_conn(&self) -> bool {
        self.waiting.front().is_some_and(|at| self.all[*at].is_suspect)
    }

    /// Arranges for the task to be woken when another request waits. Returns whether none will ever come again.
    pub(super) fn register_task(&mut self, cx: &Context<'_>) -> bool {
        self.task.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
        self.is_closed
    }

    /// Stores the response to a request, in exchange for the entry's old response, unless its caller has given up.
    pub(super) fn respond(&mut self, at: usize, response: &mut Response) {
        if !matches!(self.all[at].state, State::Abandoned) {
            mem::swap(&mut self.all[at].response, response);
        }
        self.end(at, Ok(()));
    }

    pub(super) fn fail(&mut self, at: usize, error: ClientError) {
        self.end(at, Err(error));
    }

    /// Makes a request suspect. Returns whether it already was.
    pub(super) fn mark_suspect(&mut self, at: usize) -> bool {
        mem::replace(&mut self.all[at].is_suspect, true)
    }

    /// Puts a request back, as the next one to be sent. `is_sent`: the server may have seen it.
    pub(super) fn requeue(&mut self, at: usize, is_sent: bool) {
        let entry = &mut self.all[at];
        debug_assert!(matches!(entry.state, State::Taken { .. } | State::Abandoned), "it was taken before");
        entry.was_sent |= is_sent;
        match entry.state {
            State::Abandoned => self.release(at),
            _ => {
                entry.state = State::Waiting;
                if let Some(meta) = &mut entry.meta {
                    meta.since = runtime::now();
                }
                self.waiting.push_front(at);
            }
        }
    }

    /// Fails all requests that wait.
    pub(super) fn fail_waiting(&mut self, error: ClientError) {
        let error = if self.waiting.len() > 1 { error.shared() } else { error };
        while let Some(at) = self.waiting.pop_front() {
            if self.waiting.is_empty() {
                return self.fail(at, error);
            }
            self.fail(at, error.duplicate());
        }
    }

    /// Fails the requests that have waited for longer than `limit`. Returns how much longer the next one may.
    pub(super) fn expire(&mut self, limit: Duration) -> Option<Duration> {
        loop {
            let waited = runtime::now().saturating_duration_since(self.waiting_since()?);
            if waited < limit {
                return Some(limit - waited);
            }
            let at = self.waiting.pop_front()?;
            self.fail(at, ClientError::new(ClientPhase::Queue, ClientCause::TimedOut));
        }
    }

    /// Removes the task, and frees the memory if it is not needed.
    pub(super) fn remove_task(&mut self) {
        self.has_task = false;
        self.task = None;
        if self.free.len() == self.all.len() {
            (self.all, self.free, self.waiting) = Default::default();
        }
    }

    /// Takes the deferred work. Usually the list has one item at most, and then it keeps its memory.
    fn take_deferred(&mut self) -> impl Iterator<Item = Deferred> + use<> {
        let last = self.deferred.pop();
        let others = if self.deferred.is_empty() { Vec::new() } else { mem::take(&mut self.deferred) };
        others.into_iter().chain(last)
    }

    fn wake_task(&mut self) {
        self.deferred.extend(self.task.take().map(Deferred::Wake));
    }

    fn end(&mut self, at: usize, result: Result<(), ClientError>) {
        let entry = &mut self.all[at];
        if let State::Abandoned = entry.state {
            return self.release(at);
        }
        entry.state = State::Over(result.map_err(|error| error.sent_before(entry.was_sent)));
        self.deferred.extend(entry.waker.take().map(Deferred::Wake));
    }

    fn release(&mut self, at: usize) {
        let QueueEntry { wire, meta, state, is_suspect, was_sent, waker, response } = &mut self.all[at];
        debug_assert!(meta.is_some(), "an entry is freed once");
        wire.clear();
        free_beyond(wire, WIRE_KEPT_MAX);
        self.deferred.extend(meta.take().map(Deferred::Release));
        self.deferred.extend(waker.take().map(Deferred::Drop));
        (*state, *is_suspect, *was_sent) = Default::default();
        response.reset();
        response.shrink();
        self.free.push(at);
    }
}

/// For how long a queue is avoided: for as long as a host of a balancer that has failed.
const AVOIDED: Duration = Duration::from_secs(3);

/// How much memory of a request's bytes a free entry keeps.
const WIRE_KEPT_MAX: usize = 16 << 10;

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

    /// A waker that records whether the queue was unlocked when it was woken.
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

    /// A waker may run any code: one that locks the queue would wait for itself.
    #[test]
    fn no_task_is_woken_under_the_lock() {
        let failed = || ClientError::new(ClientPhase::Wait, TimedOut);
        let ends: [fn(&Queue, ClientError); 3] = [
            |queue, error| queue.lock().fail(0, error),
            |queue, error| queue.lock().fail_waiting(error),
            |queue, _| assert_eq!(queue.lock().expire(Duration::ZERO), None),
        ];
        for (at, end) in ends.into_iter().enumerate() {
            let queue = Arc::<Queue>::default();
            let permits = Arc::new(Semaphore::new(2));
            let probe = [(); 2].map(|()| Arc::new(LockProbe(queue.clone(), AtomicBool::new(false))));
            let wakers = probe.clone().map(Waker::from);
            let mut near = Vec::new();
            let mut response = Response::new();
            for waker in &wakers {
                let (mut pending, _) = queue.push(meta(&permits), |_| {});
                assert!(pending.poll(&mut Context::from_waker(waker), &mut response).is_pending());
                near.push(pending);
            }
            end(&queue, failed());
            let woken = || probe.each_ref().map(|probe| probe.1.swap(false, Ordering::Relaxed));
            assert_eq!(woken(), [true, at > 0], "end {at}");
            // The first caller fetches its response and the second gives up; a task waits for the permit of each.
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
        let queue = Arc::<Queue>::default();
        let permits = Arc::new(Semaphore::new(1));
        let tasks = [(); 2].map(|()| Arc::new(LockProbe(queue.clone(), AtomicBool::new(false))));
        let mut pending = queue.push(meta(&permits), |_| {}).0;
        let mut response = Response::new();
        for task in &tasks {
            let waker = Waker::from(task.clone());
            assert!(pending.poll(&mut Context::from_waker(&waker), &mut response).is_pending());
        }
        queue.lock().fail(0, ClientError::new(ClientPhase::Wait, TimedOut));
        assert_eq!(tasks.map(|task| task.1.load(Ordering::Relaxed)), [false, true]);
    }

    /// A waker that records whether the queue was unlocked when it was dropped.
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

    /// The waker may be the last that holds its task, which may hold a pending response, whose drop locks the queue.
    #[test]
    fn no_waker_is_dropped_under_the_lock() {
        let ends: [fn(PendingResponse<'_>, &mut Response); 2] = [
            |mut pending, response| {
                assert!(pending.poll(&mut Context::from_waker(Waker::noop()), response).is_pending());
            },
            |pending, _| drop(pending),
        ];
        for (at, end) in ends.into_iter().enumerate() {
            let queue = Arc::<Queue>::default();
            let permits = Arc::new(Semaphore::new(1));
            let was_free = Arc::new(AtomicBool::new(false));
            let mut response = Response::new();
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

#[cfg(test)]
mod state_tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    /// After a burst, no entry keeps the memory of a large response.
    #[test]
    fn a_free_entry_keeps_little_memory() {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let mut state = QueueState::default();
        let mut response = Response::new();
        let meta = EntryMeta::new(&Request::default(), permit);
        let (at, _) = state.push(meta, |wire| wire.resize(1 << 20, 0));
        assert!(state.take(&mut Vec::new(), true).is_some());
        response.body.set_bytes(vec![0; 1 << 20]);
        state.respond(at, &mut response);
        state.abandon(at);
        let QueueEntry { wire, response, .. } = &mut state.all[at];
        let kept = wire.capacity() + response.body.receive().capacity();
        assert!(kept <= 2 * WIRE_KEPT_MAX, "{kept} bytes are kept");
    }

    #[test]
    fn a_free_entry_is_used_again_until_the_task_is_removed() {
        let permits = Arc::new(Semaphore::new(4));
        let meta = || EntryMeta::new(&Request::default(), permits.clone().try_acquire_owned().unwrap());
        let mut state = QueueState::default();
        for has_task in [false, true, true] {
            assert_eq!(state.push(meta(), |_| {}), (0, !has_task));
            state.abandon(0);
        }
        assert_eq!((state.all.len(), state.unanswered()), (1, 0));
        let (at, _) = state.push(meta(), |_| {});
        state.remove_task();
        assert_eq!((state.all.len(), state.unanswered()), (1, 1), "one is waited for");
        state.abandon(at);
        state.remove_task();
        assert_eq!(state.all.capacity(), 0);
    }
}
