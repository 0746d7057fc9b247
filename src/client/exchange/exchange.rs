//! [`ClientExchange`]: the memory of one exchange, which the next one uses again, and the state of the exchange.

use std::sync::Arc;
use std::time::Duration;

use super::response::ClientConnection;
use crate::client::error::RetryLog;
use crate::client::observe::{ClientExchangeReport, ExchangeEnd, HostEvents};
use crate::client::settings::RequestTimeouts;
use crate::coding::ContentDecoder;
use crate::exchange::{ExchangeError, Incoming, Outgoing};
use crate::memory::{Reset, clear_cold, free_text_beyond};
use crate::message::{FieldName, Headers, Request, Response, Status, Timings, Version, members};
use crate::net::{IoState, Traffic, TrafficTotals};
use crate::runtime::{self, Budget, Instant};
use crate::wire::{ConnectionOption, RequestInfo, keep_alive_timeout, persists};

/// The memory and the state of one exchange. Memory outlives the exchange; `persistence` lives as long as the
/// connection, `spec` and `progress` as long as one request.
pub(crate) struct ClientExchange {
    pub(crate) incoming: Incoming,
    pub(crate) outgoing: Outgoing,
    /// Lent to the connection during an exchange.
    pub(crate) io_state: Option<Box<IoState>>,
    /// Receives the head of the response for a `Call`, and is lent to it while it is open. Absent before the first call.
    pub(crate) call_response: Option<Box<Response>>,
    /// How much more may be decoded before the task yields.
    pub(crate) budget: Budget,
    /// The target of the request for errors, if the caller keeps no request.
    pub(crate) target: String,
    /// The connection, during an exchange.
    pub(crate) connection_info: Option<Arc<ClientConnection>>,
    /// The events of the pool that uses the memory.
    events: Arc<HostEvents>,
    /// The bytes of a connection that was dropped during the exchange, and its `IoState` with it.
    dropped: Arc<TrafficTotals>,
    pub(crate) persistence: Persistence,
    pub(crate) spec: ExchangeSpec,
    pub(crate) progress: Progress,
}

impl ClientExchange {
    pub(crate) fn new(events: Arc<HostEvents>) -> ClientExchange {
        let now = runtime::now();
        let dropped = Arc::<TrafficTotals>::default();
        ClientExchange {
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            io_state: Some(Box::new(IoState::with_totals(dropped.clone()))),
            call_response: None,
            budget: Budget::default(),
            target: String::new(),
            connection_info: None,
            events,
            dropped,
            persistence: Persistence::new(),
            spec: ExchangeSpec::default(),
            progress: Progress::new(Timings::default(), now),
        }
    }

    /// Prepares for the next response on a connection with several requests in flight, which has had this traffic so far.
    /// Only the persistence of the connection remains.
    pub(crate) fn next_response(
        &mut self,
        request_info: RequestInfo,
        timings: Timings,
        timeouts: &RequestTimeouts,
        traffic: Traffic,
    ) {
        debug_assert!(self.io_state.is_none(), "the connection is in use");
        if self.progress.has_response() {
            self.count_end(ExchangeEnd::Answered, traffic);
            self.progress.reported = traffic;
        }
        self.incoming.forget_message();
        self.spec = ExchangeSpec { request_info, timeouts: timeouts.clone(), ..ExchangeSpec::default() };
        let Progress { was_idle, reported, .. } = self.progress;
        self.progress = Progress { was_idle, reported, ..Progress::new(timings, runtime::now()) };
    }

    /// Whether another exchange may follow, once the response has been received. After one whose end was found by overlooking
    /// a fault, the next bytes may belong to it all the same (RFC 9112 §11.2).
    pub(crate) fn persists(&self) -> bool {
        self.persistence.persists && !self.incoming.is_mended
    }

    /// Whether the complete response has arrived. If a write then times out, the server has finished with the request,
    /// and the response is valid.
    pub(crate) fn has_whole_response(&self) -> bool {
        self.progress.has_response() && self.incoming.has_body_arrived()
    }

    /// Makes this the memory of a pool with these events.
    pub(crate) fn set_events(&mut self, events: &Arc<HostEvents>) {
        if !Arc::ptr_eq(&self.events, events) {
            self.events = events.clone();
        }
    }

    /// Counts an exchange that is over, and after which the connection, which has had this traffic, is not given back.
    pub(crate) fn count_end(&self, end: ExchangeEnd, traffic: Traffic) {
        self.events.count_end(&self.report(end, traffic));
    }

    /// The report of an exchange after which the connection goes back to the pool, if there is an observer.
    #[inline]
    pub(crate) fn wanted_report(&self, traffic: Traffic) -> Option<ClientExchangeReport> {
        self.events.observes_exchanges().then(|| self.report(ExchangeEnd::Answered, traffic))
    }

    /// The report of an exchange that is over, on a connection that has had this traffic.
    fn report(&self, end: ExchangeEnd, traffic: Traffic) -> ClientExchangeReport {
        let Progress { status, timings, .. } = self.progress;
        let Traffic { received, sent } = self.own_traffic(traffic);
        ClientExchangeReport { end, status, timings, received, sent }
    }

    /// The part of this traffic that belongs to no earlier exchange.
    #[inline]
    pub(crate) fn own_traffic(&self, Traffic { received, sent }: Traffic) -> Traffic {
        let reported = self.progress.reported;
        Traffic {
            received: received.saturating_sub(reported.received),
            sent: sent.saturating_sub(reported.sent),
        }
    }
}

impl Drop for ClientExchange {
    /// An exchange that ends well gives its memory back. The memory itself is dropped with its I/O state. In an exchange,
    /// that state was with the connection, which is dropped first.
    fn drop(&mut self) {
        if self.io_state.is_none() {
            let is_read = self.progress.has_response() && self.incoming.is_end_stream();
            let unnoted = if is_read { ExchangeEnd::Answered } else { ExchangeEnd::Canceled };
            self.count_end(self.progress.end.unwrap_or(unnoted), self.dropped.get());
        }
    }
}

impl Reset for ClientExchange {
    fn reset(&mut self) {
        let ClientExchange {
            incoming,
            outgoing,
            io_state,
            call_response,
            budget,
            target,
            connection_info,
            events: _,
            dropped: _,
            persistence,
            spec,
            progress,
        } = self;
        incoming.reset();
        outgoing.reset();
        if let Some(io_state) = io_state {
            io_state.reset();
        }
        if let Some(call_response) = call_response {
            call_response.reset();
        }
        *budget = Budget::default();
        spec.reset();
        target.clear();
        debug_assert!(
            connection_info.is_none(),
            "a connection that is given back takes its description along"
        );
        *persistence = Persistence::new();
        *progress = Progress::new(Timings::default(), progress.phase_start);
    }

    fn shrink(&mut self) -> usize {
        free_text_beyond(&mut self.target, TARGET_USUAL);
        size_of::<ClientExchange>()
            + self.incoming.shrink()
            + self.outgoing.shrink()
            + self.io_state.as_mut().map_or(0, |io_state| io_state.shrink())
            + self.call_response.as_mut().map_or(0, |call_response| call_response.shrink())
            + self.target.capacity()
    }
}

/// The capacity that is kept for a target. Few are longer.
const TARGET_USUAL: usize = 1 << 10;

/// How long the connection may be used (RFC 9112 §9.3).
pub(crate) struct Persistence {
    /// Whether another exchange may follow, by the messages of both sides so far.
    pub(crate) persists: bool,
    /// How long the server keeps an idle connection open, by its `keep-alive` field (RFC 2068 §19.7.1.1).
    pub(crate) idle: Option<Duration>,
}

impl Persistence {
    fn new() -> Persistence {
        Persistence { persists: true, idle: None }
    }

    /// Applies the head of a response. `is_last`: its body ends with the connection (RFC 9112 §6.3), or a fault of it was
    /// overlooked.
    pub(crate) fn note(&mut self, version: Version, headers: &Headers, is_last: bool) {
        self.persists &= persists(version, ConnectionOption::from_headers(headers)) && !is_last;
        self.idle = keep_alive_timeout(headers);
    }
}

/// The properties of the request that its response depends on, and the timeouts of the exchange.
#[derive(Default)]
pub(crate) struct ExchangeSpec {
    pub(crate) request_info: RequestInfo,
    /// The `upgrade` fields of the request, if it has any.
    upgrade: Option<Box<Headers>>,
    /// Its timeouts.
    pub(crate) timeouts: RequestTimeouts,
    /// The attempts before this one, if a policy for retries had a say.
    pub(crate) retries: Option<Arc<RetryLog>>,
}

impl ExchangeSpec {
    /// Fills a spec that was reset from `request`. Rare parts are written only if the request has them.
    #[inline]
    pub(crate) fn fill_from(&mut self, request: &Request, timeouts: &RequestTimeouts) {
        debug_assert!(self.upgrade.is_none() && self.timeouts.phases.is_none(), "the spec was reset");
        self.request_info = RequestInfo::new(request);
        self.timeouts.deadline = timeouts.deadline;
        self.timeouts.total = timeouts.total;
        if timeouts.phases.is_some() {
            self.timeouts.phases.clone_from(&timeouts.phases);
        }
        if request.headers.first(FieldName::UPGRADE).is_some() {
            self.upgrade = Some(upgrade_fields(&request.headers));
        }
    }

    #[inline]
    fn reset(&mut self) {
        let ExchangeSpec { request_info, upgrade, timeouts, retries } = self;
        let RequestTimeouts { deadline, total, phases } = timeouts;
        *request_info = RequestInfo::default();
        (*deadline, *total) = Default::default();
        clear_cold(upgrade);
        clear_cold(phases);
        clear_cold(retries);
    }

    /// Checks that a response of 101 with these fields switches to a protocol that the request has named (RFC 9110
    /// §7.8). Otherwise the caller, who takes the connection over, would speak another one than the server.
    ///
    /// # Errors
    ///
    /// Fails with the reason why it does not.
    pub(crate) fn check_switch(&self, response: &Headers) -> Result<(), &'static str> {
        let Some(request) = &self.upgrade else { return Err("the request does not ask for it") };
        let mut protocols = response.named(FieldName::UPGRADE).flat_map(members).peekable();
        let is_named = |name| str::from_utf8(name).is_ok_and(|name| request.contains_token("upgrade", name));
        if protocols.peek().is_none() {
            return Err("the response of 101 names no protocol");
        }
        if !protocols.all(is_named) {
            return Err("the response of 101 names another protocol");
        }
        // A response that a cache or a proxy has kept lacks the option, which is for one hop (RFC 6455 §4.1).
        match response.contains_token("connection", "upgrade") {
            true => Ok(()),
            false => Err("the response of 101 has no `connection: upgrade`"),
        }
    }
}

/// The `upgrade` fields among `headers`.
#[cold]
fn upgrade_fields(headers: &Headers) -> Box<Headers> {
    let mut upgrade = Box::new(Headers::new());
    headers.named(FieldName::UPGRADE).for_each(|protocols| upgrade.push(FieldName::UPGRADE, protocols));
    upgrade
}

/// How far one exchange has come.
pub(crate) struct Progress {
    pub(crate) upload: Upload,
    pub(crate) stage: ResponseStage,
    pub(crate) interim: Interim,
    /// How much of the body one read copies at most.
    pub(crate) read_size: AdaptiveReadSize,
    /// How the body of the response is decoded, if it is.
    pub(crate) decoder: Option<Box<ContentDecoder>>,
    /// The version in which the server has answered.
    pub(crate) version: Version,
    /// The status of the final response.
    pub(crate) status: Option<Status>,
    /// How the exchange ends, if it ends otherwise than with its response or because the caller is gone.
    pub(crate) end: Option<ExchangeEnd>,
    /// Whether the connection was idle before, so that its server may have closed it.
    pub(crate) was_idle: bool,
    /// The traffic of earlier exchanges since the connection was last idle.
    reported: Traffic,
    /// The durations of the phases that are over.
    pub(crate) timings: Timings,
    /// When the current phase began.
    pub(crate) phase_start: Instant,
}

/// The fate of interim responses (RFC 9110 §15.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interim {
    /// They are dropped, and their heads had so many bytes so far.
    Dropped(usize),
    /// The caller takes each.
    Taken,
}

impl Progress {
    /// An exchange of which the head is about to be sent.
    fn new(timings: Timings, phase_start: Instant) -> Progress {
        Progress {
            upload: Upload::Sending,
            stage: ResponseStage::Awaited,
            interim: Interim::Dropped(0),
            read_size: AdaptiveReadSize::default(),
            decoder: None,
            version: Version::default(),
            status: None,
            end: None,
            was_idle: false,
            reported: Traffic::default(),
            timings,
            phase_start,
        }
    }

    /// Drops interim responses from here on. Returns whether one was waiting to be taken.
    pub(crate) fn drop_interim(&mut self) -> bool {
        let has_waited = self.stage == ResponseStage::Interim;
        if has_waited {
            self.stage = ResponseStage::Awaited;
        }
        if let Interim::Taken = self.interim {
            self.interim = Interim::Dropped(0);
        }
        has_waited
    }

    /// Returns how long the current phase took, and begins the next one.
    pub(crate) fn end_phase(&mut self) -> Duration {
        let began = std::mem::replace(&mut self.phase_start, runtime::now());
        self.phase_start.saturating_duration_since(began)
    }

    /// Whether the head of the final response has come.
    pub(crate) fn has_response(&self) -> bool {
        self.stage == ResponseStage::Final
    }
}

/// How much of a body one read copies at most, if the exchange has a deadline. The deadline is checked by each read,
/// and a buffering reader, such as one of lines, may work for long between any two bytes of its buffer.
#[derive(Default)]
pub(crate) struct AdaptiveReadSize {
    size: usize,
    taken_at: Option<Instant>,
}

impl AdaptiveReadSize {
    /// Returns the size of the read that begins `now`: twice that of the last one, unless the caller has taken long
    /// since.
    pub(crate) fn next(&mut self, now: Instant) -> usize {
        debug_assert!(self.taken_at.is_none() || self.size >= READ_SIZE_MIN, "each read has had a size");
        let last = self.taken_at.replace(now);
        let is_quick = last.is_some_and(|last| now.saturating_duration_since(last) < QUICK);
        self.size = if is_quick { self.size.saturating_mul(2) } else { READ_SIZE_MIN };
        self.size
    }
}

/// The size of the first read, and of each that follows a slow one: a few lines.
const READ_SIZE_MIN: usize = 64;

/// The longest time between two reads of a caller that only copies.
const QUICK: Duration = Duration::from_millis(1);

/// How much of the request has been sent.
#[derive(Debug)]
pub(crate) enum Upload {
    /// The head is being sent, and the body will wait for `100 Continue` (RFC 9110 §10.1.1).
    SendingHead,
    /// The head has been sent, and the body waits.
    AwaitingContinue,
    Sending,
    Sent,
    /// The server has answered, and reads no more of the request.
    Abandoned,
    /// Sending failed, but there may be a response.
    Failed(ExchangeError),
}

/// How much of the response's head has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseStage {
    Awaited,
    /// The head of an interim response, which waits to be taken.
    Interim,
    /// The head of the final response.
    Final,
}
