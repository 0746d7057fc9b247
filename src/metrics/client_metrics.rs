//! [`HostTable`]: the times of clients' exchanges with each host; [`HostTimes`], the same at one moment.

use std::collections::BTreeMap;
use std::iter::zip;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::core_metrics::Recording;
use super::histogram::{Histogram, HistogramCounts, nanos};
use super::route_metrics::OTHER;
use super::timeline::{SlotSeries, Timeline};
use crate::client::{ClientExchangeReport, ClientPhase, DialReport, ExchangeEnd, HostEvents, QueueReport};
use crate::memory::lock;
use crate::message::Timings;
use crate::runtime::now;

/// The hosts that clients have exchanges with, found by their origins. Their number is bounded, since peers may choose
/// the URLs of a program; further ones are counted together, as [`OTHER`].
pub(super) struct HostTable {
    hosts_max: usize,
    hosts: Mutex<BTreeMap<Box<str>, Arc<HostMetrics>>>,
    recording: Arc<Recording>,
}

/// The times of the exchanges with one host, in several shards, so that pools of different cores do not write the same
/// memory.
#[derive(Default)]
struct HostMetrics {
    shards: [OnceLock<Box<HostShard>>; SHARDS],
    /// How many pools the host has had.
    pools: AtomicUsize,
}

/// A pool writes to one shard. Connections end on any thread, so writes are atomic.
#[derive(Default)]
struct HostShard {
    /// In the order of [`PHASES`], in nanoseconds. Memory for a phase is taken when it first takes time.
    phases: [OnceLock<Histogram>; PHASES.len()],
    exchanges: OnceLock<Histogram>,
    /// The last minutes, for the page.
    recent: OnceLock<Timeline>,
}

impl HostTable {
    pub(super) fn new(hosts_max: usize, recording: &Arc<Recording>) -> HostTable {
        HostTable { hosts_max, hosts: Mutex::default(), recording: recording.clone() }
    }

    /// Attaches functions to the events of a host, which write to this table.
    pub(super) fn attach(&self, events: &mut HostEvents) {
        let host = self.host(events.origin());
        let shard = host.pools.fetch_add(1, Relaxed) % SHARDS;
        let recorder = Arc::new(HostRecorder { host, shard, recording: self.recording.clone() });
        let on = recorder.clone();
        events.on_queue(move |report| on.note_wait(report));
        let on = recorder.clone();
        events.on_dial(move |report| on.note_dial(report));
        events.on_exchange(move |report| recorder.note_exchange(report));
    }

    fn host(&self, key: &str) -> Arc<HostMetrics> {
        let mut hosts = lock(&self.hosts);
        let is_apart = hosts.contains_key(key) || hosts.len() < self.hosts_max;
        hosts.entry(if is_apart { key } else { OTHER }.into()).or_default().clone()
    }

    /// The times of each host.
    pub(super) fn counts(&self) -> BTreeMap<Box<str>, HostTimes> {
        self.hosts().into_iter().map(|(key, host)| (key, host.counts())).collect()
    }

    /// The last minutes of each host, in the slots of `empty`.
    pub(super) fn timelines(&self, empty: &SlotSeries) -> BTreeMap<Box<str>, SlotSeries> {
        let series = |host: Arc<HostMetrics>| {
            let mut series = empty.clone();
            host.shards().filter_map(|shard| shard.recent.get()).for_each(|recent| series.add(recent));
            series
        };
        self.hosts().into_iter().map(|(key, host)| (key, series(host))).collect()
    }

    fn hosts(&self) -> Vec<(Box<str>, Arc<HostMetrics>)> {
        lock(&self.hosts).iter().map(|(key, host)| (key.clone(), host.clone())).collect()
    }
}

impl HostMetrics {
    fn shards(&self) -> impl Iterator<Item = &HostShard> {
        self.shards.iter().filter_map(OnceLock::get).map(|shard| &**shard)
    }

    fn counts(&self) -> HostTimes {
        let mut counts = HostTimes::default();
        for shard in self.shards() {
            for (sum, phase) in zip(&mut counts.phases, &shard.phases) {
                if let Some(phase) = phase.get() {
                    *sum += &phase.counts();
                }
            }
            if let Some(exchanges) = shard.exchanges.get() {
                counts.exchanges += &exchanges.counts();
            }
        }
        counts
    }
}

/// How many shards a host has. Further pools share them.
const SHARDS: usize = 16;

/// Writes the times of one pool.
struct HostRecorder {
    host: Arc<HostMetrics>,
    shard: usize,
    recording: Arc<Recording>,
}

impl HostRecorder {
    fn shard(&self) -> &HostShard {
        self.host.shards[self.shard].get_or_init(Box::default)
    }

    /// Counts phases that took time.
    fn record<const N: usize>(&self, phases: [(ClientPhase, Duration); N]) {
        let shard = self.shard();
        for (phase, took) in phases.into_iter().filter(|(_, took)| !took.is_zero()) {
            shard.phases[place_of(phase)].get_or_init(Histogram::new).record_duration(took);
        }
    }

    /// Counts an exchange that took so long, or has failed, in the slot of this moment, if the last minutes are kept.
    fn record_recent(&self, took: Option<Duration>) {
        if let Some(slot) = self.recording.slot_at(|| now().into_std()) {
            self.shard().recent.get_or_init(Timeline::default).record(slot, took.map(nanos));
        }
    }

    fn note_wait(&self, report: &QueueReport) {
        match report.timed_out {
            true => self.record_recent(None),
            false => self.record([(ClientPhase::Queue, report.waited)]),
        }
    }

    fn note_dial(&self, report: &DialReport) {
        let Timings { resolve, connect, tls, .. } = report.timings;
        match report.failed {
            Some(_) => self.record_recent(None),
            None => self.record([
                (ClientPhase::Resolve, resolve),
                (ClientPhase::Connect, connect),
                (ClientPhase::Tls, tls),
            ]),
        }
    }

    fn note_exchange(&self, report: &ClientExchangeReport) {
        match report.end {
            ExchangeEnd::Answered => self.note_answered(&report.timings),
            ExchangeEnd::Failed(_) => self.record_recent(None),
            ExchangeEnd::Canceled | ExchangeEnd::Retried => {}
        }
    }

    fn note_answered(&self, timings: &Timings) {
        let Timings { send, wait, receive, .. } = *timings;
        self.record([(ClientPhase::Send, send), (ClientPhase::Wait, wait), (ClientPhase::Receive, receive)]);
        let took = timings.total();
        self.shard().exchanges.get_or_init(Histogram::new).record_duration(took);
        self.record_recent(Some(took));
    }
}

/// The phases that take time, from the first of [`ClientPhase`] to the last, by the names of
/// [`HostCounts`](crate::client::HostCounts).
pub(super) const PHASES: [&str; 7] = ["queue", "resolve", "connect", "tls", "send", "wait", "receive"];

/// The place of a phase in [`PHASES`].
fn place_of(phase: ClientPhase) -> usize {
    phase as usize - ClientPhase::Queue as usize
}

const _: () = assert!(
    ClientPhase::Receive as usize - ClientPhase::Queue as usize + 1 == PHASES.len(),
    "each phase that takes time has its name"
);

/// The times of the exchanges with one host, in nanoseconds.
#[derive(Clone, Default)]
pub(super) struct HostTimes {
    /// In the order of [`PHASES`].
    pub(super) phases: [HistogramCounts; PHASES.len()],
    /// Whole exchanges, those that were answered.
    pub(super) exchanges: HistogramCounts,
}
