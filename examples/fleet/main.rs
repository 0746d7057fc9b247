//! A fleet: three processes behind HAProxy, rolled one by one under load, and no request fails.
//!
//! ```sh
//! cargo run --release --features fleet --example fleet
//! ```
//!
//! The program starts itself once for each server, and HAProxy with `haproxy.cfg`, which checks the servers and sends the
//! addresses of clients by the PROXY protocol. Sixteen clients then ask without a pause while one server after the other
//! gets SIGTERM, tells HAProxy so for its `stop_delay`, finishes its requests, and is replaced by the next version.
//!
//! `cargo run --release --features fleet --example fleet -- service` is one server as the files in `kit/` run it: a
//! Dockerfile, a manifest of Kubernetes, a unit of systemd, rules and a dashboard for its metrics, and log rotation.

mod service;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;

use corehttp::health::Health;
use corehttp::proxy_protocol::ProxyProtocol;
use corehttp::{Client, Context, Result, Server, Status, block_on, routes, shutdown_signal};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

fn main() -> Result {
    let arguments: Vec<String> = env::args().collect();
    match &arguments[..] {
        [_, serve, port, version] if serve == "serve" => run_member(port.parse()?, version.clone()),
        [_, mode] if mode == "service" => service::run(),
        _ => block_on(roll())?.map(|rolled| println!("{rolled}")),
    }
}

/// One server of the fleet.
fn run_member(port: u16, version: String) -> Result {
    let health = Health::new();
    let router = routes! {
        GET "/readyz" => health.ready(),
        any "*" => move |ctx: &mut Context| ctx.response.set_text(format!("{version} for {}", ctx.peer_addr())),
    };
    Server::bind(("127.0.0.1", port))
        .cores(1)
        // HAProxy, which connects from this machine.
        .proxy_protocol(ProxyProtocol::required(|ip| ip.is_loopback()))
        // Several times the interval of the checks.
        .stop_delay(Duration::from_secs(1))
        .stop_on(shutdown_signal(), Duration::from_secs(10))
        .run(router)
}

/// Starts the fleet and its clients, rolls each server, and returns what the clients have seen.
async fn roll() -> Result<String> {
    let ports = free_ports()?;
    let [front, members @ ..] = ports;
    let mut servers: Vec<Process> =
        members.iter().map(|port| Process::member(*port, 1)).collect::<Result<_>>()?;
    let _balancer = Process::balancer(ports)?;
    let url = format!("http://127.0.0.1:{front}/");
    timeout(Duration::from_secs(20), until_ready(&url)).await?;

    let (seen, enough) = (Rc::new(Seen::default()), Rc::new(Cell::new(false)));
    let clients: Vec<_> =
        (0..CLIENTS).map(|_| spawn_local(ask(url.clone(), seen.clone(), enough.clone()))).collect();
    for (server, port) in servers.iter_mut().zip(members) {
        server.stop().await?;
        *server = Process::member(port, 2)?;
        // HAProxy gives it requests once it is checked.
        sleep(Duration::from_secs(1)).await;
    }
    enough.set(true);
    for client in clients {
        client.await?;
    }
    let Seen { failed, versions } = &*seen;
    let versions = versions.borrow();
    Ok(format!(
        "{} requests by version, {} failed: {versions:?}",
        versions.values().sum::<usize>(),
        failed.get()
    ))
}

const CLIENTS: usize = 16;

/// The responses to all clients.
#[derive(Default)]
struct Seen {
    failed: Cell<usize>,
    /// How many responses each version has sent.
    versions: RefCell<BTreeMap<String, usize>>,
}

/// A client that asks until it is enough.
async fn ask(url: String, seen: Rc<Seen>, enough: Rc<Cell<bool>>) {
    let client = Client::new();
    while !enough.get() {
        match client.get(&url).await {
            Ok(response) if response.status == Status::OK => {
                let text = response.text().unwrap_or_default();
                let version = text.split(" for ").next().unwrap_or_default().to_owned();
                *seen.versions.borrow_mut().entry(version).or_default() += 1;
            }
            outcome => {
                eprintln!("failed: {outcome:?}");
                seen.failed.set(seen.failed.get() + 1);
            }
        }
    }
}

/// Waits until the balancer has a server that is ready.
async fn until_ready(url: &str) {
    let client = Client::new();
    while !client.get(url).await.is_ok_and(|response| response.status == Status::OK) {
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

/// A process that is killed when the example ends.
struct Process(Child);

impl Process {
    fn member(port: u16, version: usize) -> Result<Process> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["serve", &port.to_string(), &format!("version {version}")]);
        Ok(Process(command.spawn()?))
    }

    fn balancer([front, one, two, three]: [u16; 4]) -> Result<Process> {
        let path = env::temp_dir().join(format!("corehttp-fleet-{front}.cfg"));
        fs::write(&path, include_str!("haproxy.cfg"))?;
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(&path);
        for (name, port) in [("FRONT", front), ("1", one), ("2", two), ("3", three)] {
            command.env(format!("FLEET_{name}"), port.to_string());
        }
        Ok(Process(command.spawn()?))
    }

    /// Sends SIGTERM, and waits until the process has finished its requests.
    async fn stop(&mut self) -> Result {
        Command::new("kill").arg(self.0.id().to_string()).status()?;
        while self.0.try_wait()?.is_none() {
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
