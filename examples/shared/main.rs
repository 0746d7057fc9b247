//! State that processes share: sessions in Redis, PostgreSQL or SQLite, and rates in Redis.
//!
//! ```text
//! cargo run --release --features shared --example shared -- 127.0.0.1:8080 redis://127.0.0.1
//! cargo run --release --features shared --example shared -- 127.0.0.1:8081 redis://127.0.0.1
//! ```
//!
//! Both processes count the visits of a session together, and a session that ends at one has ended at the other. In place
//! of Redis there may be `postgres://user:password@localhost/database`, or the name of a file for SQLite; only Redis counts
//! rates.
//!
//! Each store is a file to copy: `redis_sessions.rs`, `postgres_sessions.rs` and `sqlite_sessions.rs` are a [`SessionStore`],
//! `redis_rates.rs` is a [`RateStore`](corehttp::middleware::RateStore). The two for Redis take a connection of
//! `redis_connection.rs`.

mod postgres_sessions;
mod redis_connection;
mod redis_rates;
mod redis_sessions;
#[cfg(all(test, unix))]
mod servers;
mod sqlite_sessions;
#[cfg(all(test, unix))]
mod tests;

use std::env;
use std::process;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use corehttp::middleware::{CrossOriginProtection, SharedRateLimit, wrap};
use corehttp::server::ErrorLog;
use corehttp::session::{Session, SessionStore, Sessions};
use corehttp::{Context, Error, Handler, Result, Server, routes, shutdown_signal};
use tokio::task::spawn_local;
use tokio::time::interval;

use postgres_sessions::PostgresSessions;
use redis_rates::RedisRates;
use redis_sessions::RedisSessions;
use sqlite_sessions::SqliteSessions;

fn main() -> Result {
    let mut arguments = env::args().skip(1);
    let (Some(address), Some(store)) = (arguments.next(), arguments.next()) else {
        return Err(Error::other("usage: shared ADDRESS STORE"));
    };
    let server = Server::bind(address).observe(ErrorLog::stderr());
    let server = server.stop_on(shutdown_signal(), Duration::from_secs(10));
    match store.split(':').next() {
        Some("redis" | "rediss" | "redis+unix") => server.run_per_core(async move |_| {
            let redis = redis_connection::open(&store)?;
            let limit = SharedRateLimit::new("visits", RedisRates::new(redis.clone()), 600, MINUTE).told();
            Ok(wrap(limit, app(RedisSessions::new(redis))))
        }),
        Some("postgres" | "postgresql") => server.run_per_core(async move |core| {
            let sessions = PostgresSessions::open(&store)?;
            if core.index() == 0 {
                let sessions = sessions.clone();
                spawn_local(each_minute(async move || sessions.delete_expired().await.map(drop)));
            }
            Ok(app(sessions))
        }),
        _ => {
            let sessions = SqliteSessions::open(&store)?;
            server.run_per_core(async move |core| {
                if core.index() == 0 {
                    let sessions = sessions.clone();
                    spawn_local(each_minute(async move || sessions.delete_expired().await.map(drop)));
                }
                Ok(app(sessions.clone()))
            })
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// The service, which does not depend on the store.
fn app<S: SessionStore>(store: S) -> impl Handler + use<S> {
    let router = routes! { GET "/" => visit, POST "/sign-out" => sign_out };
    wrap((CrossOriginProtection::new(), Sessions::new(store)), router)
}

fn visit(ctx: &mut Context) -> Result {
    let session = Session::from_extensions(&mut ctx.extensions)?;
    let visits = session.get("visits")?.unwrap_or(0) + 1;
    session.set("visits", &visits)?;
    ctx.response.set_text(format!("visit {visits}, at process {}\n", process::id()));
    Ok(())
}

fn sign_out(ctx: &mut Context) -> Result {
    Session::from_extensions(&mut ctx.extensions)?.delete();
    Ok(())
}

/// Runs `job` each minute. A failure is left to the next minute, and written by a thread: no core waits for a terminal.
async fn each_minute(job: impl AsyncFn() -> Result) {
    let (failures, taken) = mpsc::sync_channel::<Error>(1);
    thread::spawn(move || taken.iter().for_each(|error| eprintln!("expired sessions are kept: {error:#}")));
    let mut minutes = interval(MINUTE);
    loop {
        minutes.tick().await;
        if let Err(error) = job().await {
            let _ = failures.try_send(error);
        }
    }
}
