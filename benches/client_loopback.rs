//! Question: how much CPU time does an exchange cost a client on real sockets, over what a bare write and read cost?
//!
//! The server is a bare epoll loop in a process and on a core of its own (`support/limit.rs`); the clients sit on
//! another, and take turns round by round. The ratio is that of one round, and its median is what counts. corehttp's
//! asks in five ways: over a connection for each that is in flight, with the body received, read as it comes, with
//! retries and middleware (`policies`), or with retries that hedge (`hedged`); and as a pipeline over two.
//!
//! ```text
//! cargo bench --bench client_loopback             # about a minute
//! cargo bench --bench client_loopback -- corehttp # corehttp against the bare exchange only
//! ```

use std::time::Instant;

use corehttp_benches::alloc::{Counting, allocations};
use corehttp_benches::askers::{
    Asker, COREHTTP, HEDGED, HYPER, PIPELINE, POLICIES, Place, RAW, REQWEST, STREAM,
};
use corehttp_benches::child::{self, Child, PinnedCore, pin};
use corehttp_benches::limit;
use corehttp_benches::spread::Spread;
use cpu_time::ProcessTime;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    match child::server() {
        None if child::wanted() => measure(),
        None => {}
        Some(_) => {
            pin(PinnedCore::Server);
            limit::serve_limit();
        }
    }
}

fn measure() {
    let server = Child::spawn("limit");
    if !pin(PinnedCore::Load) {
        println!("one core only, or no right to choose one: server and clients disturb each other");
    }
    let place = Place::Tcp(server.address);
    for tasks in [64, 1] {
        let mut peers: Vec<Peer> = [RAW]
            .into_iter()
            .chain(child::chosen([COREHTTP, POLICIES, HEDGED, STREAM, PIPELINE, HYPER, REQWEST]))
            .filter_map(|name| Some(Peer::new(name, Asker::new(name, &place)?)))
            .collect();
        for round in 0..=ROUNDS {
            for peer in &mut peers {
                peer.run(tasks, round > 0);
            }
        }
        print(tasks, &peers);
    }
}

/// A client, and what it cost in each round.
struct Peer {
    name: &'static str,
    asker: Asker,
    runtime: Runtime,
    rounds: Vec<Round>,
}

/// Of one exchange.
struct Round {
    /// Microseconds.
    cpu: f64,
    wall: f64,
    allocations: f64,
}

impl Peer {
    fn new(name: &'static str, asker: Asker) -> Peer {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Peer { name, asker, runtime, rounds: Vec::new() }
    }

    fn run(&mut self, tasks: u64, is_counted: bool) {
        let exchanges = EXCHANGES / if tasks == 1 { 4 } else { 1 };
        let (allocated, cpu, started) = (allocations(), ProcessTime::now(), Instant::now());
        self.runtime.block_on(async {
            let mut running = JoinSet::new();
            for _ in 0..tasks {
                let asker = self.asker.clone();
                running.spawn(async move { asker.ask(exchanges / tasks, b"Hello, world!").await });
            }
            running.join_all().await;
        });
        let each = |seconds: f64| seconds * 1e6 / exchanges as f64;
        if is_counted {
            self.rounds.push(Round {
                cpu: each(cpu.elapsed().as_secs_f64()),
                wall: each(started.elapsed().as_secs_f64()),
                allocations: (allocations() - allocated) as f64 / exchanges as f64,
            });
        }
    }

    fn over(&self, other: &Peer) -> Spread {
        Spread::from_values(self.rounds.iter().zip(&other.rounds).map(|(mine, other)| mine.cpu / other.cpu))
    }
}

const ROUNDS: usize = 7;
const EXCHANGES: u64 = 64 * 1_000;

fn print(tasks: u64, peers: &[Peer]) {
    println!("\n{tasks} in flight");
    println!(
        "{:<12}{:>26}{:>24}{:>24}{:>14}",
        "", "CPU us/exchange", "over raw", "wall us/exchange", "allocations"
    );
    for peer in peers {
        let spread = |value: fn(&Round) -> f64| Spread::from_values(peer.rounds.iter().map(value));
        let (cpu, wall) = (spread(|round| round.cpu), spread(|round| round.wall));
        let (over, allocated) = (peer.over(&peers[0]), spread(|round| round.allocations).median);
        println!("{:<12}{cpu:>26}{over:>24}{wall:>24}{allocated:>14.2}", peer.name);
    }
    let Some(corehttp) = peers.iter().find(|peer| peer.name == COREHTTP) else { return };
    for (name, policies) in [(POLICIES, "retries and middleware"), (HEDGED, "retries that hedge")] {
        if let Some(peer) = peers.iter().find(|peer| peer.name == name) {
            let over = peer.over(corehttp).median;
            let met = if over <= 1.1 { "met   " } else { "MISSED" };
            println!("{met} {over:.2} times {COREHTTP} with {policies}, at most 1.1");
        }
    }
    for (other, most) in [(RAW, 1.25), (HYPER, 0.6), (REQWEST, 0.45)] {
        if let Some(other) = peers.iter().find(|peer| peer.name == other).filter(|_| tasks > 1) {
            let over = corehttp.over(other).median;
            let met = if over <= most { "met   " } else { "MISSED" };
            println!("{met} {over:.2} times {}, at most {most}", other.name);
        }
    }
}
