//! Question: how long does an exchange take from end to end, client and server together on one core?
//!
//! fasthttp's client workloads: so many tasks, each with one GET after another; the handler answers with the target.
//! Client and server share a thread and a runtime, over loopback or in memory, so that a figure is the work of both and
//! not how fast threads wake each other. The server is corehttp's for all. The clients take turns round by round.
//!
//! ```text
//! cargo bench --bench client
//! cargo bench --bench client -- corehttp     # only one of them
//! ```

use std::rc::Rc;
use std::time::{Duration, Instant};

use corehttp::net::MemoryListener;
use corehttp::{Context, Handler, Server, Service};
use corehttp_benches::alloc::{Counting, allocations};
use corehttp_benches::askers::{Asker, COREHTTP, HYPER, Place, REQWEST};
use corehttp_benches::child;
use corehttp_benches::spread::Spread;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::{JoinSet, spawn_local};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    if child::wanted() {
        // A server's cores have such ones. A set of local tasks in another runtime is one task to that, and while
        // nothing else is ready it looks for events of the system: with one exchange at a time, before each.
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        runtime.expect("a runtime").block_on(measure());
    }
}

async fn measure() {
    child::pin(child::PinnedCore::Load);
    let memory = serve_memory();
    let tcp = serve_tcp().await;
    println!("{:<24}{:<12}{:>28}{:>14}", "", "", "us/exchange", "allocations");
    for (name, place, crowds) in [("TCP", tcp, &[1, 10, 100][..]), ("in memory", memory, &[1, 10, 100, 1000])]
    {
        for &tasks in crowds {
            let rows = compare(&place, tasks).await;
            for Row { asker, time, allocations } in &rows {
                let what = format!("{name}, {tasks} at a time");
                println!("{what:<24}{asker:<12}{time:>28}{allocations:>14.2}");
            }
        }
    }
}

/// One client at one workload.
struct Row {
    asker: &'static str,
    time: Spread,
    /// For each exchange, on both sides together.
    allocations: f64,
}

async fn compare(place: &Place, tasks: u64) -> Vec<Row> {
    let askers = child::chosen([COREHTTP, HYPER, REQWEST]);
    let askers: Vec<_> =
        askers.into_iter().filter_map(|name| Some((name, Asker::new(name, place)?))).collect();
    let mut times = vec![Vec::new(); askers.len()];
    let mut allocated = vec![0; askers.len()];
    for round in 0..=ROUNDS {
        for (at, (_, asker)) in askers.iter().enumerate() {
            let before = allocations();
            let time = run(asker, tasks).await;
            // The first round opens the connections.
            if round > 0 {
                times[at].push(time.as_secs_f64() * 1e6 / exchanges(tasks) as f64);
                allocated[at] += allocations() - before;
            }
        }
    }
    let exchanges = (ROUNDS * exchanges(tasks)) as f64;
    let rows = askers.iter().zip(times).zip(allocated);
    rows.map(|(((asker, _), times), allocated)| Row {
        asker,
        time: Spread::from_values(times.into_iter()),
        allocations: allocated as f64 / exchanges,
    })
    .collect()
}

const ROUNDS: u64 = 7;

/// How many exchanges a round has. Its tasks are made for it, with all that they keep; that shall be no more of the
/// figure than of fasthttp's, whose tasks have about 400 each.
fn exchanges(tasks: u64) -> u64 {
    (400 * tasks).max(20_000)
}

async fn run(asker: &Asker, tasks: u64) -> Duration {
    let started = Instant::now();
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let asker = asker.clone();
        running.spawn(async move { asker.ask(exchanges(tasks) / tasks, RESPONSE).await });
    }
    running.join_all().await;
    started.elapsed()
}

const RESPONSE: &[u8] = b"/foo/bar?baz=123";

fn service() -> Service<impl Handler> {
    Server::new().name("corehttp").expect("a valid name").service(|ctx: &mut Context| {
        let Context { request, response, .. } = ctx;
        response.set_text(request.target().as_str());
    })
}

fn serve_memory() -> Place {
    let listener = MemoryListener::new();
    let (accepting, service) = (listener.clone(), Rc::new(service()));
    spawn_local(async move {
        loop {
            let (service, stream) = (service.clone(), accepting.accept().await);
            spawn_local(async move { drop(service.serve_connection(stream).await) });
        }
    });
    Place::Memory(listener)
}

async fn serve_tcp() -> Place {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let service = Rc::new(service());
    spawn_local(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            let service = service.clone();
            spawn_local(async move { drop(service.serve_connection(stream).await) });
        }
    });
    Place::Tcp(address)
}
