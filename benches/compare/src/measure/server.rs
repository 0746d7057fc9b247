//! A workload for servers.

use std::io;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::rounds::{ROUND_MAX, attempt, own_time, take_turns};
use super::{Calls, Measured, Round, Row};
use crate::child::Child;
use crate::load::{IdleConns, Load, Plan};
use crate::options::Pace;
use crate::peer::{Foreign, Peer};
use crate::pinned_core::PinnedCore;
use crate::progress::Progress;
use crate::syscalls;
use crate::workload::ServerWorkload;

/// Has all peers that can do it do it in turns.
pub(super) fn measure(
    workload: &'static ServerWorkload,
    peers: &[Peer],
    foreign: &Foreign,
    pace: Pace,
    progress: &mut Progress,
) -> Measured {
    let able = peers.iter().filter(|peer| workload.lacks(**peer).is_none());
    let mut runs: Vec<Run> = able.map(|peer| Run::start(*peer, workload, foreign)).collect();
    let round = |run: &mut Run| {
        progress.step(workload.name, run.row.peer);
        run.attempt(|server| server.round(workload, pace));
    };
    take_turns(&mut runs, pace.rounds, pace.settle, round, Run::weigh);
    for run in &mut runs {
        run.trace(workload, pace);
    }
    let absent = peers.iter().filter_map(|peer| Some((peer.name(), workload.lacks(*peer)?)));
    Measured {
        name: workload.name,
        title: workload.title,
        absent: absent.collect(),
        rows: runs.into_iter().map(|run| run.row).collect(),
        stolen: None,
        is_scored: false,
    }
}

/// One peer in one workload. Once something went wrong, its process is gone.
struct Run {
    row: Row,
    server: Option<Server>,
}

impl Run {
    fn start(peer: Peer, workload: &ServerWorkload, foreign: &Foreign) -> Run {
        let mut run = Run { row: Row::new(peer.name()), server: None };
        match foreign.spawn(peer, workload.work.exchange, PinnedCore::Measured) {
            Ok((child, address)) => {
                let counts_allocations = peer.counts_allocations();
                run.server = Some(Server {
                    child,
                    address,
                    counts_allocations,
                    response: None,
                    idle_connection: None,
                });
            }
            Err(error) => run.row.failed = Some(error.to_string()),
        }
        run
    }

    fn attempt(&mut self, work: impl FnOnce(&mut Server) -> io::Result<Round>) {
        attempt(&mut self.row, &mut self.server, |server| &server.child, work);
    }

    fn weigh(&mut self) {
        let Some(server) = &self.server else { return };
        self.row.peak = server.child.peak().ok();
        self.row.settled = server.child.resident().ok();
        self.row.response = server.response;
        self.row.idle_connection = server.idle_connection;
    }

    fn trace(&mut self, workload: &ServerWorkload, pace: Pace) {
        let Some(server) = &self.server else { return };
        let watch = server.child.watch(ROUND_MAX);
        // Without strace, or if it was too much for somebody, there is no figure.
        self.row.calls = watch.judge(server.trace(workload, pace)).unwrap_or_default();
    }
}

struct Server {
    child: Child,
    address: SocketAddr,
    counts_allocations: bool,
    response: Option<u64>,
    idle_connection: Option<u64>,
}

impl Server {
    fn round(&mut self, workload: &ServerWorkload, pace: Pace) -> io::Result<Round> {
        let mut load = Load::open(Plan::learn(self.address, workload.work)?, workload.connections)?;
        self.response = Some(load.response());
        let idle_conns = self.gather(workload.idle_conns, pace.weigh())?;
        // Nothing is on its way when the clocks are read: to ask for the allocations takes as long as some requests,
        // and with thousands of connections their time would be missed.
        load.run(pace.warm_up)?;
        let allocated = self.allocations()?;
        let (cpu, own, started) = (self.child.cpu_time()?, own_time()?, Instant::now());
        let exchanges = load.run(pace.round)?;
        let (wall, other_cpu) = (started.elapsed(), own_time()? - own);
        let cpu = self.child.cpu_time()? - cpu;
        let allocations = self.allocations()?.zip(allocated).map(|(after, before)| after - before);
        let latency = Some(load.offer(workload.offered, pace.offer(workload.rate()))?);
        if idle_conns.is_some_and(|idle_conns| !idle_conns.is_whole().unwrap_or(false)) {
            return Err(io::Error::other("idle connections were closed"));
        }
        let [wall, cpu, other_cpu] = [wall, cpu, other_cpu].map(|time| time.as_secs_f64());
        Ok(Round { exchanges, wall, cpu, other_cpu, allocations, latency, drift: None })
    }

    fn trace(&self, workload: &ServerWorkload, pace: Pace) -> io::Result<Option<Calls>> {
        let mut load = Load::open(Plan::learn(self.address, workload.work)?, workload.connections)?;
        let mut exchanges = Ok(0);
        let rows = syscalls::count(self.child.id(), || {
            exchanges = load.run(pace.trace);
        });
        let exchanges = exchanges?;
        Ok(rows.map(|rows| Calls::from_rows(&rows, exchanges)))
    }

    /// Opens the idle connections. The first time, before the process has memory to spare, weighs them.
    fn gather(&mut self, count: usize, weigh: Duration) -> io::Result<Option<IdleConns>> {
        if count == 0 {
            return Ok(None);
        }
        // Some systems do not say what a process weighs: then there is no figure, but there are the others.
        let before = self.child.resident().ok();
        let idle_conns = IdleConns::open(self.address, count)?;
        if self.idle_connection.is_none() {
            sleep(weigh);
            let weighed = before.zip(self.child.resident().ok());
            self.idle_connection = weighed.map(|(before, after)| after.saturating_sub(before) / count as u64);
        }
        Ok(Some(idle_conns))
    }

    fn allocations(&mut self) -> io::Result<Option<u64>> {
        if !self.counts_allocations {
            return Ok(None);
        }
        self.child.ask("allocations?")?.parse().map(Some).map_err(io::Error::other)
    }
}
