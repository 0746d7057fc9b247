//! [`Work`]: servers whose handler computes for a while, or waits for one of a few connections to a database. They have as many threads as the process may use cores.

use std::cell::Cell;
use std::hint::black_box;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};
use std::{env, fs};

use actix_web::rt::System;
use actix_web::{App, HttpServer, web};
use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt;
use corehttp::middleware::{ConcurrencyLimit, wrap};
use corehttp::{Context, Server, Timeouts};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::child::{self, Child, announce};

/// The rounds of arithmetic that a request takes: usually, and one in a hundred, unless that is zero.
///
/// The unit is not time, since a thread that waits for a core while its time passes would get its work for nothing.
#[derive(Clone, Copy)]
pub struct Work {
    usual: u64,
    rare: u64,
    /// How many requests a database answers at once, if that is what the handler does; otherwise 0.
    permits: u64,
    /// How long a request may wait before a guard refuses it.
    wait_max: Duration,
}

impl Work {
    /// The work that takes these times on a core that does nothing else.
    pub fn measured(usual: Duration, rare: Duration) -> Work {
        let time = |_| {
            let started = Instant::now();
            compute(ROUNDS);
            started.elapsed()
        };
        let least = (0..100).map(time).min().unwrap_or_default();
        let rounds = |time: Duration| (time.as_secs_f64() / least.as_secs_f64() * ROUNDS as f64) as u64;
        Work { usual: rounds(usual), rare: rounds(rare), permits: 0, wait_max: WAIT_MAX }
    }

    /// Queries of a database with so many connections, each of which takes [`QUERY`].
    pub fn pooled(permits: u64) -> Work {
        Work { usual: 0, rare: 0, permits, wait_max: WAIT_MAX }
    }

    /// The same work, where guards have requests wait for so long.
    pub fn wait_max(self, wait_max: Duration) -> Work {
        Work { wait_max, ..self }
    }

    fn from_environment() -> Work {
        let number = |name| env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(0);
        let wait_max = Duration::from_millis(number(WAIT));
        Work { usual: number(USUAL), rare: number(RARE), permits: number(PERMITS), wait_max }
    }

    fn run(self) {
        compute(self.next());
    }

    /// The rounds of the next request.
    fn next(self) -> u64 {
        thread_local! {
            static COUNT: Cell<u64> = const { Cell::new(0) };
        }
        COUNT.set(COUNT.get() + 1);
        let is_rare = self.rare > 0 && COUNT.get().is_multiple_of(100);
        if is_rare { self.rare } else { self.usual }
    }

    /// Starts the server of that name, unless it is Go's and Go is not installed.
    pub fn spawn(self, name: &'static str) -> Option<Child> {
        let wait = self.wait_max.as_millis() as u64;
        let environment = [(USUAL, self.usual), (RARE, self.rare), (PERMITS, self.permits), (WAIT, wait)]
            .map(|(name, value)| (name, value.to_string()));
        match name {
            GO => Some(Child::spawn_program(&build_go()?, &environment)),
            _ => Some(Child::spawn_with(name, &environment)),
        }
    }
}

const USUAL: &str = "USUAL";
const RARE: &str = "RARE";
const PERMITS: &str = "PERMITS";
const WAIT: &str = "WAIT";

/// How long a query takes.
pub const QUERY: Duration = Duration::from_millis(5);

/// Takes about a millisecond.
const ROUNDS: u64 = 500_000;

/// Each round needs the result of the one before, so the compilers of all languages make the same of it.
fn compute(rounds: u64) {
    let mix = |mut x: u64, _| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^ (x << 17)
    };
    black_box((0..rounds).fold(black_box(1), mix));
}

pub const COREHTTP: &str = "corehttp";
/// Has requests wait for less time; behind a `ConcurrencyLimit`, if its handler waits.
pub const SHED: &str = "corehttp-shed";
/// Leaves what takes long to `spawn_blocking`.
pub const BLOCKING: &str = "corehttp-blocking";
pub const AXUM: &str = "axum";
pub const ACTIX: &str = "actix-web";
pub const GO: &str = "net/http";

/// Is the server of that name.
pub fn serve(name: &str) {
    let work = Work::from_environment();
    if work.permits > 0 {
        return serve_pool(name, work);
    }
    let handler = move |ctx: &mut Context| {
        work.run();
        ctx.response.set_text(DONE);
    };
    let server = Server::bind("127.0.0.1:0");
    let running = match name {
        COREHTTP => server.start(handler),
        SHED => {
            let timeouts = Timeouts { queue: Some(work.wait_max), ..Timeouts::default() };
            server.timeouts(timeouts).start(handler)
        }
        BLOCKING => server.start(async move |ctx: &mut Context| {
            match work.next() {
                rounds if rounds == work.usual => compute(rounds),
                rounds => spawn_blocking(move || compute(rounds)).await.expect("no panic"),
            }
            ctx.response.set_text(DONE);
        }),
        AXUM => {
            let done = async move || {
                work.run();
                DONE
            };
            return serve_axum(Router::new().route("/", get(done)));
        }
        ACTIX => {
            return serve_actix(move || async move {
                work.run();
                DONE
            });
        }
        unknown => panic!("no server is called {unknown}"),
    };
    let running = running.expect("a free port");
    announce(running.local_addr());
    running.wait().expect("it serves for ever");
}

const WAIT_MAX: Duration = Duration::from_millis(20);
const DONE: &str = "done";

/// A database, whose connections are taken in turn.
#[derive(Clone)]
struct Pool(Arc<Semaphore>);

impl Pool {
    async fn query(&self) {
        let _permit = self.0.acquire().await.expect("it is never closed");
        sleep(QUERY).await;
    }
}

fn serve_pool(name: &str, work: Work) {
    let permits = work.permits as usize;
    let pool = Pool(Arc::new(Semaphore::new(permits)));
    let handler = {
        let pool = pool.clone();
        async move |ctx: &mut Context| {
            pool.query().await;
            ctx.response.set_text(DONE);
        }
    };
    let server = Server::bind("127.0.0.1:0");
    let running = match name {
        COREHTTP => server.start(handler),
        SHED => server.start(wrap(ConcurrencyLimit::new(permits).wait(work.wait_max), handler)),
        AXUM => {
            let query = async move || {
                pool.query().await;
                DONE
            };
            return serve_axum(Router::new().route("/", get(query)));
        }
        ACTIX => {
            let query = move || {
                let pool = pool.clone();
                async move {
                    pool.query().await;
                    DONE
                }
            };
            return serve_actix(query);
        }
        unknown => panic!("no server is called {unknown}"),
    };
    let running = running.expect("a free port");
    announce(running.local_addr());
    running.wait().expect("it serves for ever");
}

fn serve_axum(router: Router) {
    let runtime =
        Builder::new_multi_thread().worker_threads(cores()).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let listener = TcpListener::bind(any).await.expect("a free port");
        announce(listener.local_addr().expect("it is bound"));
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        axum::serve(listener, router).await.expect("it serves for ever");
    });
}

fn serve_actix<F: Future<Output = &'static str> + 'static>(handler: impl Fn() -> F + Clone + Send + 'static) {
    System::new().block_on(async {
        let server = HttpServer::new(move || App::new().route("/", web::get().to(handler.clone())));
        let server = server.workers(cores()).bind("127.0.0.1:0").expect("a free port");
        announce(server.addrs()[0]);
        server.run().await.expect("it serves for ever");
    });
}

fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// Builds Go's net/http with such a handler. `None` without Go.
fn build_go() -> Option<PathBuf> {
    let folder = env::temp_dir().join("corehttp-bench-work");
    fs::create_dir_all(&folder).ok()?;
    child::build_go("work.go", folder.join("work"))
}
