//! Questions: what does a browser's head cost, what does one more field cost, and what does it
//! cost when the packets end in the middle of it?
//!
//! There is no public parser, so the heads go through whole exchanges over fake connections, in
//! corehttp and in hyper alike: 1,000 requests a connection, one at a time, each with a short
//! answer. The rows of `fields` differ by fields alone, those of `cut` by packets alone: what is
//! to be read is the difference between two rows. A head that comes byte by byte and is parsed
//! again from its start for each of them costs the square of its length.
//!
//! ```text
//! cargo bench --bench head            # all rows, about 50 seconds
//! cargo bench --bench head -- cut     # some rows
//! ```

#[path = "support/alloc.rs"]
mod alloc;
#[allow(dead_code, reason = "server.rs alone leaves its requests uncut")]
#[path = "support/fake.rs"]
mod fake;
#[path = "support/handlers.rs"]
mod handlers;
#[allow(dead_code, reason = "server.rs alone holds its rows against targets")]
#[path = "support/report.rs"]
mod report;
#[allow(dead_code, reason = "server.rs alone looks at answers")]
#[path = "support/workload.rs"]
mod workload;

use std::time::Duration;

use corehttp::Server;
use criterion::{Criterion, SamplingMode, Throughput};
use hyper::service::service_fn;

use fake::{Cut, FakeConn};
use handlers::{SERVER_NAME, hyper_builder, hyper_respond, respond};
use report::Report;
use workload::Workload;

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

/// Question: what does one more field cost? A browser sends 12 to 15, a proxy adds 4.
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
    let corehttp = Server::new().name(SERVER_NAME).service(respond);
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

/// Chrome 131 on Windows, a page at a site that set two cookies: 17 fields.
const CHROME: &str = "GET /articles/2024/11/benchmarks?utm_source=feed HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    Connection: keep-alive\r\n\
    Cache-Control: max-age=0\r\n\
    sec-ch-ua: \"Google Chrome\";v=\"131\", \"Chromium\";v=\"131\", \"Not_A Brand\";v=\"24\"\r\n\
    sec-ch-ua-mobile: ?0\r\n\
    sec-ch-ua-platform: \"Windows\"\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
    Chrome/131.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,\
    application/signed-exchange;v=b3;q=0.7\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-User: ?1\r\n\
    Sec-Fetch-Dest: document\r\n\
    Referer: https://www.example.com/articles/\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-US,en;q=0.9\r\n\
    Cookie: session=8f14e45fceea167a5a36dedd4bea2543; theme=dark\r\n\r\n";

/// Firefox 132 on Linux, an image: 11 fields.
const FIREFOX: &str = "GET /static/img/logo.webp HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0\r\n\
    Accept: image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Connection: keep-alive\r\n\
    Referer: https://www.example.com/\r\n\
    Sec-Fetch-Dest: image\r\n\
    Sec-Fetch-Mode: no-cors\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Priority: u=5, i\r\n\r\n";

/// curl 8: 3 fields.
const CURL: &str = "GET / HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: curl/8.11.0\r\n\
    Accept: */*\r\n\r\n";
