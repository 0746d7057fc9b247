//! [`ServerWorkload`], [`ClientWorkload`]: everything that is measured, row by row.

use crate::application::Exchange;
use crate::asker::{Job, Task};
use crate::load::Work;
use crate::peer::Peer;

/// The work that a server is given.
pub(crate) struct ServerWorkload {
    /// How the command line and the files call it.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) work: Work,
    pub(crate) connections: usize,
    /// Connections beside them that say nothing.
    pub(crate) idle_conns: usize,
    /// Requests per second at which latency is measured: what the slowest peer can still answer on a core.
    pub(crate) offered: u32,
}

impl ServerWorkload {
    const fn new(
        name: &'static str,
        title: &'static str,
        exchange: Exchange,
        offered: u32,
    ) -> ServerWorkload {
        let work = Work { exchange, depth: 1, per_connection: None };
        ServerWorkload { name, title, work, connections: 64, idle_conns: 0, offered }
    }

    const fn connections(mut self, connections: usize) -> ServerWorkload {
        self.connections = connections;
        self
    }

    const fn depth(mut self, depth: usize) -> ServerWorkload {
        self.work.depth = depth;
        self
    }

    const fn per_connection(mut self, exchanges: u32) -> ServerWorkload {
        self.work.per_connection = Some(exchanges);
        self
    }

    const fn idle_conns(mut self, idle_conns: usize) -> ServerWorkload {
        self.idle_conns = idle_conns;
        self
    }

    /// Why a server cannot do it, if it cannot.
    pub(crate) fn lacks(&self, peer: Peer) -> Option<&'static str> {
        peer.lacks(self.work.exchange)
    }

    /// How often in a second something is due: what is pipelined is due at once.
    pub(crate) fn rate(&self) -> f64 {
        f64::from(self.offered) / self.work.depth as f64
    }
}

use Exchange::{Browser, Download, Echo, Json, Plain, Upload};
use ServerWorkload as S;

pub(crate) const SERVER: [ServerWorkload; 14] = [
    S::new("plaintext-1", "13 bytes, 1 connection", Plain, 5_000).connections(1),
    S::new("plaintext-64", "13 bytes, 64 connections", Plain, 30_000),
    S::new("plaintext-512", "13 bytes, 512 connections", Plain, 30_000).connections(512),
    S::new("plaintext-4000", "13 bytes, 4,000 connections", Plain, 30_000).connections(4_000),
    S::new("pipelined-16", "13 bytes, 64 connections, pipelined 16", Plain, 40_000).depth(16),
    S::new("browser", "a browser's head of 14 fields", Browser, 20_000),
    S::new("echo-1k", "1 KiB there and back", Echo(1 << 10), 20_000),
    S::new("echo-64k", "64 KiB there and back", Echo(64 << 10), 3_000),
    S::new("echo-1m", "1 MiB there and back, 16 connections", Echo(1 << 20), 500).connections(16),
    S::new("json", "1 KiB of JSON", Json, 20_000),
    S::new("churn", "10 requests per connection", Plain, 15_000).per_connection(10),
    S::new("upload", "64 KiB of chunks up", Upload, 4_000),
    S::new("download", "64 KiB of chunks down", Download, 2_500),
    S::new("idle", "64 busy connections beside 10,000 idle ones", Plain, 30_000).idle_conns(10_000),
];

/// The work that a client is given. At the other end is the limit.
pub(crate) struct ClientWorkload {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) job: Job,
    /// Requests per second at which latency is measured.
    pub(crate) offered: u32,
}

const fn client(
    name: &'static str,
    title: &'static str,
    (task, in_flight): (Task, usize),
    offered: u32,
) -> ClientWorkload {
    ClientWorkload { name, title, job: Job { task, in_flight }, offered }
}

pub(crate) const CLIENT: [ClientWorkload; 6] = [
    client("client-1", "13 bytes, 1 in flight", (Task::Get, 1), 4_000),
    client("client-64", "13 bytes, 64 in flight", (Task::Get, 64), 10_000),
    client("client-close-1", "a connection for each, 1 in flight", (Task::Close, 1), 2_000),
    client("client-close-64", "a connection for each, 64 in flight", (Task::Close, 64), 4_000),
    client("client-down", "1 MiB down, 16 in flight", (Task::Down, 16), 1_000),
    client("client-up", "1 MiB up, 16 in flight", (Task::Up, 16), 1_000),
];
