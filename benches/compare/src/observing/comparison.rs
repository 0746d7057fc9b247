//! [`compare`]: each server bare and observed, in turns.
//!
//! All of them share the core that is measured with the threads that write their lines, so that the time of both is in
//! the figures. Before the rounds, each has to show a line for each request, and to have counted all of them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::ROUTE;
use super::observed::Observed;
use crate::application::HELLO;
use crate::child::Child;
use crate::load::{Load, Plan, Protocol, Shape, Step};
use crate::measure::take_turns;
use crate::peer::Foreign;
use crate::pinned_core::{PinnedCore, UNPINNED};
use crate::spread::Spread;

/// Measures for a minute, and prints a table.
pub(crate) fn compare() -> io::Result<()> {
    let (foreign, folder) = (Foreign::find(), tempfile::tempdir()?);
    if !PinnedCore::Other.take() {
        eprintln!("{UNPINNED}");
    }
    let mut pairs = Vec::new();
    for peer in Observed::PEERS {
        if let Some(why) = foreign.is_missing(peer) {
            eprintln!("skipped: {}: {why}", peer.name());
            continue;
        }
        let observed = Observed { peer, log: Some(folder.path().join(peer.name())) };
        pairs.push([Observed { peer, log: None }, observed]);
    }
    let mut servers =
        pairs.into_iter().flatten().map(|it| Server::start(it, &foreign)).collect::<io::Result<Vec<_>>>()?;
    let mut outcome = Ok(());
    let round = |server: &mut Server| {
        if outcome.is_ok() {
            outcome = server.round();
        }
    };
    take_turns(&mut servers, ROUNDS, Duration::ZERO, round, |_| ());
    outcome?;
    print(&servers)
}

const ROUNDS: usize = 9;
const WARM_UP: Duration = Duration::from_millis(100);
const ROUND: Duration = Duration::from_millis(600);
const CONNECTIONS: usize = 64;

const REQUEST: &[u8] = b"GET /users/4711 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: compare\r\n\r\n";

/// One of a pair.
struct Server {
    observed: Observed,
    child: Child,
    address: SocketAddr,
    /// How many requests it has answered.
    answered: u64,
    /// The microseconds of a core that a request took, round by round.
    rounds: Vec<f64>,
}

impl Server {
    /// Starts it, and has it show that it sees, or that it does not.
    fn start(observed: Observed, foreign: &Foreign) -> io::Result<Server> {
        let mut child = Child::spawn(&mut observed.command(foreign)?, PinnedCore::Measured)?;
        let address = child.receive()?.parse().map_err(io::Error::other)?;
        let mut server = Server { observed, child, address, answered: 0, rounds: Vec::new() };
        drop(server.load()?);
        if let Some(log) = &server.observed.log {
            server.check(log).map_err(|error| {
                io::Error::other(format!("{} does not see: {error}", server.observed.peer.name()))
            })?;
        }
        Ok(server)
    }

    /// A load whose connections have each been answered once.
    fn load(&mut self) -> io::Result<Load> {
        let shape = Shape::learn(self.address, REQUEST, HELLO.as_bytes())?;
        let steps = vec![Step { request: REQUEST.to_vec(), shape, weight: 1 }];
        let load = Load::open(Plan::new(self.address, Protocol::Http, steps, 1, None), CONNECTIONS)?;
        self.answered += 1 + CONNECTIONS as u64;
        Ok(load)
    }

    fn round(&mut self) -> io::Result<()> {
        let mut load = self.load()?;
        let warm_up = load.run(WARM_UP)?;
        let before = self.child.cpu_time()?;
        let requests = load.run(ROUND)?;
        let spent = self.child.cpu_time()? - before;
        self.answered += warm_up + requests;
        self.rounds.push(spent.as_secs_f64() * 1e6 / requests as f64);
        Ok(())
    }

    /// # Errors
    ///
    /// Fails unless there is a line for each request so far, and a histogram of all of them.
    fn check(&self, log: &Path) -> io::Result<()> {
        let (started, expected) = (Instant::now(), self.answered);
        loop {
            let (lines, counts) = (lines(log)?, self.counts()?);
            if lines >= expected && !counts.is_empty() && counts.iter().all(|count| *count == expected) {
                // Metrics that are looked at are requests, too, and may have lines of their own.
                return Ok(());
            }
            if started.elapsed() > CHECK_MAX {
                let found = format!("{lines} lines and counts of {counts:?} for {expected} requests");
                return Err(io::Error::other(found));
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// How many values each of the histograms has that are about the route.
    fn counts(&self) -> io::Result<Vec<u64>> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\nhost: a\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let counts = text.lines().filter(|line| line.contains("_count{") && line.contains(ROUTE));
        counts.map(|line| line.rsplit(' ').next().unwrap_or(line).parse().map_err(io::Error::other)).collect()
    }
}

/// Lines are written by then.
const CHECK_MAX: Duration = Duration::from_secs(5);

/// How many lines about the request a log has.
fn lines(log: &Path) -> io::Result<u64> {
    let mut lines = io::BufReader::with_capacity(1 << 20, File::open(log)?);
    let (mut count, mut line) = (0, Vec::new());
    while io::BufRead::read_until(&mut lines, b'\n', &mut line)? > 0 {
        count += u64::from(memchr::memmem::find(&line, b"/users/4711").is_some());
        line.clear();
    }
    Ok(count)
}

fn print(servers: &[Server]) -> io::Result<()> {
    println!("microseconds of a core for each request: medians of {ROUNDS} rounds, and their quartiles\n");
    println!("| | bare | observed | difference | times | requests with a line |\n|---|---|---|---|---|---|");
    let none = || io::Error::other("there were no rounds");
    for pair in servers.chunks_exact(2) {
        let [bare, observed] = [&pair[0], &pair[1]];
        let rounds = || bare.rounds.iter().zip(&observed.rounds);
        let difference =
            Spread::from_values(rounds().map(|(bare, observed)| observed - bare)).ok_or_else(none)?;
        let times = Spread::from_values(rounds().map(|(bare, observed)| observed / bare)).ok_or_else(none)?;
        let [own, other] = [bare, observed].map(|it| Spread::from_values(it.rounds.iter().copied()));
        let (own, other) = (own.ok_or_else(none)?, other.ok_or_else(none)?);
        let written = match &observed.observed.log {
            Some(log) => 100.0 * lines(log)? as f64 / observed.answered as f64,
            None => 0.0,
        };
        let name = observed.observed.peer.name();
        println!("| {name} | {own} | {other} | {difference} | {times} | {written:.1}% |");
    }
    Ok(())
}
