//! [`Board`]: where callers leave their requests for one pipe, and find the answers.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::desk::{Desk, Free};
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::memory::Reset;
use crate::message::{Request, Response};
use crate::runtime::{self, Instant};
use crate::wire::Asked;

/// Where the callers of one pipe leave their requests, and find the answers.
#[derive(Default)]
pub(super) struct Board(Mutex<Tickets>);

/// All that callers of one pipe wait for. Tickets are used again, with their memory.
#[derive(Default)]
pub(super) struct Tickets {
    all: Vec<Ticket>,
    free: Vec<usize>,
    /// Those that no connection has taken yet, in order.
    waiting: VecDeque<usize>,
    /// Wakes the pipe when one more waits.
    pipe: Option<Waker>,
    /// Who is told, when nobody is at work on these, that he may go on.
    pub(super) freed: Vec<Free>,
    is_piped: bool,
    is_closed: bool,
}

/// One request and its answer.
#[derive(Default)]
struct Ticket {
    /// The whole request as it goes over the wire.
    wire: Vec<u8>,
    /// None while the ticket is free.
    job: Option<Job>,
    state: State,
    /// Whether the connection that has taken it was used before.
    is_reused: bool,
    is_repeated: bool,
    caller: Option<Waker>,
    response: Response,
}

/// What there is to know of a request beside its bytes.
pub(super) struct Job {
    asked: Asked,
    /// Whether it does no harm if the server acts on it twice (RFC 9110 §9.2.2).
    may_repeat: bool,
    /// Since when it waits for a connection.
    since: Instant,
    /// Its place among those in flight, which is free when the ticket is.
    _permit: OwnedSemaphorePermit,
}

impl Job {
    pub(super) fn new(request: &Request, permit: OwnedSemaphorePermit) -> Job {
        Job {
            asked: Asked::new(request),
            may_repeat: request.method().is_idempotent(),
            since: runtime::now(),
            _permit: permit,
        }
    }
}

#[derive(Default)]
enum State {
    /// For a connection.
    #[default]
    Waiting,
    /// Its bytes are a connection's.
    Taken,
    /// So they are, and nobody waits for the answer.
    Deserted,
    Over(Result<(), ClientError>),
}

/// What a pipe knows of a request that it has taken.
pub(super) struct Taken {
    pub(super) ticket: usize,
    pub(super) asked: Asked,
    /// Since when it had waited.
    pub(super) since: Instant,
}

/// A caller's right to an answer. When it is dropped the answer is nobody's.
pub(super) struct Claim<'a> {
    board: &'a Board,
    /// None once the answer was fetched.
    ticket: Option<usize>,
}

impl Board {
    /// Leaves a request, which `write` writes. Says whether there is no pipe yet to take it.
    pub(super) fn hand_in(&self, job: Job, write: impl FnOnce(&mut Vec<u8>)) -> (Claim<'_>, bool) {
        let mut tickets = self.lock();
        let at = tickets.free.pop().unwrap_or(tickets.all.len());
        if at == tickets.all.len() {
            tickets.all.push(Ticket::default());
        }
        let ticket = &mut tickets.all[at];
        write(&mut ticket.wire);
        (ticket.job, ticket.state) = (Some(job), State::Waiting);
        tickets.waiting.push_back(at);
        let needs_pipe = !std::mem::replace(&mut tickets.is_piped, true);
        let pipe = tickets.pipe.take();
        drop(tickets);
        pipe.into_iter().for_each(Waker::wake);
        (Claim { board: self, ticket: Some(at) }, needs_pipe)
    }

    /// How many requests have no answer yet.
    pub(super) fn pending(&self) -> usize {
        let tickets = self.lock();
        tickets.all.len() - tickets.free.len()
    }

    /// The pipeline is dropped.
    pub(super) fn close(&self) {
        let mut tickets = self.lock();
        tickets.is_closed = true;
        let pipe = tickets.pipe.take();
        drop(tickets);
        pipe.into_iter().for_each(Waker::wake);
    }

    pub(super) fn lock(&self) -> Desk<'_> {
        Desk::new(&self.0)
    }
}

impl Claim<'_> {
    /// Fetches the answer, if it is there.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        let Some(at) = self.ticket else { return Poll::Pending };
        let mut tickets = self.board.lock();
        let ticket = &mut tickets.all[at];
        let State::Over(result) = &mut ticket.state else {
            match &mut ticket.caller {
                Some(caller) => caller.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        };
        let result = std::mem::replace(result, Ok(()));
        std::mem::swap(response, &mut ticket.response);
        tickets.release(at);
        self.ticket = None;
        Poll::Ready(result)
    }

    /// What it means that the caller waits no more.
    pub(super) fn error(&self, cause: ClientCause) -> ClientError {
        let tickets = self.board.lock();
        match self.ticket.map(|at| &tickets.all[at]) {
            Some(Ticket { state: State::Waiting, .. }) | None => ClientError::new(ClientPhase::Queue, cause),
            Some(Ticket { is_reused, .. }) => ClientError::new(ClientPhase::Wait, cause).on(*is_reused, true),
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let Some(at) = self.ticket else { return };
        let mut tickets = self.board.lock();
        match tickets.all[at].state {
            State::Taken | State::Deserted => tickets.all[at].state = State::Deserted,
            State::Over(_) => tickets.release(at),
            State::Waiting => {
                tickets.waiting.retain(|waiting| *waiting != at);
                tickets.release(at);
            }
        }
    }
}

impl Tickets {
    /// The next request, appended to `out`, for a connection that was used before or not.
    pub(super) fn take(&mut self, out: &mut Vec<u8>, is_reused: bool) -> Option<Taken> {
        let at = self.waiting.pop_front()?;
        let ticket = &mut self.all[at];
        let job = ticket.job.as_ref()?;
        out.extend_from_slice(&ticket.wire);
        (ticket.state, ticket.is_reused) = (State::Taken, is_reused);
        Some(Taken { ticket: at, asked: job.asked, since: job.since })
    }

    /// Whether a request waits for a connection.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Has the pipe woken when one more waits. Says whether nobody will ever come again.
    pub(super) fn watch(&mut self, cx: &Context<'_>) -> bool {
        match &mut self.pipe {
            Some(pipe) => pipe.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        self.is_closed
    }

    /// The answer to a request: it trades places with what the ticket has.
    pub(super) fn answer(&mut self, at: usize, response: &mut Response) {
        std::mem::swap(&mut self.all[at].response, response);
        self.end(at, Ok(()));
    }

    pub(super) fn fail(&mut self, at: usize, error: ClientError) {
        self.end(at, Err(error));
    }

    /// Whether the server may be asked again what it has perhaps been asked already.
    pub(super) fn may_repeat(&self, at: usize) -> bool {
        self.all[at].job.as_ref().is_some_and(|job| job.may_repeat)
    }

    /// Notes that a request is the one to blame for the end of a connection, perhaps. The second time it is.
    pub(super) fn suspect(&mut self, at: usize) -> bool {
        std::mem::replace(&mut self.all[at].is_repeated, true)
    }

    /// A request is the next to be sent, again.
    pub(super) fn put_back(&mut self, at: usize) {
        let ticket = &mut self.all[at];
        match ticket.state {
            State::Deserted => self.release(at),
            _ => {
                ticket.state = State::Waiting;
                ticket.job.iter_mut().for_each(|job| job.since = runtime::now());
                self.waiting.push_front(at);
            }
        }
    }

    /// Fails all that wait.
    pub(super) fn refuse(&mut self, error: ClientError) {
        while let Some(at) = self.waiting.pop_front() {
            if self.waiting.is_empty() {
                return self.fail(at, error);
            }
            self.fail(at, error.twin());
        }
    }

    /// Fails those that have waited for longer than `limit`. Says for how long the next one still may.
    pub(super) fn expire(&mut self, limit: Duration) -> Option<Duration> {
        loop {
            let at = *self.waiting.front()?;
            let waited = runtime::now().saturating_duration_since(self.all[at].job.as_ref()?.since);
            if waited < limit {
                return Some(limit - waited);
            }
            self.waiting.pop_front();
            self.fail(at, ClientError::new(ClientPhase::Queue, ClientCause::TimedOut));
        }
    }

    /// The pipe leaves, and so does the memory that nobody needs.
    pub(super) fn leave(&mut self) {
        (self.is_piped, self.pipe) = (false, None);
        if self.free.len() == self.all.len() {
            (self.all, self.free, self.waiting) = Default::default();
        }
    }

    fn end(&mut self, at: usize, result: Result<(), ClientError>) {
        let ticket = &mut self.all[at];
        if let State::Deserted = ticket.state {
            return self.release(at);
        }
        ticket.state = State::Over(result);
        self.freed.extend(ticket.caller.take().map(Free::Caller));
    }

    fn release(&mut self, at: usize) {
        let Ticket { wire, job, state, is_reused, is_repeated, caller, response } = &mut self.all[at];
        wire.clear();
        wire.shrink_to(WIRE_KEPT_MAX);
        self.freed.extend(job.take().map(Free::Place));
        (*state, *is_reused, *is_repeated, *caller) = Default::default();
        response.reset();
        self.free.push(at);
    }
}

/// What of a request's bytes stays warm.
const WIRE_KEPT_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::client::ClientCause::TimedOut;

    /// Notes whether whoever wakes it has let the board go.
    struct Curious(Arc<Board>, AtomicBool);

    impl Wake for Curious {
        fn wake(self: Arc<Curious>) {
            self.1.store(self.0.0.try_lock().is_ok(), Ordering::Relaxed);
        }
    }

    /// A waker may do whatever it likes: one that asks at once would have waited for itself.
    #[test]
    fn nobody_is_woken_under_the_lock() {
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
                let permit = room.clone().try_acquire_owned().expect("there is room");
                let request = Request::get("/").expect("it is a path");
                let (mut claim, _) = board.hand_in(Job::new(&request, permit), |_| {});
                assert!(claim.poll(&mut Context::from_waker(waker), &mut response).is_pending());
                near.push(claim);
            }
            end(&board, failed());
            let woken = || curious.each_ref().map(|curious| curious.1.swap(false, Ordering::Relaxed));
            assert_eq!(woken(), [true, at > 0], "end {at}");
            // The first has an answer to be fetched, and the second is given up: somebody waits for their places.
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
}
