//! ureq, which blocks, so each of those in flight is a thread.

use std::net::SocketAddr;
use std::thread;
use std::time::Instant;

use ureq::Agent;

use super::{Fault, Job, Task, answer_lines, check};

pub(super) fn answer_parent((job, address): (Job, SocketAddr)) -> std::io::Result<()> {
    let config =
        Agent::config_builder().max_idle_connections(IDLE_MAX).max_idle_connections_per_host(IDLE_MAX);
    let (agent, url) = (Agent::new_with_config(config.build()), job.task.url(address));
    answer_lines(|time| {
        let end = Instant::now() + time;
        thread::scope(|scope| {
            let asker = || scope.spawn(|| ask_until(end, &agent, job.task, &url));
            let running: Vec<_> = (0..job.in_flight).map(|_| asker()).collect();
            running.into_iter().map(|asker| asker.join().map_err(|_| "a thread panicked")?).sum()
        })
    })
}

const IDLE_MAX: usize = 256;

fn ask_until(end: Instant, agent: &Agent, task: Task, url: &str) -> Result<u64, Fault> {
    let mut exchanges = 0;
    while Instant::now() < end {
        let mut response = match task.content() {
            Some(content) => agent.post(url).send(content)?,
            None => agent.get(url).call()?,
        };
        check(&response.body_mut().read_to_vec()?, task)?;
        exchanges += 1;
    }
    Ok(exchanges)
}
