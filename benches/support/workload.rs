//! [`Workload`]: so many requests over so many fake connections, one after the other, and
//! what that took in time and in allocations.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use crate::alloc::allocations;
use crate::fake::{Cut, FakeConn, Traffic};

/// One request, how it is cut, and how often a connection repeats it.
#[derive(Clone, Copy)]
pub struct Workload {
    pub request: &'static [u8],
    pub cut: Cut,
    pub per_connection: u64,
}

impl Workload {
    /// Has one request answered, and returns the response; it is shorter than a [`Traffic`]'s sample.
    pub fn response(&self, serve: &impl AsyncFn(FakeConn)) -> Vec<u8> {
        let traffic = Traffic::new();
        runtime().block_on(serve(self.connection(1, &traffic)));
        let response = traffic.sample.take();
        assert_eq!(response.len() as u64, traffic.written.get(), "the response fits a sample");
        response
    }

    /// Has one request answered, and returns how long the response is.
    pub fn response_len(&self, serve: &impl AsyncFn(FakeConn)) -> u64 {
        let traffic = Traffic::new();
        runtime().block_on(serve(self.connection(1, &traffic)));
        traffic.written.get()
    }

    /// Has `requests` answered in `runtime`: the making of the connections is in the time.
    pub fn run(&self, requests: u64, runtime: &Runtime, serve: &impl AsyncFn(FakeConn)) -> Sample {
        let traffic = Traffic::new();
        let (connections, time, allocations) = runtime.block_on(async {
            // Each `block_on` has a new list of those who give way, and allocates for the first of them.
            tokio::task::yield_now().await;
            let (allocated, started) = (allocations(), Instant::now());
            let connections = self.connect(requests, &traffic, serve).await;
            (connections, started.elapsed(), allocations() - allocated)
        });
        Sample {
            time,
            requests,
            connections,
            allocations,
            written: traffic.written.get(),
            reads: traffic.reads.get(),
            offered: traffic.offered.get(),
        }
    }

    async fn connect(&self, requests: u64, traffic: &Rc<Traffic>, serve: &impl AsyncFn(FakeConn)) -> u64 {
        let (mut left, mut connections) = (requests, 0);
        while left > 0 {
            let share = left.min(self.per_connection);
            serve(self.connection(share, traffic)).await;
            (left, connections) = (left - share, connections + 1);
        }
        connections
    }

    fn connection(&self, requests: u64, traffic: &Rc<Traffic>) -> FakeConn {
        FakeConn::new(self.request, self.cut, requests, Rc::clone(traffic))
    }
}

/// The cost of one run.
#[derive(Clone, Copy, Default)]
pub struct Sample {
    pub time: Duration,
    pub requests: u64,
    pub connections: u64,
    pub allocations: u64,
    pub written: u64,
    pub reads: u64,
    pub offered: u64,
}

/// The runtime of every peer.
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}
