//! Question: do the cores share the work of few connections, and of handlers that take unequal time?
//!
//! Servers may use all cores, and so may the load beside them, as on a machine that is not divided. Each connection
//! sends a request as soon as the last one was answered. The handler computes for 10 us; or so but for one request in a
//! hundred, which takes 10 ms. The servers take turns.
//!
//! `corehttp-blocking` is corehttp with a handler that leaves the 10 ms to `spawn_blocking`.
//!
//! The simulation has the same connections on 2, 64 and 128 cores: each stays on its core, or moves after 10 ms, or the
//! cores have one queue.
//!
//! ```text
//! cargo bench --features load --bench balance               # three minutes
//! cargo bench --features load --bench balance -- corehttp
//! cargo bench --features load --bench balance -- simulation
//! ```

use std::time::Duration;

use corehttp_benches::child::{self, Child};
use corehttp_benches::clients::Clients;
use corehttp_benches::simulation::{Sharing, Simulation};
use corehttp_benches::spread::Spread;
use corehttp_benches::work::{self, ACTIX, AXUM, BLOCKING, COREHTTP, GO, Work};

fn main() {
    match child::server() {
        None if child::wanted() => {
            measure();
            if !child::chosen(["simulation"]).is_empty() {
                simulate();
            }
        }
        None => {}
        Some(server) => work::serve(&server),
    }
}

const CONNECTIONS: [usize; 4] = [2, 8, 64, 512];
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(600);

fn measure() {
    println!(
        "{:<18}{:>6}{:>13}{:>12}{:>26}{:>26}",
        "", "rare", "connections", "per second", "p50 ms", "p99 ms"
    );
    for rare in [Duration::ZERO, Duration::from_millis(10)] {
        let work = Work::measured(Duration::from_micros(10), rare);
        let mut names = child::chosen([COREHTTP, BLOCKING, AXUM, ACTIX, GO]);
        names.retain(|name| *name != BLOCKING || !rare.is_zero());
        let servers: Vec<(_, Child)> =
            names.into_iter().filter_map(|name| Some((name, work.spawn(name)?))).collect();
        for connections in CONNECTIONS {
            let mut rounds: Vec<Vec<[f64; 3]>> = vec![Vec::new(); servers.len()];
            for _ in 0..ROUNDS {
                for ((_, child), rounds) in servers.iter().zip(&mut rounds) {
                    rounds.push(round(child, connections));
                }
            }
            for ((name, _), rounds) in servers.iter().zip(&rounds) {
                let spread = |index: usize| Spread::from_values(rounds.iter().map(|round| round[index]));
                let (rate, half, most) = (spread(0).median, spread(1), spread(2));
                println!("{name:<18}{rare:>6?}{connections:>13}{rate:>12.0}{half:>26}{most:>26}");
            }
        }
    }
}

/// Responses a second, and the p50 and p99 of their times in milliseconds.
fn round(child: &Child, connections: usize) -> [f64; 3] {
    let mut outcomes = Clients::open(child.address, connections).keep_busy(ROUND);
    [outcomes.good as f64 / ROUND.as_secs_f64(), outcomes.quantile(0.5), outcomes.quantile(0.99)]
}

fn simulate() {
    println!(
        "{:<12}{:>8}{:>13}{:>12}{:>10}{:>10}",
        "", "cores", "connections", "per second", "p50 ms", "p99 ms"
    );
    for (cores, connections) in [(2, 8), (2, 64), (2, 512), (64, 256), (64, 2_048), (128, 512), (128, 4_096)]
    {
        for sharing in [Sharing::Never, Sharing::AfterLong, Sharing::Always] {
            let [rate, half, most] = Simulation::new(sharing, cores, connections).run(2_000_000);
            let name = format!("{sharing:?}");
            println!("{name:<12}{cores:>8}{connections:>13}{rate:>12.0}{half:>10.2}{most:>10.2}");
        }
    }
}
