//! [`Scenario`]: a row of the arena.

use std::io;

use super::data::Data;
use super::entry::{Addresses, Entry};
use super::kind::Kind;
use super::{requests, rules};
use crate::load::{Plan, Protocol};

/// The requests to an application, and how many at once.
pub(crate) struct Scenario {
    /// How the command line and the files call it.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) kind: Kind,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    /// A connection closes after so many requests.
    per_connection: Option<u32>,
    /// Requests per second at which latency is measured.
    pub(crate) offered: u32,
    /// The divisor of the weights of steps: uploads count megabytes.
    pub(crate) unit: u64,
}

impl Scenario {
    const fn new(name: &'static str, title: &'static str, kind: Kind, offered: u32) -> Scenario {
        Scenario { name, title, kind, connections: 64, depth: 1, per_connection: None, offered, unit: 1 }
    }

    const fn connections(mut self, connections: usize) -> Scenario {
        self.connections = connections;
        self
    }

    const fn depth(mut self, depth: usize) -> Scenario {
        self.depth = depth;
        self
    }

    const fn per_connection(mut self, requests: u32) -> Scenario {
        self.per_connection = Some(requests);
        self
    }

    const fn unit(mut self, unit: u64) -> Scenario {
        self.unit = unit;
        self
    }

    pub(crate) fn lacks(&self, entry: Entry) -> Option<&'static str> {
        entry.lacks(self.kind)
    }

    /// Do the bytes of a response count besides the rate?
    pub(crate) fn is_scored(&self) -> bool {
        self.kind == Kind::CompressedJson
    }

    /// How often in a second something is due: what is pipelined is due at once.
    pub(crate) fn rate(&self) -> f64 {
        f64::from(self.offered) / self.depth as f64
    }

    /// Checks every rule of this row.
    ///
    /// # Errors
    ///
    /// Says which one is broken.
    pub(crate) fn validate(&self, addresses: Addresses, data: &Data) -> io::Result<()> {
        rules::check(self.kind, addresses, data)
    }

    pub(crate) fn plan(&self, Addresses { plain, secure }: Addresses, data: &Data) -> Plan {
        let (address, protocol) = match self.kind {
            Kind::SecureJson => (secure, Protocol::Https(data.client.clone())),
            Kind::WebSocket => (plain, Protocol::WebSocket("/ws")),
            _ => (plain, Protocol::Http),
        };
        let steps = requests::steps(self.kind, self.depth);
        Plan::new(address, protocol, steps, self.depth, self.per_connection)
    }
}

use Scenario as S;

/// Rows that write to the database are last, because the table is another one then.
pub(crate) const SCENARIOS: [Scenario; 15] = [
    S::new("app-baseline", "sums: query, length, chunks", Kind::Baseline, 20_000),
    S::new("app-baseline-512", "the same, 512 connections", Kind::Baseline, 20_000).connections(512),
    S::new("app-pipelined", "16 requests at once", Kind::Pipeline, 40_000).depth(16),
    S::new("app-limited", "sums, 10 requests a connection", Kind::Baseline, 10_000).per_connection(10),
    S::new("app-json", "1 to 50 items as JSON", Kind::Json, 10_000),
    S::new("app-json-comp", "25 to 50 items, compressed", Kind::CompressedJson, 2_000),
    S::new("app-json-tls", "1 to 50 items over TLS", Kind::SecureJson, 8_000),
    S::new("app-upload", "uploads of 0.5 to 20 MB, per MB", Kind::Upload, 40).connections(32).unit(2),
    S::new("app-static", "20 files, precompressed", Kind::Static, 4_000).per_connection(200),
    S::new("app-ws", "WebSocket, 1 message in flight", Kind::WebSocket, 20_000),
    S::new("app-ws-16", "WebSocket, 16 messages at once", Kind::WebSocket, 40_000).depth(16),
    S::new("app-db", "a range query on PostgreSQL", Kind::Query, 1_500),
    S::new("app-api", "3 sums, 3 JSON, 2 queries", Kind::Api, 2_000).connections(256).per_connection(5),
    S::new("app-api-512", "the same, 512 connections", Kind::Api, 2_000).connections(512).per_connection(5),
    S::new("app-crud", "75% cached reads, 25% lists and writes", Kind::Crud, 1_500).per_connection(200),
];
