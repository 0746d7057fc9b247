//! [`Work`]: servers whose handler computes for a while. They have as many threads as the process may use cores.

use std::cell::Cell;
use std::hint::black_box;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};
use std::{env, fs};

use actix_web::rt::System;
use actix_web::{App, HttpServer, web};
use axum::Router;
use axum::routing::get;
use axum::serve::ListenerExt;
use corehttp::middleware::LoadShed;
use corehttp::middleware::wrap;
use corehttp::{Context, Server};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;

use crate::child::{self, Child, announce};

/// The rounds of arithmetic that a request takes: usually, and one in a hundred, unless that is zero.
///
/// The unit is not time, since a thread that waits for a core while its time passes would get its work for nothing.
#[derive(Clone, Copy)]
pub struct Work {
    usual: u64,
    rare: u64,
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
        Work { usual: rounds(usual), rare: rounds(rare) }
    }

    fn from_environment() -> Work {
        let rounds = |name| env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(0);
        Work { usual: rounds(USUAL), rare: rounds(RARE) }
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
        let environment =
            [(USUAL, self.usual), (RARE, self.rare)].map(|(name, value)| (name, value.to_string()));
        match name {
            GO => Some(Child::spawn_program(&build_go()?, &environment)),
            _ => Some(Child::spawn_with(name, &environment)),
        }
    }
}

const USUAL: &str = "USUAL";
const RARE: &str = "RARE";

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
/// Behind a `LoadShed`.
pub const SHED: &str = "corehttp-shed";
/// Leaves what takes long to `spawn_blocking`.
pub const BLOCKING: &str = "corehttp-blocking";
pub const AXUM: &str = "axum";
pub const ACTIX: &str = "actix-web";
pub const GO: &str = "net/http";

/// Is the server of that name.
pub fn serve(name: &str) {
    let work = Work::from_environment();
    let handler = move |ctx: &mut Context| {
        work.run();
        ctx.response.set_text(DONE);
    };
    let server = Server::bind("127.0.0.1:0");
    let running = match name {
        COREHTTP => server.start(handler),
        SHED => server.start(wrap(LoadShed::new(WAIT_MAX), handler)),
        BLOCKING => server.start(async move |ctx: &mut Context| {
            match work.next() {
                rounds if rounds == work.usual => compute(rounds),
                rounds => spawn_blocking(move || compute(rounds)).await.expect("no panic"),
            }
            ctx.response.set_text(DONE);
        }),
        AXUM => return serve_axum(work),
        ACTIX => return serve_actix(work),
        unknown => panic!("no server is called {unknown}"),
    };
    let running = running.expect("a free port");
    announce(running.local_addr());
    running.wait().expect("it serves for ever");
}

const WAIT_MAX: Duration = Duration::from_millis(20);
const DONE: &str = "done";

fn serve_axum(work: Work) {
    let runtime =
        Builder::new_multi_thread().worker_threads(cores()).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let listener = TcpListener::bind(any).await.expect("a free port");
        announce(listener.local_addr().expect("it is bound"));
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let done = async move || {
            work.run();
            DONE
        };
        axum::serve(listener, Router::new().route("/", get(done))).await.expect("it serves for ever");
    });
}

fn serve_actix(work: Work) {
    System::new().block_on(async {
        let done = move || async move {
            work.run();
            DONE
        };
        let server = HttpServer::new(move || App::new().route("/", web::get().to(done)));
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
