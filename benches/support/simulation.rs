//! [`Simulation`]: connections on any number of cores, which share the work in one of three ways, at no cost.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How cores share the requests that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// A connection stays on its core.
    Never,
    /// A core that has computed for long gives connections away, to the core that has the fewest requests.
    AfterLong,
    /// All cores take from one queue, as if work was stolen at once.
    Always,
}

/// Closed loops, as those of `balance.rs`: a request takes 15 us of a core, and one in a hundred takes 10 ms.
pub struct Simulation {
    sharing: Sharing,
    queues: Vec<VecDeque<Request>>,
    running: Vec<Option<Running>>,
    /// The core of each connection.
    homes: Vec<usize>,
    /// The next events, by their nanosecond, and then by a number.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    random: u64,
    /// How long each request took, in nanoseconds.
    times: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Request {
    connection: usize,
    arrived: u64,
}

struct Running {
    request: Request,
    is_long: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival { connection: usize },
    End { core: usize },
}

const USUAL: u64 = 15_000;
const LONG: u64 = 10_000_000;
/// From the end of a request to the next one of the same connection.
const TURNAROUND: u64 = 30_000;

impl Simulation {
    pub fn new(sharing: Sharing, cores: usize, connections: usize) -> Simulation {
        let mut simulation = Simulation {
            sharing,
            queues: vec![VecDeque::new(); if sharing == Sharing::Always { 1 } else { cores }],
            running: (0..cores).map(|_| None).collect(),
            homes: (0..connections).map(|connection| connection % cores).collect(),
            events: BinaryHeap::new(),
            random: 1,
            times: Vec::new(),
        };
        for connection in 0..connections {
            let at = simulation.draw(TURNAROUND);
            simulation.schedule(at, Event::Arrival { connection });
        }
        simulation
    }

    /// Runs until so many requests have ended. Returns how many end in a second, and the p50 and p99 in milliseconds.
    pub fn run(mut self, requests: usize) -> [f64; 3] {
        let mut now = 0;
        while self.times.len() < requests {
            let Some(Reverse((at, _, event))) = self.events.pop() else { break };
            now = at;
            match event {
                Event::Arrival { connection } => self.arrive(now, connection),
                Event::End { core } => self.end(now, core),
            }
        }
        self.times.sort_unstable();
        let quantile = |share: f64| self.times[(requests as f64 * share) as usize] as f64 / 1e6;
        [requests as f64 / (now as f64 / 1e9), quantile(0.5), quantile(0.99)]
    }

    fn arrive(&mut self, now: u64, connection: usize) {
        let home = self.homes[connection];
        let (queue, cores) = match self.sharing {
            Sharing::Always => (0, 0..self.running.len()),
            Sharing::Never | Sharing::AfterLong => (home, home..home + 1),
        };
        self.queues[queue].push_back(Request { connection, arrived: now });
        cores.for_each(|core| self.start(now, core));
    }

    fn end(&mut self, now: u64, core: usize) {
        let Some(Running { request, is_long }) = self.running[core].take() else { return };
        self.times.push(now - request.arrived);
        self.schedule(now + TURNAROUND, Event::Arrival { connection: request.connection });
        if is_long && self.sharing == Sharing::AfterLong {
            self.give_away(now, core);
        }
        self.start(now, core);
    }

    fn give_away(&mut self, now: u64, core: usize) {
        let load = |core: usize| self.queues[core].len() + usize::from(self.running[core].is_some());
        let Some(other) = (0..self.queues.len()).min_by_key(|core| load(*core)) else { return };
        while self.queues[core].len() > self.queues[other].len() + 1
            && let Some(request) = self.queues[core].pop_back()
        {
            self.homes[request.connection] = other;
            self.queues[other].push_back(request);
        }
        self.start(now, other);
    }

    /// Starts the next request, if the core is free and there is one.
    fn start(&mut self, now: u64, core: usize) {
        let queue = if self.sharing == Sharing::Always { 0 } else { core };
        if self.running[core].is_some() {
            return;
        }
        let Some(request) = self.queues[queue].pop_front() else { return };
        let is_long = self.draw(100) == 0;
        self.running[core] = Some(Running { request, is_long });
        self.schedule(now + if is_long { LONG } else { USUAL }, Event::End { core });
    }

    fn schedule(&mut self, at: u64, event: Event) {
        let number = self.draw(u64::MAX);
        self.events.push(Reverse((at, number, event)));
    }

    /// A number below `bound`, by xorshift.
    fn draw(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }
}
