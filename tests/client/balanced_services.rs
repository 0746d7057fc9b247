//! A balancer asks each target of a service, by its SRV records (RFC 2782).

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{Balancer, BalancerBuilder, ClientTimeouts, Ejection, HostReport};
use corehttp::net::{Dialer, Resolver, SrvRecord};
use corehttp::{Client, ClientError, Request, Response};
use tokio::io::{DuplexStream, duplex};
use tokio::time::sleep;

use crate::support::{Peer, Received, paused};

const SERVICE: &str = "http://_http._tcp.api.internal";

/// A network in memory: the records of the service, and which hosts refuse connections.
#[derive(Clone, Default)]
struct Network(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The records; `None` fails.
    found: Option<Vec<SrvRecord>>,
    /// The records of another service.
    others: Vec<SrvRecord>,
    ttl: u64,
    look_ups: usize,
    refusing: Vec<String>,
    reports: Vec<String>,
}

fn record(priority: u16, weight: u16, port: u16, target: &str) -> SrvRecord {
    SrvRecord { priority, weight, port, target: target.into() }
}

impl Network {
    fn new(records: &[SrvRecord]) -> Network {
        let network = Network::default();
        network.set(|state| (state.ttl, state.found) = (30, Some(records.to_vec())));
        network
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap());
    }

    fn client(&self) -> Client {
        // One exchange for each connection, so that each sees who refuses at its time.
        let timeouts = ClientTimeouts { idle: Duration::ZERO, ..ClientTimeouts::default() };
        let client = Client::builder().dialer(self.clone()).resolver(self.clone()).timeouts(timeouts);
        client.dns_ttl(Duration::from_secs(60)).build()
    }

    /// A balancer over the targets of the service, which notes changes.
    fn balance(&self) -> BalancerBuilder {
        let network = self.clone();
        let note = move |report: &HostReport<'_>| {
            let host = report.origin.trim_start_matches("http://");
            network.set(|state| state.reports.push(format!("{host} {:?}", report.change)));
        };
        self.client().balance::<&str>([]).unwrap().each_target_of(SERVICE).unwrap().on_change(note)
    }

    fn reports(&self) -> String {
        std::mem::take(&mut self.0.lock().unwrap().reports).join(", ")
    }

    fn look_ups(&self) -> usize {
        self.0.lock().unwrap().look_ups
    }
}

impl Resolver for Network {
    async fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        unreachable!("the dialer gets names")
    }

    async fn resolve_srv(&self, name: &str) -> io::Result<(Vec<SrvRecord>, Option<Duration>)> {
        if name == "_http._tcp.other.internal" {
            return Ok((self.0.lock().unwrap().others.clone(), Some(Duration::from_secs(30))));
        }
        assert_eq!(name, "_http._tcp.api.internal");
        self.set(|state| state.look_ups += 1);
        sleep(Duration::from_millis(10)).await;
        let state = self.0.lock().unwrap();
        let found = state.found.clone().ok_or(io::ErrorKind::HostUnreachable)?;
        Ok((found, Some(Duration::from_secs(state.ttl))))
    }
}

impl Dialer for Network {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        if self.0.lock().unwrap().refusing.iter().any(|refusing| refusing == host) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(1 << 10);
        let target = format!("{host}:{port}");
        tokio::spawn(async move { serve(Peer::new(far, Received::default()), &target).await });
        Ok(near)
    }
}

/// Answers each request with the target at which it has come, which is also its host.
async fn serve(mut peer: Peer<DuplexStream>, target: &str) -> io::Result<()> {
    while let Some(head) = peer.head().await? {
        let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        assert_eq!(host, target.trim_end_matches(":80"));
        peer.send(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{target}", target.len())).await?;
    }
    Ok(())
}

async fn ask(balancer: &Balancer) -> Result<String, ClientError> {
    let mut response = Response::new();
    balancer.send(&Request::get("/").unwrap(), &mut response).await?;
    Ok(response.text().unwrap().to_owned())
}

/// The targets that answer so many requests, sorted; `-` is an error.
async fn asked(balancer: &Balancer, count: usize) -> String {
    let mut asked = Vec::new();
    for _ in 0..count {
        asked.push(ask(balancer).await.unwrap_or("-".into()));
    }
    asked.sort();
    asked.join(" ")
}

/// The tier and the weight of each host.
fn shares(balancer: &Balancer) -> Vec<(u16, u32)> {
    balancer.counts().iter().map(|host| (host.tier, host.weight)).collect()
}

async fn seconds(count: u64) {
    sleep(Duration::from_secs(count)).await;
}

#[test]
fn each_target_is_a_host_by_its_weight_for_as_long_as_it_is_there_rfc2782() {
    paused(async {
        let network = Network::new(&[record(5, 3, 8080, "one."), record(5, 1, 80, "Two.")]);
        network.set(|state| state.ttl = 2);
        let balancer = network.balance().build();
        assert_eq!(asked(&balancer, 4).await, "one:8080 one:8080 one:8080 two:80");
        assert_eq!(network.reports(), "one:8080 Found, two Found");
        // One goes and one comes. The other keeps its counts, and gets the new weight.
        network.set(|state| state.found = Some(vec![record(5, 2, 8080, "one"), record(5, 1, 81, "two")]));
        seconds(3).await;
        assert_eq!(network.reports(), "two Gone, two:81 Found");
        assert_eq!(asked(&balancer, 3).await, "one:8080 one:8080 two:81");
        let served: Vec<_> = balancer.counts().iter().map(|host| (host.weight, host.served)).collect();
        assert_eq!(served, [(2, 5), (1, 1)]);
    });
}

#[test]
fn a_higher_priority_is_asked_while_no_lower_one_can_be_rfc2782() {
    paused(async {
        let records = [record(30, 0, 1, "last"), record(10, 0, 1, "first"), record(20, 0, 1, "second")];
        let network = Network::new(&records);
        let ejection = Ejection::new().failures(1).percent_max(100);
        let balancer = network.balance().penalty_max(0).ejection(ejection).build();
        assert_eq!(asked(&balancer, 2).await, "first:1 first:1");
        assert_eq!(shares(&balancer), [(0, 1), (1, 1), (2, 1)]);
        for (refusing, expected) in [("first", "- second:1 second:1"), ("second", "- last:1 last:1")] {
            network.set(|state| state.refusing.push(refusing.into()));
            assert_eq!(asked(&balancer, 3).await, expected);
        }
        // The lowest priority goes away, so the next one is the first.
        network.set(|state| {
            state.refusing.clear();
            state.found.as_mut().unwrap().retain(|record| record.priority > 10);
        });
        seconds(31).await;
        assert_eq!(shares(&balancer), [(0, 1), (1, 1)]);
        assert_eq!(asked(&balancer, 2).await, "second:1 second:1");
    });
}

/// Without an answer, with none of use, or told that there is no such service.
#[test]
fn a_service_that_goes_away_keeps_its_last_targets_and_says_so() {
    paused(async {
        let network = Network::new(&[record(0, 0, 80, "one")]);
        let balancer = network.balance().build();
        assert_eq!(asked(&balancer, 1).await, "one:80");
        network.reports();
        let odd = [record(0, 0, 0, "two"), record(0, 0, 80, "t\0wo"), record(0, 0, 80, "10.0.0.1")];
        for found in [None, Some(&[][..]), Some(&[record(0, 0, 0, ".")]), Some(&odd)] {
            network.set(|state| state.found = found.map(<[_]>::to_vec));
            seconds(100).await;
            assert_eq!(network.reports(), "_http._tcp.api.internal Unresolved", "once");
            assert_eq!(asked(&balancer, 1).await, "one:80");
            network.set(|state| state.found = Some(vec![record(0, 0, 80, "one")]));
            seconds(31).await;
            assert_eq!(network.reports(), "");
        }
    });
}

#[test]
fn look_ups_and_targets_are_bounded() {
    paused(async {
        let records = (0..10_000).map(|at| record(0, 1, 80, &format!("h{at}"))).collect::<Vec<_>>();
        let network = Network::new(&records);
        network.set(|state| state.ttl = 0);
        let balancer = network.balance().build();
        // A hundred requests at once wait for one look-up.
        let mut asking = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let balancer = balancer.clone();
            asking.spawn(async move { ask(&balancer).await.is_ok() });
        }
        assert!(asking.join_all().await.into_iter().all(|is_answered| is_answered));
        assert_eq!((balancer.counts().len(), network.look_ups()), (64, 1));
        seconds(10).await;
        assert!((9..=11).contains(&network.look_ups()), "{}", network.look_ups());
    });
}

/// Its target is a host of that name, and not another service to look up.
#[test]
fn a_service_that_names_itself_is_looked_up_once() {
    paused(async {
        let network = Network::new(&[record(0, 0, 80, "_http._tcp.api.internal")]);
        let balancer = network.balance().build();
        assert_eq!(asked(&balancer, 2).await, ["_http._tcp.api.internal:80"; 2].join(" "));
        assert_eq!((balancer.counts().len(), network.look_ups()), (1, 1));
    });
}

#[test]
fn a_weight_that_is_set_stays_until_that_of_the_record_changes() {
    paused(async {
        let network = Network::new(&[record(0, 5, 80, "one"), record(0, 5, 80, "two")]);
        let balancer = network.balance().build();
        assert_eq!(asked(&balancer, 2).await, "one:80 two:80");
        assert!(balancer.set_weight("http://one", 0) && !balancer.set_weight(SERVICE, 0));
        seconds(31).await;
        assert_eq!(asked(&balancer, 2).await, "two:80 two:80");
        network.set(|state| state.found.as_mut().unwrap()[0].weight = 6);
        seconds(31).await;
        assert_eq!(shares(&balancer), [(0, 6), (0, 5)]);
    });
}

#[test]
fn a_service_is_removed_with_its_targets() {
    paused(async {
        let network = Network::new(&[record(0, 0, 80, "one"), record(0, 0, 80, "own")]);
        let balancer = network.client().balance(["http://own"]).unwrap().build();
        assert!(balancer.add_each_target_of(SERVICE).unwrap());
        assert!(!balancer.add_each_target_of("http://_HTTP._tcp.api.internal/").unwrap());
        // A host is there, so no request waits for the look-up.
        assert_eq!(asked(&balancer, 1).await, "own:80");
        seconds(1).await;
        assert_eq!(asked(&balancer, 2).await, "one:80 own:80");
        // A target that is a host for itself stays one.
        network.set(|state| state.found = Some(vec![record(0, 0, 80, "one")]));
        seconds(31).await;
        assert_eq!(asked(&balancer, 2).await, "one:80 own:80");
        assert!(balancer.remove(SERVICE) && !balancer.remove(SERVICE));
        assert_eq!(asked(&balancer, 2).await, "own:80 own:80");
        let look_ups = network.look_ups();
        seconds(100).await;
        assert_eq!(network.look_ups(), look_ups);
    });
    for url in ["http://_http._tcp.api:8080", "/", "_http._tcp.api", "ftp://_ftp._tcp.api"] {
        assert!(Client::new().balance::<&str>([]).unwrap().each_target_of(url).is_err(), "{url}");
    }
}

/// A target of two services once went with the first of them, until the next look-up of the other one.
#[test]
fn a_target_of_two_services_stays_with_the_other_one() {
    const OTHER: &str = "http://_http._tcp.other.internal";
    for is_removed in [false, true] {
        paused(async {
            let network = Network::new(&[record(0, 5, 80, "one"), record(0, 1, 80, "both")]);
            network.set(|state| state.others = vec![record(0, 0, 80, "two"), record(1, 0, 80, "both")]);
            let balancer = network.balance().each_target_of(OTHER).unwrap().build();
            ask(&balancer).await.unwrap();
            seconds(1).await;
            let tier = || {
                let both = balancer.counts().into_iter().find(|host| host.origin == "http://both");
                both.map(|host| host.tier)
            };
            // The other look-up takes less time.
            assert_eq!((network.reports().as_str(), tier()), ("two Found, both Found, one Found", Some(1)));
            match is_removed {
                true => assert!(balancer.remove(OTHER)),
                false => network.set(|state| state.others = vec![record(0, 0, 80, "two")]),
            }
            seconds(31).await;
            assert_eq!((network.reports().as_str(), tier()), ("", Some(0)), "{is_removed}");
            network.set(|state| state.found = Some(vec![record(0, 0, 80, "one")]));
            seconds(30).await;
            assert_eq!((network.reports().as_str(), tier()), ("both Gone", None), "{is_removed}");
        });
    }
}

/// As that of the operating system.
#[test]
fn a_resolver_without_srv_finds_no_target() {
    paused(async {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        let note = move |report: &HostReport<'_>| noted.lock().unwrap().push(format!("{:?}", report.change));
        let builder = Client::new().balance::<&str>([]).unwrap().each_target_of(SERVICE).unwrap();
        let error = ask(&builder.on_change(note).build()).await.unwrap_err();
        let reason = "/: looking up _http._tcp.api.internal failed: the resolver looks up no SRV records";
        assert_eq!(format!("{error:#}"), reason);
        assert_eq!(*seen.lock().unwrap(), ["Unresolved"]);
    });
}
