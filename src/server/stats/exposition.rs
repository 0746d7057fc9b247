//! [`ServerStats`] as text, for Prometheus (its text format, version 0.0.4).

use std::fmt;

use super::{ServerCounts, ServerStats};

impl fmt::Display for ServerStats {
    /// The counts of each core in the text format of Prometheus. Its content type is `text/plain; version=0.0.4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Metric { name, kind, help, count } in METRICS {
            writeln!(f, "# HELP corehttp_{name} {help}\n# TYPE corehttp_{name} {kind}")?;
            for (number, core) in self.cores.iter().enumerate() {
                writeln!(f, "corehttp_{name}{{core=\"{number}\"}} {}", count(core))?;
            }
        }
        writeln!(f, "# HELP corehttp_errors_total What went wrong.\n# TYPE corehttp_errors_total counter")?;
        for (number, core) in self.cores.iter().enumerate() {
            for (kind, count) in core.errors.by_kind() {
                writeln!(f, "corehttp_errors_total{{core=\"{number}\",kind=\"{kind}\"}} {count}")?;
            }
        }
        Ok(())
    }
}

struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    count: fn(&ServerCounts) -> u64,
}

const METRICS: [Metric; 6] = [
    Metric {
        name: "connections_open",
        kind: "gauge",
        help: "Connections open now.",
        count: |core| core.open,
    },
    Metric {
        name: "connections_accepted_total",
        kind: "counter",
        help: "Connections accepted, including those that were then refused.",
        count: |core| core.accepted,
    },
    Metric {
        name: "connections_cut_total",
        kind: "counter",
        help: "Connections that were still open when the grace of a shutdown was over.",
        count: |core| core.cut,
    },
    Metric {
        name: "requests_total",
        kind: "counter",
        help: "Requests whose head was received and valid.",
        count: |core| core.requests,
    },
    Metric {
        name: "received_bytes_total",
        kind: "counter",
        help: "Bytes received.",
        count: |core| core.received,
    },
    Metric { name: "sent_bytes_total", kind: "counter", help: "Bytes sent.", count: |core| core.sent },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ErrorCounts;

    #[test]
    fn each_count_of_each_core_is_a_line() {
        let errors = ErrorCounts { accept: 8, ..ErrorCounts::default() };
        let busy = ServerCounts { open: 1, accepted: 2, cut: 3, requests: 4, received: 5, sent: 6, errors };
        let stats = ServerStats { cores: vec![ServerCounts::default(), busy], ..ServerStats::default() };
        let text = stats.to_string();
        for line in [
            "# TYPE corehttp_connections_open gauge",
            "corehttp_connections_open{core=\"0\"} 0",
            "corehttp_connections_open{core=\"1\"} 1",
            "# HELP corehttp_connections_accepted_total Connections accepted, including those that were then refused.",
            "# TYPE corehttp_connections_accepted_total counter",
            "corehttp_connections_accepted_total{core=\"1\"} 2",
            "corehttp_connections_cut_total{core=\"1\"} 3",
            "corehttp_requests_total{core=\"1\"} 4",
            "corehttp_received_bytes_total{core=\"1\"} 5",
            "corehttp_sent_bytes_total{core=\"1\"} 6",
            "corehttp_errors_total{core=\"0\",kind=\"accept\"} 0",
            "corehttp_errors_total{core=\"1\",kind=\"accept\"} 8",
            "corehttp_errors_total{core=\"1\",kind=\"timed_out\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(text.lines().count(), 6 * (2 + 2) + 2 + 2 * 10);
        assert!(text.ends_with('\n'));
    }
}
