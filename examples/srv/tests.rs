//! The gateway before servers at several addresses and ports, while requests come all the time. Their names are those of dnsmasq.

use std::collections::BTreeMap;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use corehttp::client::{BalancerBuilder, ClientTimeouts};
use corehttp::{Client, Context, Server, ServerHandle, block_on};

use crate::zone::Zone;
use crate::{balance, client, gateway};

const SERVICE: &str = "_http._tcp.api.internal";

/// An answer of the name server is valid for one second, and is looked up at most once a second. The rest is for a busy machine.
const FOLLOWED: Duration = Duration::from_secs(3);

#[test]
fn targets_get_their_shares_and_each_that_dies_is_replaced_rfc2782() {
    let one = Member::start("one", at(2, 0));
    let two = Member::start("two", at_ipv6_or(3, 0));
    let spare = Member::start("spare", at(4, 0));
    let records = [one.record(5, 3), two.record(5, 1), spare.record(9, 0)];
    let Some(zone) = Zone::serve(&records, &hosts([&one, &two, &spare])) else { return };
    let client = client(zone.address()).unwrap().build();
    check_percent(&Load::on(balance(&client, SERVICE).unwrap(), 1).next(200), "one", 75);
    // A host that fails is asked again soon, and so the sooner ejected.
    let targets = balance(&client, SERVICE).unwrap().penalty(Duration::from_millis(10));
    let load = Load::on(targets, 4);
    load.wait_for(|answers| answers.keys().eq(["one", "two"]), "both are asked");
    load.take_changes();
    for (member, left) in [(two, &["one"]), (one, &["spare"])] {
        let ejected = format!("{} Ejected(Failures, 30s)", member.origin());
        drop(member);
        load.wait_for_change(&ejected);
        load.wait_for(|answers| answers.keys().eq(left), "the others are asked");
    }
    assert_eq!(load.failures(), [""; 0]);
}

#[test]
fn requests_follow_the_records_of_a_service() {
    let one = Member::start("one", at(2, 0));
    let two = Member::start("two", at(3, 0));
    let moved = Member::start("moved", at(5, one.address().port()));
    let three = Member::start("three", at(4, 0));
    let records = [one.record(5, 1), two.record(5, 1)];
    let Some(mut zone) = Zone::serve(&records, &hosts([&one, &two, &three])) else { return };
    // A connection stays where it is while the name of its target moves.
    let timeouts =
        ClientTimeouts { connection_age: Some(Duration::from_millis(100)), ..ClientTimeouts::default() };
    let client = client(zone.address()).unwrap().timeouts(timeouts).build();
    let load = Load::on(balance(&client, SERVICE).unwrap(), 1);
    load.wait_for(|answers| answers.keys().eq(["one", "two"]), "both are asked");
    let origins = [&one, &two, &three].map(|member| member.origin());
    load.take_changes();

    let changed = Instant::now();
    zone.set_services(&[one.record(5, 1), three.record(5, 4)]);
    load.wait_for(|answers| answers.keys().eq(["one", "three"]), "three is asked in place of two");
    assert!(changed.elapsed() < FOLLOWED, "{:?}", changed.elapsed());
    assert_eq!(load.take_changes(), [format!("{} Gone", origins[1]), format!("{} Found", origins[2])]);
    check_percent(&load.next(200), "three", 80);

    let changed = Instant::now();
    zone.set_hosts(&format!("{} one.internal\n{}", moved.address().ip(), hosts([&three])));
    load.wait_for(|answers| answers.keys().eq(["moved", "three"]), "one is asked at its new address");
    assert!(changed.elapsed() < FOLLOWED, "{:?}", changed.elapsed());
    assert_eq!(load.failures(), [""; 0]);
}

#[test]
fn requests_follow_the_addresses_of_a_name() {
    let one = Member::start("one", at(2, 0));
    let port = one.address().port();
    let two = Member::start("two", at_ipv6_or(3, port));
    let three = Member::start("three", at(4, port));
    let addresses = |members: [&Member; 2]| {
        members.map(|member| format!("{} api.internal\n", member.address().ip())).concat()
    };
    let Some(zone) = Zone::serve(&[], &addresses([&one, &two])) else { return };
    let client = client(zone.address()).unwrap().build();
    let each = client.balance::<&str>([]).unwrap().each_address_of(&format!("http://api.internal:{port}"));
    let load = Load::on(each.unwrap(), 4);
    load.wait_for(|answers| answers.keys().eq(["one", "two"]), "both are asked");
    let changed = Instant::now();
    zone.set_hosts(&addresses([&two, &three]));
    load.wait_for(|answers| answers.keys().eq(["three", "two"]), "three is asked in place of one");
    assert!(changed.elapsed() < FOLLOWED, "{:?}", changed.elapsed());
    assert_eq!(load.failures(), [""; 0]);
}

/// Has the name server go away, and sees that the targets stay, though each request needs a new connection to one.
#[track_caller]
fn check_lost(lose: impl FnOnce(&mut Zone)) {
    let one = Member::start("one", at(2, 0));
    let two = Member::start("two", at_ipv6_or(3, 0));
    let records = [one.record(5, 1), two.record(5, 1)];
    let Some(mut zone) = Zone::serve(&records, &hosts([&one, &two])) else { return };
    let timeouts = ClientTimeouts { idle: Duration::ZERO, ..ClientTimeouts::default() };
    let client = client(zone.address()).unwrap().timeouts(timeouts).build();
    let load = Load::on(balance(&client, SERVICE).unwrap(), 4);
    load.wait_for(|answers| answers.keys().eq(["one", "two"]), "both are asked");
    load.take_changes();
    lose(&mut zone);
    load.wait_for_change(&format!("http://{SERVICE} Unresolved"));
    assert!(load.next(200).keys().eq(["one", "two"]), "both are asked");
    assert_eq!(load.failures(), [""; 0]);
}

#[test]
fn targets_stay_when_their_names_are_gone() {
    check_lost(|zone| {
        zone.set_hosts("");
        zone.set_services(&[]);
    });
}

#[test]
fn targets_stay_when_the_name_server_is_gone() {
    check_lost(Zone::kill);
}

#[test]
fn targets_stay_when_the_name_server_is_halted() {
    check_lost(|zone| zone.signal("STOP"));
}

/// A server, which answers with its name.
struct Member {
    name: &'static str,
    running: ServerHandle,
}

impl Member {
    fn start(name: &'static str, address: SocketAddr) -> Member {
        let answer = move |ctx: &mut Context| ctx.response.set_text(name);
        Member { name, running: Server::bind(address).cores(1).start(answer).unwrap() }
    }

    fn address(&self) -> SocketAddr {
        self.running.local_addr()
    }

    fn origin(&self) -> String {
        format!("http://{}.internal:{}", self.name, self.address().port())
    }

    /// A record of the service.
    fn record(&self, priority: u16, weight: u16) -> String {
        format!("{SERVICE},{}.internal,{},{priority},{weight}", self.name, self.address().port())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.running.stop(Duration::ZERO);
    }
}

/// The addresses of these, as a file of hosts.
fn hosts<const N: usize>(members: [&Member; N]) -> String {
    members.map(|member| format!("{} {}.internal\n", member.address().ip(), member.name)).concat()
}

fn at(last: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, last), port).into()
}

/// The address of IPv6, where there is one.
fn at_ipv6_or(last: u8, port: u16) -> SocketAddr {
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    TcpListener::bind(address).map_or(at(last, port), |_| address)
}

/// One request after the other goes to the host that is due, whatever the others do.
#[track_caller]
fn check_percent(answers: &BTreeMap<String, usize>, name: &str, expected: usize) {
    let percent = answers[name] * 100 / answers.values().sum::<usize>();
    assert!(percent.abs_diff(expected) <= 2, "{answers:?}");
}

/// Requests to a gateway all the time, until this is dropped.
struct Load {
    gateway: ServerHandle,
    seen: Arc<Seen>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    /// How many answers of each kind there were lately.
    answers: Mutex<BTreeMap<String, usize>>,
    failures: Mutex<Vec<String>>,
    /// The changes of hosts.
    changes: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Load {
    /// So many requests at a time.
    fn on(targets: BalancerBuilder, count: usize) -> Load {
        let seen = Arc::<Seen>::default();
        let noted = seen.clone();
        let targets = targets.on_change(move |report| {
            noted.changes.lock().unwrap().push(format!("{} {:?}", report.origin, report.change));
        });
        let gateway = Server::bind("127.0.0.1:0").cores(2).start(gateway(targets.build())).unwrap();
        let asking = |_| {
            let (seen, url) = (seen.clone(), gateway.to_string());
            thread::spawn(move || block_on(seen.ask(&url)).unwrap())
        };
        let threads = (0..count).map(asking).collect();
        Load { gateway, seen, threads }
    }

    /// The next answers, so many of them, by how often each has come.
    #[track_caller]
    fn next(&self, count: usize) -> BTreeMap<String, usize> {
        let deadline = Instant::now() + Duration::from_secs(20);
        self.seen.answers.lock().unwrap().clear();
        while self.seen.answers.lock().unwrap().values().sum::<usize>() < count {
            assert!(Instant::now() < deadline, "requests are answered");
            thread::sleep(Duration::from_millis(2));
        }
        mem::take(&mut self.seen.answers.lock().unwrap())
    }

    /// Waits until the next answers are such.
    #[track_caller]
    fn wait_for(&self, are_such: impl Fn(&BTreeMap<String, usize>) -> bool, what: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let answers = self.next(40);
            if are_such(&answers) {
                return;
            }
            assert!(Instant::now() < deadline, "{what}: {answers:?}, {:?}", self.failures());
        }
    }

    /// Waits until this is the next change.
    #[track_caller]
    fn wait_for_change(&self, expected: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let changes = loop {
            match self.take_changes() {
                changes if changes.is_empty() => assert!(Instant::now() < deadline, "{expected} in time"),
                changes => break changes,
            }
            thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(changes, [expected]);
    }

    fn take_changes(&self) -> Vec<String> {
        mem::take(&mut self.seen.changes.lock().unwrap())
    }

    fn failures(&self) -> Vec<String> {
        self.seen.failures.lock().unwrap().clone()
    }
}

impl Seen {
    async fn ask(&self, url: &str) {
        let client = Client::new();
        while !self.is_over.load(Ordering::Relaxed) {
            let answered = client.get(url).await;
            let response = answered.expect("the gateway answers");
            let text = response.text().unwrap().to_owned();
            if !response.status.is_success() {
                self.failures.lock().unwrap().push(format!("{} {text}", response.status));
            }
            *self.answers.lock().unwrap().entry(text).or_default() += 1;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.seen.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.gateway.stop(Duration::ZERO);
    }
}
