//! [`CoreMetrics`]: the counts of one core; and [`CoreRecorder`], which writes them.

use std::cell::Cell;
use std::iter::zip;
use std::ops::AddAssign;
use std::rc::Rc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::histogram::{Histogram, HistogramCounts, nanos};
use super::latest_errors::LatestErrors;
use super::route_metrics::RouteTable;
use super::timeline::slot_number;
use crate::memory::{Counter, lock};
use crate::server::{
    CoreCounters, CoreCounts, CoreEvents, CutBy, ErrorReport, ExchangeReport, MemoryCounts, PollReport,
};

/// The counts of one core. They outlive its server, and go on with the next one that has a core of this index.
pub(super) struct CoreMetrics {
    pub(super) index: usize,
    pub(super) routes: RouteTable,
    /// In the order of [`CUTS`].
    pub(super) cuts: [Counter; CUTS.len()],
    /// Exchanges that are over, without those whose head was refused.
    ended: Counter,
    pub(super) polls: PollMetrics,
    /// Nanoseconds from the acceptance of a connection to the first poll of its task.
    accept_waits: Histogram,
    pub(super) errors: LatestErrors,
    recording: Arc<Recording>,
    times_polls: bool,
    servers: Mutex<ServersOfCore>,
    /// Whether a core writes.
    is_taken: AtomicBool,
}

/// When the cores began to count, and whether they also keep the last minutes, for a page.
pub(super) struct Recording {
    since: Instant,
    keeps_recent: AtomicBool,
}

impl Recording {
    pub(super) fn new(since: Instant) -> Recording {
        Recording { since, keeps_recent: AtomicBool::new(false) }
    }

    pub(super) fn keep_recent(&self) {
        self.keeps_recent.store(true, Relaxed);
    }

    /// How long the cores have counted.
    pub(super) fn uptime(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// The number of the slot at that time, if the last minutes are kept.
    pub(super) fn slot_at(&self, now: impl FnOnce() -> Instant) -> Option<u64> {
        self.keeps_recent.load(Relaxed).then(|| slot_number(self.uptime(now())))
    }
}

/// How long a core was busy with one connection before it turned to another.
#[derive(Default)]
pub(super) struct PollMetrics {
    pub(super) busy_nanos: Counter,
    /// Polls that took more than [`SLOW_POLL`].
    pub(super) slow: Counter,
    longest_nanos: Counter,
    /// The place of the route that the longest poll has served, from 1 on; 0 if it has served none, or if its exchange
    /// goes on.
    longest_route: AtomicUsize,
}

impl PollMetrics {
    fn longest_route(&self) -> Option<usize> {
        self.longest_route.load(Relaxed).checked_sub(1)
    }

    fn set_longest_route(&self, place: Option<usize>) {
        self.longest_route.store(place.map_or(0, |place| place + 1), Relaxed);
    }
}

/// The counts that servers make themselves, of those that had a core of this index.
#[derive(Default)]
struct ServersOfCore {
    ended: CoreCounts,
    running: Option<CoreCounters>,
}

impl CoreMetrics {
    pub(super) fn new(
        index: usize,
        routes_max: usize,
        times_polls: bool,
        recording: &Arc<Recording>,
    ) -> CoreMetrics {
        CoreMetrics {
            index,
            routes: RouteTable::new(routes_max),
            cuts: Default::default(),
            ended: Counter::default(),
            polls: PollMetrics::default(),
            accept_waits: Histogram::new(),
            errors: LatestErrors::default(),
            recording: recording.clone(),
            times_polls,
            servers: Mutex::default(),
            is_taken: AtomicBool::new(false),
        }
    }

    /// The counts at this moment.
    pub(super) fn counts(&self) -> CoreSnapshot {
        // The exchanges that are over are counted first, since each has begun before.
        let ended = self.ended.get();
        let servers = lock(&self.servers);
        let mut server = servers.ended.clone();
        if let Some(running) = &servers.running {
            server += &running.counts();
        }
        // The cores of a server share its memory, which the first of them reports.
        let first = servers.running.as_ref().filter(|_| self.index == 0);
        CoreSnapshot {
            memory: first.map(CoreCounters::memory).unwrap_or_default(),
            exchanges_open: server.requests.saturating_sub(ended),
            server,
            cuts: self.cuts.each_ref().map(Counter::get),
            times_polls: self.times_polls,
            busy: Duration::from_nanos(self.polls.busy_nanos.get()),
            polls_slow: self.polls.slow.get(),
            poll_longest: Duration::from_nanos(self.polls.longest_nanos.get()),
            poll_longest_route: self
                .polls
                .longest_route()
                .and_then(|place| self.routes.pattern_at(place))
                .map(Into::into),
            accept_waits: self.accept_waits.counts(),
        }
    }

    /// Makes the caller the only one who writes, if there is no other.
    pub(super) fn take(self: &Arc<CoreMetrics>, counters: CoreCounters) -> Option<CoreRecorder> {
        if self.is_taken.swap(true, AcqRel) {
            return None;
        }
        lock(&self.servers).running = Some(counters);
        Some(CoreRecorder { metrics: self.clone(), ended: Cell::new(None), blocking: Cell::new(None) })
    }
}

/// Writes the counts of one core, on its thread.
pub(super) struct CoreRecorder {
    metrics: Arc<CoreMetrics>,
    /// The longest exchange that has ended in this poll, and the place of its route.
    ended: Cell<Option<(Duration, usize)>>,
    /// The connection of the longest poll, as long as the exchange goes on.
    blocking: Cell<Option<u64>>,
}

impl CoreRecorder {
    /// Attaches this recorder to the events of its core. The last function that is dropped ends it.
    pub(super) fn attach(self, events: &mut CoreEvents) {
        let recorder = Rc::new(self);
        let [exchanges, errors, accepts, polls] = [(); 4].map(|()| recorder.clone());
        events.on_exchange(move |report| exchanges.record_exchange(report));
        events.count_errors(move |report| errors.record_error(report));
        events.on_accept(move |waited| accepts.metrics.accept_waits.record_single_writer(nanos(waited)));
        if recorder.metrics.times_polls {
            events.on_poll(move |report| polls.record_poll(report));
        }
    }

    /// Notes the route of an exchange that is over, in case it has blocked its core.
    fn note_route(&self, report: &ExchangeReport<'_>, place: usize) {
        if self.ended.get().is_none_or(|(longest, _)| longest < report.duration) {
            self.ended.set(Some((report.duration, place)));
        }
        if self.blocking.get() == Some(report.connection_id) {
            self.blocking.set(None);
            self.metrics.polls.set_longest_route(Some(place));
        }
    }

    fn record_exchange(&self, report: &ExchangeReport<'_>) {
        let metrics = &*self.metrics;
        let route = metrics.routes.get(report.matched_pattern());
        route.record(report);
        if let Some(slot) = metrics.recording.slot_at(|| report.ended_at) {
            route.record_recent(slot, report);
        }
        if let Some(at) = report.cut.and_then(|cut| CUTS.iter().position(|known| *known == cut)) {
            metrics.cuts[at].add(1);
        }
        metrics.ended.add(u64::from(report.has_request()));
        if metrics.times_polls {
            self.note_route(report, route.place);
        }
    }

    fn record_error(&self, report: &ErrorReport<'_>) {
        let now = crate::runtime::now().into_std();
        if self.metrics.recording.slot_at(|| now).is_some() {
            self.metrics.errors.note(report, now);
        }
    }

    fn record_poll(&self, report: &PollReport) {
        let PollReport { took, waiting, .. } = *report;
        let polls = &self.metrics.polls;
        let ended = self.ended.take();
        polls.busy_nanos.add(nanos(took));
        polls.slow.add(u64::from(took > SLOW_POLL));
        let longer_by = nanos(took).saturating_sub(polls.longest_nanos.get());
        if longer_by > 0 {
            polls.longest_nanos.add(longer_by);
            polls.set_longest_route(ended.map(|(_, place)| place));
            // The route of an exchange that goes on is known once that is over.
            self.blocking.set(waiting.filter(|_| ended.is_none()));
        }
    }
}

impl Drop for CoreRecorder {
    fn drop(&mut self) {
        let mut servers = lock(&self.metrics.servers);
        if let Some(ended) = servers.running.take() {
            servers.ended += &ended.counts().ended();
        }
        self.metrics.is_taken.store(false, Release);
    }
}

/// The counts of one core, or of several with the same index, as they were at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct CoreSnapshot {
    /// The counts that the servers have made.
    pub(super) server: CoreCounts,
    /// The memory of the servers whose first core this is.
    pub(super) memory: MemoryCounts,
    /// Exchanges that have begun and are not over.
    pub(super) exchanges_open: u64,
    /// In the order of [`CUTS`].
    pub(super) cuts: [u64; CUTS.len()],
    pub(super) times_polls: bool,
    /// The time in polls of connections, if polls are timed.
    pub(super) busy: Duration,
    pub(super) polls_slow: u64,
    pub(super) poll_longest: Duration,
    /// The pattern of the route that the longest poll has served.
    pub(super) poll_longest_route: Option<Box<str>>,
    /// How long connections waited after they had been accepted, in nanoseconds.
    pub(super) accept_waits: HistogramCounts,
}

impl AddAssign<&CoreSnapshot> for CoreSnapshot {
    fn add_assign(&mut self, other: &CoreSnapshot) {
        let CoreSnapshot {
            server,
            memory,
            exchanges_open,
            cuts,
            times_polls,
            busy,
            polls_slow,
            poll_longest,
            poll_longest_route,
            accept_waits,
        } = other;
        self.server += server;
        self.memory += *memory;
        self.exchanges_open += exchanges_open;
        zip(&mut self.cuts, cuts).for_each(|(count, other)| *count += other);
        self.times_polls |= times_polls;
        self.busy += *busy;
        self.polls_slow += polls_slow;
        if *poll_longest > self.poll_longest {
            (self.poll_longest, self.poll_longest_route) = (*poll_longest, poll_longest_route.clone());
        }
        self.accept_waits += accept_waits;
    }
}

/// The causes for which exchanges are cut.
pub(super) const CUTS: [CutBy; 5] = [CutBy::Peer, CutBy::Timeout, CutBy::Memory, CutBy::Stop, CutBy::Handler];

/// A poll that takes longer keeps other connections waiting for a time that people notice.
const SLOW_POLL: Duration = Duration::from_millis(10);
