//! Question: how does a server fare that gets more requests than it can handle?
//!
//! The server is a process pinned to one core, and its handler computes for 100 us. The load, on the other core, has
//! 2,048 connections, and sends 1, 2 and 5 times as many requests a second as the server answers on 64 connections that
//! are always busy. Requests are due at fixed moments, whatever the server does; one that finds no free connection waits
//! for it, for 100 ms at most. Goodput is what was answered with 200 within 100 ms of when it was due.
//!
//! `corehttp` has its defaults. With `corehttp-shed`, requests wait for 20 ms at most (`Timeouts::queue`).
//!
//! `people` are others: each wants one response, and closes the connection after 2 s without. They come at 2 and 5 times
//! the rate, each on a connection that is free, or on a new one, up to 16,384 of them, to handlers that compute for 1 ms
//! or for 100 us, or wait for one of four connections to a database that answers in 5 ms. Goodput is what was answered
//! with 200 before they left. The last column is how long after the load a probe is answered within 100 ms. There,
//! `corehttp-shed` has requests wait for 400 ms at most, for the core, and for the database in a `ConcurrencyLimit`.
//! nginx is missing: it has no handler that computes, and what it passes on would be measured instead.
//!
//! ```text
//! cargo bench --features load --bench overload              # twelve minutes
//! cargo bench --features load --bench overload -- corehttp
//! cargo bench --features load --bench overload -- people    # ten minutes, or with `corehttp` and others after it
//! cargo bench --features load --bench overload -- people brief
//! ```

use std::fmt;
use std::time::Duration;

use corehttp_benches::child::{self, Child, PinnedCore, pin};
use corehttp_benches::clients::{Clients, Outcomes};
use corehttp_benches::people::{CONNECTIONS_MAX, People};
use corehttp_benches::spread::Spread;
use corehttp_benches::work::{self, ACTIX, AXUM, COREHTTP, GO, SHED, Work};

fn main() {
    match child::server() {
        None if child::wanted() => {
            let names = child::chosen(NAMES);
            let is_asked = |word: &str| std::env::args().any(|arg| arg == word);
            if is_asked("people") || names.len() == NAMES.len() {
                compare_people(if names.is_empty() { &NAMES } else { &names }, is_asked("brief"));
            }
            if !names.is_empty() && !is_asked("people") {
                measure(names);
            }
        }
        None => {}
        Some(server) => work::serve(&server),
    }
}

const NAMES: [&str; 5] = [COREHTTP, SHED, AXUM, ACTIX, GO];

const LOADS: [u32; 3] = [1, 2, 5];
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(2);
const CONNECTIONS: usize = 2_048;
const PATIENCE: Duration = Duration::from_millis(100);

fn measure(names: Vec<&'static str>) {
    // Two connections at a time are the most that a descriptor is needed for.
    rlimit::increase_nofile_limit(2 * CONNECTIONS as u64 + 100).expect("enough descriptors");
    // Servers inherit the core.
    pin(PinnedCore::Server);
    let work = Work::measured(Duration::from_micros(100), Duration::ZERO);
    let mut servers: Vec<_> = names.into_iter().filter_map(|name| Server::start(name, work)).collect();
    pin(PinnedCore::Load);
    for _ in 0..ROUNDS {
        servers.iter_mut().for_each(Server::measure);
    }
    println!(
        "{:<14}{:>6}{:>12}{:>9}{:>10}{:>10}{:>10}{:>8}",
        "", "load", "goodput/s", "share", "p50 ms", "p99 ms", "503/s", "MiB"
    );
    servers.iter().for_each(Server::print);
}

/// Prints whom the servers answer while they still wait.
fn compare_people(names: &[&'static str], is_brief: bool) {
    rlimit::increase_nofile_limit(CONNECTIONS_MAX as u64 + 200).expect("enough descriptors");
    pin(PinnedCore::Server);
    let computing = |micros| Work::measured(Duration::from_micros(micros), Duration::ZERO);
    let handlers = [
        ("computes for 1 ms", computing(1000)),
        ("computes for 100 us", computing(100)),
        ("waits for a database", Work::pooled(4)),
    ];
    println!(
        "{:<22}{:<14}{:>6}{:>11}{:>12}{:>8}{:>9}{:>9}{:>9}{:>9}",
        "", "", "load", "capacity/s", "goodput/s", "share", "p50 ms", "p99 ms", "503/s", "after s"
    );
    for (handler, work) in handlers {
        for (&name, load) in names.iter().flat_map(|name| PEOPLE_LOADS.map(|load| (name, load))) {
            // Each begins with a process that nothing has happened to.
            pin(PinnedCore::Server);
            let Some(child) = work.wait_max(PEOPLE_WAIT_MAX).spawn(name) else { continue };
            pin(PinnedCore::Load);
            let time = if is_brief { Duration::from_secs(4) } else { PEOPLE_TIME };
            let row = PeopleRow::measure(&child, load, time);
            println!("{handler:<22}{name:<14}{load:>5}x{row}");
        }
    }
}

const PEOPLE_LOADS: [u32; 2] = [2, 5];
const PEOPLE_TIME: Duration = Duration::from_secs(10);
const PEOPLE_PATIENCE: Duration = Duration::from_secs(2);
/// A fifth of their patience, which `Timeouts::queue` advises.
const PEOPLE_WAIT_MAX: Duration = Duration::from_millis(400);
/// A probe is quick that takes no longer than this, and is not waited for any longer than that.
const QUICK: Duration = Duration::from_millis(100);
const RECOVERY_MAX: Duration = Duration::from_secs(30);

/// The figures of a server before people, for each second, or in milliseconds.
struct PeopleRow {
    capacity: f64,
    goodput: f64,
    refused: f64,
    half: f64,
    most: f64,
    recovery: Option<Duration>,
}

impl PeopleRow {
    fn measure(child: &Child, load: u32, time: Duration) -> PeopleRow {
        let capacity = Clients::open(child.address, 64).keep_busy(ROUND / 2).good as f64;
        let capacity = capacity / (ROUND / 2).as_secs_f64();
        let mut people = People::new(child.address, PEOPLE_PATIENCE);
        let mut outcomes = people.come(capacity * f64::from(load), time);
        let each_second = |count: u64| count as f64 / (time - PEOPLE_PATIENCE).as_secs_f64();
        PeopleRow {
            capacity,
            goodput: each_second(outcomes.good),
            refused: each_second(outcomes.refused),
            half: outcomes.quantile(0.5),
            most: outcomes.quantile(0.99),
            recovery: people.recover(QUICK, RECOVERY_MAX),
        }
    }
}

impl fmt::Display for PeopleRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PeopleRow { capacity, goodput, refused, half, most, recovery } = self;
        let share = goodput / capacity * 100.0;
        write!(f, "{capacity:>11.0}{goodput:>12.0}{share:>7.0}%{half:>9.1}{most:>9.1}{refused:>9.0}")?;
        match recovery {
            Some(recovery) => write!(f, "{:>9.2}", recovery.as_secs_f64()),
            None => write!(f, "{:>9}", "never"),
        }
    }
}

/// A server, and its rounds at each load.
struct Server {
    name: &'static str,
    child: Child,
    rounds: [Vec<Round>; LOADS.len()],
}

impl Server {
    fn start(name: &'static str, work: Work) -> Option<Server> {
        Some(Server { name, child: work.spawn(name)?, rounds: Default::default() })
    }

    fn measure(&mut self) {
        let capacity = Clients::open(self.child.address, 64).keep_busy(ROUND / 2).good as f64;
        let capacity = capacity / (ROUND / 2).as_secs_f64();
        for (load, rounds) in LOADS.into_iter().zip(&mut self.rounds) {
            let mut clients = Clients::open(self.child.address, CONNECTIONS);
            let outcomes = clients.offer(capacity * f64::from(load), ROUND, PATIENCE);
            rounds.push(Round::new(capacity, outcomes, self.child.resident()));
        }
    }

    fn print(&self) {
        for (load, rounds) in LOADS.into_iter().zip(&self.rounds) {
            let median = |value: fn(&Round) -> f64| Spread::from_values(rounds.iter().map(value)).median;
            println!(
                "{:<14}{load:>5}x{:>12.0}{:>8.0}%{:>10.1}{:>10.1}{:>10.0}{:>8.1}",
                self.name,
                median(|round| round.goodput),
                median(|round| round.share) * 100.0,
                median(|round| round.half),
                median(|round| round.most),
                median(|round| round.refused),
                median(|round| round.mib),
            );
        }
    }
}

/// The figures of a round: a second, and in milliseconds.
struct Round {
    goodput: f64,
    /// The goodput as a share of the capacity.
    share: f64,
    half: f64,
    most: f64,
    refused: f64,
    mib: f64,
}

impl Round {
    fn new(capacity: f64, mut outcomes: Outcomes, resident: u64) -> Round {
        let each_second = |count: u64| count as f64 / ROUND.as_secs_f64();
        let goodput = each_second(outcomes.good);
        Round {
            goodput,
            share: goodput / capacity,
            half: outcomes.quantile(0.5),
            most: outcomes.quantile(0.99),
            refused: each_second(outcomes.refused),
            mib: resident as f64 / f64::from(1 << 20),
        }
    }
}
