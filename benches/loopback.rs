//! Question: how much CPU time does a request cost a server on real sockets, over what the
//! kernel makes every server pay?
//!
//! Each server is a process pinned to one core, the load sits on another, and both talk over
//! loopback. The `limit` is a bare epoll loop that parses nothing (`support/limit.rs`), and `tokio`
//! the same in the runtime that corehttp and hyper stand on (`support/runtime_only.rs`). The
//! servers take turns round by round, so a machine that slows down slows all of them; the ratio
//! is that of one round, and its median is what counts. Where strace is installed, the system
//! calls behind one request are counted, too.
//!
//! ```text
//! cargo bench --bench loopback              # about a minute
//! cargo bench --bench loopback -- hyper     # hyper against the limit only
//! ```
//!
//! A compiler that knows which branches are taken lays out the code of all of them better. That is
//! worth much here, where the kernel takes the caches between any two requests. (`llvm-profdata`
//! comes with `rustup component add llvm-tools`, and is in `lib/rustlib` of the sysroot.)
//!
//! ```text
//! RUSTFLAGS=-Cprofile-generate=/tmp/profile cargo bench --bench loopback
//! llvm-profdata merge -o /tmp/profile.merged /tmp/profile
//! RUSTFLAGS=-Cprofile-use=/tmp/profile.merged cargo bench --bench loopback
//! ```

use std::time::{Duration, Instant};

use corehttp_benches::child::{self, Child, PinnedCore, pin};
use corehttp_benches::load::Load;
use corehttp_benches::spread::Spread;
use corehttp_benches::{limit, runtime_only, servers, syscalls};
use cpu_time::ProcessTime;

fn main() {
    match child::server().as_deref() {
        None if child::wanted() => measure(),
        None => {}
        Some(server) => {
            pin(PinnedCore::Server);
            serve(server);
        }
    }
}

fn serve(server: &str) {
    match server {
        LIMIT => limit::serve_limit(),
        COREHTTP => servers::serve_corehttp(),
        HYPER => servers::serve_hyper(),
        TOKIO => runtime_only::serve_runtime_only(),
        unknown => panic!("no server is called {unknown}"),
    }
}

const LIMIT: &str = "limit";
const COREHTTP: &str = "corehttp";
const HYPER: &str = "hyper";
const TOKIO: &str = "tokio";

fn measure() {
    let mut peers: Vec<Peer> =
        [LIMIT].into_iter().chain(child::chosen([TOKIO, COREHTTP, HYPER])).map(Peer::start).collect();
    if !pin(PinnedCore::Load) {
        println!("one core only, or no right to choose one: the load disturbs the servers");
    }
    for scenario in SCENARIOS {
        scenario.measure(&mut peers);
    }
    count_syscalls(&peers);
}

/// A server, and what it cost in each round of the current scenario.
struct Peer {
    name: &'static str,
    child: Child,
    rounds: Vec<Round>,
}

impl Peer {
    fn start(name: &'static str) -> Peer {
        Peer { name, child: Child::spawn(name), rounds: Vec::new() }
    }

    /// How many times the limit's time this one took, round by round.
    fn over(&self, limit: &Peer) -> Spread {
        let rounds = self.rounds.iter().zip(&limit.rounds);
        Spread::from_values(rounds.map(|(mine, limit)| mine.microseconds() / limit.microseconds()))
    }
}

/// So many connections, each with so many requests on its way.
struct Scenario {
    connections: usize,
    depth: usize,
    /// How much of the limit's time corehttp may take.
    target: f64,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario { connections: 64, depth: 1, target: 1.06 },
    Scenario { connections: 512, depth: 1, target: 1.06 },
    Scenario { connections: 64, depth: 16, target: 1.2 },
];

const ROUNDS: usize = 7;
const WARM_UP: Duration = Duration::from_millis(100);
const ROUND: Duration = Duration::from_millis(700);

impl Scenario {
    fn measure(&self, peers: &mut [Peer]) {
        for peer in peers.iter_mut() {
            peer.rounds.clear();
        }
        for _ in 0..ROUNDS {
            for peer in peers.iter_mut() {
                let round = self.round(&mut peer.child);
                peer.rounds.push(round);
            }
        }
        self.print(peers);
    }

    fn round(&self, child: &mut Child) -> Round {
        let mut load = Load::open(child.address, self.connections, self.depth);
        load.run(WARM_UP);
        let (cpu, own, started) = (child.cpu_time(), ProcessTime::now(), Instant::now());
        let requests = load.run(ROUND);
        Round { requests, wall: started.elapsed(), load: own.elapsed(), cpu: child.cpu_time() - cpu }
    }

    fn print(&self, peers: &[Peer]) {
        let Scenario { connections, depth, target } = self;
        println!("\n{connections} connections, {depth} request(s) at a time on each");
        println!(
            "{:<12}{:>26}{:>24}{:>14}{:>16}",
            "", "CPU us/request", "over the limit", "requests/s", "busy, load"
        );
        for peer in peers {
            let cpu = Spread::from_values(peer.rounds.iter().map(Round::microseconds));
            let over = peer.over(&peers[0]);
            let rate = Spread::from_values(peer.rounds.iter().map(Round::rate)).median;
            let busy = |index: usize| {
                Spread::from_values(peer.rounds.iter().map(|round| round.busy()[index])).median
            };
            let [server, load] = [busy(0) * 100.0, busy(1) * 100.0];
            println!("{:<12}{cpu:>26}{over:>24}{rate:>14.0}{server:>7.0}%{load:>7.0}%", peer.name);
        }
        if let Some(corehttp) = peers.iter().find(|peer| peer.name == COREHTTP) {
            let over = corehttp.over(&peers[0]).median;
            let met = if over <= *target { "met   " } else { "MISSED" };
            println!("{met} {over:.2} times the limit, at most {target}");
        }
    }
}

/// The figures of one server in one round.
struct Round {
    requests: u64,
    wall: Duration,
    cpu: Duration,
    /// The CPU time of the load itself.
    load: Duration,
}

impl Round {
    fn microseconds(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.requests as f64
    }

    fn rate(&self) -> f64 {
        self.requests as f64 / self.wall.as_secs_f64()
    }

    /// The shares of their cores that the server and the load used.
    fn busy(&self) -> [f64; 2] {
        [self.cpu, self.load].map(|time| time.as_secs_f64() / self.wall.as_secs_f64())
    }
}

/// One connection only: with more of them, one wait serves several requests.
fn count_syscalls(peers: &[Peer]) {
    println!("\nsystem calls per request, one connection");
    for peer in peers {
        let mut requests = 0;
        let rows = syscalls::count(peer.child.id(), || {
            requests = Load::open(peer.child.address, 1, 1).run(ROUND);
        });
        let Some(rows) = rows else {
            println!("skipped: strace is not installed, or may not attach");
            return;
        };
        let per_request = |count: u64| count as f64 / requests as f64;
        let often = rows.iter().filter(|row| per_request(row.calls) >= 0.01);
        let often: Vec<_> = often.map(|row| format!("{} {:.2}", row.name, per_request(row.calls))).collect();
        let calls = per_request(rows.iter().map(|row| row.calls).sum());
        let wasted = per_request(rows.iter().map(|row| row.errors).sum());
        println!("{:<12}{calls:>6.2}, {wasted:.2} in vain: {}", peer.name, often.join(", "));
    }
}
