//! One server of the fleet, whose sessions and rates are in Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corehttp::health::Health;
use corehttp::middleware::{SharedRateLimit, guard};
use corehttp::proxy_protocol::ProxyProtocol;
use corehttp::server::ErrorLog;
use corehttp::session::{Session, Sessions};
use corehttp::{Context, Error, Result, Server, routes, shutdown_signal};
use tokio::time::sleep;

use crate::redis_connection;
use crate::redis_rates::RedisRates;
use crate::redis_sessions::RedisSessions;

/// How many requests each user may send in a second, and at once.
pub const REQUESTS_A_SECOND: u32 = 150;

/// Runs the server until SIGTERM. After SIGUSR2 it answers each request with 500, as one does that has lost its disk; its
/// checks still succeed.
pub fn run(port: u16, version: String, redis: String) -> Result {
    let health = Health::new();
    let is_broken = Arc::new(AtomicBool::new(false));
    break_on_signal(is_broken.clone());
    Server::bind(("127.0.0.1", port))
        .cores(1)
        .observe(ErrorLog::stderr())
        // HAProxy, which connects from this machine.
        .proxy_protocol(ProxyProtocol::required(|ip| ip.is_loopback()))
        // Several times the interval of the checks.
        .stop_delay(Duration::from_secs(1))
        .stop_on(shutdown_signal(), Duration::from_secs(10))
        .run_per_core(async move |_| {
            let redis = redis_connection::open(&redis)?;
            let rates = RedisRates::new(redis.clone());
            let limit = SharedRateLimit::new("fleet", rates, REQUESTS_A_SECOND, Duration::from_secs(1));
            let limit = limit.by(|ctx| ctx.request.headers.get("x-user").map(str::to_owned));
            let is_broken = is_broken.clone();
            let sound = guard(move |_: &mut Context| match is_broken.load(Ordering::Relaxed) {
                true => Err(Error::other("the disk is gone")),
                false => Ok(()),
            });
            let (reads, adds) = (Counter(version.clone()), Counter(version.clone()));
            let sessions = Sessions::new(RedisSessions::new(redis));
            Ok(routes! {
                GET "/readyz" => health.ready(),
                wrap (sound, limit, sessions) => {
                    GET "/count" => async move |ctx: &mut Context| reads.answer(ctx, 0).await,
                    POST "/count" => async move |ctx: &mut Context| adds.answer(ctx, 1).await,
                },
            })
        })
}

/// Counts in the session of each user, and has a version.
struct Counter(String);

impl Counter {
    /// Adds to the count of the session, and answers with it, the version, and the address of the client.
    async fn answer(&self, ctx: &mut Context, added: u64) -> Result {
        // So that there are requests in flight whenever a server is killed.
        sleep(Duration::from_millis(5)).await;
        let session = Session::from_extensions(&mut ctx.extensions)?;
        let count = session.get("count")?.unwrap_or(0) + added;
        if added > 0 {
            session.set("count", &count)?;
        }
        let (version, peer) = (&self.0, ctx.peer_addr());
        ctx.response.set_text(format!("{count} by {version} for {peer}"));
        Ok(())
    }
}

#[cfg(unix)]
fn break_on_signal(is_broken: Arc<AtomicBool>) {
    use tokio::signal::unix::{SignalKind, signal};

    std::thread::spawn(move || {
        corehttp::block_on(async {
            signal(SignalKind::user_defined2())?.recv().await;
            is_broken.store(true, Ordering::Relaxed);
            std::io::Result::Ok(())
        })
    });
}

#[cfg(not(unix))]
fn break_on_signal(_: Arc<AtomicBool>) {}
