//! A hundred hosts in simulated time: nearly all requests succeed whatever a third of the hosts does, hosts that come and
//! go are not noticed, keys stay where they are, and retries are no storm.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{Balancer, BalancerBuilder, BalancerChoice, ClientTimeouts, Retry, RetryBudget};
use corehttp::net::Dialer;
use corehttp::{Client, ClientBuilder, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinSet;
use tokio::time::sleep;

use BalancerChoice::{LeastPending, RoundRobin, TwoRandom};

use crate::support::paused;

const HOSTS: usize = 100;

/// The hosts that are out of order: the first ones.
const BAD: Range<usize> = 0..30;

/// How long a host takes that does well, and how long a caller waits.
const TOOK: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_millis(500);

/// The time between two requests.
const PACE: Duration = Duration::from_millis(8);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Behavior {
    Well,
    /// It refuses connections.
    Dead,
    /// It answers 500 at once.
    Fails,
    /// It takes ten times as long, which is longer than a caller waits.
    Slow,
}

/// Hosts in memory, by their names.
#[derive(Clone, Default)]
struct Fleet(Arc<Mutex<BTreeMap<String, FleetHost>>>);

struct FleetHost {
    behavior: Behavior,
    attempts: u64,
}

fn name(number: usize) -> String {
    format!("h{number}")
}

fn url(number: usize) -> String {
    format!("http://h{number}")
}

impl Fleet {
    /// A hundred hosts, of which the [`BAD`] ones behave so.
    fn new(behavior: Behavior) -> Fleet {
        let fleet = Fleet::default();
        for number in 0..HOSTS {
            fleet.set(number, if BAD.contains(&number) { behavior } else { Behavior::Well });
        }
        fleet
    }

    fn set(&self, number: usize, behavior: Behavior) {
        let mut hosts = self.0.lock().unwrap();
        hosts.entry(name(number)).or_insert(FleetHost { behavior, attempts: 0 }).behavior = behavior;
    }

    fn client(&self) -> ClientBuilder {
        let timeouts = ClientTimeouts { wait: PATIENCE, ..ClientTimeouts::default() };
        Client::builder().dialer(self.clone()).timeouts(timeouts)
    }

    fn balance(&self, client: ClientBuilder) -> BalancerBuilder {
        let builder = client.build().balance((0..HOSTS).map(url)).unwrap();
        builder.healthy_if(|outcome| outcome.is_ok_and(|response| !response.status.is_server_error()))
    }

    /// Notes an attempt at a request to a host, and returns its behavior.
    fn attempt(&self, name: &str) -> Behavior {
        let mut hosts = self.0.lock().unwrap();
        let host = hosts.get_mut(name).unwrap();
        host.attempts += 1;
        host.behavior
    }

    /// How many requests these hosts have got, answered or not.
    fn attempts(&self, hosts: Range<usize>) -> u64 {
        let known = self.0.lock().unwrap();
        hosts.map(|number| known[&name(number)].attempts).sum()
    }

    async fn serve(self, mut stream: DuplexStream, name: String) -> io::Result<()> {
        let mut head = [0; 1 << 10];
        let mut received = 0;
        loop {
            received += match stream.read(&mut head[received..]).await? {
                0 => return Ok(()),
                count => count,
            };
            if !head[..received].ends_with(b"\r\n\r\n") {
                continue;
            }
            received = 0;
            let status = match self.attempt(&name) {
                Behavior::Dead => return Ok(()),
                Behavior::Fails => 500,
                Behavior::Slow => {
                    sleep(TOOK * 10).await;
                    200
                }
                Behavior::Well => {
                    sleep(TOOK).await;
                    200
                }
            };
            let length = name.len();
            let response = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n{name}");
            stream.write_all(response.as_bytes()).await?;
        }
    }
}

impl Dialer for Fleet {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, _port: u16) -> io::Result<DuplexStream> {
        if self.0.lock().unwrap()[host].behavior == Behavior::Dead {
            self.attempt(host);
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(1 << 10);
        tokio::spawn(self.clone().serve(far, host.to_owned()));
        Ok(near)
    }
}

/// Sends so many requests, one after the other has begun, whose keys are their numbers. Returns which host has served each.
async fn drive(balancer: &Balancer, count: usize) -> Vec<Option<String>> {
    let mut asking = JoinSet::new();
    for number in 0..count {
        let balancer = balancer.clone();
        asking.spawn(async move { (number, ask(&balancer, number).await) });
        sleep(PACE).await;
    }
    let mut served = asking.join_all().await;
    served.sort();
    served.into_iter().map(|(_, host)| host).collect()
}

async fn ask(balancer: &Balancer, number: usize) -> Option<String> {
    let mut request = Request::get("/").unwrap();
    let mut response = Response::new();
    request.headers.set("x-key", number).unwrap();
    balancer.send(&request, &mut response).await.ok()?;
    response.status.is_success().then(|| response.body.text().unwrap().to_owned())
}

fn key(request: &Request) -> Option<&[u8]> {
    request.headers.get_bytes("x-key")
}

fn pending(balancer: &Balancer) -> usize {
    balancer.counts().iter().map(|host| host.pending).sum()
}

/// A bad host costs the failures in a row that eject it, the requests that wait for it by then, and a trial: so it is if hosts
/// are chosen so, or by a key.
#[track_caller]
fn check_goodput(behavior: Behavior, choices: &[BalancerChoice]) {
    const REQUESTS: usize = 5_000;
    for choice in choices.iter().copied().map(Some).chain([None]) {
        paused(async move {
            let fleet = Fleet::new(behavior);
            let builder = fleet.balance(fleet.client());
            // Without a choice, by a key.
            let balancer = match choice {
                Some(choice) => builder.choice(choice).build(),
                None => builder.key_by(key).build(),
            };
            let served = drive(&balancer, REQUESTS).await.iter().flatten().count();
            let failed = REQUESTS - served;
            assert!(
                failed <= 7 * BAD.len() && served * 100 > REQUESTS * 95,
                "{behavior:?} {choice:?}: {failed} of {REQUESTS} failed"
            );
            assert_eq!(pending(&balancer), 0);
        });
    }
}

#[test]
fn nearly_all_requests_succeed_though_a_third_of_the_hosts_is_dead() {
    check_goodput(Behavior::Dead, &[LeastPending]);
}

#[test]
fn nearly_all_requests_succeed_though_a_third_of_the_hosts_fails_at_once() {
    check_goodput(Behavior::Fails, &[LeastPending]);
}

#[test]
fn nearly_all_requests_succeed_though_a_third_of_the_hosts_is_ten_times_slower() {
    check_goodput(Behavior::Slow, &[LeastPending, TwoRandom, RoundRobin]);
}

/// Each second one host is removed, one is added, and one is drained for a while.
#[test]
fn hosts_that_come_and_go_are_not_noticed() {
    paused(async {
        let fleet = Fleet::new(Behavior::Well);
        let balancer = fleet.balance(fleet.client()).build();
        for round in 0..20 {
            let (removed, added, drained) = (round, HOSTS + round, 99 - round);
            fleet.set(added, Behavior::Well);
            assert!(balancer.remove(&url(removed)) && balancer.add(&url(added)).unwrap());
            assert!(balancer.set_weight(&url(drained), 0));
            let gone = |number| fleet.attempts(number..number + 1);
            let before = gone(removed) + gone(drained);
            assert!(drive(&balancer, 200).await.iter().all(Option::is_some));
            assert_eq!(gone(removed) + gone(drained), before, "neither gets a new request");
            assert!(balancer.set_weight(&url(drained), 1));
        }
        let counts = balancer.counts();
        assert!(counts.len() == HOSTS && counts.iter().all(|host| host.failed + host.ejections == 0));
        assert_eq!(pending(&balancer), 0);
        let stayed = counts.iter().filter(|host| host.origin.as_str() > "http://h2").map(|host| host.served);
        assert!(stayed.clone().all(|served| (15..=45).contains(&served)), "{:?}", stayed.collect::<Vec<_>>());
    });
}

/// The keys of the host that is removed move, and so do those which the bound of the loads had moved anyway.
#[test]
fn a_host_that_is_removed_moves_its_own_keys_alone() {
    const KEYS: usize = 2_000;
    paused(async {
        let fleet = Fleet::new(Behavior::Well);
        let balancer = fleet.balance(fleet.client()).key_by(key).build();
        let moved = |before: &[Option<String>], after: &[Option<String>]| {
            std::iter::zip(before, after).filter(|(before, after)| before != after).count()
        };
        let first = drive(&balancer, KEYS).await;
        let second = drive(&balancer, KEYS).await;
        balancer.remove(&url(7));
        let third = drive(&balancer, KEYS).await;
        let own = second.iter().filter(|host| host.as_deref() == Some("h7")).count();
        let by_load = moved(&first, &second);
        let by_removal = moved(&second, &third);
        assert!(own <= KEYS * 2 / HOSTS, "{own} of {KEYS} keys were those of one host");
        assert!(by_removal <= by_load + 2 * own, "{by_removal} of {KEYS} keys moved, and {by_load} before");
    });
}

/// Retries go to the hosts that fail as well, but no more than a tenth beside the requests that were meant for them. A retry
/// that was refused once took the turn of its host: with all dead, each second host got no request, and hence no retries.
#[test]
fn retries_are_a_tenth_more_load_for_dead_hosts() {
    const REQUESTS: usize = 2_000;
    let budget = RetryBudget { percent: 10, per_second: 0 };
    for bad in [BAD, 0..HOSTS] {
        let load = |retry: Option<Retry>| {
            paused(async {
                let fleet = Fleet::default();
                for number in 0..HOSTS {
                    let behavior = if bad.contains(&number) { Behavior::Dead } else { Behavior::Well };
                    fleet.set(number, behavior);
                }
                let balancer = fleet.balance(fleet.client().retry_budget(budget)).retry(retry);
                let balancer = balancer.choice(RoundRobin).ejection(None).build();
                let served = drive(&balancer, REQUESTS).await.iter().flatten().count();
                (fleet.attempts(bad.clone()), served)
            })
        };
        let retry = Retry::new().attempts_max(5).backoff(Duration::ZERO, Duration::ZERO);
        let (without, with) = (load(None), load(Some(retry)));
        assert!(with.0 * 10 <= without.0 * 11, "{with:?} instead of {without:?}");
        assert!(with.0 > without.0 && with.1 >= without.1, "{with:?} instead of {without:?}");
    }
}
