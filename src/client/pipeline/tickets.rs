//! [`Tickets`]: the requests of the callers of one pipe, and their answers.

use std::collections::VecDeque;
use std::mem;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::memory::Reset;
use crate::message::{Request, Response};
use crate::runtime::{self, Instant};
use crate::wire::Asked;

/// All that callers of one pipe wait for. Tickets are used again, with their memory.
#[derive(Default)]
pub(super) struct Tickets {
    all: Vec<Ticket>,
    free: Vec<usize>,
    /// Those that no connection has taken yet, in order.
    waiting: VecDeque<usize>,
    /// Wakes the pipe when one more waits.
    pipe: Option<Waker>,
    /// Who may go on, and is not told yet.
    freed: Vec<Freed>,
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

/// Who may go on: a caller whose answer is here, a pipe that has a request to take, or whoever waits for the place of a
/// request that is over.
pub(super) enum Freed {
    Task(Waker),
    Place(Job),
}

impl Freed {
    pub(super) fn go(self) {
        match self {
            Freed::Task(waker) => waker.wake(),
            Freed::Place(job) => drop(job),
        }
    }
}

impl Tickets {
    /// One more request, which `write` writes. Says which ticket it has, and whether there is no pipe yet to take it.
    pub(super) fn hand_in(&mut self, job: Job, write: impl FnOnce(&mut Vec<u8>)) -> (usize, bool) {
        let at = self.free.pop().unwrap_or(self.all.len());
        if at == self.all.len() {
            self.all.push(Ticket::default());
        }
        let ticket = &mut self.all[at];
        write(&mut ticket.wire);
        (ticket.job, ticket.state) = (Some(job), State::Waiting);
        self.waiting.push_back(at);
        self.call_pipe();
        (at, !mem::replace(&mut self.is_piped, true))
    }

    /// How many requests have no answer yet.
    pub(super) fn pending(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Nobody will come any more.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.call_pipe();
    }

    /// Fetches the answer to a request, if it is there: then the ticket is free.
    pub(super) fn poll(
        &mut self,
        at: usize,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        let ticket = &mut self.all[at];
        let State::Over(result) = &mut ticket.state else {
            match &mut ticket.caller {
                Some(caller) => caller.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        };
        let result = mem::replace(result, Ok(()));
        mem::swap(response, &mut ticket.response);
        self.release(at);
        Poll::Ready(result)
    }

    /// What it means that the caller waits no more.
    pub(super) fn error(&self, at: usize, cause: ClientCause) -> ClientError {
        let ticket = &self.all[at];
        match ticket.state {
            State::Waiting => ClientError::new(ClientPhase::Queue, cause),
            _ => ClientError::new(ClientPhase::Wait, cause).on(ticket.is_reused, true),
        }
    }

    /// Nobody waits for the answer to a request any more.
    pub(super) fn desert(&mut self, at: usize) {
        match self.all[at].state {
            State::Taken | State::Deserted => self.all[at].state = State::Deserted,
            State::Over(_) => self.release(at),
            State::Waiting => {
                self.waiting.retain(|waiting| *waiting != at);
                self.release(at);
            }
        }
    }

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
        mem::swap(&mut self.all[at].response, response);
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
        mem::replace(&mut self.all[at].is_repeated, true)
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

    /// Those who may go on now. Most often it is one at most, and then the list keeps its memory.
    pub(super) fn take_freed(&mut self) -> impl Iterator<Item = Freed> + use<> {
        let last = self.freed.pop();
        let others = if self.freed.is_empty() { Vec::new() } else { mem::take(&mut self.freed) };
        others.into_iter().chain(last)
    }

    fn call_pipe(&mut self) {
        self.freed.extend(self.pipe.take().map(Freed::Task));
    }

    fn end(&mut self, at: usize, result: Result<(), ClientError>) {
        let ticket = &mut self.all[at];
        if let State::Deserted = ticket.state {
            return self.release(at);
        }
        ticket.state = State::Over(result);
        self.freed.extend(ticket.caller.take().map(Freed::Task));
    }

    fn release(&mut self, at: usize) {
        let Ticket { wire, job, state, is_reused, is_repeated, caller, response } = &mut self.all[at];
        wire.clear();
        wire.shrink_to(WIRE_KEPT_MAX);
        self.freed.extend(job.take().map(Freed::Place));
        (*state, *is_reused, *is_repeated, *caller) = Default::default();
        response.reset();
        self.free.push(at);
    }
}

/// What of a request's bytes stays warm.
const WIRE_KEPT_MAX: usize = 16 << 10;
