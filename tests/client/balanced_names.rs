//! A balancer asks each address of a name as a host of its own.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{
    Balancer, CheckFailure, ClientCause, ClientPhase, HealthCheck, HostChange, HostReport,
};
use corehttp::net::{Dialer, Resolver};
use corehttp::{Client, ClientError, Request, Response};
use tokio::io::{DuplexStream, duplex};
use tokio::runtime::Builder;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Peer, Received, paused};

/// A network in memory: what a name resolves to, and which addresses refuse connections.
#[derive(Clone, Default)]
struct Network(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The addresses of each name; `None` fails.
    found: Option<Vec<IpAddr>>,
    ttl: u64,
    /// How many seconds a look-up takes.
    takes: u64,
    look_ups: usize,
    refusing: Vec<IpAddr>,
    /// Whether connections are accepted, and nothing is answered.
    is_silent: bool,
    dialed: Vec<String>,
}

impl Network {
    fn new(last_octets: &[u8]) -> Network {
        let network = Network::default();
        network.resolve_to(Some(last_octets));
        network.set(|state| state.ttl = 30);
        network
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap());
    }

    fn resolve_to(&self, last_octets: Option<&[u8]>) {
        let found = last_octets.map(|octets| octets.iter().map(|last| address(*last)).collect());
        self.set(|state| state.found = found);
    }

    fn client(&self) -> Client {
        Client::builder().dialer(self.clone()).resolver(self.clone()).dns_ttl(Duration::from_secs(60)).build()
    }
}

fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

impl Resolver for Network {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(self.resolve_with_ttl(name).await?.0)
    }

    async fn resolve_with_ttl(&self, name: &str) -> io::Result<(Vec<IpAddr>, Option<Duration>)> {
        assert_eq!(name, "api");
        self.set(|state| state.look_ups += 1);
        let takes = self.0.lock().unwrap().takes;
        sleep(Duration::from_secs(takes)).await;
        let state = self.0.lock().unwrap();
        let found = state.found.clone().ok_or(io::ErrorKind::HostUnreachable)?;
        Ok((found, Some(Duration::from_secs(state.ttl))))
    }
}

impl Dialer for Network {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        self.set(|state| state.dialed.push(format!("{host}:{port}")));
        let is_refused = self.0.lock().unwrap().refusing.iter().any(|refusing| refusing.to_string() == host);
        if is_refused {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(1 << 10);
        let mut peer = Peer::new(far, Received::default());
        if self.0.lock().unwrap().is_silent {
            tokio::spawn(async move { peer.receive_all().await });
            return Ok(near);
        }
        let host = host.to_owned();
        tokio::spawn(async move { serve(peer, &host).await });
        Ok(near)
    }
}

/// Answers each request with the address at which it has come, and the host that it is for.
async fn serve(mut peer: Peer<DuplexStream>, address: &str) -> io::Result<()> {
    while let Some(head) = peer.head().await? {
        let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().to_owned();
        let text = format!("{} {host}", address.rsplit('.').next().unwrap_or_default());
        peer.send(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len())).await?;
    }
    Ok(())
}

async fn ask(balancer: &Balancer) -> Result<String, ClientError> {
    let mut response = Response::new();
    balancer.send(&Request::get("/").unwrap(), &mut response).await?;
    Ok(response.text().unwrap().to_owned())
}

/// The addresses that answer so many requests, sorted.
async fn asked(balancer: &Balancer, count: usize) -> String {
    let mut asked = Vec::new();
    for _ in 0..count {
        let answer = ask(balancer).await.unwrap();
        asked.push(answer.strip_suffix(" api:8080").expect("the host is the name").to_owned());
    }
    asked.sort();
    asked.join(" ")
}

/// Notes the changes of hosts, in their order.
fn changes() -> (impl Fn(&HostReport<'_>) + Send + Sync + 'static, impl Fn() -> String) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let note = move |report: &HostReport<'_>| {
        assert_eq!(report.origin, "http://api:8080");
        let last = report.address.map(|address| address.to_string());
        let last = last.as_deref().and_then(|last| last.rsplit('.').next()).unwrap_or("-");
        noted.lock().unwrap().push(format!("{last} {:?}", report.change));
    };
    (note, move || std::mem::take(&mut *seen.lock().unwrap()).join(", "))
}

#[test]
fn each_address_of_a_name_is_a_host_for_as_long_as_it_is_there() {
    paused(async {
        let network = Network::new(&[1, 2, 3]);
        network.set(|state| state.ttl = 2);
        let (note, seen) = changes();
        let builder = network.client().balance::<&str>([]).unwrap();
        let balancer = builder.each_address_of("http://api:8080").unwrap().on_change(note).build();
        assert_eq!(asked(&balancer, 6).await, "1 1 2 2 3 3");
        assert_eq!(seen(), "1 Found, 2 Found, 3 Found");
        assert_eq!(balancer.counts()[2].address, Some(address(3)));
        assert_eq!(balancer.counts()[2].origin, "http://api:8080");
        // One goes, and one comes. The others keep their connections and their counts.
        network.resolve_to(Some(&[4, 3, 1]));
        sleep(Duration::from_secs(3)).await;
        assert_eq!(seen(), "2 Gone, 4 Found");
        assert_eq!(asked(&balancer, 6).await, "1 1 3 3 4 4");
        network.set(|state| assert_eq!(state.dialed.len(), 4, "{:?}", state.dialed));
        assert_eq!(balancer.counts().iter().map(|host| host.served).collect::<Vec<_>>(), [4, 4, 2]);
    });
}

#[test]
fn a_name_that_is_not_found_keeps_its_last_addresses() {
    paused(async {
        let network = Network::new(&[1, 2]);
        let (note, seen) = changes();
        let builder = network.client().balance::<&str>([]).unwrap();
        let balancer = builder.each_address_of("http://api:8080").unwrap().on_change(note).build();
        assert_eq!(asked(&balancer, 2).await, "1 2");
        seen();
        for found in [None, Some(&[][..])] {
            network.resolve_to(found);
            sleep(Duration::from_secs(100)).await;
            assert_eq!(seen(), "- Unresolved", "once");
            assert_eq!(asked(&balancer, 2).await, "1 2");
            network.resolve_to(Some(&[1, 2]));
            sleep(Duration::from_secs(31)).await;
            assert_eq!(seen(), "");
        }
        network.resolve_to(Some(&[2]));
        sleep(Duration::from_secs(31)).await;
        assert_eq!((seen(), asked(&balancer, 2).await), ("1 Gone".into(), "2 2".into()));
    });
}

#[test]
fn without_an_address_there_is_no_host_until_one_is_found() {
    paused(async {
        let network = Network::new(&[]);
        let builder = network.client().balance::<&str>([]).unwrap();
        let balancer = builder.each_address_of("http://api:8080").unwrap().build();
        for _ in 0..2 {
            let error = ask(&balancer).await.unwrap_err();
            assert_eq!(format!("{error:#}"), "/: looking up api failed: the name has no address");
        }
        network.set(|state| assert_eq!(state.look_ups, 1, "no request asks again for itself"));
        network.resolve_to(Some(&[1]));
        sleep(Duration::from_secs(6)).await;
        assert_eq!(asked(&balancer, 2).await, "1 1");
    });
}

/// A name that hangs keeps no request from the hosts that are there, and is named if there is none.
#[test]
fn a_name_that_hangs_is_waited_for_only_while_there_is_no_host() {
    paused(async {
        let network = Network::new(&[1]);
        network.set(|state| state.takes = 1_000);
        let start = Instant::now();
        let with_host = network.client().balance(["http://10.0.0.9:8080"]).unwrap();
        let balancer = with_host.each_address_of("http://api:8080").unwrap().build();
        assert_eq!(ask(&balancer).await.unwrap(), "9 10.0.0.9:8080");
        assert_eq!(start.elapsed(), Duration::ZERO);

        let client = network.client().with_timeout(Duration::from_millis(500));
        let builder = client.balance::<&str>([]).unwrap();
        let error = ask(&builder.each_address_of("http://api:8080").unwrap().build()).await.unwrap_err();
        assert!(error.is_timeout() && error.phase() == ClientPhase::Resolve, "{error:?}");
        assert_eq!(start.elapsed(), Duration::from_millis(500));
        assert_eq!(format!("{error:#}"), "/: looking up api: the whole exchange took longer than 500 ms");
    });
}

/// The limit for the whole exchange begins with the call, and not once more with the first host.
#[test]
fn a_first_look_up_takes_of_the_time_for_the_whole_exchange() {
    paused(async {
        let network = Network::new(&[1]);
        network.set(|state| {
            state.takes = 2;
            state.is_silent = true;
        });
        let client = network.client().with_timeout(Duration::from_secs(3));
        let start = Instant::now();
        let builder = client.balance::<&str>([]).unwrap();
        let error = ask(&builder.each_address_of("http://api:8080").unwrap().build()).await.unwrap_err();
        assert!(error.is_timeout() && error.phase() == ClientPhase::Wait, "{error:?}");
        assert_eq!(start.elapsed(), Duration::from_secs(3));
    });
}

/// Addresses that are valid for no time are looked up once a second, and more than a client could use are left out.
#[test]
fn look_ups_and_addresses_are_bounded() {
    paused(async {
        let network = Network::new(&Vec::from_iter(0..=255));
        network.set(|state| state.ttl = 0);
        let builder = network.client().balance::<&str>([]).unwrap();
        let balancer = builder.each_address_of("http://api:8080").unwrap().build();
        ask(&balancer).await.unwrap();
        assert_eq!(balancer.counts().len(), 64);
        sleep(Duration::from_millis(10_500)).await;
        network.set(|state| assert_eq!(state.look_ups, 11));
    });
}

#[test]
fn a_name_is_removed_with_its_addresses_and_weighed_with_those_to_come() {
    paused(async {
        let network = Network::new(&[1, 2]);
        let balancer = network.client().balance::<&str>([]).unwrap().build();
        assert!(balancer.add_each_address_of("http://api:8080").unwrap());
        assert!(!balancer.add_each_address_of("http://API:8080/").unwrap());
        assert_eq!(asked(&balancer, 2).await, "1 2");
        assert!(balancer.set_weight("http://api:8080", 3));
        network.resolve_to(Some(&[1, 2, 3]));
        sleep(Duration::from_secs(31)).await;
        assert_eq!(balancer.counts().iter().map(|host| host.weight).collect::<Vec<_>>(), [3, 3, 3]);
        assert!(balancer.remove("http://api:8080"));
        assert!(!balancer.remove("http://api:8080"));
        let look_ups = network.0.lock().unwrap().look_ups;
        sleep(Duration::from_secs(100)).await;
        network.set(|state| assert_eq!(state.look_ups, look_ups));
        assert!(balancer.counts().is_empty());
    });
}

/// The task that looks a name up ends with the balancer, and begins anew in another runtime.
#[test]
fn look_ups_end_with_the_balancer_and_outlive_its_runtime() {
    let network = Network::new(&[1]);
    let builder = network.client().balance::<&str>([]).unwrap();
    let balancer = builder.each_address_of("http://api:8080").unwrap().build();
    paused(async { assert_eq!(asked(&balancer, 1).await, "1") });
    network.resolve_to(Some(&[2]));
    paused(async {
        assert_eq!(asked(&balancer, 1).await, "1", "the last addresses serve meanwhile");
        sleep(Duration::from_secs(60)).await;
        assert_eq!(asked(&balancer, 1).await, "2");
        drop(balancer);
        let look_ups = network.0.lock().unwrap().look_ups;
        sleep(Duration::from_secs(100)).await;
        network.set(|state| assert_eq!(state.look_ups, look_ups));
    });
}

/// A runtime that is not polled any more must not keep a name from the others.
#[test]
fn each_runtime_waits_for_a_look_up_of_its_own() {
    let network = Network::new(&[1]);
    network.set(|state| state.takes = 1);
    let builder = network.client().balance::<&str>([]).unwrap();
    let balancer = builder.each_address_of("http://api:8080").unwrap().build();
    let runtime = || Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (halted, other) = (runtime(), runtime());
    let asks = balancer.clone();
    halted.block_on(async {
        tokio::spawn(async move { ask(&asks).await });
        yield_now().await;
    });
    let asked = other.block_on(async { timeout(Duration::from_secs(5), ask(&balancer)).await });
    assert_eq!(asked.unwrap().unwrap(), "1 api:8080");
}

#[test]
fn a_name_that_is_removed_while_it_is_looked_up_keeps_no_request() {
    paused(async {
        let network = Network::new(&[1]);
        network.set(|state| state.takes = 2);
        let builder = network.client().balance::<&str>([]).unwrap();
        let balancer = builder.each_address_of("http://api:8080").unwrap().build();
        let asks = balancer.clone();
        let asked = tokio::spawn(async move { ask(&asks).await });
        sleep(Duration::from_secs(1)).await;
        assert!(balancer.remove("http://api:8080"));
        let error = timeout(Duration::from_secs(5), asked).await.unwrap().unwrap().unwrap_err();
        assert!(matches!(error.cause(), ClientCause::NoHost), "{error:?}");
    });
}

#[test]
fn each_address_is_checked_for_itself_by_connecting() {
    paused(async {
        let network = Network::new(&[1, 2]);
        network.set(|state| state.refusing.push(address(2)));
        let (note, seen) = changes();
        let check = HealthCheck::connect().interval(Duration::from_secs(1));
        let builder = network.client().balance::<&str>([]).unwrap().health_check(check).on_change(note);
        let balancer = builder.each_address_of("http://api:8080").unwrap().ejection(None).build();
        let _ = ask(&balancer).await;
        sleep(Duration::from_secs(10)).await;
        let down = HostChange::Down(CheckFailure::Exchange(ClientPhase::Connect));
        assert_eq!(seen(), format!("1 Found, 2 Found, 2 {down:?}"));
        assert_eq!(asked(&balancer, 4).await, "1 1 1 1");
        network.set(|state| state.refusing.clear());
        sleep(Duration::from_secs(10)).await;
        assert_eq!(seen(), "2 Up");
        assert_eq!(asked(&balancer, 4).await, "1 1 2 2");
    });
}

/// A key leads to one address, whichever order the resolver returns them in.
#[test]
fn a_key_leads_to_one_address() {
    paused(async {
        let network = Network::new(&[1, 2, 3, 4]);
        let builder = network.client().balance::<&str>([]).unwrap().key_by(|_| Some(b"key"));
        let balancer = builder.each_address_of("http://api:8080").unwrap().build();
        let first = ask(&balancer).await.unwrap();
        let addresses: [&[u8]; 2] = [&[4, 2, 3, 1], &[5, 4, 3, 2, 1]];
        for found in addresses {
            network.resolve_to(Some(found));
            sleep(Duration::from_secs(31)).await;
            let next = ask(&balancer).await.unwrap();
            assert!(next == first || next.starts_with("5 "), "{first} {next}");
        }
    });
}
