//! Random histories of a balancer: whatever hosts do, and however they come and go, each request goes to the host that
//! a plain model chooses, and the counts are those of the model.

mod model;

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{Balancer, BalancerChoice, BalancerCounts, ClientTimeouts};
use corehttp::net::Dialer;
use corehttp::{Client, Request, Response};
use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use self::model::Model;
use crate::chance::{Chance, check_histories};
use crate::support::{Peer, Received, each, paused, settle};

#[test]
fn every_request_of_a_random_history_goes_to_the_host_that_it_should() {
    check_histories("client histories::balance", (60, 12), Step::draw, |steps| paused(play(steps)));
}

/// Something that happens. The settings are those of the first.
#[derive(Clone, Debug)]
struct Step {
    /// How many half seconds after the one before. Each step also takes a millisecond, so that no two things happen at
    /// once.
    pause: u32,
    event: Event,
    settings: Settings,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Asks(Way),
    Adds(usize),
    Removes(usize),
    /// It is removed, and added again.
    Returns(usize),
    Becomes(usize, Behavior),
}

/// How a request is made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Sends,
    /// The body of the response is read half a second after its head.
    Streams,
    Opens,
    /// The caller goes away after so many quarters of a second.
    Leaves(u32),
}

/// How a host behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behavior {
    /// Answers with this status, and with its name.
    Well(u16),
    /// Answers after so many seconds.
    Slow(u64),
    /// Cannot be connected to, which shows after so many seconds.
    Unreachable(u64),
    Closing,
    Babbling,
    Silent,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    hosts: usize,
    choice: BalancerChoice,
    penalty_max: usize,
    is_checked: bool,
    is_elsewhere: bool,
}

const HOSTS: [&str; 4] = ["http://a", "http://b", "http://c", "http://d"];
const HALF: Duration = Duration::from_millis(500);
const WAIT: Duration = Duration::from_secs(2);
const PENALTY: Duration = Duration::from_secs(4);
const INTERVAL: Duration = Duration::from_secs(5);

impl Step {
    fn draw(chance: &mut Chance) -> Step {
        use Behavior::{Babbling, Closing, Silent, Slow, Unreachable, Well};
        let statuses = [Well(200), Well(200), Well(404), Well(302), Well(503)];
        let others = [
            Slow(1),
            Slow(7),
            Unreachable(0),
            Unreachable(0),
            Unreachable(1),
            Unreachable(1),
            Closing,
            Babbling,
            Silent,
        ];
        let behavior = chance.one_of(&[&statuses[..], &others].concat());
        let leaves = Way::Leaves(1 + 2 * chance.below(5) as u32);
        let way = chance.one_of(&[Way::Sends, Way::Sends, Way::Streams, Way::Opens, leaves]);
        let host = chance.below(HOSTS.len());
        let event = match chance.below(10) {
            0..6 => Event::Asks(way),
            6 => Event::Adds(host),
            7 => chance.one_of(&[Event::Removes(host), Event::Returns(host)]),
            _ => Event::Becomes(host, behavior),
        };
        let choice = chance.one_of(&[BalancerChoice::LeastPending, BalancerChoice::TwoRandom]);
        let settings = Settings {
            hosts: 1 + chance.below(HOSTS.len()),
            choice,
            penalty_max: chance.one_of(&[300, 300, 1, 0]),
            is_checked: chance.once_in(2),
            // It must be known which host was asked first.
            is_elsewhere: choice == BalancerChoice::LeastPending && chance.once_in(2),
        };
        Step { pause: chance.one_of(&[0, 0, 0, 1, 2, 3, 9]), event, settings }
    }
}

async fn play(steps: &[Step]) {
    let Some(Step { settings, .. }) = steps.first() else { return };
    let hosts = Hosts::default();
    let balancer = hosts.balance(*settings);
    let (mut model, start, mut asking) = (Model::new(*settings), Instant::now(), JoinSet::new());
    for step in steps {
        sleep(HALF * step.pause + Duration::from_millis(1)).await;
        check(&balancer, &mut model, start).await;
        match step.event {
            Event::Adds(host) => assert_eq!(balancer.add(HOSTS[host]).unwrap(), model.add(host)),
            Event::Removes(host) => assert_eq!(balancer.remove(HOSTS[host]), model.remove(host)),
            Event::Returns(host) => {
                assert_eq!(balancer.remove(HOSTS[host]), model.remove(host));
                assert!(balancer.add(HOSTS[host]).unwrap() && model.add(host));
            }
            Event::Becomes(host, behavior) => {
                (model.behaviors[host], hosts.0.lock().unwrap()[host]) = (behavior, behavior);
            }
            Event::Asks(way) => {
                let (at, asked, before) = (model.asked.len(), balancer.clone(), balancer.counts());
                asking.spawn(async move { (at, ask(&asked, way).await) });
                settle().await;
                model.ask(way, || more(&before, &balancer.counts()));
            }
        }
        check(&balancer, &mut model, start).await;
    }
    sleep(Duration::from_secs(60)).await;
    check(&balancer, &mut model, start).await;
    assert!(balancer.counts().iter().all(|host| host.pending + host.penalties == 0));
    for (at, told) in asking.join_all().await {
        assert_eq!(told, model.asked[at].response, "request {at}");
    }
}

/// Which host was asked between these counts.
fn more(before: &[BalancerCounts], after: &[BalancerCounts]) -> usize {
    let asked = |it: &BalancerCounts| it.pending as u64 + it.served + it.failed;
    before.iter().zip(after).position(|(before, after)| asked(before) < asked(after)).unwrap()
}

/// The counts are those of the model.
async fn check(balancer: &Balancer, model: &mut Model, start: Instant) {
    settle().await;
    model.run_to(start.elapsed());
    let counts = balancer.counts().into_iter();
    let counts =
        counts.map(|it| (it.origin, it.pending, it.served, it.failed, it.penalties, it.down.is_none()));
    assert_eq!(counts.collect::<Vec<_>>(), model.counts(), "after {:?}", start.elapsed());
}

/// Who answers; nobody if the request fails, or its caller goes away.
async fn ask(balancer: &Balancer, way: Way) -> Option<String> {
    let (request, mut response) = (Request::get("/").unwrap(), Response::new());
    let mut reply = match way {
        Way::Sends => {
            balancer.send(&request, &mut response).await.ok()?;
            return Some(response.body.text().unwrap().to_owned());
        }
        Way::Leaves(quarters) => {
            let sent = timeout(HALF / 2 * quarters, balancer.send(&request, &mut response)).await;
            sent.ok()?.ok()?;
            return Some(response.body.text().unwrap().to_owned());
        }
        Way::Streams => balancer.open_response(&request, &mut response).await.ok()?,
        Way::Opens => balancer.open_call(&request).await.ok()?.finish(&mut response).await.ok()?,
    };
    sleep(HALF).await;
    let mut body = String::new();
    reply.read_to_string(&mut body).await.unwrap();
    Some(body)
}

/// Hosts in memory.
#[derive(Clone)]
struct Hosts(Arc<Mutex<[Behavior; HOSTS.len()]>>);

impl Default for Hosts {
    fn default() -> Hosts {
        Hosts(Arc::new(Mutex::new([Behavior::Well(200); HOSTS.len()])))
    }
}

impl Hosts {
    fn balance(&self, settings: Settings) -> Balancer {
        // One exchange for each connection, so that each sees the behavior of its time.
        let timeouts = ClientTimeouts { wait: WAIT, idle: Duration::ZERO, ..ClientTimeouts::default() };
        let client = Client::builder().dialer(self.clone()).timeouts(timeouts);
        let mut builder = client.build().balance(&HOSTS[..settings.hosts]).unwrap();
        builder =
            builder.choice(settings.choice).penalty(PENALTY).penalty_max(settings.penalty_max).ejection(None);
        builder = builder.healthy_if(|it| it.is_ok_and(|response| !response.status.is_server_error()));
        if settings.is_checked {
            builder = builder.health_check(each("/health", INTERVAL));
        }
        if settings.is_elsewhere { builder.retry_other_hosts(true).build() } else { builder.build() }
    }
}

impl Dialer for Hosts {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, _port: u16) -> io::Result<DuplexStream> {
        let at = HOSTS.iter().position(|url| url.ends_with(host)).unwrap();
        let behavior = self.0.lock().unwrap()[at];
        if let Behavior::Unreachable(seconds) = behavior {
            sleep(Duration::from_secs(seconds)).await;
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(1 << 10);
        tokio::spawn(serve(Peer::new(far, Received::default()), behavior, HOSTS[at]));
        Ok(near)
    }
}

async fn serve(mut peer: Peer<DuplexStream>, behavior: Behavior, name: &str) -> io::Result<()> {
    peer.head().await?;
    let status = match behavior {
        Behavior::Well(status) => status,
        Behavior::Slow(seconds) => {
            sleep(Duration::from_secs(seconds)).await;
            200
        }
        Behavior::Closing | Behavior::Unreachable(_) => return Ok(()),
        Behavior::Babbling => return peer.send("220 mail.example ESMTP\r\n\r\n").await,
        Behavior::Silent => pending().await,
    };
    peer.send(format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n{name}", name.len())).await
}
