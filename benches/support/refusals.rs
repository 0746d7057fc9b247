//! [`RefusingCore`]: a core behind a `LoadShed`, which answers some requests and refuses the others.

use std::collections::VecDeque;

/// Who sends requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// Requests are due at fixed moments, so many times as many as the core could answer. One that finds no free
    /// connection waits for it, for [`PATIENCE`] at most.
    Load(f64),
    /// Each connection sends a request as soon as the last one was answered or refused.
    Retries,
}

/// When a refused request gets its response.
#[derive(Clone, Copy, Debug)]
pub enum Refusing {
    AtOnce,
    /// Once refusals have taken less than this share of the time, or after a second.
    Within(f64),
}

/// A simulation of one core. Times are in microseconds.
pub struct RefusingCore {
    demand: Demand,
    refusing: Refusing,
    /// The time of a request that is answered.
    service: f64,
    now: f64,
    /// Connections whose requests the core has seen, and the probe of `LoadShed`.
    queue: VecDeque<Queued>,
    /// Connections whose requests it has not seen yet.
    unseen: VecDeque<usize>,
    free: VecDeque<usize>,
    /// Connections whose requests are refused, but not answered yet, and since when.
    delayed: VecDeque<(f64, usize)>,
    /// When the request of each connection was due.
    due: Vec<f64>,
    /// When the probe joined the queue, if it is there.
    probe: Option<f64>,
    /// How long refusals have taken.
    spent: f64,
    due_count: u64,
    good: u64,
}

enum Queued {
    Connection(usize),
    Probe,
}

/// The time of a refusal, and of the part of it that comes before a wait.
const REFUSAL: f64 = 6.6;
const REFUSAL_READ: f64 = 2.5;
const WAIT_MAX: f64 = 20e3;
const PATIENCE: f64 = 100e3;
const HELD_MAX: f64 = 1e6;
/// A core looks for events once in so many tasks.
const EVENT_INTERVAL: usize = 61;
const EVENT_POLL_COST: f64 = 3.0;
const DURATION: f64 = 4e6;
/// The first second counts nothing.
const WARM_UP: f64 = 1e6;

impl RefusingCore {
    pub fn new(demand: Demand, connections: usize, service: f64, refusing: Refusing) -> RefusingCore {
        let all: VecDeque<usize> = (0..connections).collect();
        let (unseen, free) = match demand {
            Demand::Retries => (all, VecDeque::new()),
            Demand::Load(_) => (VecDeque::new(), all),
        };
        RefusingCore {
            demand,
            refusing,
            service,
            now: 0.0,
            queue: VecDeque::new(),
            unseen,
            free,
            delayed: VecDeque::new(),
            due: vec![0.0; connections],
            probe: None,
            spent: 0.0,
            due_count: 0,
            good: 0,
        }
    }

    /// The share of what the core could answer that is answered in time.
    pub fn goodput(mut self) -> f64 {
        while self.now < DURATION {
            self.poll_events();
            for _ in 0..EVENT_INTERVAL {
                match self.queue.pop_front() {
                    Some(Queued::Connection(connection)) => self.run(connection),
                    Some(Queued::Probe) => self.probe = None,
                    None => break,
                }
            }
        }
        self.good as f64 * self.service / (DURATION - WARM_UP)
    }

    /// Looks for events, and answers refusals that have waited.
    fn poll_events(&mut self) {
        self.now += EVENT_POLL_COST;
        self.send();
        self.queue.extend(self.unseen.drain(..).map(Queued::Connection));
        while let Some((since, connection)) = self.delayed.front().copied()
            && (self.may_refuse() || self.now - since >= HELD_MAX)
        {
            self.delayed.pop_front();
            self.refuse(connection, REFUSAL - REFUSAL_READ);
        }
    }

    fn run(&mut self, connection: usize) {
        let wait = match self.probe {
            Some(queued_at) => self.now - queued_at,
            None => {
                self.probe = Some(self.now);
                self.queue.push_back(Queued::Probe);
                0.0
            }
        };
        if wait <= WAIT_MAX {
            self.now += self.service;
            self.send();
            let is_good = self.now > WARM_UP && self.now - self.due[connection] <= PATIENCE;
            self.good += u64::from(is_good);
            self.end(connection);
        } else if self.may_refuse() {
            self.refuse(connection, REFUSAL);
        } else {
            self.now += REFUSAL_READ;
            self.spent += REFUSAL_READ;
            self.delayed.push_back((self.now, connection));
        }
    }

    fn may_refuse(&self) -> bool {
        match self.refusing {
            Refusing::AtOnce => true,
            Refusing::Within(share) => self.spent < self.now * share,
        }
    }

    fn refuse(&mut self, connection: usize, time: f64) {
        self.now += time;
        self.spent += time;
        self.end(connection);
    }

    fn end(&mut self, connection: usize) {
        match self.demand {
            Demand::Load(_) => self.free.push_back(connection),
            Demand::Retries => {
                self.due[connection] = self.now;
                self.unseen.push_back(connection);
            }
        }
    }

    /// Sends the requests that are due.
    fn send(&mut self) {
        let Demand::Load(load) = self.demand else { return };
        loop {
            let due = self.due_count as f64 * self.service / load;
            let is_given_up = self.now - due > PATIENCE;
            match self.free.front() {
                _ if due > self.now => return,
                None if !is_given_up => return,
                Some(&connection) if !is_given_up => {
                    self.free.pop_front();
                    self.due[connection] = due;
                    self.unseen.push_back(connection);
                }
                _ => {}
            }
            self.due_count += 1;
        }
    }
}
