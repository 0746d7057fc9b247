//! Question: what does it cost to observe each exchange, and does it allocate?
//!
//! One GET after another over a connection in memory, each read on its own: bare, with a function that gets a report of
//! each exchange, with an access log to a file, with histograms by route and status, with those of the page, and with all
//! of them. The work of the sockets is missing, so the ratios are the worst that there can be: over sockets an exchange
//! takes about 5 us, and the differences stay as they are here.
//!
//! The thread of the log and a core that does nothing else share the machine here, so lines are dropped; the end of the
//! report says how many.
//!
//! ```text
//! cargo bench --bench observing
//! ```

use std::hint::black_box;
use std::time::Duration;

use corehttp::access_log::{self, AccessLog};
use corehttp::metrics::{self, Metrics};
use corehttp::server::ExchangeReport;
use corehttp::{Server, routes};
use corehttp_benches::alloc::Counting;
use corehttp_benches::fake::{Cut, FakeConn};
use corehttp_benches::handlers::{SERVER_NAME, respond};
use corehttp_benches::heads::GET;
use corehttp_benches::report::{self, Report, verdict};
use corehttp_benches::workload::Workload;
use criterion::{Criterion, SamplingMode};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut report = Report::default();
    let folder = tempfile::tempdir().expect("a folder for the log");
    let log = AccessLog::open(folder.path().join("access.log"), access_log::Format::Combined).expect("a log");
    let metrics = Metrics::new();
    let shown = Metrics::new();
    let _page = metrics::Page::new(&shown);
    let looks = |exchange: &ExchangeReport| {
        black_box(exchange.duration);
    };
    let rows = [
        ("bare", Server::new()),
        ("on_exchange", Server::new().on_exchange(looks)),
        ("access log", Server::new().observe(log.clone())),
        ("histograms", Server::new().observe(metrics.clone())),
        ("histograms, page", Server::new().observe(shown.clone())),
        ("all", Server::new().on_exchange(looks).observe(log.clone()).observe(Metrics::new())),
    ];
    for (name, server) in rows {
        bench(&mut criterion, &mut report, name, server);
    }
    criterion.final_summary();
    if std::env::args().any(|arg| arg == "--bench") {
        report.print();
        println!("\n{} lines of the access log were dropped", log.dropped());
        judge(&report);
    }
}

fn bench(criterion: &mut Criterion, report: &mut Report, name: &str, server: Server) {
    let service =
        server.name(SERVER_NAME).expect("a valid name").service(routes! { GET "/foobar" => respond });
    let serve = async |io: FakeConn| service.serve_connection(io).await.expect("it is served to the end");
    let workload = Workload { request: GET.as_bytes(), cut: Cut::WHOLE, per_connection: 10_000 };
    let mut group = criterion.benchmark_group("get");
    group.sampling_mode(SamplingMode::Flat).sample_size(30);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1200));
    report.bench(&mut group, ("get", name), workload, serve);
    group.finish();
}

fn judge(report: &Report) {
    let time = |name: &str| report.row(&format!("get/{name}")).map(report::Row::nanoseconds);
    if let (Some(bare), Some(all)) = (time("bare"), time("all")) {
        verdict(all <= 1.25 * bare, &format!("all: {:.2} times the bare exchange, at most 1.25", all / bare));
    }
    if let Some(most) = report.rows().map(report::Row::allocations_per_request).reduce(f64::max) {
        verdict(most < 0.001, &format!("{most:.4} allocations for a request, none"));
    }
}
