//! ureq, which blocks, so each of those in flight is a thread.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::timerfd::TimerFlags;
use ureq::Agent;
use ureq::http::Uri;

use super::turns::{TICK_LEN, Turns};
use super::{Fault, Job, Order, Report, Task, answer_lines, check};
use crate::allocations::allocations;
use crate::load::{Latency, Recorder};

pub(super) fn answer_parent((job, address): (Job, SocketAddr)) -> std::io::Result<()> {
    let config =
        Agent::config_builder().max_idle_connections(IDLE_MAX).max_idle_connections_per_host(IDLE_MAX);
    let uri = job.task.url(address).parse().expect("the URL is good");
    let asker = Asker { agent: Agent::new_with_config(config.build()), task: job.task, uri };
    let crew = Crew::start(&asker, job.in_flight);
    answer_lines(|order| match order {
        Order::Closed(time) => {
            let (before, end) = (allocations(), Instant::now() + time);
            let exchanges = crew.all_ask(&Duty::Until(end))?;
            Ok(Report::Closed { exchanges, allocations: allocations() - before })
        }
        Order::Open(time, rate) => {
            let clock = Arc::new(Clock::start(rate, time)?);
            crew.all_ask(&Duty::WhenDue(clock.clone()))?;
            Ok(Report::Open(Arc::into_inner(clock).ok_or("somebody asks still")?.end()))
        }
    })
}

const IDLE_MAX: usize = 256;

/// Threads that stay from order to order, as the tasks of the others need not be made anew either.
struct Crew {
    duties: Vec<Sender<Duty>>,
    done: Receiver<Result<u64, Fault>>,
}

/// The work of all threads.
#[derive(Clone)]
enum Duty {
    Until(Instant),
    WhenDue(Arc<Clock>),
}

impl Crew {
    fn start(asker: &Asker, in_flight: usize) -> Crew {
        let (report, done) = mpsc::channel();
        let start = |_| {
            let (duty, duties) = mpsc::channel();
            let (asker, report) = (asker.clone(), report.clone());
            thread::spawn(move || duties.iter().try_for_each(|duty| report.send(asker.ask_all(duty))));
            duty
        };
        Crew { duties: (0..in_flight).map(start).collect(), done }
    }

    /// Has all ask at the same time; how often they were answered.
    fn all_ask(&self, duty: &Duty) -> Result<u64, Fault> {
        for duties in &self.duties {
            duties.send(duty.clone()).map_err(|_| PANICKED)?;
        }
        self.duties.iter().map(|_| self.done.recv().map_err(|_| PANICKED)?).sum()
    }
}

const PANICKED: &str = "a thread panicked";

#[derive(Clone)]
struct Asker {
    agent: Agent,
    task: Task,
    uri: Uri,
}

impl Asker {
    fn ask_all(&self, duty: Duty) -> Result<u64, Fault> {
        match duty {
            Duty::Until(end) => self.ask_until(end),
            Duty::WhenDue(clock) => self.ask_when_due(&clock),
        }
    }

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
            clock.recorder.lock().map_err(|_| PANICKED)?.record(due.elapsed());
        }
        Ok(exchanges)
    }

    fn ask(&self) -> Result<(), Fault> {
        let mut response = match self.task.content() {
            Some(content) => self.agent.post(self.uri.clone()).send(content)?,
            None => self.agent.get(self.uri.clone()).call()?,
        };
        check(&response.body_mut().read_to_vec()?, self.task)
    }
}

/// The schedule that the threads share.
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
        let (turns, timer) = &mut *self.turns.lock().map_err(|_| PANICKED)?;
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
