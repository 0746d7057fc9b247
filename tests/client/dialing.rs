//! A request that waits for its own connection takes another that comes back before, and a connection that its request
//! does not need any more is for the next one.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{ClientLimits, ClientPhase, ClientTimeouts, Proxies, Proxy};
use corehttp::net::Dialer;
use corehttp::{Client, ClientError, Request, Response};
use tokio::io::DuplexStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use crate::alone::alone;
use crate::support::{OK, Rigged, Stage, ask, get, paused, settle};

const SECOND: Duration = Duration::from_secs(1);

/// How long a dial takes, and whether it ends well.
type Plan = (Duration, bool);

/// Dials a [`Stage`] as slowly as its plan has it; once the plan is over, at once.
#[derive(Clone)]
struct Slowly {
    stage: Stage,
    plans: Arc<Mutex<Vec<Plan>>>,
    begun: Arc<AtomicUsize>,
}

impl Slowly {
    /// A server whose responses take half a second and name their connection.
    fn new(plans: &[Plan]) -> Slowly {
        let stage = Stage::new(|mut peer, number| async move {
            while peer.request().await?.is_some() {
                sleep(SECOND / 2).await;
                peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{number}")).await?;
            }
            Ok(())
        });
        Slowly { stage, plans: Arc::new(Mutex::new(plans.to_vec())), begun: Arc::default() }
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }
}

impl Dialer for Slowly {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let plan = {
            let mut plans = self.plans.lock().unwrap();
            if plans.is_empty() { (Duration::ZERO, true) } else { plans.remove(0) }
        };
        sleep(plan.0).await;
        match plan.1 {
            true => self.stage.dial(host, port).await,
            false => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

/// A call of `http://a/`, with when it ended and the connection that it was answered on.
fn call(client: &Client) -> JoinHandle<Result<(Duration, String), ClientError>> {
    call_url(client, "http://a/")
}

fn call_url(client: &Client, url: &str) -> JoinHandle<Result<(Duration, String), ClientError>> {
    let (client, request, start) = (client.clone(), Request::get(url).unwrap(), Instant::now());
    tokio::spawn(async move {
        let mut response = Response::new();
        client.send(&request, &mut response).await?;
        Ok((start.elapsed(), response.body.text().unwrap().to_owned()))
    })
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_comes_back_is_not_kept_waiting_for_a_dial() {
    const NOW: Plan = (Duration::ZERO, true);
    // The first call has its answer after half a second. The dial of the second, when it is answered, on which
    // connection, and how many are idle when all is over.
    for (plan, answered, on, idle) in [
        ((4 * SECOND, true), SECOND, "0", 2),
        ((4 * SECOND, false), SECOND, "0", 1),
        ((SECOND / 4, true), SECOND * 3 / 4, "1", 2),
    ] {
        let dialer = Slowly::new(&[NOW, plan]);
        let client = Client::builder().dialer(dialer.clone()).build();
        let first = call(&client);
        settle().await;
        let second = call(&client);
        assert_eq!(first.await.unwrap().unwrap().1, "0");
        let (took, by) = second.await.unwrap().unwrap();
        assert_eq!((took.as_millis(), &*by), (answered.as_millis(), on), "{plan:?}");
        sleep(5 * SECOND).await;
        assert_eq!(
            (client.idle_connections(), client.busy_connections(), dialer.begun()),
            (idle, 0, 2),
            "{plan:?}"
        );
        let total = client.counts().total;
        assert_eq!((total.dials, total.opened, total.answered), (2, idle as u64, 2), "{plan:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_that_dials_takes_a_connection_that_comes_back() {
    let dialer = Slowly::new(&[(Duration::ZERO, true), (4 * SECOND, true)]);
    let client = Client::builder().dialer(dialer).build();
    let first = call(&client);
    settle().await;
    let (pipeline, start) = (client.pipeline("http://a").unwrap().build(), Instant::now());
    pipeline.send(&Request::get("/").unwrap(), &mut Response::new()).await.unwrap();
    assert_eq!(start.elapsed().as_millis(), 1000);
    first.await.unwrap().unwrap();
    sleep(5 * SECOND).await;
    // The new one was idle before it carried anything, and so carries one request before others follow.
    let responses = [(); 4].map(|()| {
        let pipeline = pipeline.clone();
        tokio::spawn(async move {
            let mut response = Response::new();
            pipeline.send(&Request::get("/").unwrap(), &mut response).await.unwrap();
            response.body.text().unwrap().to_owned()
        })
    });
    for response in responses {
        assert_eq!(response.await.unwrap(), "1");
    }
}

/// A server that closes its first connection at the second request. Others take half a second for a response, and name
/// themselves.
fn first_goes_stale() -> Stage {
    Stage::new(|mut peer, number| async move {
        for request in 0.. {
            if peer.request().await?.is_none() || (number, request) == (0, 1) {
                break;
            }
            sleep(if number == 0 { SECOND } else { SECOND / 2 }).await;
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{number}")).await?;
        }
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn a_dial_in_place_of_a_stale_connection_gives_way_to_one_that_comes_back() {
    const NOW: Plan = (Duration::ZERO, true);
    for is_pipelined in [false, true] {
        let slowly = Slowly { stage: first_goes_stale(), ..Slowly::new(&[NOW, NOW, (9 * SECOND, true)]) };
        let client = Client::builder().dialer(slowly.clone()).build();
        let (one, other) = (call(&client), call(&client));
        assert_eq!(
            (one.await.unwrap().unwrap().1, other.await.unwrap().unwrap().1),
            ("0".into(), "1".into())
        );
        let start = Instant::now();
        let pipeline = client.pipeline("http://a").unwrap().build();
        let mut response = Response::new();
        let stale = async {
            match is_pipelined {
                true => pipeline.send(&Request::get("/").unwrap(), &mut response).await,
                false => client.send(&Request::get("http://a/").unwrap(), &mut response).await,
            }
        };
        // The first connection was used last, so it is the first to be taken.
        let busy = async {
            settle().await;
            call(&client).await
        };
        let (stale, busy) = tokio::join!(stale, busy);
        assert_eq!(busy.unwrap().unwrap().1, "1");
        stale.unwrap();
        assert_eq!(
            (response.body.text().unwrap(), start.elapsed().as_millis()),
            ("1", 1000),
            "{is_pipelined}"
        );
        assert_eq!(slowly.begun(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dial_in_place_of_a_stale_connection_has_one_permit() {
    let plans = [(Duration::ZERO, true), (9 * SECOND, true)];
    let slowly = Slowly { stage: first_goes_stale(), ..Slowly::new(&plans) };
    let limits = ClientLimits { connections_per_host_max: 2, ..ClientLimits::default() };
    let client = Client::builder().dialer(slowly.clone()).limits(limits).build();
    call(&client).await.unwrap().unwrap();
    let stale = call(&client);
    sleep(SECOND / 2).await;
    assert_eq!(call(&client).await.unwrap().unwrap(), (SECOND / 2, "1".into()));
    assert_eq!(stale.await.unwrap().unwrap(), (SECOND * 3 / 2, "1".into()));
    assert_eq!(slowly.begun(), 3);
}

/// Where no new one is opened soon, one that is idle takes its place, which may be stale as well.
#[tokio::test(start_paused = true)]
async fn each_connection_that_turns_out_to_be_stale_is_replaced() {
    const NOW: Plan = (Duration::ZERO, true);
    let stage = Stage::new(|mut peer, number| async move {
        for request in 0.. {
            if peer.request().await?.is_none() || (number < 3 && request == 1) {
                break;
            }
            sleep(SECOND).await;
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{number}")).await?;
        }
        Ok(())
    });
    let slowly = Slowly { stage, ..Slowly::new(&[NOW, NOW, NOW, (SECOND * 2 / 5, true)]) };
    let client = Client::builder().dialer(slowly.clone()).build();
    for first in [call(&client), call(&client), call(&client)] {
        first.await.unwrap().unwrap();
    }
    assert_eq!(client.idle_connections(), 3);
    // The dial goes on for as long as the second one is tried.
    assert_eq!(call(&client).await.unwrap().unwrap().1, "3");
}

#[tokio::test(start_paused = true)]
async fn requests_that_dial_take_what_comes_back_in_turn() {
    let dialer = Slowly::new(&[&[(Duration::ZERO, true)][..], &[(9 * SECOND, true); 4]].concat());
    let client = Client::builder().dialer(dialer.clone()).build();
    let mut calls = Vec::new();
    for _ in 0..5 {
        calls.push(call(&client));
        settle().await;
    }
    for (turn, call) in (1..).zip(calls) {
        let (took, on) = call.await.unwrap().unwrap();
        assert_eq!((took.as_millis(), &*on), (500 * turn, "0"));
    }
    assert_eq!(
        (dialer.begun(), client.idle_connections(), client.busy_connections()),
        (5, 1, 1),
        "one dial goes on"
    );
    sleep(9 * SECOND).await;
    assert_eq!((client.idle_connections(), client.busy_connections()), (2, 0));
}

/// The connection leads to the proxy, whichever host its last request was for.
#[tokio::test(start_paused = true)]
async fn hosts_that_a_proxy_forwards_to_take_each_others_connections() {
    let dialer = Slowly::new(&[&[(Duration::ZERO, true)][..], &[(9 * SECOND, true); 4]].concat());
    let proxies = Proxies::all(Proxy::new("p").unwrap());
    let client = Client::builder()
        .dialer(dialer.clone())
        .proxies(proxies)
        .limits(ClientLimits { idle_connections_max: 1, ..ClientLimits::default() })
        .build();
    let mut calls = Vec::new();
    for host in 0..5 {
        calls.push(call_url(&client, &format!("http://a{host}/")));
        settle().await;
    }
    for (turn, call) in (1_u64..).zip(calls) {
        let (took, on) = call.await.unwrap().unwrap();
        assert_eq!((took.as_millis(), &*on), (500 * u128::from(turn), "0"));
        settle().await;
        // One is in use by the next, which dials no longer; only the dial of the second goes on.
        let stats = client.counts();
        let hosts = stats.hosts.values().filter(|counts| counts.busy > 0).count() as u64;
        assert_eq!((stats.total.busy, hosts), (6 - turn, (6 - turn).min(4)), "{turn}");
    }
    assert_eq!((dialer.begun(), client.idle_connections(), client.busy_connections()), (5, 1, 1));
    sleep(9 * SECOND).await;
    // Of two that lead to the proxy one may be idle.
    assert_eq!((client.idle_connections(), client.busy_connections()), (1, 0));
    let idle = Vec::from_iter(client.counts().hosts.into_iter().filter(|(_, counts)| counts.idle > 0));
    assert_eq!((idle.len(), &*idle[0].0), (1, "http://a1"), "{idle:?}");
}

/// Each caller began a connection of its own, which ended with the caller, so none of twenty was ever answered.
#[tokio::test(start_paused = true)]
async fn a_connection_that_takes_longer_than_its_caller_serves_the_next() {
    let brief = Duration::from_millis(200);
    for is_dropped in [true, false] {
        let stage = Stage::always(OK);
        let slowly = Slowly { stage, ..Slowly::new(&[(Duration::from_millis(300), true)]) };
        let client = Client::builder().dialer(slowly.clone());
        let client = if is_dropped { client } else { client.timeout(brief) }.build();
        match timeout(if is_dropped { brief } else { SECOND }, ask(&client, &get())).await {
            Ok(late) => {
                let error = late.unwrap_err();
                let said = "http://a/: connecting to a:80: the whole exchange took longer than 200 ms";
                assert_eq!((error.phase(), &*error.to_string()), (ClientPhase::Connect, said));
            }
            Err(_) => assert!(is_dropped),
        }
        assert_eq!(client.busy_connections(), 1, "it goes on, and keeps its place");
        sleep(Duration::from_millis(150)).await;
        assert_eq!((client.idle_connections(), client.busy_connections()), (1, 0));
        for _ in 0..3 {
            ask(&client, &get()).await.unwrap();
        }
        assert_eq!(slowly.begun(), 1);
        let total = client.counts().total;
        assert_eq!((total.opened, total.reused, total.answered), (1, 2, 3));
    }
}

#[tokio::test(start_paused = true)]
async fn one_dial_at_a_time_goes_on_without_its_request() {
    let dialer = Slowly::new(&[(4 * SECOND, true); 20]);
    let client = Client::builder().dialer(dialer.clone()).build();
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        calls.spawn(async move { ask(&client, &get()).await });
    }
    settle().await;
    assert_eq!((client.busy_connections(), dialer.begun()), (20, 20));
    calls.abort_all();
    settle().await;
    assert_eq!((client.busy_connections(), client.idle_connections()), (1, 0));
    sleep(5 * SECOND).await;
    assert_eq!((client.busy_connections(), client.idle_connections()), (0, 1));
    // A connection that is opened for nobody is not opened at all if none may be idle.
    let timeouts = ClientTimeouts { idle: Duration::ZERO, ..ClientTimeouts::default() };
    let client = Client::builder().dialer(Slowly::new(&[(SECOND, true)])).timeouts(timeouts).build();
    assert!(timeout(SECOND / 2, ask(&client, &get())).await.is_err());
    sleep(SECOND).await;
    assert_eq!((client.busy_connections(), client.idle_connections()), (0, 0));
}

/// The server closes it before it is used.
#[tokio::test(start_paused = true)]
async fn a_connection_that_was_never_used_may_be_stale_as_well() {
    let stage = Stage::new(|mut peer, number| async move {
        match number {
            0 => peer.head().await.map(drop),
            _ => peer.answer(OK).await,
        }
    });
    let client =
        Client::builder().dialer(Slowly { stage: stage.clone(), ..Slowly::new(&[(SECOND, true)]) }).build();
    assert!(timeout(SECOND / 2, ask(&client, &get())).await.is_err());
    sleep(SECOND).await;
    assert_eq!(client.idle_connections(), 1);
    assert_eq!(ask(&client, &get()).await.unwrap().0, 200);
    assert_eq!(stage.dialed().len(), 2);
}

/// A dialer that panics costs its caller alone: what has panicked is not polled again.
#[tokio::test]
async fn a_dial_that_panics_does_not_go_on() {
    #[derive(Clone)]
    struct Fragile(Stage, Arc<AtomicUsize>);

    impl Dialer for Fragile {
        type Stream = DuplexStream;

        async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
            tokio::task::yield_now().await;
            assert!(self.1.fetch_add(1, Ordering::Relaxed) > 0, "this panic is part of the test");
            self.0.dial(host, port).await
        }
    }

    let client = Client::builder().dialer(Fragile(Stage::always(OK), Arc::default())).build();
    let asks = client.clone();
    assert!(tokio::spawn(async move { ask(&asks, &get()).await }).await.unwrap_err().is_panic());
    assert_eq!(client.busy_connections(), 0);
    assert_eq!(ask(&client, &get()).await.unwrap().0, 200);
}

/// A client of many hosts must not keep a connection to each.
#[tokio::test(start_paused = true)]
async fn idle_connections_of_all_hosts_have_one_bound() {
    let stage = Stage::always(OK);
    let client =
        stage.builder().limits(ClientLimits { idle_connections_max: 3, ..ClientLimits::default() }).build();
    let visit = async |host: usize| {
        ask(&client, &Request::get(&format!("http://h{host}/")).unwrap()).await.unwrap();
        sleep(Duration::from_millis(1)).await;
    };
    for host in 0..5 {
        visit(host).await;
        assert_eq!(client.idle_connections(), 3.min(host + 1));
    }
    for (host, dialed) in [(4, 5), (3, 5), (2, 5), (1, 6), (4, 7), (3, 8), (1, 8)] {
        visit(host).await;
        assert_eq!((stage.dialed().len(), client.idle_connections()), (dialed, 3), "{host}");
    }
    client.close_idle();
    assert_eq!(client.idle_connections(), 0);
    visit(1).await;
    assert_eq!(client.idle_connections(), 1);
    let none =
        stage.builder().limits(ClientLimits { idle_connections_max: 0, ..ClientLimits::default() }).build();
    ask(&none, &get()).await.unwrap();
    assert_eq!(none.idle_connections(), 0);
}

/// A system with few descriptors. The kind is what a socket fails with.
#[derive(Clone)]
struct Scarce {
    stage: Stage,
    left: Arc<AtomicUsize>,
    errno: i32,
}

impl Dialer for Scarce {
    type Stream = Rigged;

    async fn dial(&self, host: &str, port: u16) -> io::Result<Rigged> {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.map_err(|_| io::Error::from_raw_os_error(self.errno))?;
        let left = self.left.clone();
        let give = move || {
            left.fetch_add(1, Ordering::Relaxed);
        };
        Ok(Rigged::new(self.stage.dial(host, port).await?).on_drop(give))
    }
}

/// Of 900 hosts with 300 descriptors 432 failed, while 289 connections to others were idle. The connections of other
/// tests would make room, too.
#[cfg(unix)]
#[test]
fn an_idle_connection_makes_room_when_there_is_no_descriptor() {
    alone("dialing::an_idle_connection_makes_room_when_there_is_no_descriptor", || {
        paused(check_scarce());
    });
}

#[cfg(unix)]
async fn check_scarce() {
    for errno in [24, 23] {
        let dialer = Scarce { stage: Stage::always(OK), left: Arc::new(AtomicUsize::new(30)), errno };
        let client = Client::builder().dialer(dialer.clone()).build();
        for host in 0..90 {
            ask(&client, &Request::get(&format!("http://h{host}/")).unwrap()).await.unwrap();
        }
        assert!((20..=30).contains(&client.idle_connections()), "{}", client.idle_connections());
        let mut held = Vec::new();
        for host in 0..30 {
            let request = Request::get(&format!("http://held{host}/")).unwrap();
            held.push(client.open_call(&request).await.unwrap());
        }
        assert_eq!(client.idle_connections(), 0);
        let error = ask(&client, &get()).await.unwrap_err();
        assert_eq!(error.phase(), ClientPhase::Connect, "nothing is idle");
    }
}

/// Connects slowly, and counts how many connect at once.
#[derive(Clone)]
struct Counting {
    stage: Stage,
    /// How many connect now, and the most that did.
    connecting: Arc<Mutex<(usize, usize)>>,
    takes: Duration,
}

impl Counting {
    fn new(takes: Duration) -> Counting {
        Counting { stage: Stage::always(OK), connecting: Arc::default(), takes }
    }

    fn most(&self) -> usize {
        self.connecting.lock().unwrap().1
    }
}

struct Connecting<'a>(&'a Counting);

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.0.connecting.lock().unwrap().0 -= 1;
    }
}

impl Dialer for Counting {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        {
            let mut connecting = self.connecting.lock().unwrap();
            connecting.0 += 1;
            connecting.1 = connecting.1.max(connecting.0);
        }
        let _connecting = Connecting(self);
        tokio::time::sleep(self.takes).await;
        self.stage.dial(host, port).await
    }
}

fn dials_max(most: usize) -> ClientLimits {
    ClientLimits { dials_per_host_max: Some(most), ..ClientLimits::default() }
}

/// After an outage, all callers dial at once otherwise.
#[tokio::test(start_paused = true)]
async fn few_connections_of_a_host_are_dialed_at_once() {
    for (most, expected, took) in [(None, 20, 1), (Some(7), 7, 1), (Some(0), 1, 1)] {
        let dialer = Counting::new(SECOND);
        let limits = ClientLimits { dials_per_host_max: most, ..ClientLimits::default() };
        let client = Client::builder().dialer(dialer.clone()).limits(limits).build();
        let mut calls = Vec::from_iter((0..20).map(|_| call(&client)));
        settle().await;
        assert_eq!((dialer.most(), client.busy_connections()), (expected, 20), "{most:?}");
        let mut queued = 0;
        for call in calls.drain(..) {
            // The connections that are open serve those that wait, so nobody waits for another dial.
            assert_eq!(call.await.unwrap().unwrap().0.as_secs(), took, "{most:?}");
        }
        queued += client.counts().total.queue.ended;
        assert_eq!(queued, 20 - expected as u64, "{most:?}");
        sleep(2 * SECOND).await;
        assert_eq!((dialer.most(), client.busy_connections()), (expected, 0), "{most:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_host_has_dials_of_its_own() {
    let dialer = Counting::new(SECOND);
    let client = Client::builder().dialer(dialer.clone()).limits(dials_max(2)).build();
    let calls = ["http://a/", "http://b/"].map(|url| [(); 5].map(|()| call_url(&client, url)));
    for call in calls.into_iter().flatten() {
        call.await.unwrap().unwrap();
    }
    assert_eq!(dialer.most(), 4);
    let dialer = Counting::new(SECOND);
    let proxies = Proxies::all(Proxy::new("p").unwrap());
    let client = Client::builder().dialer(dialer.clone()).proxies(proxies).limits(dials_max(2)).build();
    let calls = ["http://a/", "http://b/"].map(|url| [(); 5].map(|()| call_url(&client, url)));
    for call in calls.into_iter().flatten() {
        call.await.unwrap().unwrap();
    }
    assert_eq!(dialer.most(), 2, "the connections of both lead to the proxy");
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_dial_has_the_limit_of_the_queue() {
    let timeouts = ClientTimeouts { queue: 2 * SECOND, connect: 9 * SECOND, ..ClientTimeouts::default() };
    let dialer = Counting::new(Duration::MAX);
    let client = Client::builder().dialer(dialer.clone()).limits(dials_max(1)).timeouts(timeouts).build();
    let [first, second] = [(); 2].map(|()| call(&client));
    let late = Instant::now();
    let error = second.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "http://a/: waiting for one of the 1 dials to a:80 took longer than 2 s");
    assert_eq!((late.elapsed().as_secs(), error.phase()), (2, ClientPhase::Queue));
    let brief = client.with_timeout(SECOND);
    let error = ask(&brief, &get()).await.unwrap_err();
    let said = "http://a/: waiting for one of the 1 dials to a:80: the whole exchange took longer than 1 s";
    assert_eq!(error.to_string(), said);
    let pipeline = client.pipeline("http://a").unwrap().build();
    let error = pipeline.send(&Request::get("/").unwrap(), &mut Response::new()).await.unwrap_err();
    assert_eq!(error.phase(), ClientPhase::Queue);
    assert_eq!(first.await.unwrap().unwrap_err().phase(), ClientPhase::Connect);
    settle().await;
    assert_eq!((dialer.most(), client.busy_connections()), (1, 0));
    assert!(client.counts().total.queue.failed >= 3);
}

/// A place that is lost would leave a host unreachable.
#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_leaves_its_dial_to_the_next() {
    for dropped_after in [1, 500, 999, 1001] {
        let dialer = Counting::new(SECOND);
        let client = Client::builder().dialer(dialer.clone()).limits(dials_max(2)).build();
        let mut calls = JoinSet::new();
        for _ in 0..10 {
            let client = client.clone();
            calls.spawn(async move { ask(&client, &get()).await });
        }
        sleep(Duration::from_millis(dropped_after)).await;
        calls.abort_all();
        for _ in 0..10 {
            let client = client.clone();
            calls.spawn(async move { ask(&client, &get()).await });
        }
        while let Some(end) = calls.join_next().await {
            assert!(end.is_err() || end.unwrap().is_ok(), "{dropped_after}");
        }
        sleep(3 * SECOND).await;
        assert_eq!((dialer.most(), client.busy_connections()), (2, 0), "{dropped_after}");
    }
}
