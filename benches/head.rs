//! Questions: what does a browser's head cost, what does one more field cost, and what does it
//! cost when the packets end in the middle of it?
//!
//! There is no public parser, so the heads go through whole exchanges over fake connections, in
//! corehttp and in hyper alike: 1,000 requests a connection, one at a time, each with a short
//! response. The rows of `fields` differ by fields alone, those of `cut` by packets alone: what is
//! to be read is the difference between two rows. A head that comes byte by byte and is parsed
//! again from its start for each of them costs the square of its length.
//!
//! ```text
//! cargo bench --bench head            # all rows, about 50 seconds
//! cargo bench --bench head -- cut     # some rows
//! ```

use std::time::Duration;

use corehttp::Server;
use corehttp_benches::alloc::Counting;
use corehttp_benches::fake::{Cut, FakeConn};
use corehttp_benches::handlers::{SERVER_NAME, hyper_builder, hyper_respond, respond};
use corehttp_benches::heads::{CHROME, CURL, FIREFOX};
use corehttp_benches::report::Report;
use corehttp_benches::workload::Workload;
use criterion::{Criterion, SamplingMode, Throughput};
use hyper::service::service_fn;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut report = Report::default();
    head_by_browser(&mut criterion, &mut report);
    head_by_field_count(&mut criterion, &mut report);
    head_by_cut(&mut criterion, &mut report);
    criterion.final_summary();
    if std::env::args().any(|arg| arg == "--bench") {
        report.print();
    }
}

/// Question: what do the heads cost that come in practice?
fn head_by_browser(criterion: &mut Criterion, report: &mut Report) {
    for (browser, head) in [("chrome", CHROME), ("firefox", FIREFOX), ("curl", CURL)] {
        bench_peers(criterion, report, &format!("browser/{browser}"), head, Cut::WHOLE);
    }
}

/// Question: what does one more field cost? Browsers send 11 to 17, as those of `heads.rs` do, and a proxy adds 4.
fn head_by_field_count(criterion: &mut Criterion, report: &mut Report) {
    for count in [1, 4, 16, 64] {
        bench_peers(criterion, report, &format!("fields/{count}"), head_of(count), Cut::WHOLE);
    }
}

/// Question: what does a head cost that does not come in one piece?
fn head_by_cut(criterion: &mut Criterion, report: &mut Report) {
    let len = CHROME.len();
    let cuts = [
        ("nowhere", Cut::WHOLE),
        ("half", Cut::After(len / 2)),
        ("last-byte", Cut::After(len - 1)),
        ("each-64", Cut::Every(64)),
        ("each-byte", Cut::Every(1)),
    ];
    for (name, cut) in cuts {
        bench_peers(criterion, report, &format!("cut/{name}"), CHROME, cut);
    }
}

fn bench_peers(criterion: &mut Criterion, report: &mut Report, name: &str, head: &'static str, cut: Cut) {
    let workload = Workload { request: head.as_bytes(), cut, per_connection: 1_000 };
    let corehttp = Server::new().name(SERVER_NAME).expect("a valid name").service(respond);
    let corehttp =
        async |io: FakeConn| corehttp.serve_connection(io).await.expect("corehttp serves to the end");
    let hyper = hyper_builder();
    let hyper = async |io: FakeConn| {
        hyper.serve_connection(io, service_fn(hyper_respond)).await.expect("hyper serves to the end");
    };

    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(head.len() as u64));
    group.sampling_mode(SamplingMode::Flat).sample_size(30);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1200));
    report.bench(&mut group, (name, "corehttp"), workload, corehttp);
    report.bench(&mut group, (name, "hyper"), workload, hyper);
    group.finish();
}

/// A head with so many fields: a host, and then fields of 36 bytes that no server treats apart.
fn head_of(fields: usize) -> &'static str {
    let more: String = (1..fields).map(|n| format!("x-field-{n:02}: 0123456789abcdefghij\r\n")).collect();
    format!("GET / HTTP/1.1\r\nhost: example.com\r\n{more}\r\n").leak()
}
