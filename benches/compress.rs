//! Questions: what does a compressed response cost beyond the work of its encoder, and does a warm one allocate?
//!
//! A page of 4 KiB, of 32 KiB and of 256 KiB goes over fake connections, a hundred requests a connection and one at a
//! time. `identity` is the same handler with the same wrapper, to a peer that accepts nothing else. `bare` is the
//! encoder alone, flate2 and its zlib-rs at the same level, reset for each page: what `gzip` takes longer is ours. The
//! bench fails if a warm response of 4 KiB allocates.
//!
//! ```text
//! cargo bench --bench compress            # all rows, about 30 seconds
//! cargo bench --bench compress -- 4KiB    # some rows
//! ```

use std::time::Duration;

use corehttp::middleware::Compress;
use corehttp::middleware::wrap;
use corehttp::{Context, Server};
use corehttp_benches::alloc::Counting;
use corehttp_benches::fake::{Cut, FakeConn};
use corehttp_benches::report::Report;
use corehttp_benches::workload::Workload;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput, measurement::WallTime};
use flate2::{Compression, FlushCompress};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut report = Report::default();
    for (name, size) in [("4KiB", 4 << 10), ("32KiB", 32 << 10), ("256KiB", 256 << 10)] {
        page_by_coding(&mut criterion, &mut report, name, size);
    }
    criterion.final_summary();
    if std::env::args().any(|arg| arg == "--bench") {
        report.print();
        // Larger pages are made in memory that is given back once a second, and slow enough for that to be seen.
        let small = report.rows().filter(|row| row.name().starts_with("4KiB"));
        let allocating = small.filter(|row| row.allocations_per_request() >= 0.1);
        assert_eq!(allocating.count(), 0, "a warm response allocates");
    }
}

/// Question: what does a page of that size cost, by how it is coded?
fn page_by_coding(criterion: &mut Criterion, report: &mut Report, name: &str, size: usize) {
    let page = page(size);
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(page.len() as u64));
    group.sampling_mode(SamplingMode::Flat).sample_size(20);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1200));
    for coding in ["identity", "gzip", "deflate", "br"] {
        let request = format!("GET / HTTP/1.1\r\nhost: a\r\naccept-encoding: {coding}\r\n\r\n").leak();
        let workload = Workload { request: request.as_bytes(), cut: Cut::WHOLE, per_connection: 100 };
        let page = page.clone();
        let handler = move |ctx: &mut Context| ctx.response.set_html(&page);
        let service = Server::new().service(wrap(Compress::new(), handler));
        let serve = async |io: FakeConn| service.serve_connection(io).await.expect("it serves to the end");
        report.bench(&mut group, (name, coding), workload, serve);
    }
    bare(&mut group, page.as_bytes());
    group.finish();
}

fn bare(group: &mut BenchmarkGroup<'_, WallTime>, page: &[u8]) {
    let mut encoder = flate2::Compress::new_gzip(Compression::new(6), 15);
    let mut out = vec![0; page.len() + 1024];
    group.bench_function("bare", |bencher| {
        bencher.iter(|| {
            encoder.reset();
            encoder.compress(page, &mut out, FlushCompress::Finish).expect("there is room")
        });
    });
}

/// A listing, as pages are: markup that repeats around text that does not.
fn page(size: usize) -> String {
    let (mut page, mut seed) = (String::from("<!doctype html>\n<title>Articles</title>\n<ul>\n"), 1u32);
    while page.len() < size {
        let words: Vec<&str> = (0..9)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                WORDS[(seed >> 16) as usize % WORDS.len()]
            })
            .collect();
        let (id, text) = (seed >> 8, words.join(" "));
        page += &format!(
            "<li class=\"article\"><a href=\"/articles/{id}\">{text}</a> <time>{}</time></li>\n",
            id % 365
        );
    }
    page.truncate(size);
    page
}

const WORDS: [&str; 32] = [
    "the",
    "of",
    "and",
    "a",
    "to",
    "in",
    "is",
    "you",
    "that",
    "it",
    "he",
    "was",
    "for",
    "on",
    "are",
    "as",
    "server",
    "memory",
    "request",
    "response",
    "thread",
    "kernel",
    "socket",
    "buffer",
    "stream",
    "header",
    "cookie",
    "client",
    "latency",
    "allocation",
    "benchmark",
    "throughput",
];
