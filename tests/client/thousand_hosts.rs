//! A client with retries, a budget and hedges, in simulated time: over a thousand hosts that are dead, fail, are slow at
//! times or come and go, and at one host whose slow responses are few.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{ClientCause, Retry, RetryCause};
use corehttp::net::Dialer;
use corehttp::{Client, Request, Response};
use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::chance::Chance;
use crate::counts::check_counts;
use crate::support::{Peer, Received, Stage, get, paused};

const HOSTS: usize = 1_000;
const CALLERS: usize = 100;

/// How a host behaves, by its number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// It cannot be connected to.
    Dead,
    /// It fails half of its requests, in three ways.
    Failing,
    /// It answers one request in a hundred after a second.
    SlowAtTimes,
    /// Every two seconds it is gone, or back.
    Moving,
    Well,
}

impl Kind {
    fn of(host: usize) -> Kind {
        match host % 10 {
            0 => Kind::Dead,
            1 => Kind::Failing,
            2 => Kind::SlowAtTimes,
            3 => Kind::Moving,
            _ => Kind::Well,
        }
    }

    /// How many requests such a host is meant to get.
    fn requests(self) -> usize {
        match self {
            Kind::Dead => 300,
            Kind::SlowAtTimes => 100,
            Kind::Failing | Kind::Moving | Kind::Well => 10,
        }
    }
}

/// One request, by its place in the list of all.
#[derive(Clone, Copy)]
struct Ask {
    host: usize,
    method: &'static str,
    has_key: bool,
}

#[derive(Clone)]
struct World(Arc<WorldState>);

struct WorldState {
    start: Instant,
    chance: Mutex<Chance>,
    /// How often each host was asked: dials that it refused, and requests that it received.
    attempts: Vec<AtomicUsize>,
    /// How often each request was received.
    received: Vec<AtomicU32>,
    /// How many connections are open.
    open: AtomicUsize,
}

impl World {
    fn new(asks: usize) -> World {
        World(Arc::new(WorldState {
            start: Instant::now(),
            chance: Mutex::new(Chance::new(7)),
            attempts: (0..HOSTS).map(|_| AtomicUsize::new(0)).collect(),
            received: (0..asks).map(|_| AtomicU32::new(0)).collect(),
            open: AtomicUsize::new(0),
        }))
    }

    fn below(&self, bound: usize) -> usize {
        self.0.chance.lock().unwrap().below(bound)
    }

    fn is_gone(&self, host: usize) -> bool {
        let turn = self.0.start.elapsed().as_secs() as usize / 2 + host / 10;
        Kind::of(host) == Kind::Moving && turn % 2 == 1
    }

    async fn serve(&self, mut peer: Peer<DuplexStream>, host: usize) -> io::Result<()> {
        while let Some(mut request) = peer.head().await? {
            let id = request.split([' ', '/']).nth(2).unwrap().to_owned();
            self.0.received[id.parse::<usize>().unwrap()].fetch_add(1, Ordering::Relaxed);
            self.0.attempts[host].fetch_add(1, Ordering::Relaxed);
            peer.content(&mut request).await?;
            if self.is_gone(host) {
                return Ok(());
            }
            let is_slow = Kind::of(host) == Kind::SlowAtTimes && self.below(100) == 0;
            sleep(Duration::from_millis(if is_slow { 1_000 } else { 5 + self.below(50) as u64 })).await;
            let fault = if Kind::of(host) == Kind::Failing { self.below(6) } else { usize::MAX };
            let (status, fields) = match fault {
                0 => return Ok(()),
                1 => (503, "retry-after: 0\r\n"),
                2 => (502, ""),
                _ => (200, ""),
            };
            let length = id.len();
            peer.send(format!("HTTP/1.1 {status} x\r\n{fields}content-length: {length}\r\n\r\n{id}")).await?;
        }
        Ok(())
    }
}

impl Dialer for World {
    type Stream = DuplexStream;

    async fn dial(&self, name: &str, _: u16) -> io::Result<DuplexStream> {
        let host: usize = name[1..].parse().unwrap();
        if Kind::of(host) == Kind::Dead || self.is_gone(host) {
            self.0.attempts[host].fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(1 << 10);
        let world = self.clone();
        world.0.open.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let _ = world.serve(Peer::new(far, Received::default()), host).await;
            world.0.open.fetch_sub(1, Ordering::Relaxed);
        });
        Ok(near)
    }
}

/// All requests, in a random order.
fn draw_asks() -> Vec<Ask> {
    let mut chance = Chance::new(1);
    let hosts = (0..HOSTS).flat_map(|host| (0..Kind::of(host).requests()).map(move |_| host));
    let mut asks: Vec<Ask> = hosts
        .map(|host| Ask {
            host,
            method: chance.one_of(&["GET", "GET", "GET", "POST", "PUT"]),
            has_key: chance.once_in(8),
        })
        .collect();
    for at in (1..asks.len()).rev() {
        asks.swap(at, chance.below(at + 1));
    }
    asks
}

/// Makes a request, and returns whether it was hedged.
async fn ask(client: &Client, id: usize, ask: Ask, world: &World) -> bool {
    let mut request = Request::new(ask.method, &format!("http://h{}/{id}", ask.host)).unwrap();
    if ask.method != "GET" {
        request.body.set_bytes("milk");
    }
    if ask.has_key {
        request.headers.set("idempotency-key", id).unwrap();
    }
    let mut response = Response::new();
    let sent = client.send(&request, &mut response).await;
    let received = world.0.received[id].load(Ordering::Relaxed);
    match &sent {
        Ok(()) => assert_eq!(response.text().unwrap(), id.to_string()),
        Err(error) => assert_eq!(error.is_sent(), received > 0, "{error}"),
    }
    let retries = if let Err(error) = &sent { error.retries() } else { response.retries() };
    retries.iter().any(|retry| retry.cause == RetryCause::Slow)
}

#[test]
fn a_thousand_hosts_get_no_more_than_their_load() {
    paused(async {
        let asks = Arc::new(draw_asks());
        let world = World::new(asks.len());
        let retry = Retry::new().hedge_after_percentile(95).retry_if(|outcome| {
            let is_closed = outcome.is_err_and(|error| matches!(error.cause(), ClientCause::Closed));
            is_closed || Retry::is_transient(outcome)
        });
        let builder = Client::builder().dialer(world.clone()).retry(retry);
        let client = builder.timeout(Duration::from_secs(60)).build();
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (asks, client, world) = (asks.clone(), client.clone(), world.clone());
            callers.spawn(async move {
                let mut hedged = 0;
                for id in (caller..asks.len()).step_by(CALLERS) {
                    hedged += usize::from(ask(&client, id, asks[id], &world).await);
                }
                hedged
            });
        }
        let hedged: usize = callers.join_all().await.into_iter().sum();
        check_load(&asks, &world, hedged);
        check_nothing_is_left(client, &world).await;
    });
}

/// Each host was asked as often as a plain model of its budget allows, and no POST came twice.
fn check_load(asks: &[Ask], world: &World, hedged: usize) {
    let floor = 10 + world.0.start.elapsed().as_secs() as usize;
    let attempts = |host: usize| world.0.attempts[host].load(Ordering::Relaxed);
    for host in 0..HOSTS {
        let meant = Kind::of(host).requests();
        let budget = meant / 10 + floor;
        let most = match Kind::of(host) {
            Kind::Dead | Kind::SlowAtTimes | Kind::Well => meant + budget,
            // Its connections may be stale, and a request that is sent once more for that takes nothing from the budget.
            Kind::Failing | Kind::Moving => 2 * (meant + budget),
        };
        assert!(attempts(host) <= most, "{:?}: {} attempts, at most {most}", Kind::of(host), attempts(host));
    }
    let dead = (0..HOSTS).filter(|host| Kind::of(*host) == Kind::Dead);
    assert!(dead.map(attempts).sum::<usize>() > 100 * 330, "the budget of dead hosts is not used");
    assert!(hedged > 100, "only {hedged} of 10,000 are hedged");
    for (ask, received) in asks.iter().zip(&world.0.received) {
        let most = if ask.method == "POST" && !ask.has_key { 1 } else { 6 };
        assert!(received.load(Ordering::Relaxed) <= most, "{} came {received:?} times", ask.method);
    }
}

async fn check_nothing_is_left(client: Client, world: &World) {
    // The exchange of a hedge that has lost is over when its host answers.
    sleep(Duration::from_secs(2)).await;
    assert_eq!((client.busy_connections(), check_counts(&client).waiting), (0, 0));
    client.close_idle();
    sleep(Duration::from_secs(1)).await;
    assert_eq!((client.idle_connections(), world.0.open.load(Ordering::Relaxed)), (0, 0));
    drop(client);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}

/// How long each of 5,000 requests takes, in order, and how often the host was asked. It answers in 10 to 209 ms, and one
/// request in each hundred after five seconds.
async fn waits(retry: Retry) -> (Vec<Duration>, usize) {
    let chance = Arc::new(Mutex::new((Chance::new(3), 0)));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let stage = Stage::new(move |mut peer, _| {
        let (chance, count) = (chance.clone(), count.clone());
        async move {
            while peer.head().await?.is_some() {
                let number = count.fetch_add(1, Ordering::Relaxed);
                let millis = {
                    let (chance, slow) = &mut *chance.lock().unwrap();
                    if number % 100 == 0 {
                        *slow = number + chance.below(100);
                    }
                    if number == *slow { 5_000 } else { 10 + chance.below(200) as u64 }
                };
                sleep(Duration::from_millis(millis)).await;
                peer.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
            }
            Ok(())
        }
    });
    let client = stage.builder().retry(retry).build();
    let mut waits = Vec::new();
    for _ in 0..5_000 {
        let start = Instant::now();
        client.send(&get(), &mut Response::new()).await.unwrap();
        waits.push(start.elapsed());
    }
    waits.sort_unstable();
    assert_eq!(client.busy_connections(), 0);
    (waits, asked.load(Ordering::Relaxed))
}

#[test]
fn hedges_cut_the_slowest_of_a_hundred_fivefold_for_two_percent_more_requests() {
    paused(async {
        let (plain, asked) = waits(Retry::new()).await;
        let (hedged, hedges) = waits(Retry::new().hedge_after_percentile(99)).await;
        let [before, after] = [&plain, &hedged].map(|waits| waits[waits.len() * 99 / 100]);
        let more = hedges - plain.len();
        println!("p99 {before:?}, hedged {after:?} for {more} more requests of {}", plain.len());
        assert_eq!(asked, plain.len());
        assert!(after * 5 <= before, "{before:?} and {after:?}");
        assert!(more * 50 <= plain.len(), "{more} more requests");
    });
}
