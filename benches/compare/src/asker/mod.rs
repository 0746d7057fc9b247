//! [`Asker`]: the clients. Each asks the limit one [`Task`] after another, so many at a time.

mod corehttp;
mod hyper_util;
mod raw;
mod reqwest;
mod task;
mod ureq;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

pub(crate) use task::{Job, Task};

use crate::allocations::allocations;

/// Whoever is measured as a client.
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

/// In the child: answers each line, a number of milliseconds, with how many exchanges were had in that time and how
/// many allocations they took.
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
    /// Has one exchange, and checks its answer.
    fn ask(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;
}

type Fault = Box<dyn Error + Send + Sync>;

fn answer_from_tasks<A: Ask>(
    (job, address): (Job, SocketAddr),
    make: impl Fn(Task, SocketAddr) -> A,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // They stay from line to line, and with them their connections.
    let mut askers: Vec<A> = (0..job.in_flight).map(|_| make(job.task, address)).collect();
    answer_lines(|time| {
        runtime.block_on(async {
            let (end, mut running, mut exchanges) = (Instant::now() + time, JoinSet::new(), 0);
            for asker in askers.drain(..) {
                running.spawn(ask_until(end, asker));
            }
            while let Some(ended) = running.join_next().await {
                let (asker, count) = ended??;
                askers.push(asker);
                exchanges += count;
            }
            Ok(exchanges)
        })
    })
}

async fn ask_until<A: Ask>(end: Instant, mut asker: A) -> Result<(A, u64), Fault> {
    let mut exchanges = 0;
    while Instant::now() < end {
        asker.ask().await?;
        exchanges += 1;
    }
    Ok((asker, exchanges))
}

fn answer_lines(mut run: impl FnMut(Duration) -> Result<u64, Fault>) -> io::Result<()> {
    for line in io::stdin().lines() {
        let milliseconds = line?.parse().map_err(io::Error::other)?;
        let before = allocations();
        let exchanges = run(Duration::from_millis(milliseconds)).map_err(io::Error::other)?;
        println!("{exchanges} {}", allocations() - before);
    }
    Ok(())
}

fn check(answer: &[u8], task: Task) -> Result<(), Fault> {
    if answer == task.answer() { Ok(()) } else { Err("the answer is wrong".into()) }
}
