//! ureq, which blocks, so each of those in flight is a thread.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::timerfd::TimerFlags;
use ureq::Agent;

use super::turns::{TICK_LEN, Turns};
use super::{Fault, Job, Order, Report, Task, answer_lines, check};
use crate::allocations::allocations;
use crate::load::{Latency, Recorder};

pub(super) fn answer_parent((job, address): (Job, SocketAddr)) -> std::io::Result<()> {
    let config =
        Agent::config_builder().max_idle_connections(IDLE_MAX).max_idle_connections_per_host(IDLE_MAX);
    let asker =
        Asker { agent: Agent::new_with_config(config.build()), task: job.task, url: job.task.url(address) };
    answer_lines(|order| match order {
        Order::Closed(time) => {
            let (before, end) = (allocations(), Instant::now() + time);
            let exchanges = all_ask(job.in_flight, || asker.ask_until(end))?;
            Ok(Report::Closed { exchanges, allocations: allocations() - before })
        }
        Order::Open(time, rate) => {
            let clock = Clock::start(rate, time)?;
            all_ask(job.in_flight, || asker.ask_when_due(&clock))?;
            Ok(Report::Open(clock.end()))
        }
    })
}

const IDLE_MAX: usize = 256;

/// Has so many threads ask at the same time; how often they were answered.
fn all_ask(in_flight: usize, ask: impl Fn() -> Result<u64, Fault> + Sync) -> Result<u64, Fault> {
    thread::scope(|scope| {
        let running: Vec<_> = (0..in_flight).map(|_| scope.spawn(&ask)).collect();
        running.into_iter().map(|asker| asker.join().map_err(|_| "a thread panicked")?).sum()
    })
}

struct Asker {
    agent: Agent,
    task: Task,
    url: String,
}

impl Asker {
    fn ask_until(&self, end: Instant) -> Result<u64, Fault> {
        let mut exchanges = 0;
        while Instant::now() < end {
            self.ask()?;
            exchanges += 1;
        }
        Ok(exchanges)
    }

    fn ask_when_due(&self, clock: &Clock) -> Result<u64, Fault> {
        let mut exchanges = 0;
        while let Some(due) = clock.wait()? {
            self.ask()?;
            exchanges += 1;
            clock.recorder.lock().map_err(|_| POISONED)?.record(due.elapsed());
        }
        Ok(exchanges)
    }

    fn ask(&self) -> Result<(), Fault> {
        let mut response = match self.task.content() {
            Some(content) => self.agent.post(&self.url).send(content)?,
            None => self.agent.get(&self.url).call()?,
        };
        check(&response.body_mut().read_to_vec()?, self.task)
    }
}

/// What the threads have in common when they ask when it is time.
struct Clock {
    turns: Mutex<(Turns, File)>,
    /// Apart, for whoever waits for the timer holds the turns.
    recorder: Mutex<Recorder>,
}

impl Clock {
    fn start(rate: u32, time: Duration) -> std::io::Result<Clock> {
        let turns = Turns::new(rate, time);
        let timer = turns.timer(TimerFlags::empty())?;
        Ok(Clock { turns: Mutex::new((turns, timer)), recorder: Mutex::new(Recorder::new()) })
    }

    /// Waits until a request is due; one waits for the timer, the others for their turn.
    fn wait(&self) -> Result<Option<Instant>, Fault> {
        let (turns, timer) = &mut *self.turns.lock().map_err(|_| POISONED)?;
        let Some(due) = turns.take() else { return Ok(None) };
        while Instant::now() < due {
            timer.read_exact(&mut [0; TICK_LEN])?;
        }
        Ok(Some(due))
    }

    fn end(self) -> Latency {
        let recorder = self.recorder.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.turns.into_inner().unwrap_or_else(PoisonError::into_inner).0.end(recorder)
    }
}

const POISONED: &str = "another thread panicked";
