//! Question: what does a request cost once the sockets are taken away, and does it allocate?
//!
//! The workload is that of fasthttp's `server_timing_test.go`: its GET of 205 bytes and its
//! POST of 259, its response of 133, over fake connections that carry 1, 2, 10 or 10,000 requests
//! each, one connection after the other. corehttp (with a sync and an async handler) and hyper
//! get the same bytes and owe the same bytes; limits, checks and timeouts are on in both, and
//! both read into the buffers they have by default. `hyper-untimed` is hyper without a timer, which
//! is how it comes; its users lose the timeouts by that. A connection ends with the end of its
//! input, also where it carried a single request. One op is one request; making the connection
//! is in it.
//!
//! ```text
//! cargo bench --bench server                  # all rows, about a minute
//! cargo bench --bench server -- get/10000     # some rows
//! ```

use std::time::Duration;

use corehttp::{Context, Server};
use corehttp_benches::alloc::Counting;
use corehttp_benches::fake::{Cut, FakeConn};
use corehttp_benches::handlers::{HELLO, SERVER_NAME, hyper_builder, hyper_respond, respond};
use corehttp_benches::heads::GET;
use corehttp_benches::report::{self, Report, verdict};
use corehttp_benches::workload::Workload;
use criterion::{Criterion, SamplingMode};
use hyper::server::conn::http1;
use hyper::service::service_fn;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut report = Report::default();
    for (method, request) in [("get", GET), ("post", POST)] {
        for per_connection in [1, 2, 10, 10_000] {
            let name = format!("{method}/{per_connection}");
            let workload = Workload { request: request.as_bytes(), cut: Cut::Never, per_connection };
            bench_peers(&mut criterion, &mut report, &name, workload);
        }
    }
    criterion.final_summary();
    if std::env::args().any(|arg| arg == "--bench") {
        report.print();
        println!();
        judge(&report);
    }
}

/// fasthttp's POST: six fields and a body, 259 bytes.
const POST: &str = "POST /foobar?baz HTTP/1.1\r\n\
    Host: google.com\r\n\
    Content-Type: foo/bar\r\n\
    Content-Length: 13\r\n\
    User-Agent: Opera Chrome MSIE Firefox and other/1.2.34\r\n\
    Referer: http://google.com/aaaa/bbb/ccc\r\n\
    Cookie: foo=bar; baz=baraz; aa=aakslsdweriwereowriewroire\r\n\r\n\
    Hello, world!";

const _: () = assert!(GET.len() == 205 && POST.len() == 259, "the lengths of fasthttp's requests");

fn bench_peers(criterion: &mut Criterion, report: &mut Report, name: &str, workload: Workload) {
    let sync = Server::new().name(SERVER_NAME).expect("a valid name").service(respond);
    let sync = async |io: FakeConn| sync.serve_connection(io).await.expect("corehttp serves to the end");
    let parallel = Server::new()
        .name(SERVER_NAME)
        .expect("a valid name")
        .service(async |ctx: &mut Context| respond(ctx));
    let parallel =
        async |io: FakeConn| parallel.serve_connection(io).await.expect("corehttp serves to the end");
    let hyper = serve_hyper(hyper_builder());
    let untimed = serve_hyper(hyper_untimed());
    assert_same_response(&workload.response(&sync));
    assert_same_response(&workload.response(&parallel));
    assert_same_response(&workload.response(&hyper));
    assert_same_response(&workload.response(&untimed));

    let mut group = criterion.benchmark_group(name);
    group.sampling_mode(SamplingMode::Flat).sample_size(30);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1200));
    report.bench(&mut group, (name, "corehttp-sync"), workload, sync);
    report.bench(&mut group, (name, "corehttp-async"), workload, parallel);
    report.bench(&mut group, (name, "hyper"), workload, hyper);
    report.bench(&mut group, (name, "hyper-untimed"), workload, untimed);
    group.finish();
}

fn serve_hyper(builder: http1::Builder) -> impl AsyncFn(FakeConn) {
    async move |io: FakeConn| {
        builder.serve_connection(io, service_fn(hyper_respond)).await.expect("hyper serves to the end");
    }
}

fn hyper_untimed() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.pipeline_flush(true);
    builder
}

/// Every peer says the same, in the same number of bytes; the order and case of names is its own.
fn assert_same_response(response: &[u8]) {
    let response = String::from_utf8_lossy(response);
    assert_eq!(response.len(), 133, "{response}");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head and a body");
    assert_eq!(body, HELLO);
    let mut lines: Vec<_> = head.lines().map(str::to_ascii_lowercase).collect();
    lines.sort_unstable();
    let [length, kind, date, status, server] = &lines[..] else { panic!("five lines in {head}") };
    assert_eq!((&**length, &**kind), ("content-length: 13", "content-type: text/plain"));
    assert_eq!((&**status, &**server), ("http/1.1 200 ok", "server: corehttp"));
    assert!(date.starts_with("date: ") && date.ends_with(" gmt"), "{date}");
}

/// Holds the rows against the targets.
fn judge(report: &Report) {
    if let Some(row) = report.row("get/10000/corehttp-sync") {
        let time = row.nanoseconds();
        verdict(time <= 150.0, &format!("get/10000: {time:.0} ns, at most 150"));
    }
    for (name, target) in [("get/10000", 3.5), ("get/1", 2.0)] {
        if let Some(faster) = times_faster(report, name, "hyper") {
            verdict(
                faster >= target,
                &format!("{name}: {faster:.1} times as fast as hyper, at least {target}"),
            );
        }
        if let Some(faster) = times_faster(report, name, "hyper-untimed") {
            println!("       {name}: {faster:.1} times as fast as hyper without its timeouts");
        }
    }
    judge_allocations(report);
}

fn times_faster(report: &Report, name: &str, peer: &str) -> Option<f64> {
    let corehttp = report.row(&format!("{name}/corehttp-sync"))?;
    let peer = report.row(&format!("{name}/{peer}"))?;
    Some(peer.nanoseconds() / corehttp.nanoseconds())
}

/// A connection may allocate once, however many requests it carries: so a request never does.
fn judge_allocations(report: &Report) {
    let rows = report.rows().filter(|row| row.name().contains("corehttp"));
    if let Some(most) = rows.map(report::Row::allocations_per_connection).reduce(f64::max) {
        verdict(
            most <= 1.0,
            &format!("{most:.2} allocations by a connection, with all its requests, at most 1"),
        );
    }
}
