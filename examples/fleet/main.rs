//! A fleet: three processes behind HAProxy that share sessions and rates in Redis. Under load they are rolled, and one is killed,
//! one halted, one answers 500.
//!
//! ```sh
//! cargo run --release --features fleet --example fleet
//! ```
//!
//! The program starts a Redis, itself once for each server, and HAProxy with `haproxy.cfg`, which checks the servers and sends
//! the addresses of clients by the PROXY protocol. It prints what sixteen clients have seen of each, and the
//! lines of HAProxy's log that go with it. `README.md` explains them.
//!
//! `cargo run --release --features fleet --example fleet -- service` is one server as the files in `kit/` run it: a
//! Dockerfile, a manifest of Kubernetes, a unit of systemd, rules and a dashboard for its metrics, and log rotation.

mod balancer_log;
mod event;
mod load;
mod member;
mod process;
#[path = "../shared/redis_connection.rs"]
mod redis_connection;
#[path = "../shared/redis_rates.rs"]
mod redis_rates;
#[path = "../shared/redis_sessions.rs"]
mod redis_sessions;
mod service;
#[cfg(test)]
mod tests;

use std::env;
use std::iter::zip;
use std::net::TcpListener;
use std::time::Duration;

use corehttp::{Client, Error, Result, Status, block_on};
use tokio::time::{sleep, timeout};

use balancer_log::BalancerLog;
use event::{Event, Fleet};
use load::{Load, Phase};
use process::{Folder, Process};

fn main() -> Result {
    let arguments: Vec<String> = env::args().collect();
    match &arguments[..] {
        [_, serve, port, version, redis] if serve == "serve" => {
            member::run(port.parse()?, version.clone(), redis.clone())
        }
        [_, mode] if mode == "service" => service::run(),
        _ => block_on(tour())?,
    }
}

/// Starts the fleet and its clients, has all happen to it, and prints the report.
async fn tour() -> Result {
    let ports = free_ports()?;
    let folder = Folder::new()?;
    let _redis = Process::redis(&folder)?;
    let mut fleet = Fleet::start(&folder, &ports[1..])?;
    let _balancer = Process::balancer(&folder, ports)?;
    let url = format!("http://127.0.0.1:{}/", ports[0]);
    if timeout(Duration::from_secs(20), until_ready(&url)).await.is_err() {
        return Err(Error::other(format!("the fleet does not start: see {}", folder.0.display())));
    }
    let load = Load::start(&url);
    let mut logs = Vec::new();
    for event in Event::ALL {
        load.begin(event);
        let before = folder.balancer_log()?.len();
        event.happen(&mut fleet).await?;
        logs.push(folder.balancer_log()?.split_off(before));
    }
    let (phases, rate) = load.end().await?;
    let logs = Vec::from_iter(logs.iter().map(|log| BalancerLog::parse(log)));
    print(&phases, &logs);
    println!("\n{rate}\nAll logs are in {}.", folder.0.display());
    check(&phases, &logs)
}

fn print(phases: &[Phase], logs: &[BalancerLog<'_>]) {
    for (phase, log) in zip(phases, logs) {
        println!("HAProxy's log while {}:", phase.event.name());
        log.changes.iter().chain(&log.failed).for_each(|line| println!("  {line}"));
    }
    println!("\n| while | GET | failed | POST | failed | sent again | sessions lost | slowest |");
    println!("|---|---|---|---|---|---|---|---|");
    for (phase, log) in zip(phases, logs) {
        let Phase { event, gets, gets_failed, posts, posts_failed, slowest, lost, .. } = phase;
        let (name, again) = (event.name(), log.sent_again);
        println!(
            "| {name} | {gets} | {gets_failed} | {posts} | {posts_failed} | {again} | {lost} | {slowest:.0?} |"
        );
    }
}

/// Fails if something has failed that need not, or that the log does not have.
fn check(phases: &[Phase], logs: &[BalancerLog<'_>]) -> Result {
    let is_sound = |phase: &Phase| {
        let may_fail_posts = phase.event.may_fail_posts();
        phase.lost == 0 && phase.gets_failed == 0 && (phase.posts_failed == 0 || may_fail_posts)
    };
    let answered = |phase: &Phase| phase.gets_failed + phase.posts_failed - phase.cut;
    let failed: usize = phases.iter().map(answered).sum();
    let logged: usize = logs.iter().map(|log| log.failed.len()).sum();
    match phases.iter().all(is_sound) {
        true if failed == logged => Ok(()),
        true => {
            Err(Error::other(format!("{failed} were answered with an error, HAProxy has logged {logged}")))
        }
        false => Err(Error::other("requests have failed that need not")),
    }
}

/// Waits until the balancer has a server that is ready.
async fn until_ready(url: &str) {
    let client = Client::new();
    while !client.get(&format!("{url}readyz")).await.is_ok_and(|response| response.status == Status::OK) {
        sleep(Duration::from_millis(50)).await;
    }
}

/// Ports that nothing listens on.
fn free_ports() -> Result<[u16; 4]> {
    let listeners = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut ports = [0; 4];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(ports)
}
