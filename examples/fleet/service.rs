//! One server as the files in `kit/` run it: behind a load balancer, with probes and metrics on a port of their own.

use std::env;
use std::io;
use std::panic;
use std::time::Duration;

use corehttp::access_log::{AccessLog, Format};
use corehttp::health::Health;
use corehttp::metrics::{self, Metrics};
use corehttp::server::ErrorLog;
use corehttp::{Context, Handler, Limits, Result, Server, Timeouts, routes, shutdown_signal};

/// Clients come here.
pub const PORT: u16 = 8080;

/// Prometheus and the probes come here, and nobody else should.
pub const OPERATIONS_PORT: u16 = 9090;

/// Several times the interval of the readiness probe, so that it fails before the listener closes.
pub const STOP_DELAY: Duration = Duration::from_secs(5);

/// How long a stop may take: [`STOP_DELAY`], and then 20 s for requests in flight.
pub const GRACE: Duration = Duration::from_secs(25);

/// Runs the server until SIGTERM.
pub fn run() -> Result {
    let metrics = Metrics::new();
    let health = Health::new();
    let errors = ErrorLog::stderr();
    panic::set_hook(Box::new(errors.panic_hook()));
    let access = access_log()?;
    reopen_on_hangup(access.clone());
    let _operations = Server::bind(("::", OPERATIONS_PORT)).cores(1).start(operations(&metrics, &health))?;
    Server::bind(("::", PORT))
        .systemd()?
        .limits(Limits { connections_max: 10_000, body_max: 1 << 20, ..Limits::default() })
        .timeouts(Timeouts { handler: Some(Duration::from_secs(15)), ..Timeouts::default() })
        .observe(access)
        .observe(errors)
        .observe(metrics)
        .stop_delay(STOP_DELAY)
        .stop_on(stop_signal(health), GRACE)
        .run(routes! { GET "/" => |ctx: &mut Context| ctx.response.set_text("hello") })
}

/// The handler of the second server.
pub fn operations(metrics: &Metrics, health: &Health) -> impl Handler + Send + Sync + use<> {
    routes! {
        GET "/metrics" => metrics::Text::new(metrics),
        GET "/livez" => health.live(),
        GET "/readyz" => health.ready(),
    }
}

/// SIGTERM, at which the probes of the second server fail at once. That one goes on until the program ends.
async fn stop_signal(health: Health) -> io::Result<()> {
    let signal = shutdown_signal().await;
    health.set_ready(false);
    signal
}

/// Standard output, as containers have it, or a file, which logrotate renames.
fn access_log() -> io::Result<AccessLog> {
    match env::var_os("ACCESS_LOG") {
        Some(path) => AccessLog::open(path, Format::Json),
        None => AccessLog::from_writer(io::stdout(), Format::Json),
    }
}

/// Opens the file again at SIGHUP, which `systemctl reload` sends.
fn reopen_on_hangup(log: AccessLog) {
    #[cfg(unix)]
    std::thread::spawn(move || {
        corehttp::block_on(async {
            use tokio::signal::unix::{SignalKind, signal};

            let mut hangups = signal(SignalKind::hangup())?;
            while hangups.recv().await.is_some() {
                log.reopen();
            }
            io::Result::Ok(())
        })
    });
    #[cfg(not(unix))]
    drop(log);
}
