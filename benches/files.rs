//! Questions: what does a file cost that is in the cache, beside the same bytes from memory? What does it cost to find
//! that the peer has it already?
//!
//! Each answers a browser's request for a script of 4 KiB over a fake connection that carries 1,000 of them. The file
//! is asked for once before, so the disk is in none of the figures, and has lain there for an hour, as files do. Its
//! response has four fields more than that from memory: `etag`, `last-modified`, `accept-ranges` and `cache-control`.
//!
//! ```text
//! cargo bench --bench files
//! ```

use std::fs::File;
use std::io::Write;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use corehttp::fs::{FileCacheLimits, Files};
use corehttp::{Context, IntoHandler, Server};
use corehttp_benches::alloc::Counting;
use corehttp_benches::fake::{Cut, FakeConn};
use corehttp_benches::report::{self, Report, verdict};
use corehttp_benches::workload::Workload;
use criterion::{Criterion, SamplingMode};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut report = Report::default();
    let root = tempfile::tempdir().expect("a directory");
    let mut file = File::create(root.path().join("app.js")).expect("a file");
    file.write_all(&[b'x'; SIZE]).expect("room for it");
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("a date");

    for (name, request, size) in [("whole", GET, SIZE), ("unchanged", REVALIDATE, 0)] {
        let workload = Workload { request: request.as_bytes(), cut: Cut::Never, per_connection: 1000 };
        let cached = FileCacheLimits { fresh: Duration::from_secs(3600), ..FileCacheLimits::default() };
        let files = Files::new(root.path()).and_then(|files| {
            let files = files.cache(cached).cache_control("*", "max-age=3600");
            files.map_err(std::io::Error::other)
        });
        bench(
            &mut criterion,
            &mut report,
            (name, "cached"),
            workload,
            files.expect("the root is there"),
            size,
        );
    }
    let content = Bytes::from(vec![b'x'; SIZE]);
    let from_memory = move |ctx: &mut Context| {
        ctx.response
            .set_shared_bytes("text/javascript; charset=utf-8", content.clone())
            .map_err(corehttp::Error::from)
    };
    let workload = Workload { request: GET.as_bytes(), cut: Cut::Never, per_connection: 1000 };
    bench(&mut criterion, &mut report, ("whole", "memory"), workload, from_memory, SIZE);
    criterion.final_summary();
    if std::env::args().any(|arg| arg == "--bench") {
        report.print();
        judge(&report);
    }
}

const SIZE: usize = 4096;

/// The request of a browser for a script.
const GET: &str = "GET /app.js HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: */*\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Referer: https://www.example.com/\r\n\
    Sec-Fetch-Dest: script\r\n\
    Sec-Fetch-Mode: no-cors\r\n\
    Sec-Fetch-Site: same-origin\r\n\r\n";

/// The same from one that has it.
const REVALIDATE: &str = "GET /app.js HTTP/1.1\r\n\
    Host: www.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: */*\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Referer: https://www.example.com/\r\n\
    If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT\r\n\r\n";

fn bench<Kind, H: IntoHandler<Kind>>(
    criterion: &mut Criterion,
    report: &mut Report,
    name: (&str, &str),
    workload: Workload,
    handler: H,
    size: usize,
) {
    let service = Server::new().service(handler);
    let serve =
        async |io: FakeConn| service.serve_connection(io).await.expect("the connection is served to its end");
    let response = workload.response(&serve);
    let head = response.windows(4).position(|end| end == b"\r\n\r\n").expect("there is a head") + 4;
    assert_eq!(response.len() - head, size, "all of it is sent");
    let mut group = criterion.benchmark_group(name.0);
    group.sampling_mode(SamplingMode::Flat).sample_size(30);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1200));
    report.bench(&mut group, name, workload, serve);
    group.finish();
}

/// Holds the rows against the targets.
fn judge(report: &Report) {
    if let (Some(cached), Some(memory)) = (report.row("whole/cached"), report.row("whole/memory")) {
        let times = cached.nanoseconds() / memory.nanoseconds();
        verdict(times <= 1.3, &format!("a cached file costs {times:.2} times what memory does, at most 1.3"));
    }
    let rows = report.rows().filter(|row| row.name().ends_with("cached"));
    if let Some(most) = rows.map(report::Row::allocations_per_request).reduce(f64::max) {
        verdict(most < 0.01, &format!("{most:.4} allocations by a cached response, at most 0.01"));
    }
}
