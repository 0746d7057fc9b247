//! Profiles of a running server: where its time goes, as pprof's format and as a flame graph, and how much memory it has.
//!
//! ```sh
//! cargo run --profile bench --features profile --example profile
//! curl -o /tmp/profile.pb 'http://127.0.0.1:8080/debug/pprof/profile?seconds=5' && go tool pprof -top /tmp/profile.pb
//! curl -o /tmp/flames.svg 'http://127.0.0.1:8080/debug/pprof/flamegraph?seconds=5'   # to be opened by a browser
//! curl http://127.0.0.1:8080/debug/pprof/heap
//! ```
//!
//! Profiles show how a program works, and make it slower. So they are for peers on this machine, and one at a time.

use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use corehttp::middleware::guard;
use corehttp::{Context, Error, Handler, Result, Server, Status, routes, shutdown_signal, with_state};
use pprof::ProfilerGuardBuilder;
use pprof::protos::Message;
use tikv_jemalloc_ctl::{epoch, stats};
use tokio::sync::Mutex;

/// The allocator of the system keeps no counts.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> Result {
    Server::bind("127.0.0.1:8080").stop_on(shutdown_signal(), Duration::from_secs(10)).run(app())
}

fn app() -> impl Handler + Send + Sync {
    let profiler = Arc::<Profiler>::default();
    let app = |ctx: &mut Context| ctx.response.set_text(busy(ctx.request.path()));
    routes! {
        wrap guard(only_here) => {
            GET "/debug/pprof/profile" => with_state(&profiler, Profiler::pprof),
            GET "/debug/pprof/flamegraph" => with_state(&profiler, Profiler::flamegraph),
            GET "/debug/pprof/heap" => heap,
        },
        GET "/{*path}" => app,
    }
}

/// Something that takes time, so that there is something to see.
fn busy(seed: &str) -> String {
    let sum = (0..100_000_u64).fold(seed.len() as u64, |sum, step| sum.wrapping_mul(31).wrapping_add(step));
    format!("{sum}\n")
}

/// Answers peers on this machine, and 403 to others: to those behind a proxy, as far as that adds a field, and to pages of
/// other sites in a browser here, whose names were made to point to this machine.
fn only_here(ctx: &mut Context) -> Result {
    if is_local(ctx) { Ok(()) } else { Err(Status::FORBIDDEN.into()) }
}

/// Whether a request is from this machine, as far as can be known, as for the page of metrics.
fn is_local(ctx: &Context) -> bool {
    let is_peer_local = ctx.peer_addr().ip().is_none_or(|peer| peer.to_canonical().is_loopback());
    let was_forwarded = FORWARDING.iter().any(|name| ctx.request.headers.contains(name));
    let is_host_local = ctx.request.host().is_none_or(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    });
    is_peer_local && !was_forwarded && is_host_local
}

/// Fields that proxies add.
const FORWARDING: [&str; 5] = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/// Takes profiles of the processor's time, one at a time.
#[derive(Default)]
struct Profiler {
    /// Locked while a profile is taken.
    turn: Arc<Mutex<()>>,
}

impl Profiler {
    /// A profile in the format of pprof, which `go tool pprof` and others read.
    async fn pprof(&self, ctx: &mut Context) -> Result {
        let encode = |report: pprof::Report| Ok(report.pprof().map_err(Error::other)?.encode_to_vec());
        let profile = self.take(seconds(ctx)?, encode).await?;
        Ok(ctx.response.set_shared_bytes("application/octet-stream", profile)?)
    }

    /// A flame graph, which a browser shows.
    async fn flamegraph(&self, ctx: &mut Context) -> Result {
        let draw = |report: pprof::Report| {
            let mut flames = Vec::new();
            report.flamegraph(&mut flames).map_err(Error::other)?;
            Ok(flames)
        };
        let flames = self.take(seconds(ctx)?, draw).await?;
        Ok(ctx.response.set_shared_bytes("image/svg+xml", flames)?)
    }

    /// Takes a profile for so long. The thread that waits and works for it is not that of a core, and it goes on if the
    /// peer goes away.
    async fn take(
        &self,
        time: Duration,
        write: impl FnOnce(pprof::Report) -> Result<Vec<u8>> + Send + 'static,
    ) -> Result<Vec<u8>> {
        let Ok(turn) = self.turn.clone().try_lock_owned() else {
            return Err(Error::new(Status::CONFLICT, "another profile is being taken"));
        };
        let taken = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let builder = ProfilerGuardBuilder::default().frequency(HERTZ);
            let guard =
                builder.blocklist(&["libc", "libgcc", "pthread", "vdso"]).build().map_err(Error::other)?;
            thread::sleep(time);
            write(guard.report().build().map_err(Error::other)?)
        });
        taken.await.map_err(Error::other)?
    }
}

/// How often a second each thread is looked at. An odd number does not keep step with timers.
const HERTZ: i32 = 99;

/// The time that the query asks for: 10 s, unless it has `seconds`, from 1 to 60.
fn seconds(ctx: &Context) -> Result<Duration> {
    match ctx.request.query().get_as("seconds")?.unwrap_or(10) {
        seconds @ 1..=60 => Ok(Duration::from_secs(seconds)),
        _ => Err(Error::new(Status::BAD_REQUEST, "`seconds` is from 1 to 60")),
    }
}

/// The counts of the allocator.
fn heap(ctx: &mut Context) -> Result {
    // The counts are those of the last epoch.
    epoch::advance().map_err(|error| Error::other(error.to_string()))?;
    let mut text = String::new();
    for (name, count) in [
        ("allocated", stats::allocated::read()),
        ("active", stats::active::read()),
        ("mapped", stats::mapped::read()),
        ("resident", stats::resident::read()),
        ("retained", stats::retained::read()),
    ] {
        text += &format!("{name} {}\n", count.map_err(|error| Error::other(error.to_string()))?);
    }
    ctx.response.set_text(text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use corehttp::{Client, Request, Service};

    use super::*;

    fn service() -> Service<impl Handler> {
        Server::new().service(app())
    }

    #[test]
    fn peers_elsewhere_are_refused() {
        let service = service();
        for (peer, host, field, status) in [
            ("192.0.2.1:5000", "localhost", "accept", 403),
            ("127.0.0.1:5000", "localhost:8080", "accept", 200),
            ("[::1]:5000", "[::1]:8080", "accept", 200),
            ("[::ffff:127.0.0.1]:5000", "127.0.0.1", "accept", 200),
            ("127.0.0.1:5000", "rebound.example", "accept", 403),
            ("127.0.0.1:5000", "localhost", "x-forwarded-for", 403),
        ] {
            let peer = peer.parse::<std::net::SocketAddr>().unwrap();
            let mut request = Request::get(&format!("http://{host}/debug/pprof/heap")).unwrap();
            request.headers.set(field, "192.0.2.1").unwrap();
            let response = corehttp::block_on(service.respond_from(peer.into(), request)).unwrap();
            assert_eq!(response.status.as_u16(), status, "{peer} {host} {field}");
            let is_read =
                response.text().is_ok_and(|text| text.starts_with("allocated ") && text.lines().count() == 5);
            assert_eq!(is_read, status == 200);
        }
    }

    #[test]
    fn a_profile_shows_where_the_time_goes_and_one_is_taken_at_a_time() {
        let server = Server::bind("127.0.0.1:0").cores(1).start(app()).unwrap();
        let url = server.to_string();
        let (profile, flames, second) = corehttp::block_on(async {
            let client = Client::new();
            let get = async |path: &str| client.get(&format!("{url}{path}")).await.unwrap();
            assert_eq!(get("/debug/pprof/profile?seconds=61").await.status, Status::BAD_REQUEST);
            let load = async {
                loop {
                    get("/work").await;
                }
            };
            let profiles = async {
                let second = async {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    get("/debug/pprof/profile?seconds=1").await
                };
                let (first, second) = tokio::join!(get("/debug/pprof/profile?seconds=1"), second);
                (first, get("/debug/pprof/flamegraph?seconds=1").await, second)
            };
            tokio::select! {
                profiles = profiles => profiles,
                () = load => unreachable!("it goes on"),
            }
        })
        .unwrap();
        assert_eq!((second.status, flames.status), (Status::CONFLICT, Status::OK));
        let decoded = pprof::protos::Profile::decode(profile.bytes()).unwrap();
        assert!(!decoded.sample.is_empty() && decoded.string_table.iter().any(|name| name.contains("busy")));
        assert!(flames.text().unwrap().contains("<svg") && flames.text().unwrap().contains("busy"));
    }
}
