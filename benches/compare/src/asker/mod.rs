//! [`Asker`]: the clients. Each asks the limit one [`Task`] after another, so many at a time.

mod corehttp;
mod hyper_util;
mod raw;
mod reqwest;
mod task;
mod turns;
mod ureq;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::timerfd::TimerFlags;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

pub(crate) use task::{Job, Task};

use crate::allocations::allocations;
use crate::load::{Latency, Recorder};
use turns::{TICK_LEN, Turns};

/// A program that is measured as a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Raw,
    Corehttp,
    HyperUtil,
    Reqwest,
    Ureq,
    Fasthttp,
}

impl Asker {
    /// The bare write and read first: the others are compared with it.
    pub(crate) const ALL: [Asker; 6] =
        [Asker::Raw, Asker::Corehttp, Asker::HyperUtil, Asker::Reqwest, Asker::Ureq, Asker::Fasthttp];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Asker::Raw => "raw",
            Asker::Corehttp => "corehttp",
            Asker::HyperUtil => "hyper-util",
            Asker::Reqwest => "reqwest",
            Asker::Ureq => "ureq",
            Asker::Fasthttp => "fasthttp",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Asker> {
        Asker::ALL.into_iter().find(|asker| asker.name() == name)
    }
}

/// In the child: answers each line, an [`Order`], with a [`Report`].
pub(crate) fn answer_parent(asker: Asker, job: Job, address: SocketAddr) -> io::Result<()> {
    let job = (job, address);
    match asker {
        Asker::Raw => answer_from_tasks(job, raw::Raw::new),
        Asker::Corehttp => {
            let client = corehttp::client();
            answer_from_tasks(job, |task, address| corehttp::Corehttp::new(&client, task, address))
        }
        Asker::HyperUtil => {
            let client = hyper_util::client();
            answer_from_tasks(job, |task, address| hyper_util::HyperUtil::new(&client, task, address))
        }
        Asker::Reqwest => {
            let client = ::reqwest::Client::new();
            answer_from_tasks(job, |task, address| reqwest::Reqwest::new(&client, task, address))
        }
        Asker::Ureq => ureq::answer_parent(job),
        Asker::Fasthttp => Err(io::Error::other("this is no Rust")),
    }
}

/// One of those who ask at the same time.
trait Ask: Send + 'static {
    /// Has one exchange, and checks its response.
    fn ask(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;
}

type Fault = Box<dyn Error + Send + Sync>;

/// The command of the parent.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    /// All ask again as soon as they have their responses, for so long.
    Closed(Duration),
    /// They ask so many times a second.
    Open(Duration, u32),
}

impl Order {
    /// Milliseconds, and the rate.
    pub(crate) fn line(self) -> String {
        match self {
            Order::Closed(time) => format!("{} 0", time.as_millis()),
            Order::Open(time, rate) => format!("{} {rate}", time.as_millis()),
        }
    }
}

impl FromStr for Order {
    type Err = Fault;

    fn from_str(line: &str) -> Result<Order, Fault> {
        let (time, rate) = line.split_once(' ').ok_or("an order is two numbers")?;
        let time = Duration::from_millis(time.parse()?);
        Ok(match rate.parse()? {
            0 => Order::Closed(time),
            rate => Order::Open(time, rate),
        })
    }
}

/// The outcome of a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Report {
    Closed { exchanges: u64, allocations: u64 },
    Open(Latency),
}

fn answer_from_tasks<A: Ask>(
    (job, address): (Job, SocketAddr),
    make: impl Fn(Task, SocketAddr) -> A,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // They stay from line to line, and with them their connections.
    let mut askers: Vec<A> = (0..job.in_flight).map(|_| make(job.task, address)).collect();
    answer_lines(|order| match order {
        Order::Closed(time) => runtime.block_on(async {
            let (before, end) = (allocations(), Instant::now() + time);
            let exchanges = all_ask(&mut askers, |asker| ask_until(end, asker)).await?;
            Ok(Report::Closed { exchanges, allocations: allocations() - before })
        }),
        Order::Open(time, rate) => runtime.block_on(async {
            let clock = Arc::new(Clock::start(rate, time)?);
            all_ask(&mut askers, |asker| ask_when_due(clock.clone(), asker)).await?;
            let Clock { turns, recorder } = Arc::into_inner(clock).ok_or("somebody asks still")?;
            Ok(Report::Open(turns.into_inner().0.end(recorder.into_inner())))
        }),
    })
}

/// Has all ask at the same time; how often they were answered.
async fn all_ask<A: Ask, F>(askers: &mut Vec<A>, ask: impl Fn(A) -> F) -> Result<u64, Fault>
where
    F: Future<Output = Result<(A, u64), Fault>> + Send + 'static,
{
    let (mut running, mut exchanges) = (JoinSet::new(), 0);
    for asker in askers.drain(..) {
        running.spawn(ask(asker));
    }
    while let Some(ended) = running.join_next().await {
        let (asker, count) = ended??;
        askers.push(asker);
        exchanges += count;
    }
    Ok(exchanges)
}

async fn ask_until<A: Ask>(end: Instant, mut asker: A) -> Result<(A, u64), Fault> {
    let mut exchanges = 0;
    while Instant::now() < end {
        asker.ask().await?;
        exchanges += 1;
    }
    Ok((asker, exchanges))
}

/// The schedule that clients with a fixed load share.
struct Clock {
    turns: Mutex<(Turns, Receiver)>,
    /// Apart, for whoever waits for the timer holds the turns.
    recorder: Mutex<Recorder>,
}

impl Clock {
    fn start(rate: u32, time: Duration) -> io::Result<Clock> {
        let turns = Turns::new(rate, time);
        // It is no pipe, but is read like one.
        let timer = Receiver::from_file_unchecked(turns.timer(TimerFlags::TFD_NONBLOCK)?)?;
        Ok(Clock { turns: Mutex::new((turns, timer)), recorder: Mutex::new(Recorder::new()) })
    }

    /// Waits until a request is due; one waits for the timer, the others for their turn.
    async fn wait(&self) -> Result<Option<Instant>, Fault> {
        let (turns, timer) = &mut *self.turns.lock().await;
        let Some(due) = turns.take() else { return Ok(None) };
        while Instant::now() < due {
            timer.read_exact(&mut [0; TICK_LEN]).await?;
        }
        Ok(Some(due))
    }
}

async fn ask_when_due<A: Ask>(clock: Arc<Clock>, mut asker: A) -> Result<(A, u64), Fault> {
    let mut exchanges = 0;
    while let Some(due) = clock.wait().await? {
        asker.ask().await?;
        exchanges += 1;
        clock.recorder.lock().await.record(due.elapsed());
    }
    Ok((asker, exchanges))
}

fn answer_lines(mut run: impl FnMut(Order) -> Result<Report, Fault>) -> io::Result<()> {
    for line in io::stdin().lines() {
        let order = line?.parse().map_err(io::Error::other)?;
        println!("{}", serde_json::to_string(&run(order).map_err(io::Error::other)?)?);
    }
    Ok(())
}

fn check(response: &[u8], task: Task) -> Result<(), Fault> {
    if task.is_answered_by(response) { Ok(()) } else { Err("the response is wrong".into()) }
}
