//! The metrics of the crate, as text: of each route, of each core, and of each host of a client.

use std::collections::BTreeMap;
use std::iter::zip;

use super::client_metrics::{HostTimes, PHASES};
use super::core_metrics::{CUTS, CoreSnapshot};
use super::histogram::HistogramCounts;
use super::metrics_writer::Writer;
use super::route_metrics::{ClassCounts, OTHER, RouteCounts};
use crate::client::{ClientCounts, HostCounts};
use crate::lines::Log;
use crate::server::{CoreCounts, MemoryCounts, PoolCounts};

/// Writes the methods, the times and the sizes of the exchanges of each route.
pub(super) fn write_routes(writer: &mut Writer, routes: &[RouteCounts]) {
    let mut exchanges =
        writer.counter("corehttp_exchanges_total", "Exchanges that are over, by their methods.");
    for route in routes {
        for (method, count) in route.methods() {
            exchanges.value(&[("route", &route.pattern), ("method", method)], count as f64);
        }
    }
    for (name, help, times) in TIMES {
        let mut samples = writer.histogram(name, help, 1e-9);
        for route in routes {
            for class in route.classes.iter().filter(|class| times(class).count() > 0) {
                samples.counts(&[("route", &route.pattern), ("status", class.class)], times(class));
            }
        }
    }
    let help = "Time from the head of a request to the call of the handler.";
    let mut until_handler = writer.summary("corehttp_exchange_until_handler_seconds", help, 1e-9);
    for route in routes {
        for class in route.classes.iter().filter(|class| class.until_handler.count() > 0) {
            until_handler.counts(&[("route", &route.pattern), ("status", class.class)], &class.until_handler);
        }
    }
    for (name, help, sizes) in SIZES {
        let mut samples = writer.histogram(name, help, 1.0);
        routes.iter().for_each(|route| samples.counts(&[("route", &route.pattern)], sizes(route)));
    }
}

/// The name of a histogram, its meaning, and the counts of it.
type Histograms<T> = (&'static str, &'static str, fn(&T) -> &HistogramCounts);

const TIMES: [Histograms<ClassCounts>; 2] = [
    ("corehttp_exchange_seconds", "Time from the head of a request to the end of its exchange.", |class| {
        &class.duration
    }),
    (
        "corehttp_exchange_until_response_seconds",
        "Time from the head of a request to the head of its response.",
        |class| &class.until_response,
    ),
];

const SIZES: [Histograms<RouteCounts>; 2] = [
    ("corehttp_exchange_received_bytes", "Bytes received for an exchange.", |route| &route.received),
    ("corehttp_exchange_sent_bytes", "Bytes sent for an exchange.", |route| &route.sent),
];

/// Writes the counts of each core.
pub(super) fn write_cores(writer: &mut Writer, cores: &BTreeMap<usize, CoreSnapshot>) {
    let cores: Vec<(String, &CoreSnapshot)> =
        cores.iter().map(|(index, core)| (index.to_string(), core)).collect();
    for (name, kind, help, count) in SERVER_METRICS {
        let mut samples = writer.metric(&format!("corehttp_{name}"), kind, help);
        for (label, core) in &cores {
            samples.value(&[("core", label)], count(&core.server) as f64);
        }
    }
    for (name, kind, help, count) in POOL_METRICS {
        let mut samples = writer.metric(&format!("corehttp_pool_{name}"), kind, help);
        for (label, core) in &cores {
            for (pool, counts) in core.server.pools() {
                samples.value(&[("core", label), ("pool", pool)], count(&counts) as f64);
            }
        }
    }
    for (name, help, bytes) in MEMORY_METRICS {
        let mut gauge = writer.gauge(&format!("corehttp_memory_{name}"), help);
        gauge.value(&[], cores.iter().map(|(_, core)| bytes(&core.memory)).sum::<u64>() as f64);
    }
    let mut errors = writer.counter("corehttp_errors_total", "What went wrong.");
    for (label, core) in &cores {
        for (kind, count) in core.server.errors.by_kind() {
            errors.value(&[("core", label), ("kind", kind)], count as f64);
        }
    }
    let mut refusals = writer.counter("corehttp_refusals_total", "Requests that a guard has refused.");
    for (label, core) in &cores {
        for (guard, count) in core.server.refusals() {
            refusals.value(&[("core", label), ("guard", guard)], count as f64);
        }
    }
    let mut cuts = writer.counter("corehttp_exchanges_cut_total", "Exchanges that were cut, by the cause.");
    for (label, core) in &cores {
        for (by, count) in zip(CUTS, core.cuts) {
            cuts.value(&[("core", label), ("by", by.as_str())], count as f64);
        }
    }
    let mut open = writer.gauge("corehttp_exchanges_open", "Exchanges that have begun and are not over.");
    cores.iter().for_each(|(label, core)| open.value(&[("core", label)], core.exchanges_open as f64));
    let help = "Time from the acceptance of a connection until its core turned to it.";
    let mut waits = writer.histogram("corehttp_accept_wait_seconds", help, 1e-9);
    cores.iter().for_each(|(label, core)| waits.counts(&[("core", label)], &core.accept_waits));
    write_polls(writer, cores.into_iter().filter(|(_, core)| core.times_polls).collect());
}

/// The name of a metric, its type, its meaning, and its count, of a core or of a pool.
type Metric<T> = (&'static str, &'static str, &'static str, fn(&T) -> u64);

const POOL_METRICS: [Metric<PoolCounts>; 4] = [
    ("reused_total", "counter", "How often an object was used again.", |pool| pool.reused),
    ("created_total", "counter", "How often an object was made, because none was free.", |pool| pool.created),
    ("kept", "gauge", "Objects that are free.", |pool| pool.kept),
    ("bytes", "gauge", "Memory of the objects that are free.", |pool| pool.bytes),
];

/// The name of a gauge of the memory that the cores of a server share, its meaning, and its value.
type MemoryMetric = (&'static str, &'static str, fn(&MemoryCounts) -> u64);

const MEMORY_METRICS: [MemoryMetric; 3] = [
    ("max_bytes", "Memory that peers may fill.", |memory| memory.max),
    ("reserved_bytes", "Memory that peers fill.", |memory| memory.reserved),
    ("waiting", "Requests and messages that wait for memory.", |memory| memory.waiting),
];

const SERVER_METRICS: [Metric<CoreCounts>; 8] = [
    ("connections_open", "gauge", "Connections open now.", |core| core.open),
    ("connections_accepted_total", "counter", "Connections accepted.", |core| core.accepted),
    ("connections_aborted_total", "counter", "Connections aborted by a stop.", |core| core.aborted),
    ("requests_total", "counter", "Requests whose head was received and valid.", |core| core.requests),
    ("received_bytes_total", "counter", "Bytes received.", |core| core.received),
    ("sent_bytes_total", "counter", "Bytes sent.", |core| core.sent),
    ("messages_received_total", "counter", "Messages that WebSockets have received.", |core| {
        core.messages_received
    }),
    ("messages_sent_total", "counter", "Messages that WebSockets have sent.", |core| core.messages_sent),
];

fn write_polls(writer: &mut Writer, cores: Vec<(String, &CoreSnapshot)>) {
    if cores.is_empty() {
        return;
    }
    let mut busy = writer.counter("corehttp_busy_seconds_total", "Time in which a core served connections.");
    cores.iter().for_each(|(label, core)| busy.value(&[("core", label)], core.busy.as_secs_f64()));
    let help = "How often one connection has kept a core busy for more than 10 ms.";
    let mut slow = writer.counter("corehttp_polls_slow_total", help);
    cores.iter().for_each(|(label, core)| slow.value(&[("core", label)], core.polls_slow as f64));
    let help = "The longest time for which one connection has kept a core busy.";
    let mut longest = writer.gauge("corehttp_poll_longest_seconds", help);
    cores.iter().for_each(|(label, core)| longest.value(&[("core", label)], core.poll_longest.as_secs_f64()));
}

/// Writes the counts of clients for each host, and the times of the exchanges.
pub(super) fn write_clients(
    writer: &mut Writer,
    counts: &ClientCounts,
    times: &BTreeMap<Box<str>, HostTimes>,
) {
    let others = (counts.other != HostCounts::default()).then_some((OTHER, &counts.other));
    let hosts: Vec<(&str, &HostCounts)> =
        counts.hosts.iter().map(|(host, counts)| (&**host, counts)).chain(others).collect();
    for (name, help, count) in CLIENT_GAUGES {
        let mut gauge = writer.gauge(&format!("corehttp_client_{name}"), help);
        hosts.iter().for_each(|(host, counts)| gauge.value(&[("host", host)], count(counts) as f64));
    }
    for (name, help, count) in CLIENT_COUNTERS {
        let mut counter = writer.counter(&format!("corehttp_client_{name}"), help);
        hosts.iter().for_each(|(host, counts)| counter.value(&[("host", host)], count(counts) as f64));
    }
    let help = "Dials and exchanges that have failed, by the phase.";
    let mut failures = writer.counter("corehttp_client_failures_total", help);
    for (host, counts) in &hosts {
        for (phase, counts) in counts.phases() {
            failures.value(&[("host", host), ("phase", phase)], counts.failed as f64);
        }
    }
    let help = "Times of the phases of a client's exchanges.";
    let mut phases = writer.histogram("corehttp_client_phase_seconds", help, 1e-9);
    for (host, times) in times {
        for (phase, times) in zip(PHASES, &times.phases).filter(|(_, times)| times.count() > 0) {
            phases.counts(&[("host", host), ("phase", phase)], times);
        }
    }
    let help = "Times of a client's exchanges, from the wait for a connection to the response.";
    let mut exchanges = writer.histogram("corehttp_client_exchange_seconds", help, 1e-9);
    times.iter().for_each(|(host, times)| exchanges.counts(&[("host", host)], &times.exchanges));
}

/// Writes what all logs of the process have dropped.
pub(super) fn write_logs(writer: &mut Writer) {
    let help = "Lines that a log has dropped, because too many waited, or because they could not be written.";
    let mut dropped = writer.counter("corehttp_log_lines_dropped_total", help);
    for (label, log) in [("access", Log::Access), ("error", Log::Error)] {
        dropped.value(&[("log", label)], log.dropped() as f64);
    }
}

/// The name of a metric of a client, its meaning, and the count.
type ClientMetric = (&'static str, &'static str, fn(&HostCounts) -> u64);

const CLIENT_GAUGES: [ClientMetric; 3] = [
    ("connections_busy", "Connections in use, or about to be opened.", |host| host.busy),
    ("connections_idle", "Connections that are open and not in use.", |host| host.idle),
    ("requests_waiting", "Requests that wait for a connection.", |host| host.waiting),
];

const CLIENT_COUNTERS: [ClientMetric; 11] = [
    ("dials_total", "Connections that were dialed.", |host| host.dials),
    ("connections_opened_total", "Connections that were opened.", |host| host.opened),
    ("connections_stale_total", "Idle connections that the server had closed.", |host| host.stale),
    ("reuses_total", "Requests on connections that had carried others.", |host| host.reused),
    ("retries_total", "Requests that were sent again on another connection.", |host| host.retries),
    ("policy_retries_total", "Requests that a policy has sent again.", |host| host.retries_by_policy),
    ("retries_refused_total", "Retries for which there was no budget.", |host| host.retries_refused),
    ("responses_total", "Requests that were answered.", |host| host.answered),
    ("canceled_total", "Requests whose callers went away.", |host| host.canceled),
    ("received_bytes_total", "Bytes received.", |host| host.received),
    ("sent_bytes_total", "Bytes sent.", |host| host.sent),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Format;

    #[test]
    fn each_count_of_each_core_is_a_sample() {
        let mut busy = CoreSnapshot::default();
        let server = &mut busy.server;
        (server.open, server.accepted, server.aborted, server.requests) = (1, 2, 3, 4);
        (server.received, server.sent, server.messages_received, server.messages_sent) = (5, 6, 7, 9);
        server.errors.accept = 8;
        let mut writer = Writer::new(Format::Prometheus);
        write_cores(&mut writer, &BTreeMap::from([(0, CoreSnapshot::default()), (1, busy)]));
        let text = writer.finish();
        for line in [
            "# TYPE corehttp_connections_open gauge",
            "corehttp_connections_open{core=\"0\"} 0",
            "corehttp_connections_open{core=\"1\"} 1",
            "# HELP corehttp_connections_accepted_total Connections accepted.",
            "# TYPE corehttp_connections_accepted_total counter",
            "corehttp_connections_accepted_total{core=\"1\"} 2",
            "corehttp_connections_aborted_total{core=\"1\"} 3",
            "corehttp_requests_total{core=\"1\"} 4",
            "corehttp_received_bytes_total{core=\"1\"} 5",
            "corehttp_sent_bytes_total{core=\"1\"} 6",
            "corehttp_messages_received_total{core=\"1\"} 7",
            "corehttp_messages_sent_total{core=\"1\"} 9",
            "corehttp_errors_total{core=\"0\",kind=\"accept\"} 0",
            "corehttp_errors_total{core=\"1\",kind=\"accept\"} 8",
            "corehttp_errors_total{core=\"1\",kind=\"timed_out\"} 0",
            "corehttp_errors_total{core=\"1\",kind=\"certificate\"} 0",
            "corehttp_refusals_total{core=\"1\",guard=\"rate_limit\"} 0",
            "corehttp_refusals_total{core=\"0\",guard=\"guard\"} 0",
            "# TYPE corehttp_pool_kept gauge",
            "corehttp_pool_reused_total{core=\"0\",pool=\"decoders\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
