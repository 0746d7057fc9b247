//! corehttp with all that sees: its access log, its histograms, and a function that gets a report of each exchange.

use std::hint::black_box;
use std::io;
use std::path::PathBuf;

use corehttp::access_log::{self, AccessLog};
use corehttp::metrics::{self, Metrics};
use corehttp::server::ExchangeReport;
use corehttp::{Context, Handler, Server, routes};

use crate::application::{HELLO, SERVER_NAME};
use crate::child::announce;

pub(super) fn serve(log: Option<PathBuf>) -> io::Result<()> {
    let server = Server::bind("127.0.0.1:0").cores(1).name(SERVER_NAME).expect("a valid name");
    let Some(path) = log else { return run(server, routes! { GET "/users/{id}" => respond }) };
    let (log, metrics) = (AccessLog::open(path, access_log::Format::Combined)?, Metrics::new());
    let sees = |exchange: &ExchangeReport<'_>| {
        black_box(exchange.duration);
    };
    let router = routes! { GET "/users/{id}" => respond, GET "/metrics" => metrics::Text::new(&metrics) };
    run(server.observe(metrics.clone()).on_exchange(sees).observe(log), router)
}

fn run(server: Server, handler: impl Handler + Send + Sync + 'static) -> io::Result<()> {
    let running = server.start(handler).map_err(io::Error::other)?;
    announce(running.local_addr());
    running.wait().map_err(io::Error::other)
}

fn respond(ctx: &mut Context) -> corehttp::Result {
    let id: u32 = ctx.params().get_as("id")?;
    black_box(id);
    Ok(ctx.response.set_shared_bytes("text/plain", HELLO)?)
}
