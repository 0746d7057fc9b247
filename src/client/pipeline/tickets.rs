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

/// What the callers of one pipe wait for. Tickets are used again, with their memory.
#[derive(Default)]
pub(super) struct Tickets {
    all: Vec<Ticket>,
    free: Vec<usize>,
    /// Those that no connection has taken yet, in order.
    waiting: VecDeque<usize>,
    /// Wakes the pipe when another request waits.
    pipe: Option<Waker>,
    /// What is let go once the lock is.
    freed: Vec<Freed>,
    is_piped: bool,
    is_closed: bool,
}

/// One request and its answer.
#[derive(Default)]
struct Ticket {
    /// The whole request as it is sent.
    wire: Vec<u8>,
    /// `None` while the ticket is free.
    job: Option<Job>,
    state: State,
    /// Whether the connection that has taken it was used before.
    is_reused: bool,
    /// Whether it may be the reason why a connection ended.
    is_suspect: bool,
    /// Whether the server may have seen it on a connection before this one.
    was_sent: bool,
    caller: Option<Waker>,
    response: Response,
}

/// What must be known of a request besides its bytes.
pub(super) struct Job {
    asked: Asked,
    /// Whether it does no harm if the server acts on it twice (RFC 9110 §9.2.2).
    may_repeat: bool,
    /// When it began to wait for a connection.
    since: Instant,
    /// Its place among those in flight, which becomes free with the ticket.
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
    /// It waits for a connection.
    #[default]
    Waiting,
    /// A connection has taken it.
    Taken,
    /// A connection has taken it, and the caller has given up.
    Abandoned,
    Over(Result<(), ClientError>),
}

/// What a pipe knows of a request that it has taken.
pub(super) struct Taken {
    pub(super) ticket: usize,
    pub(super) asked: Asked,
    pub(super) may_repeat: bool,
    /// When it began to wait.
    pub(super) since: Instant,
}

/// What may continue: a caller whose answer has come, a pipe that has a request to take, or a caller that waits for the
/// place of a request that is over. And what may do anything when it is dropped: the waker of a caller that waits no more.
pub(super) enum Freed {
    Task(Waker),
    Place(Job),
    Former(Waker),
}

impl Freed {
    pub(super) fn go(self) {
        match self {
            Freed::Task(waker) => waker.wake(),
            Freed::Place(job) => drop(job),
            Freed::Former(waker) => drop(waker),
        }
    }
}

impl Tickets {
    /// Adds a request, which `write` writes. Returns its ticket, and whether a pipe must be started to take it.
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

    /// Notes that no more requests will come.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.call_pipe();
    }

    /// Fetches the answer to a request, once it is there, and frees the ticket.
    pub(super) fn poll(
        &mut self,
        at: usize,
        cx: &mut Context<'_>,
        response: &mut Response,
    ) -> Poll<Result<(), ClientError>> {
        let ticket = &mut self.all[at];
        let State::Over(result) = &mut ticket.state else {
            if !ticket.caller.as_ref().is_some_and(|caller| caller.will_wake(cx.waker())) {
                let former = ticket.caller.replace(cx.waker().clone());
                self.freed.extend(former.map(Freed::Former));
            }
            return Poll::Pending;
        };
        let result = mem::replace(result, Ok(()));
        mem::swap(response, &mut ticket.response);
        self.release(at);
        Poll::Ready(result)
    }

    /// The error for a caller that stops waiting because of `cause`.
    pub(super) fn error(&self, at: usize, cause: ClientCause) -> ClientError {
        let ticket = &self.all[at];
        match ticket.state {
            State::Waiting => ClientError::new(ClientPhase::Queue, cause).sent_before(ticket.was_sent),
            _ => ClientError::new(ClientPhase::Wait, cause).on_connection(ticket.is_reused, true),
        }
    }

    /// Notes that the caller has given up on a request.
    pub(super) fn abandon(&mut self, at: usize) {
        match self.all[at].state {
            State::Taken | State::Abandoned => self.all[at].state = State::Abandoned,
            State::Over(_) => self.release(at),
            State::Waiting => {
                self.waiting.retain(|waiting| *waiting != at);
                self.release(at);
            }
        }
    }

    /// Takes the next request for a connection, used before or not, and appends it to `out`.
    pub(super) fn take(&mut self, out: &mut Vec<u8>, is_reused: bool) -> Option<Taken> {
        let at = self.waiting.pop_front()?;
        let ticket = &mut self.all[at];
        let job = ticket.job.as_ref()?;
        out.extend_from_slice(&ticket.wire);
        (ticket.state, ticket.is_reused) = (State::Taken, is_reused);
        Some(Taken { ticket: at, asked: job.asked, may_repeat: job.may_repeat, since: job.since })
    }

    /// Whether a request waits for a connection.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Since when the next request has waited.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let at = *self.waiting.front()?;
        self.all[at].job.as_ref().map(|job| job.since)
    }

    /// Arranges for the pipe to be woken when another request waits. Returns whether none will ever come again.
    pub(super) fn watch(&mut self, cx: &Context<'_>) -> bool {
        self.pipe.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
        self.is_closed
    }

    /// Stores the answer to a request, in exchange for the ticket's old response, unless nobody waits for it.
    pub(super) fn answer(&mut self, at: usize, response: &mut Response) {
        if !matches!(self.all[at].state, State::Abandoned) {
            mem::swap(&mut self.all[at].response, response);
        }
        self.end(at, Ok(()));
    }

    pub(super) fn fail(&mut self, at: usize, error: ClientError) {
        self.end(at, Err(error));
    }

    /// Makes a request suspect. Returns whether it already was.
    pub(super) fn suspect(&mut self, at: usize) -> bool {
        mem::replace(&mut self.all[at].is_suspect, true)
    }

    /// Puts a request back, as the next one to be sent. `is_sent` says whether the server may have seen it.
    pub(super) fn put_back(&mut self, at: usize, is_sent: bool) {
        let ticket = &mut self.all[at];
        ticket.was_sent |= is_sent;
        match ticket.state {
            State::Abandoned => self.release(at),
            _ => {
                ticket.state = State::Waiting;
                ticket.job.iter_mut().for_each(|job| job.since = runtime::now());
                self.waiting.push_front(at);
            }
        }
    }

    /// Fails all requests that wait.
    pub(super) fn refuse(&mut self, error: ClientError) {
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

    /// Notes that the pipe has left, and frees the memory if it is not needed.
    pub(super) fn leave(&mut self) {
        (self.is_piped, self.pipe) = (false, None);
        if self.free.len() == self.all.len() {
            (self.all, self.free, self.waiting) = Default::default();
        }
    }

    /// Takes the list of what may continue. Usually it has one entry at most, and then the list keeps its memory.
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
        if let State::Abandoned = ticket.state {
            return self.release(at);
        }
        ticket.state = State::Over(result.map_err(|error| error.sent_before(ticket.was_sent)));
        self.freed.extend(ticket.caller.take().map(Freed::Task));
    }

    fn release(&mut self, at: usize) {
        let Ticket { wire, job, state, is_reused, is_suspect, was_sent, caller, response } =
            &mut self.all[at];
        wire.clear();
        wire.shrink_to(WIRE_KEPT_MAX);
        self.freed.extend(job.take().map(Freed::Place));
        self.freed.extend(caller.take().map(Freed::Former));
        (*state, *is_reused, *is_suspect, *was_sent) = Default::default();
        response.reset();
        response.shrink();
        self.free.push(at);
    }
}

/// How much memory of a request's bytes a free ticket keeps.
const WIRE_KEPT_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;

    /// After a burst, each ticket once kept the memory of a large answer for as long as the pipe was in use.
    #[test]
    fn a_free_ticket_keeps_little_memory() {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (mut tickets, mut response) = (Tickets::default(), Response::new());
        let job = Job::new(&Request::default(), permit);
        let (at, _) = tickets.hand_in(job, |wire| wire.resize(1 << 20, 0));
        assert!(tickets.take(&mut Vec::new(), true).is_some());
        response.body.set_bytes(vec![0; 1 << 20]);
        tickets.answer(at, &mut response);
        tickets.abandon(at);
        let Ticket { wire, response, .. } = &mut tickets.all[at];
        let kept = wire.capacity() + response.body.receive().capacity();
        assert!(kept <= 2 * WIRE_KEPT_MAX, "{kept} bytes are kept");
    }

    #[test]
    fn a_free_ticket_is_used_again_until_the_pipe_leaves() {
        let room = Arc::new(Semaphore::new(4));
        let job = || Job::new(&Request::default(), room.clone().try_acquire_owned().unwrap());
        let mut tickets = Tickets::default();
        for is_piped in [false, true, true] {
            assert_eq!(tickets.hand_in(job(), |_| {}), (0, !is_piped));
            tickets.abandon(0);
        }
        assert_eq!((tickets.all.len(), tickets.pending()), (1, 0));
        let (at, _) = tickets.hand_in(job(), |_| {});
        tickets.leave();
        assert_eq!((tickets.all.len(), tickets.pending()), (1, 1), "one is waited for");
        tickets.abandon(at);
        tickets.leave();
        assert_eq!(tickets.all.capacity(), 0);
    }
}
