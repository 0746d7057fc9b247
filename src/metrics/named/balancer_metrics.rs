//! [`BalancerTable`]: the balancers of clients, by the names that the application has given them.

use std::collections::BTreeMap;
use std::iter::zip;
use std::sync::Mutex;

use crate::client::{BalancerCounters, BalancerCounts, PanicCounts};
use crate::memory::lock;
use crate::metrics::Writer;

/// The balancers, none of which is kept alive.
#[derive(Default)]
pub(in crate::metrics) struct BalancerTable(Mutex<Vec<(Box<str>, BalancerCounters)>>);

/// The counts of each host.
pub(in crate::metrics) type BalancerHosts = BTreeMap<HostLabels, BalancerCounts>;

/// The name of a balancer, and the origin and the address of one of its hosts; the address is empty if the name has but one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::metrics) struct HostLabels {
    pub(in crate::metrics) balancer: Box<str>,
    pub(in crate::metrics) host: String,
    pub(in crate::metrics) address: String,
}

impl HostLabels {
    /// The labels as they are written. One that is empty is none to Prometheus.
    fn with<'a>(&'a self, more: Option<(&'a str, &'a str)>) -> Vec<(&'a str, &'a str)> {
        let HostLabels { balancer, host, address } = self;
        let address = (!address.is_empty()).then_some(("address", &**address));
        [("balancer", &**balancer), ("host", host)].into_iter().chain(address).chain(more).collect()
    }
}

impl BalancerTable {
    pub(in crate::metrics) fn add(&self, name: &str, balancer: BalancerCounters) {
        let mut balancers = lock(&self.0);
        balancers.retain(|(_, known)| known.counts().is_some());
        if !balancers.iter().any(|(known, added)| **known == *name && added.is_same(&balancer)) {
            balancers.push((name.into(), balancer));
        }
    }

    /// Writes the state and the counts of each host, unless there is none.
    pub(in crate::metrics) fn write(&self, writer: &mut Writer) {
        let hosts = self.hosts();
        if hosts.is_empty() {
            return;
        }
        for (name, kind, help, count) in METRICS {
            let mut samples = writer.metric(&format!("corehttp_balancer_{name}"), kind, help);
            for (labels, counts) in &hosts {
                samples.value(&labels.with(None), count(counts) as f64);
            }
        }
        let panics = self.panics();
        for (name, kind, help, count) in PANIC_METRICS {
            let mut samples = writer.metric(&format!("corehttp_balancer_{name}"), kind, help);
            for (balancer, counts) in &panics {
                samples.value(&[("balancer", &**balancer)], count(counts) as f64);
            }
        }
        let help = "Responses of a host, by the class of their status.";
        let mut responses = writer.counter("corehttp_balancer_responses_total", help);
        for (labels, counts) in &hosts {
            for (class, count) in zip(CLASSES, counts.classes) {
                responses.value(&labels.with(Some(("status", class))), count as f64);
            }
        }
    }

    /// Whether each balancer uses all of its hosts. Balancers of one name count as one.
    pub(in crate::metrics) fn panics(&self) -> BTreeMap<Box<str>, PanicCounts> {
        let mut by_name = BTreeMap::<_, PanicCounts>::new();
        for (name, balancer) in &*lock(&self.0) {
            let Some(counts) = balancer.panic_counts() else { continue };
            let sum = by_name.entry(name.clone()).or_default();
            sum.is_on |= counts.is_on;
            sum.count += counts.count;
        }
        by_name
    }

    /// The counts of all hosts. Balancers of one name count as one.
    pub(in crate::metrics) fn hosts(&self) -> BalancerHosts {
        let balancers = lock(&self.0).clone();
        let mut hosts = BalancerHosts::new();
        for (name, balancer) in &balancers {
            for counts in balancer.counts().unwrap_or_default() {
                let labels = HostLabels {
                    balancer: name.clone(),
                    host: counts.origin.clone(),
                    address: counts.address.map(|address| address.to_string()).unwrap_or_default(),
                };
                hosts.entry(labels).and_modify(|sum| add(sum, &counts)).or_insert(counts);
            }
        }
        hosts
    }
}

fn add(sum: &mut BalancerCounts, other: &BalancerCounts) {
    let BalancerCounts {
        origin: _,
        address: _,
        tier: _,
        weight: _,
        pending,
        served: _,
        failed,
        classes,
        penalties,
        down,
        ejected,
        ejections,
    } = other;
    sum.pending += pending;
    sum.failed += failed;
    zip(&mut sum.classes, classes).for_each(|(sum, count)| *sum += count);
    sum.penalties += penalties;
    sum.down = sum.down.or(*down);
    sum.ejected = sum.ejected.or(*ejected);
    sum.ejections += ejections;
}

/// The name of a metric, its type, its meaning, and the count of a host.
type Metric = (&'static str, &'static str, &'static str, fn(&BalancerCounts) -> u64);

const METRICS: [Metric; 7] = [
    ("host_up", "gauge", "Whether a host is up, by its last checks.", |host| host.down.is_none().into()),
    ("host_ejected", "gauge", "Whether a host is ejected or on trial.", |host| host.ejected.is_some().into()),
    ("ejections_total", "counter", "How often a host was ejected.", |host| host.ejections),
    ("host_weight", "gauge", "The share of requests that a host gets, beside the others.", |host| {
        host.weight.into()
    }),
    ("requests_pending", "gauge", "Requests that a host has not answered yet.", |host| host.pending as u64),
    ("penalties", "gauge", "Failures of a host that count as pending requests now.", |host| {
        host.penalties as u64
    }),
    ("failures_total", "counter", "Requests that count as failed by a host.", |host| host.failed),
];

/// The name of a metric, its type, its meaning, and the count of a balancer.
type PanicMetric = (&'static str, &'static str, &'static str, fn(&PanicCounts) -> u64);

const PANIC_METRICS: [PanicMetric; 2] = [
    ("panic", "gauge", "Whether all hosts get requests, since too few are fit.", |panic| panic.is_on.into()),
    ("panics_total", "counter", "How often all hosts began to get requests.", |panic| panic.count),
];

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

#[cfg(test)]
mod tests {
    use crate::client::Ejection;
    use crate::metrics::{Format, Metrics};
    use crate::net::MemoryListener;
    use crate::server::Context;
    use crate::{Client, Request, Response, Server, Status};

    #[test]
    fn each_host_of_a_balancer_has_its_state_and_the_classes_of_its_responses() {
        let listener = MemoryListener::new();
        let client = Client::builder().connect_to(&listener).build();
        let running = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
            let is_one = ctx.request.headers.host() == Some("one");
            ctx.response.status = if is_one { Status::OK } else { Status::SERVICE_UNAVAILABLE };
        });
        let metrics = Metrics::new();
        let balancer = client.balance(["http://one", "http://two"]).unwrap().build();
        metrics.add_balancer("shop", &balancer);
        // Once more, and it still counts once.
        metrics.add_balancer("shop", &balancer);
        let panics = crate::block_on(async {
            let request = Request::get("/").unwrap();
            let mut response = Response::new();
            for _ in 0..3 {
                balancer.send(&request, &mut response).await.unwrap();
            }
            // While one of two is ejected, all get requests.
            let ejection = Ejection::new().failures(1);
            let panics = client.balance(["http://one", "http://two"]).unwrap().ejection(ejection);
            let panics = panics.panic_below(100).build();
            for is_on in [false, false, true] {
                panics.send(&request, &mut response).await.unwrap();
                assert_eq!(panics.counters().panic_counts().unwrap().is_on, is_on);
            }
            metrics.add_balancer("panics", &panics);
            panics
        })
        .unwrap();
        let text = metrics.to_text(Format::Prometheus);
        for line in [
            "corehttp_balancer_host_up{balancer=\"shop\",host=\"http://one\"} 1",
            "corehttp_balancer_host_ejected{balancer=\"shop\",host=\"http://two\"} 0",
            "corehttp_balancer_ejections_total{balancer=\"shop\",host=\"http://two\"} 0",
            "corehttp_balancer_host_weight{balancer=\"shop\",host=\"http://two\"} 1",
            "corehttp_balancer_failures_total{balancer=\"shop\",host=\"http://two\"} 1",
            "corehttp_balancer_penalties{balancer=\"shop\",host=\"http://two\"} 1",
            "corehttp_balancer_requests_pending{balancer=\"shop\",host=\"http://one\"} 0",
            "corehttp_balancer_panic{balancer=\"shop\"} 0",
            "corehttp_balancer_panics_total{balancer=\"panics\"} 1",
            "corehttp_balancer_responses_total{balancer=\"shop\",host=\"http://one\",status=\"2xx\"} 2",
            "corehttp_balancer_responses_total{balancer=\"shop\",host=\"http://two\",status=\"5xx\"} 1",
            "corehttp_balancer_responses_total{balancer=\"shop\",host=\"http://two\",status=\"2xx\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        // A balancer that is gone is not shown, since nothing keeps it.
        drop((balancer, panics));
        assert!(!metrics.to_text(Format::Prometheus).contains("balancer"));
        drop(running);
    }
}
