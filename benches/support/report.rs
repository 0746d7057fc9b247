//! [`Report`]: criterion's rows once more, with what criterion cannot count beside the time.

use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;

use crate::alloc::allocations;
use crate::fake::FakeConn;
use crate::workload::{Sample, Workload, runtime};

/// The rows measured so far.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// Measures one peer under criterion, once it is warm, and keeps the row as `name`/`peer`.
    pub fn bench(
        &mut self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        (name, peer): (&str, &str),
        workload: Workload,
        serve: impl AsyncFn(FakeConn),
    ) {
        let (runtime, response) = (runtime(), workload.response_len(&serve));
        assert!(allocations() > 0, "the benchmark has `Counting` as its allocator");
        let mut samples = Vec::new();
        group.bench_function(peer, |bencher| {
            workload.run(workload.per_connection, &runtime, &serve);
            bencher.iter_custom(|requests| {
                let sample = workload.run(requests, &runtime, &serve);
                assert_eq!(sample.written, requests * response, "{peer} answered every request in full");
                samples.push(sample);
                sample.time
            });
        });
        if let Some(last) = samples.last().map(|sample| sample.requests) {
            // criterion warms up with fewer requests, the first time with one; all samples that count have as many.
            samples.retain(|sample| sample.requests == last);
            self.rows.push(Row { name: format!("{name}/{peer}"), samples });
        }
    }

    /// The row of that name, unless the command line left it out.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// All rows, in the order they were measured.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    pub fn print(&self) {
        println!("\n{:<32}{:>12}{:>30}{:>16}", "", "time", "allocations", "bytes offered");
        println!("{:<32}{:>12}{:>15}{:>15}{:>16}", "", "ns/request", "/request", "/connection", "/read");
        for row in &self.rows {
            let (time, read) = (row.nanoseconds(), row.bytes_per_read());
            let (request, connection) = (row.allocations_per_request(), row.allocations_per_connection());
            println!("{:<32}{time:>12.1}{request:>15.4}{connection:>15.2}{read:>16.0}", row.name);
        }
    }
}

/// One peer at one workload.
pub struct Row {
    name: String,
    samples: Vec<Sample>,
}

impl Row {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The median over the samples of the time per request.
    pub fn nanoseconds(&self) -> f64 {
        let mut times: Vec<f64> =
            self.samples.iter().map(|sample| ratio(sample.time.as_nanos() as u64, sample.requests)).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    pub fn allocations_per_request(&self) -> f64 {
        ratio(self.sum(|sample| sample.allocations), self.sum(|sample| sample.requests))
    }

    pub fn allocations_per_connection(&self) -> f64 {
        ratio(self.sum(|sample| sample.allocations), self.sum(|sample| sample.connections))
    }

    /// How large a buffer a read call offered, on average.
    fn bytes_per_read(&self) -> f64 {
        ratio(self.sum(|sample| sample.offered), self.sum(|sample| sample.reads))
    }

    fn sum(&self, value: impl Fn(&Sample) -> u64) -> u64 {
        self.samples.iter().map(value).sum()
    }
}

fn ratio(whole: u64, parts: u64) -> f64 {
    whole as f64 / parts as f64
}

/// Prints a target, and whether it was met.
pub fn verdict(met: bool, target: &str) {
    println!("{} {target}", if met { "met   " } else { "MISSED" });
}
