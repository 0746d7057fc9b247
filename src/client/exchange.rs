//! [`Exchange`]: what one exchange needs: memory, which the next one uses again, and what is known of it.

use std::time::Duration;

use crate::coding::ContentDecoder;
use crate::exchange::{ExchangeError, Incoming, Outgoing};
use crate::memory::Reset;
use crate::message::{Headers, Request, Response, Timings, Version};
use crate::net::IoState;
use crate::runtime::{self, Budget, Instant};
use crate::wire::{ConnectionOption, RequestInfo, keep_alive_timeout, persists};

/// First its memory, then what is known of it, each part of which has its own life.
pub(super) struct Exchange {
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    /// Lent to the connection while it is in use.
    pub(super) io_state: Option<Box<IoState>>,
    /// For the head of an answer to a call. Lent to the call, and absent before the first one.
    pub(super) early: Option<Box<Response>>,
    /// How much was decoded since other tasks had their turn.
    pub(super) budget: Budget,
    /// The target of the request, if the caller goes on without the request: errors name it.
    pub(super) target: String,
    pub(super) persistence: Persistence,
    pub(super) spec: ExchangeSpec,
    pub(super) progress: Progress,
}

impl Exchange {
    /// Prepares for the next answer on a connection with several requests in flight. Of what is known, only the
    /// persistence of the connection remains.
    pub(super) fn next_answer(&mut self, request_info: RequestInfo, timings: Timings) {
        self.incoming.forget_message();
        self.spec = ExchangeSpec { request_info, ..ExchangeSpec::default() };
        self.progress = Progress::new(timings, runtime::now());
    }

    /// Whether the complete answer has arrived. A server that then reads no more is done with the request, which shows
    /// only when a write has timed out.
    pub(super) fn has_whole_answer(&self) -> bool {
        self.progress.is_answered() && self.incoming.has_arrived()
    }
}

impl Default for Exchange {
    fn default() -> Exchange {
        let now = runtime::now();
        Exchange {
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            io_state: None,
            early: None,
            budget: Budget::default(),
            target: String::new(),
            persistence: Persistence::new(now),
            spec: ExchangeSpec::default(),
            progress: Progress::new(Timings::default(), now),
        }
    }
}

impl Reset for Exchange {
    fn reset(&mut self) {
        let Exchange { incoming, outgoing, io_state, early, budget, target, persistence, spec, progress } =
            self;
        incoming.reset();
        outgoing.reset();
        io_state.iter_mut().for_each(|io_state| io_state.reset());
        early.iter_mut().for_each(|early| early.reset());
        (*budget, *spec) = Default::default();
        target.clear();
        *persistence = Persistence::new(persistence.opened_at);
        *progress = Progress::new(Timings::default(), progress.phase_start);
    }

    fn shrink(&mut self) {
        self.incoming.shrink();
        self.outgoing.shrink();
        self.io_state.iter_mut().for_each(|io_state| io_state.shrink());
        self.early.iter_mut().for_each(|early| early.shrink());
        self.target.shrink_to(TARGET_USUAL);
    }
}

/// Few targets are longer.
const TARGET_USUAL: usize = 1 << 10;

/// How long the connection may be used (RFC 9112 §9.3).
pub(super) struct Persistence {
    /// When it was opened.
    pub(super) opened_at: Instant,
    /// Whether another exchange may follow, by what both sides have said so far.
    pub(super) persists: bool,
    /// How long the server keeps it idle, if it has said so (RFC 2068 §19.7.1.1).
    pub(super) idle: Option<Duration>,
}

impl Persistence {
    fn new(opened_at: Instant) -> Persistence {
        Persistence { opened_at, persists: true, idle: None }
    }

    /// Notes what the head of an answer says of it. `ends_with_close` is what it says of its body (RFC 9112 §6.3).
    pub(super) fn note(&mut self, version: Version, headers: &Headers, ends_with_close: bool) {
        self.persists &= persists(version, ConnectionOption::from_headers(headers)) && !ends_with_close;
        self.idle = keep_alive_timeout(headers);
    }
}

/// What was asked for, and until when.
#[derive(Default)]
pub(super) struct ExchangeSpec {
    pub(super) request_info: RequestInfo,
    pub(super) asks_for_upgrade: bool,
    /// When the exchange must be complete.
    pub(super) deadline: Option<Instant>,
    /// How long it may take in all.
    pub(super) total: Option<Duration>,
}

impl ExchangeSpec {
    pub(super) fn of(request: &Request, deadline: Option<Instant>) -> ExchangeSpec {
        let asks_for_upgrade = request.headers.contains("upgrade");
        ExchangeSpec { request_info: RequestInfo::new(request), asks_for_upgrade, deadline, total: None }
    }
}

/// How far one exchange has come.
pub(super) struct Progress {
    pub(super) upload: Upload,
    pub(super) stage: ResponseStage,
    /// How many interim answers have come.
    pub(super) interim: u32,
    /// Whether somebody takes them. If not, they are dropped.
    pub(super) wants_interim: bool,
    /// How much of the body a reader gets at once.
    pub(super) read_size: AdaptiveReadSize,
    /// How the body of the answer is decoded, if it is.
    pub(super) decoder: Option<Box<ContentDecoder>>,
    /// How long the phases took that are over.
    pub(super) timings: Timings,
    /// When the current phase began.
    pub(super) phase_start: Instant,
}

impl Progress {
    /// An exchange of which the head is about to be sent.
    fn new(timings: Timings, phase_start: Instant) -> Progress {
        Progress {
            upload: Upload::Sending,
            stage: ResponseStage::Awaited,
            interim: 0,
            wants_interim: false,
            read_size: AdaptiveReadSize::default(),
            decoder: None,
            timings,
            phase_start,
        }
    }

    /// Drops interim answers from here on. Returns whether one was waiting to be taken.
    pub(super) fn drop_interim(&mut self) -> bool {
        let has_waited = self.stage == ResponseStage::Interim;
        if has_waited {
            self.stage = ResponseStage::Awaited;
        }
        self.wants_interim = false;
        has_waited
    }

    /// Returns how long the current phase took, and begins the next one.
    pub(super) fn end_phase(&mut self) -> Duration {
        let began = std::mem::replace(&mut self.phase_start, runtime::now());
        self.phase_start.saturating_duration_since(began)
    }

    /// Whether the head of the final answer has come.
    pub(super) fn is_answered(&self) -> bool {
        self.stage == ResponseStage::Final
    }
}

/// How much of a body a reader gets at once, if the exchange has a deadline. The deadline is checked when the reader
/// reads, and a reader that buffers, such as one of lines, may do long work between any two bytes that it has got.
#[derive(Default)]
pub(super) struct AdaptiveReadSize {
    size: usize,
    taken_at: Option<Instant>,
}

impl AdaptiveReadSize {
    /// Returns the size of the portion that is taken `now`: twice that of the last one, unless that took long.
    pub(super) fn next(&mut self, now: Instant) -> usize {
        let last = self.taken_at.replace(now);
        let is_quick = last.is_some_and(|last| now.saturating_duration_since(last) < QUICK);
        self.size = if is_quick { self.size.saturating_mul(2) } else { READ_SIZE_MIN };
        self.size
    }
}

/// A few lines.
const READ_SIZE_MIN: usize = 64;

/// How soon a reader comes back that only copies.
const QUICK: Duration = Duration::from_millis(1);

/// How much of the request has been sent.
#[derive(Debug)]
pub(super) enum Upload {
    /// The head is being sent, and the body will wait for `100 Continue` (RFC 9110 §10.1.1).
    Expecting,
    /// The head has been sent, and the body waits.
    Waiting,
    Sending,
    Sent,
    /// The server has answered, and reads no more of it.
    Abandoned,
    /// Sending failed, but there may be an answer.
    Failed(ExchangeError),
}

/// What has come of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseStage {
    Awaited,
    /// The head of an interim answer, which waits to be taken.
    Interim,
    /// The head of the final answer.
    Final,
}

/// How many interim answers are read. An endless sequence of them would be a hang.
pub(super) const INTERIM_MAX: u32 = 16;
