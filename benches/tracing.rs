//! Question: what do spans cost, where nothing records them and where something does?
//!
//! A GET of 205 bytes over a fake connection that carries 10,000 of them, to a handler that responds at once. `plain` has
//! no spans, and so no cost. `quiet` has `Tracing` around it and no subscriber, `passed` as well, with a `traceparent` to
//! read. `recorded` has a subscriber that keeps each span until it is closed, and nothing of its fields. One op is one
//! request.
//!
//! ```text
//! cargo bench --features tracing --bench tracing
//! ```

use std::time::Duration;

use corehttp::middleware::wrap;
use corehttp::tracing::Tracing;
use corehttp::{IntoHandler, Server};
use corehttp_benches::alloc::Counting;
use corehttp_benches::fake::{Cut, FakeConn};
use corehttp_benches::handlers::{SERVER_NAME, respond};
use corehttp_benches::heads::GET;
use corehttp_benches::report::Report;
use corehttp_benches::workload::Workload;
use criterion::{Criterion, SamplingMode};
use tracing_subscriber::registry::Registry;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut report = Report::default();
    let parent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n";
    let with_parent: &'static str = format!("{}\r\n{parent}", GET.trim_end()).leak();
    bench(&mut criterion, &mut report, "plain", GET, respond);
    bench(&mut criterion, &mut report, "quiet", GET, wrap(Tracing::new(), respond));
    bench(&mut criterion, &mut report, "passed", with_parent, wrap(Tracing::new(), respond));
    let recorder = tracing::subscriber::set_default(Registry::default());
    bench(&mut criterion, &mut report, "recorded", GET, wrap(Tracing::new(), respond));
    drop(recorder);
    criterion.final_summary();
    if std::env::args().any(|arg| arg == "--bench") {
        report.print();
    }
}

fn bench<Kind>(
    criterion: &mut Criterion,
    report: &mut Report,
    row: &str,
    request: &'static str,
    handler: impl IntoHandler<Kind>,
) {
    let service = Server::new().name(SERVER_NAME).expect("a valid name").service(handler);
    let serve = async |io: FakeConn| service.serve_connection(io).await.expect("it serves to the end");
    let workload = Workload { request: request.as_bytes(), cut: Cut::Never, per_connection: 10_000 };
    assert!(workload.response(&serve).starts_with(b"HTTP/1.1 200 OK\r\n"));
    let mut group = criterion.benchmark_group("get/10000");
    group.sampling_mode(SamplingMode::Flat).sample_size(30);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1200));
    report.bench(&mut group, ("get/10000", row), workload, serve);
    group.finish();
}
