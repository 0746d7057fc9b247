//! [`ServerStats`] as text, for Prometheus (its text format, version 0.0.4).

use std::fmt;

use super::{ServerCounts, ServerStats};

impl fmt::Display for ServerStats {
    /// Writes the counts of each core in the text format of Prometheus. Its content type is
    /// `text/plain; version=0.0.4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, kind, help, count) in METRICS {
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

/// The name of a metric, its type, what it means, and what it counts of a core.
type Metric = (&'static str, &'static str, &'static str, fn(&ServerCounts) -> u64);

const METRICS: [Metric; 6] = [
    ("connections_open", "gauge", "Connections open now.", |core| core.open),
    ("connections_accepted_total", "counter", "Connections accepted.", |core| core.accepted),
    ("connections_cut_total", "counter", "Connections cut by a stop.", |core| core.cut),
    ("requests_total", "counter", "Requests whose head was received and valid.", |core| core.requests),
    ("received_bytes_total", "counter", "Bytes received.", |core| core.received),
    ("sent_bytes_total", "counter", "Bytes sent.", |core| core.sent),
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
            "# HELP corehttp_connections_accepted_total Connections accepted.",
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
        assert_eq!(text.lines().count(), 6 * (2 + 2) + 2 + 2 * 11);
        assert!(text.ends_with('\n'));
    }
}
