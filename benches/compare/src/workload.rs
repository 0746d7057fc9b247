//! [`ServerWorkload`], [`ClientWorkload`]: everything that is measured, row by row.

use crate::application::Exchange;
use crate::asker::{Job, Task};
use crate::load::Work;

/// What a server is made to do.
pub(crate) struct ServerWorkload {
    /// How the command line and the files call it.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) work: Work,
    pub(crate) connections: usize,
    /// Connections beside them that say nothing.
    pub(crate) crowd: usize,
    /// Requests per second at which latency is measured: what the slowest peer can still answer on a core.
    pub(crate) offered: Option<u32>,
    /// Are system calls counted?
    pub(crate) traced: bool,
}

impl ServerWorkload {
    const fn new(name: &'static str, title: &'static str, exchange: Exchange) -> ServerWorkload {
        let work = Work { exchange, depth: 1, per_connection: None };
        ServerWorkload { name, title, work, connections: 64, crowd: 0, offered: None, traced: false }
    }

    const fn connections(mut self, connections: usize) -> ServerWorkload {
        self.connections = connections;
        self
    }

    const fn offered(mut self, rate: u32) -> ServerWorkload {
        self.offered = Some(rate);
        self
    }

    const fn traced(mut self) -> ServerWorkload {
        self.traced = true;
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

    const fn crowd(mut self, crowd: usize) -> ServerWorkload {
        self.crowd = crowd;
        self
    }
}

use Exchange::{Browser, Download, Echo, Json, Plain, Upload};
use ServerWorkload as S;

pub(crate) const SERVER: [ServerWorkload; 14] = [
    S::new("plaintext-1", "13 bytes, 1 connection", Plain).connections(1).traced(),
    S::new("plaintext-64", "13 bytes, 64 connections", Plain).offered(30_000),
    S::new("plaintext-512", "13 bytes, 512 connections", Plain).connections(512).offered(30_000),
    S::new("plaintext-4000", "13 bytes, 4,000 connections", Plain).connections(4_000),
    S::new("pipelined-16", "13 bytes, 64 connections, pipelined 16", Plain).depth(16),
    S::new("browser", "a browser's head of 14 fields", Browser),
    S::new("echo-1k", "1 KiB there and back", Echo(1 << 10)),
    S::new("echo-64k", "64 KiB there and back", Echo(64 << 10)).offered(2_000).traced(),
    S::new("echo-1m", "1 MiB there and back, 16 connections", Echo(1 << 20)).connections(16),
    S::new("json", "1 KiB of JSON", Json),
    S::new("churn", "10 requests per connection", Plain).per_connection(10),
    S::new("upload", "64 KiB of chunks up", Upload),
    S::new("download", "64 KiB of chunks down", Download).traced(),
    S::new("idle", "64 busy connections beside 10,000 idle ones", Plain).crowd(10_000).offered(30_000),
];

/// What a client is made to do. At the other end is the limit.
pub(crate) struct ClientWorkload {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) job: Job,
    pub(crate) traced: bool,
}

const fn client(name: &'static str, title: &'static str, task: Task, in_flight: usize) -> ClientWorkload {
    ClientWorkload { name, title, job: Job { task, in_flight }, traced: in_flight == 1 }
}

pub(crate) const CLIENT: [ClientWorkload; 6] = [
    client("client-1", "13 bytes, 1 in flight", Task::Get, 1),
    client("client-64", "13 bytes, 64 in flight", Task::Get, 64),
    client("client-close-1", "a connection for each, 1 in flight", Task::Close, 1),
    client("client-close-64", "a connection for each, 64 in flight", Task::Close, 64),
    client("client-down", "1 MiB down, 16 in flight", Task::Down, 16),
    client("client-up", "1 MiB up, 16 in flight", Task::Up, 16),
];
