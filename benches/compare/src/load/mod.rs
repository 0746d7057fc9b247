//! [`Load`]: the load generator, an edge-triggered epoll loop with two ways to ask.
//!
//! Closed: each connection asks again when it has its response, which finds the throughput and keeps the server busy.
//! Open: requests are due at fixed moments, whatever the server does, and latency counts from the moment a request
//! was due. So a server that stalls is charged for all that would have been asked meanwhile.

mod chunks;
mod connection;
mod idle_conns;
mod latency;
mod plan;
mod response_reader;
mod responses;
mod stream;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use mio::{Events, Poll};

use connection::{Answered, Connection};
pub(crate) use idle_conns::IdleConns;
pub(crate) use latency::{Latency, OVERTIME, Recorder};
pub(crate) use plan::{Plan, Protocol, Step};
pub(crate) use responses::Shape;
pub(crate) use stream::{Secure, upgrade};

use crate::application::Exchange;

/// The work of the connections.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub(crate) exchange: Exchange,
    /// How many requests a connection sends at once.
    pub(crate) depth: usize,
    /// A connection closes after so many responses, and another takes its place.
    pub(crate) per_connection: Option<u32>,
}

/// Responses, and the bytes of them.
#[derive(Clone, Copy, Default)]
struct Received {
    responses: u64,
    bytes: u64,
}

/// Connections to one server. Nothing is on its way between one call and the next.
pub(crate) struct Load {
    poll: Poll,
    events: Events,
    connections: Vec<Connection>,
    plan: Plan,
    input: Vec<u8>,
    /// Who was answered since they were looked at.
    answered: Vec<(usize, Answered)>,
    /// Of all responses so far.
    received: Received,
}

impl Load {
    /// Connects so many times, and has each connection answered once.
    pub(crate) fn open(plan: Plan, connections: usize) -> io::Result<Load> {
        let mut load = Load {
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            connections: Vec::with_capacity(connections),
            plan,
            input: vec![0; INPUT_LEN],
            answered: Vec::new(),
            received: Received::default(),
        };
        while load.connections.len() < connections {
            // A few at a time, so that none waits for a place in the server's queue.
            for index in load.connections.len()..connections.min(load.connections.len() + BATCH) {
                let mut connection = Connection::open(&load.plan, index, load.poll.registry())?;
                connection.ask(&load.plan, Instant::now())?;
                load.connections.push(connection);
            }
            load.drain()?;
        }
        Ok(load)
    }

    /// Keeps all connections busy for so long, then waits for the responses that are due, and returns how many requests
    /// that were.
    pub(crate) fn run(&mut self, time: Duration) -> io::Result<u64> {
        Ok(self.keep_busy(time)? + self.drain()?)
    }

    /// Keeps all connections busy for so long, and returns how many requests were answered meanwhile.
    fn keep_busy(&mut self, time: Duration) -> io::Result<u64> {
        let (started, mut exchanges) = (Instant::now(), 0);
        for connection in &mut self.connections {
            connection.ask(&self.plan, started)?;
        }
        // At least one, however slow the server: a figure per request needs a request.
        while started.elapsed() < time || exchanges == 0 {
            self.step(Some(TIMEOUT))?;
            let now = Instant::now();
            for (index, answered) in self.answered.drain(..) {
                exchanges += answered.weight;
                self.connections[index].ask(&self.plan, now)?;
            }
        }
        Ok(exchanges)
    }

    /// Waits for all responses that are due, and returns how many they were.
    fn drain(&mut self) -> io::Result<u64> {
        let mut exchanges = 0;
        while self.connections.iter().any(Connection::is_busy) {
            self.step(Some(TIMEOUT))?;
            exchanges += self.answered.drain(..).map(|(_, answered)| answered.weight).sum::<u64>();
        }
        Ok(exchanges)
    }

    /// The bytes of one response, its head included: of those so far, on average.
    pub(crate) fn response(&self) -> u64 {
        self.received.bytes / self.received.responses.max(1)
    }

    /// Asks `rate` times a second for so long, evenly, on whichever connection is free. Pipelined requests are due
    /// at once, and answered when their last response is there.
    pub(crate) fn offer(&mut self, rate: u32, time: Duration) -> io::Result<Latency> {
        let pace = f64::from(rate) / self.plan.depth as f64;
        let total = (pace * time.as_secs_f64()).round() as u64;
        let started = Instant::now();
        let due = |index: u64| started + Duration::from_secs_f64(index as f64 / pace);
        let mut free: VecDeque<usize> = (0..self.connections.len()).collect();
        let (mut recorder, mut asked) = (Recorder::new(), 0);
        while recorder.count() < total && started.elapsed() < time + OVERTIME {
            let now = Instant::now();
            while asked < total && due(asked) <= now {
                let Some(index) = free.pop_front() else { break };
                self.connections[index].ask(&self.plan, due(asked))?;
                asked += 1;
            }
            // Never asleep: a wait has no finer step than a millisecond.
            self.step(None)?;
            let now = Instant::now();
            for (index, answered) in self.answered.drain(..) {
                recorder.record(now - answered.since);
                free.push_back(index);
            }
        }
        let (taken, now) = (started.elapsed(), Instant::now());
        let answered = recorder.count();
        // Who is not answered by now, or not even asked, waits at least since it was due.
        let unanswered = self.connections.iter().filter_map(Connection::since);
        for since in unanswered.chain((asked..total).map(due)) {
            recorder.record(now.saturating_duration_since(since));
        }
        self.drain()?;
        let achieved = (answered * self.plan.depth) as f64 / taken.as_secs_f64();
        Ok(recorder.summary(rate, achieved))
    }

    /// Waits for events, or looks for them, and reads and writes what they allow.
    fn step(&mut self, patience: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(patience.unwrap_or_default())) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            polled => polled?,
        }
        if self.events.is_empty() && patience.is_some() {
            return Err(io::Error::new(ErrorKind::TimedOut, "the server does not answer"));
        }
        for event in &self.events {
            let index = event.token().0;
            let connection = &mut self.connections[index];
            if let Some(answered) = connection.drive(&self.plan, &mut self.input)? {
                self.received.responses += self.plan.depth;
                self.received.bytes += answered.bytes;
                self.answered.push((index, answered));
                connection.renew(&self.plan, event.token(), self.poll.registry())?;
            }
        }
        Ok(())
    }
}

const BATCH: usize = 100;
const INPUT_LEN: usize = 256 << 10;
/// No response takes as long.
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};
    use std::thread::{sleep, spawn};
    use std::time::Duration;

    use super::{Load, Plan, Work};
    use crate::application::Exchange;

    /// A server that says what it should, and nothing to anybody for a while before its response of that number. Its
    /// address, and how many it has answered.
    fn serve(stalled: u64, stall: Duration) -> (SocketAddr, Arc<Mutex<u64>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let answered = Arc::new(Mutex::new(0));
        let count = answered.clone();
        let respond = move |mut stream: TcpStream, count: Arc<Mutex<u64>>| {
            while let Ok(1..) = stream.read(&mut [0; 1024]) {
                let mut count = count.lock().expect("nobody panics");
                *count += 1;
                if *count == stalled {
                    sleep(stall);
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, world!");
            }
        };
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = count.clone();
                spawn(move || respond(stream, count));
            }
        });
        (address, answered)
    }

    /// Four connections to it.
    fn open(address: SocketAddr) -> Load {
        let work = Work { exchange: Exchange::Plain, depth: 1, per_connection: None };
        let plan = Plan::learn(address, work).expect("the server answers");
        Load::open(plan, 4).expect("the server answers")
    }

    /// Four connections had to wait; but two hundred requests were due meanwhile, and count.
    #[test]
    fn a_stall_is_charged_for_all_that_would_have_been_asked_meanwhile() {
        // One is asked to learn the response, and one by each connection.
        let (address, _) = serve(6, Duration::from_millis(200));
        let mut load = open(address);
        let latency = load.offer(1_000, Duration::from_millis(300)).expect("the server answers");
        assert_eq!((latency.offered, latency.requests), (1_000, 300));
        assert!(latency.p50 > 30_000.0, "{latency:?}");
        assert!(latency.max > 190_000.0, "{latency:?}");
    }

    #[test]
    fn who_never_answers_in_time_is_overloaded_and_all_that_waited_count() {
        let (address, _) = serve(6, Duration::from_millis(500));
        let mut load = open(address);
        let latency = load.offer(1_000, Duration::from_millis(100)).expect("the server answers");
        assert!(!latency.is_met() && latency.achieved == 0.0, "{latency:?}");
        assert_eq!(latency.requests, 100);
        // The last was due after 99 ms, and all were given up after 400.
        assert!(latency.p50 > 340_000.0, "{latency:?}");
    }

    #[test]
    fn what_is_asked_in_a_run_is_answered_in_it() {
        let (address, answered) = serve(0, Duration::ZERO);
        let mut load = open(address);
        for _ in 0..3 {
            let before = *answered.lock().expect("nobody panics");
            let exchanges = load.run(Duration::from_millis(10)).expect("the server answers");
            assert_eq!(*answered.lock().expect("nobody panics") - before, exchanges);
            assert!(exchanges >= 4);
        }
    }
}
