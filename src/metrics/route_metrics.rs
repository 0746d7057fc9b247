//! [`RouteMetrics`]: the exchanges of one route on one core; [`RouteTable`], those of all routes; and [`RouteCounts`],
//! as they were at one moment.

use std::collections::BTreeMap;
use std::iter::zip;
use std::ops::AddAssign;
use std::sync::OnceLock;

use super::histogram::{Histogram, HistogramCounts, nanos};
use super::slow_exchanges::{SlowExchange, SlowExchanges};
use super::timeline::{SlotSeries, Timeline};
use crate::memory::Counter;
use crate::message::{Method, Status};
use crate::server::ExchangeReport;

/// The exchanges of one route on one core. Only that core writes.
pub(super) struct RouteMetrics {
    pattern: Box<str>,
    /// The place in the table.
    pub(super) place: usize,
    /// In the order of [`CLASSES`]. Memory for a class is taken with its first exchange.
    classes: [OnceLock<Box<ClassMetrics>>; CLASSES.len()],
    /// In the order of [`METHODS`].
    methods: [Counter; METHODS.len()],
    received: Histogram,
    sent: Histogram,
    /// The last minutes, for the page.
    recent: OnceLock<Box<RecentExchanges>>,
}

/// The exchanges of the last minutes.
#[derive(Default)]
struct RecentExchanges {
    timeline: Timeline,
    slow: SlowExchanges,
}

/// The times of exchanges whose responses are of one class, in nanoseconds.
#[derive(Default)]
struct ClassMetrics {
    until_handler: Histogram,
    until_response: Histogram,
    duration: Histogram,
}

impl RouteMetrics {
    fn new(pattern: &str, place: usize) -> Box<RouteMetrics> {
        Box::new(RouteMetrics {
            pattern: pattern.into(),
            place,
            classes: Default::default(),
            methods: Default::default(),
            received: Histogram::new(),
            sent: Histogram::new(),
            recent: OnceLock::new(),
        })
    }

    pub(super) fn record(&self, report: &ExchangeReport<'_>) {
        let class = self.classes[class_of(report.status)].get_or_init(Box::default);
        for (histogram, time) in [
            (&class.until_handler, report.until_handler),
            (&class.until_response, report.until_response),
            (&class.duration, Some(report.duration)),
        ] {
            if let Some(time) = time {
                histogram.record_single_writer(nanos(time));
            }
        }
        self.methods[method_of(report.method)].add(1);
        self.received.record_single_writer(report.received);
        self.sent.record_single_writer(report.sent);
    }

    /// Records an exchange in the slot of this number, too.
    pub(super) fn record_recent(&self, slot: u64, report: &ExchangeReport<'_>) {
        let recent = self.recent.get_or_init(Box::default);
        // A stream takes as long as it likes, so the time until its response counts.
        let time = report.until_response.unwrap_or(report.duration);
        let is_failed = report.cut.is_some() || report.status.is_none_or(Status::is_server_error);
        recent.timeline.record_single_writer(slot, nanos(time), is_failed);
        recent.slow.offer(slot, report);
    }

    fn add_to(&self, counts: &mut RouteCounts) {
        for (class, counts) in zip(&self.classes, &mut counts.classes) {
            if let Some(class) = class.get() {
                counts.until_handler += &class.until_handler.counts();
                counts.until_response += &class.until_response.counts();
                counts.duration += &class.duration.counts();
            }
        }
        zip(&mut counts.methods, &self.methods).for_each(|(count, method)| *count += method.get());
        counts.received += &self.received.counts();
        counts.sent += &self.sent.counts();
    }
}

/// The routes of one core, found by their patterns. Their number is bounded, since a server may make routes while it
/// runs; further ones count as [`OTHER`].
pub(super) struct RouteTable {
    /// Each pattern is in the first free place from that of its hash. More than half of them stay free.
    slots: Box<[OnceLock<Box<RouteMetrics>>]>,
    routes_max: u64,
    count: Counter,
}

impl RouteTable {
    pub(super) fn new(routes_max: usize) -> RouteTable {
        let routes_max = routes_max.clamp(1, ROUTES_MAX);
        // Two more, for requests without a route, and for those of routes beyond the bound.
        let slots = (2 * (routes_max + 2)).next_power_of_two();
        RouteTable {
            slots: (0..slots).map(|_| OnceLock::new()).collect(),
            routes_max: routes_max as u64,
            count: Counter::default(),
        }
    }

    /// The route with this pattern. Only the core of the table may call this.
    pub(super) fn get(&self, pattern: Option<&str>) -> &RouteMetrics {
        let pattern = pattern.unwrap_or(NONE);
        let (at, found) = self.find(pattern);
        match found {
            Some(route) => route,
            None if [NONE, OTHER].contains(&pattern) => {
                self.slots[at].get_or_init(|| RouteMetrics::new(pattern, at))
            }
            None if self.count.get() == self.routes_max => self.get(Some(OTHER)),
            None => {
                self.count.add(1);
                self.slots[at].get_or_init(|| RouteMetrics::new(pattern, at))
            }
        }
    }

    /// The pattern of the route at this place.
    pub(super) fn pattern_at(&self, place: usize) -> Option<&str> {
        self.slots.get(place)?.get().map(|route| &*route.pattern)
    }

    /// The place of a pattern, and the route that is there already.
    fn find(&self, pattern: &str) -> (usize, Option<&RouteMetrics>) {
        // The length is a power of two, and a mask is cheaper than a division.
        let mask = self.slots.len() - 1;
        let mut at = hash(pattern) as usize & mask;
        loop {
            match self.slots[at].get() {
                Some(route) if *route.pattern != *pattern => at = (at + 1) & mask,
                found => return (at, found.map(|route| &**route)),
            }
        }
    }

    /// Adds the last minutes of each route to those under its pattern, which begin as `empty`.
    pub(super) fn add_timelines_to(&self, series: &mut BTreeMap<Box<str>, SlotSeries>, empty: &SlotSeries) {
        for (pattern, recent) in self.recent() {
            series.entry(pattern.into()).or_insert_with(|| empty.clone()).add(&recent.timeline);
        }
    }

    /// Adds the last minutes of all routes to one series.
    pub(super) fn sum_timelines(&self, sum: &mut SlotSeries) {
        self.recent().for_each(|(_, recent)| sum.add(&recent.timeline));
    }

    /// Adds the slowest exchanges of each route in the minutes up to the slot of this number.
    pub(super) fn add_slow_to(&self, list: &mut Vec<SlowExchange>, slot: u64) {
        self.recent().for_each(|(_, recent)| recent.slow.add_to(list, slot));
    }

    /// Adds the counts of each route to those under its pattern.
    pub(super) fn add_to(&self, routes: &mut BTreeMap<Box<str>, RouteCounts>) {
        for route in self.routes() {
            let counts = routes.entry(route.pattern.clone());
            route.add_to(counts.or_insert_with_key(|pattern| RouteCounts::new(pattern)));
        }
    }

    fn routes(&self) -> impl Iterator<Item = &RouteMetrics> {
        self.slots.iter().filter_map(OnceLock::get).map(|route| &**route)
    }

    /// The patterns and the last minutes of the routes that keep them.
    fn recent(&self) -> impl Iterator<Item = (&str, &RecentExchanges)> {
        self.routes().filter_map(|route| Some((&*route.pattern, &**route.recent.get()?)))
    }
}

/// A hash of all of a pattern, eight octets at a time. The application chooses patterns, and not its peers.
fn hash(pattern: &str) -> u64 {
    let (words, rest) = pattern.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    // The fractional part of the golden ratio, which spreads products over all bits.
    let mix = |hash: u64, word: u64| (hash.rotate_left(29) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    words.fold(pattern.len() as u64, mix) >> 32
}

/// The pattern of requests that no router has matched. Patterns of routes have no parentheses.
const NONE: &str = "(none)";
/// The pattern of all routes beyond the bound, and the origin of all hosts beyond theirs.
pub(super) const OTHER: &str = "(other)";
/// How many routes a table may have at most.
const ROUTES_MAX: usize = 10_000;

/// The exchanges of one route, as they were at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RouteCounts {
    /// The pattern of the route, such as `/users/{id}`. Requests that no router has matched are under `(none)`. Requests for
    /// routes beyond [`Options::routes_max`](super::Options::routes_max) are under `(other)`.
    pub pattern: String,
    /// The times of the exchanges, by the class of their status: `none` first, then `1xx` to `5xx`.
    pub classes: [ClassCounts; 6],
    /// In the order of [`METHODS`].
    methods: [u64; METHODS.len()],
    /// The bytes received for each exchange, as [`ExchangeReport::received`](crate::server::ExchangeReport::received).
    pub received: HistogramCounts,
    /// The bytes sent for each exchange, as [`ExchangeReport::sent`](crate::server::ExchangeReport::sent).
    pub sent: HistogramCounts,
}

/// The times of the exchanges of one route whose responses are of one class, in nanoseconds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClassCounts {
    /// The class of the status: `1xx` to `5xx`, or `none` for exchanges without a response. A status from 600 on counts
    /// as `5xx`.
    pub class: &'static str,
    /// The times until the handler was called. Exchanges without such a call are left out.
    pub until_handler: HistogramCounts,
    /// The times until the head of the response was written.
    pub until_response: HistogramCounts,
    /// The times until the exchanges were over.
    pub duration: HistogramCounts,
}

impl RouteCounts {
    fn new(pattern: &str) -> RouteCounts {
        RouteCounts {
            pattern: pattern.to_owned(),
            classes: CLASSES.map(ClassCounts::new),
            methods: Default::default(),
            received: HistogramCounts::default(),
            sent: HistogramCounts::default(),
        }
    }

    /// Returns how many exchanges there were.
    pub fn count(&self) -> u64 {
        self.classes.iter().map(|class| class.duration.count()).sum()
    }

    /// Returns the number of exchanges with each method, without methods that had none.
    ///
    /// Methods that have no variant in [`Method`](crate::Method) are counted together, as `_OTHER`. So are heads that were
    /// refused.
    pub fn methods(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        zip(METHODS, self.methods).filter(|(_, count)| *count > 0)
    }
}

impl AddAssign<&ClassCounts> for ClassCounts {
    fn add_assign(&mut self, other: &ClassCounts) {
        let ClassCounts { class: _, until_handler, until_response, duration } = other;
        self.until_handler += until_handler;
        self.until_response += until_response;
        self.duration += duration;
    }
}

impl ClassCounts {
    fn new(class: &'static str) -> ClassCounts {
        ClassCounts {
            class,
            until_handler: HistogramCounts::default(),
            until_response: HistogramCounts::default(),
            duration: HistogramCounts::default(),
        }
    }
}

/// The methods that are counted apart, and the others, as OpenTelemetry's `http.request.method` has them.
const METHODS: [&str; 11] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY", "_OTHER"];

/// The place of a method in [`METHODS`].
fn method_of(method: Option<Method>) -> usize {
    match method {
        Some(Method::Get) => 0,
        Some(Method::Head) => 1,
        Some(Method::Post) => 2,
        Some(Method::Put) => 3,
        Some(Method::Delete) => 4,
        Some(Method::Connect) => 5,
        Some(Method::Options) => 6,
        Some(Method::Trace) => 7,
        Some(Method::Patch) => 8,
        Some(Method::Query) => 9,
        Some(Method::Extension(_)) | None => 10,
    }
}

/// The classes of statuses (RFC 9110 §15), and none.
const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// The place of a status's class in [`CLASSES`]. A status beyond them, which a gateway may pass on, counts as 5xx, as it
/// does for clients (§15).
fn class_of(status: Option<Status>) -> usize {
    status.map_or(0, |status| usize::from(status.as_u16() / 100).min(CLASSES.len() - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_beyond_the_bound_are_one() {
        let table = RouteTable::new(100);
        for round in 0..3 {
            for number in 0..100_000 >> (8 * round) {
                let pattern = format!("/some/path/{number}/{{id}}");
                let expected = if number < 100 { &*pattern } else { OTHER };
                assert_eq!(&*table.get(Some(&pattern)).pattern, expected);
            }
            assert_eq!(&*table.get(None).pattern, NONE);
        }
        assert_eq!(table.slots.iter().filter(|slot| slot.get().is_some()).count(), 102);
    }

    /// Two in five of them share a place with another, if places are drawn by lot.
    #[test]
    fn patterns_that_differ_in_the_middle_have_places_of_their_own() {
        for end in ["", "/settings", "/settings/of/all/kinds"] {
            let places = (0..2000).map(|number| hash(&format!("/api/v1/{number:04}{end}")) & 4095);
            let places: std::collections::BTreeSet<_> = places.collect();
            assert!(places.len() > 1400, "{} for {end}", places.len());
        }
    }

    #[test]
    fn each_method_has_a_place() {
        for method in METHODS {
            assert_eq!(METHODS[method_of(method.parse().ok())], method);
        }
        for other in ["PROPFIND", "get", "query", "_OTHER"] {
            assert_eq!(METHODS[method_of(other.parse().ok())], "_OTHER", "{other}");
        }
        assert_eq!(METHODS[method_of(None)], "_OTHER");
    }

    #[test]
    fn each_status_has_a_class() {
        for (status, class) in [(100, "1xx"), (299, "2xx"), (404, "4xx"), (599, "5xx"), (999, "5xx")] {
            assert_eq!(CLASSES[class_of(Status::from_received(status))], class, "{status}");
        }
        assert_eq!(CLASSES[class_of(None)], "none");
    }
}
