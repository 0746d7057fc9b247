//! Which requests are sent once more beside an attempt that takes long, and the end of the attempt that loses.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{
    Attempt, Balancer, ClientPhase, EjectionCause, Retry, RetryBudget, RetryCause, RetryReport,
};
use corehttp::net::Dialer;
use corehttp::{Body, Client, ClientBuilder, ClientError, Method, Request, Response};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{OK, Peer, Stage, get};

const SECOND: Duration = Duration::from_secs(1);

/// It is safe and has content (RFC 10008 §2).
fn query() -> Request {
    let mut request = Request::new(Method::Query, "http://a/").unwrap();
    request.body.set_bytes("milk");
    request
}

fn with_body(fill: impl FnOnce(&mut Body)) -> Request {
    let mut request = Request::put("http://a/").unwrap();
    fill(&mut request.body);
    request
}

/// A server that answers within ten milliseconds, but for the requests with these numbers, which it never answers.
fn sometimes_silent(silent: &'static [usize]) -> Stage {
    let asked = Arc::<AtomicUsize>::default();
    Stage::new(move |mut peer, _| {
        let asked = asked.clone();
        async move {
            while peer.request().await?.is_some() {
                let number = asked.fetch_add(1, Ordering::Relaxed);
                if silent.contains(&number) {
                    return peer.receive_all().await;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
                peer.send(OK).await?;
            }
            Ok(())
        }
    })
}

/// How long a request takes after 32 others, and the causes of its attempts.
async fn hedged(client: &Client, request: &Request, before: usize) -> (Option<Duration>, Vec<RetryCause>) {
    let mut response = Response::new();
    for _ in 0..before {
        client.send(&get(), &mut response).await.unwrap();
        assert!(response.retries().is_empty());
    }
    let start = Instant::now();
    let sent = client.send(request, &mut response).await;
    let retries = match &sent {
        Ok(()) => response.retries(),
        Err(error) => error.retries(),
    };
    let causes = Vec::from_iter(retries.iter().map(|retry| retry.cause));
    assert_eq!(client.busy_connections(), 0);
    (sent.is_ok().then(|| start.elapsed()), causes)
}

#[tokio::test(start_paused = true)]
async fn a_safe_request_that_takes_long_is_hedged_once() {
    let hedge = || Retry::new().hedge_after_percentile(95);
    let put = with_body(|body| body.set_bytes("milk"));
    let budget = RetryBudget { percent: 0, per_second: 0 };
    let builder = |silent| sometimes_silent(silent).builder().timeout(5 * SECOND);
    for (name, client, request, before, is_hedged) in [
        ("the first request is slow", builder(&[32]).retry(hedge()).build(), get(), 32, true),
        ("both are", builder(&[32, 33]).retry(hedge()).build(), get(), 32, false),
        ("too few responses", builder(&[31]).retry(hedge()).build(), get(), 31, false),
        ("a query", builder(&[32]).retry(hedge()).build(), query(), 32, true),
        ("not safe", builder(&[32]).retry(hedge()).build(), put, 32, false),
        ("one attempt", builder(&[32]).retry(hedge().attempts_max(1)).build(), get(), 32, false),
        ("no budget", builder(&[32]).retry(hedge()).retry_budget(budget).build(), get(), 32, false),
        ("no hedge", builder(&[32]).retry(Retry::new()).build(), get(), 32, false),
    ] {
        let (took, causes) = hedged(&client, &request, before).await;
        assert_eq!(took.is_some(), is_hedged, "{name}");
        let counted = client.counts().total.retries_by_policy;
        assert_eq!(
            (causes.len() as u64, counted),
            if took.is_some() || name == "both are" { (1, 1) } else { (0, 0) },
            "{name}"
        );
        assert!(causes.iter().all(|cause| *cause == RetryCause::Slow), "{name}: {causes:?}");
        let is_quick = took.is_none_or(|took| took <= Duration::from_millis(40));
        assert!(is_quick, "{name}: {took:?}");
    }
}

/// The response of the second attempt is whole, and its connection is used again; that of the first one is closed.
#[tokio::test(start_paused = true)]
async fn the_loser_of_a_hedge_is_canceled() {
    let stage = sometimes_silent(&[32]);
    let client = stage.builder().retry(Retry::new().hedge_after_percentile(95)).build();
    hedged(&client, &get(), 32).await;
    assert_eq!((client.busy_connections(), client.idle_connections(), stage.dialed().len()), (0, 1, 2));
    let mut response = Response::new();
    client.with_retry(None).send(&get(), &mut response).await.unwrap();
    assert_eq!((response.text().unwrap(), response.timings().reused, stage.dialed().len()), ("ok", true, 2));
    let total = client.counts().total;
    assert_eq!((total.answered, total.canceled), (34, 1));
}

/// How a request is made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Sends,
    Streams,
    Opens,
    Upgrades,
}

const WAYS: [Way; 3] = [Way::Sends, Way::Streams, Way::Opens];

/// A response, and why the request for it was sent again.
type Reply = (String, Vec<RetryReport>);

async fn ask(client: &Client, way: Way, request: &Request) -> Result<Reply, ClientError> {
    let mut response = Response::new();
    let mut reader = match way {
        Way::Sends => {
            client.send(request, &mut response).await?;
            return Ok((response.text().unwrap().to_owned(), response.retries().to_vec()));
        }
        Way::Streams => client.open_response(request, &mut response).await?,
        Way::Opens => client.open_call(request).await?.finish(&mut response).await?,
        Way::Upgrades => {
            client.upgrade(request, &mut response).await?;
            return Ok((String::new(), response.retries().to_vec()));
        }
    };
    let mut body = String::new();
    reader.read_to_string(&mut body).await.unwrap();
    Ok((body, response.retries().to_vec()))
}

async fn ask_balancer(balancer: &Balancer, way: Way, request: &Request) -> Result<Reply, ClientError> {
    let mut response = Response::new();
    let mut reader = match way {
        Way::Sends => {
            balancer.send(request, &mut response).await?;
            return Ok((response.text().unwrap().to_owned(), response.retries().to_vec()));
        }
        Way::Streams => balancer.open_response(request, &mut response).await?,
        Way::Opens => balancer.open_call(request).await?.finish(&mut response).await?,
        Way::Upgrades => {
            balancer.upgrade(request, &mut response).await?;
            return Ok((String::new(), response.retries().to_vec()));
        }
    };
    let mut body = String::new();
    reader.read_to_string(&mut body).await.unwrap();
    Ok((body, response.retries().to_vec()))
}

fn upgrading(url: &str) -> Request {
    let mut request = Request::get(url).unwrap();
    request.headers.set("upgrade", "echo").unwrap();
    request
}

/// Behaviors of hosts whose names are these letters.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behavior {
    /// Answers after ten milliseconds, with its name.
    Well,
    /// Answers after 15 milliseconds.
    Warm,
    /// Answers after a second.
    Slow,
    /// Sends the head of its response after ten milliseconds, and the body after a second.
    SlowBody,
    /// Refuses after half a second.
    Refuses,
    /// Cannot be connected to.
    Unreachable,
    /// Closes without a response, after so many milliseconds.
    Closes(u64),
}

/// Hosts in memory that behave as they are told, and first take so long that later requests are hedged after 15
/// milliseconds.
#[derive(Clone)]
struct Hosts {
    behaviors: Arc<Mutex<[Behavior; 2]>>,
    stage: Stage,
    /// How many requests each has received.
    asked: Arc<[AtomicUsize; 2]>,
}

/// The names of the hosts.
const NAMES: [&str; 2] = ["a", "b"];

impl Hosts {
    fn new() -> Hosts {
        let asked = Arc::<[AtomicUsize; 2]>::default();
        let behaviors = Arc::new(Mutex::new([Behavior::Warm; 2]));
        let (counted, told) = (asked.clone(), behaviors.clone());
        let stage = Stage::new(move |peer, _| serve(peer, counted.clone(), told.clone()));
        Hosts { behaviors, stage, asked }
    }

    fn become_all(&self, behaviors: [Behavior; 2]) {
        *self.behaviors.lock().unwrap() = behaviors;
    }

    fn asked(&self) -> [usize; 2] {
        self.asked.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    fn builder(&self) -> ClientBuilder {
        Client::builder().dialer(self.clone())
    }
}

impl Dialer for Hosts {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        let at = NAMES.iter().position(|name| *name == host).unwrap();
        let behavior = self.behaviors.lock().unwrap()[at];
        match behavior {
            Behavior::Unreachable => return Err(io::ErrorKind::ConnectionRefused.into()),
            Behavior::Refuses => {}
            _ => return self.stage.dial(host, port).await,
        }
        sleep(SECOND / 2).await;
        Err(io::ErrorKind::ConnectionRefused.into())
    }
}

async fn serve(
    mut peer: Peer<DuplexStream>,
    asked: Arc<[AtomicUsize; 2]>,
    behaviors: Arc<Mutex<[Behavior; 2]>>,
) -> io::Result<()> {
    while let Some(request) = peer.request().await? {
        let at = NAMES.iter().position(|name| request.contains(&format!("host: {name}\r\n"))).unwrap();
        asked[at].fetch_add(1, Ordering::Relaxed);
        let behavior = behaviors.lock().unwrap()[at];
        let (before_head, before_body) = match behavior {
            Behavior::Well | Behavior::Refuses | Behavior::Unreachable => (10, 0),
            Behavior::Warm => (15, 0),
            Behavior::Slow => (1_000, 0),
            Behavior::SlowBody => (10, 1_000),
            Behavior::Closes(millis) => (millis, 0),
        };
        sleep(Duration::from_millis(before_head)).await;
        if let Behavior::Closes(_) = behavior {
            return Ok(());
        }
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n").await?;
        sleep(Duration::from_millis(before_body)).await;
        peer.send(NAMES[at]).await?;
    }
    Ok(())
}

fn hedging() -> Retry {
    Retry::new().hedge_after_percentile(95)
}

/// The head decides, however the response is read. Each attempt is numbered, and the loser leaves nothing.
#[tokio::test(start_paused = true)]
async fn each_way_to_send_is_hedged() {
    for way in WAYS {
        let hosts = Hosts::new();
        let numbers = Arc::<Mutex<Vec<u32>>>::default();
        let notes = numbers.clone();
        let note = move |attempt: &mut Attempt<'_>| {
            notes.lock().unwrap().push(attempt.number());
            Ok(())
        };
        let client = hosts.builder().retry(hedging()).wrap(note).build();
        for _ in 0..32 {
            ask(&client, way, &get()).await.unwrap();
        }
        hosts.become_all([Behavior::SlowBody; 2]);
        assert_eq!(ask(&client, way, &get()).await.unwrap(), ("a".to_owned(), vec![]), "{way:?}");
        hosts.become_all([Behavior::Slow; 2]);
        let (behaviors, start, request) = (hosts.clone(), Instant::now(), get());
        let recover = async move {
            sleep(Duration::from_millis(5)).await;
            behaviors.become_all([Behavior::Well; 2]);
        };
        let (asked, ()) = tokio::join!(ask(&client, way, &request), recover);
        let (body, retries) = asked.unwrap();
        assert_eq!((body.as_str(), retries.len(), retries[0].cause), ("a", 1, RetryCause::Slow), "{way:?}");
        assert!(start.elapsed() < Duration::from_millis(35), "{way:?}: {:?}", start.elapsed());
        assert_eq!(numbers.lock().unwrap()[32..], [1, 1, 2], "{way:?}");
        assert_eq!((client.busy_connections(), client.idle_connections()), (0, 1), "{way:?}");
        let total = client.counts().total;
        assert_eq!((total.answered, total.canceled, total.retries_by_policy), (34, 1, 1), "{way:?}");
    }
}

/// Another protocol would be spoken on two connections, and the caller may have begun to write a body.
#[tokio::test(start_paused = true)]
async fn upgrades_and_calls_with_a_body_are_not_hedged() {
    for (way, mut request) in [(Way::Upgrades, upgrading("http://a/")), (Way::Opens, get())] {
        let hosts = Hosts::new();
        let client = hosts.builder().retry(hedging()).build();
        let balancer = client.balance(["http://a", "http://b"]).unwrap().build();
        let path = Request::get("/").unwrap();
        for _ in 0..32 {
            ask(&client, Way::Sends, &get()).await.unwrap();
            ask_balancer(&balancer, Way::Sends, &path).await.unwrap();
        }
        hosts.become_all([Behavior::Slow; 2]);
        let before = hosts.asked().iter().sum::<usize>();
        if way == Way::Opens {
            request.headers.set("content-length", 2).unwrap();
            let mut call = client.open_call(&request).await.unwrap();
            sleep(SECOND).await;
            call.write_all(b"ok").await.unwrap();
            call.finish(&mut Response::new()).await.unwrap();
            let mut call = balancer.open_call(&request.forwarded_to("/").unwrap()).await.unwrap();
            call.write_all(b"ok").await.unwrap();
            call.finish(&mut Response::new()).await.unwrap();
        } else {
            ask(&client, way, &request).await.unwrap_err();
            ask_balancer(&balancer, way, &upgrading("/")).await.unwrap_err();
        }
        assert_eq!(hosts.asked().iter().sum::<usize>() - before, 2, "{way:?}");
        assert_eq!(client.counts().total.retries_by_policy, 0, "{way:?}");
    }
}

/// For each host of a balancer: served, failed, and pending.
fn counts(balancer: &Balancer) -> [(u64, u64, usize); 2] {
    let counts = balancer.counts();
    [0, 1].map(|at| (counts[at].served, counts[at].failed, counts[at].pending))
}

/// A balancer whose hosts have answered 32 requests, so that it is the turn of the first one.
async fn warmed(hosts: &Hosts, retry: Retry, budget: RetryBudget) -> (Client, Balancer) {
    let client = hosts.builder().retry(retry).retry_budget(budget).build();
    let balancer = client.balance(["http://a", "http://b"]).unwrap().penalty(Duration::ZERO).build();
    for _ in 0..32 {
        ask_balancer(&balancer, Way::Sends, &Request::get("/").unwrap()).await.unwrap();
    }
    assert_eq!(counts(&balancer), [(16, 0, 0); 2]);
    (client, balancer)
}

#[tokio::test(start_paused = true)]
async fn a_balancer_hedges_at_another_host() {
    use Behavior::{Closes, Refuses, Slow, SlowBody, Unreachable, Well};
    let (request, none) = (Request::get("/").unwrap(), RetryBudget { percent: 0, per_second: 0 });
    let (usual, one) = (RetryBudget::default(), hedging().attempts_max(1));
    let refused = ClientPhase::Wait;
    for way in WAYS {
        for (name, retry, budget, behaviors, expected, millis, ends) in [
            ("well", hedging(), usual, [Well, Well], Ok("a"), 10, [(1, 0), (0, 0)]),
            ("slow", hedging(), usual, [Slow, Well], Ok("b"), 25, [(0, 0), (1, 0)]),
            ("both slow", hedging(), usual, [Slow, Slow], Ok("a"), 1000, [(1, 0), (0, 0)]),
            ("dead", hedging(), usual, [Slow, Unreachable], Ok("a"), 1000, [(1, 0), (0, 1)]),
            ("refused later", hedging(), usual, [Slow, Refuses], Ok("a"), 1000, [(1, 0), (0, 1)]),
            ("closed", hedging(), usual, [Closes(20), Slow], Ok("b"), 1015, [(0, 1), (1, 0)]),
            ("both closed", hedging(), usual, [Closes(30), Closes(9)], Err(refused), 30, [(0, 1), (0, 1)]),
            ("a slow body", hedging(), usual, [SlowBody, Well], Ok("a"), 1010, [(1, 0), (0, 0)]),
            ("no budget", hedging(), none, [Slow, Well], Ok("a"), 1000, [(1, 0), (0, 0)]),
            ("one attempt", one.clone(), usual, [Slow, Well], Ok("a"), 1000, [(1, 0), (0, 0)]),
            ("no hedge", Retry::new(), usual, [Slow, Well], Ok("a"), 1000, [(1, 0), (0, 0)]),
        ] {
            let name = format!("{name}, {way:?}");
            let hosts = Hosts::new();
            let (client, balancer) = warmed(&hosts, retry, budget).await;
            hosts.become_all(behaviors);
            if behaviors[1] != Well {
                client.close_idle();
            }
            let (asked_before, start) = (hosts.asked(), Instant::now());
            let asked = ask_balancer(&balancer, way, &request).await;
            let took = start.elapsed().saturating_sub(Duration::from_millis(millis));
            assert!(
                took <= Duration::from_millis(4) && start.elapsed().as_millis() as u64 >= millis,
                "{name}: {:?}",
                start.elapsed()
            );
            let asked = asked.map(|(body, _)| body).map_err(|error| error.phase());
            assert_eq!(asked.as_deref(), expected.as_ref().map(|host| *host), "{name}");
            let ended = counts(&balancer).map(|(served, failed, pending)| (served - 16, failed, pending));
            assert_eq!(ended, ends.map(|(served, failed)| (served, failed, 0)), "{name}");
            assert_eq!(client.busy_connections(), 0, "{name}");
            let more = hosts.asked().iter().sum::<usize>() - asked_before.iter().sum::<usize>();
            let retried = client.counts().total.retries_by_policy;
            assert!(more <= 2 && retried <= 1, "{name}: {more}, {retried}");
        }
    }
}

/// A host that hangs once got its share of the requests for ever: none of them failed, since all were canceled.
#[tokio::test(start_paused = true)]
async fn a_host_whose_requests_others_answer_is_ejected() {
    use Behavior::{Slow, Well};
    let request = Request::get("/").unwrap();
    for way in WAYS {
        let hosts = Hosts::new();
        let (client, balancer) = warmed(&hosts, hedging(), RetryBudget::default()).await;
        // It has answered in between.
        for (behavior, requests) in [(Slow, 4), (Well, 2), (Slow, 4)] {
            hosts.become_all([behavior, Well]);
            for _ in 0..requests {
                ask_balancer(&balancer, way, &request).await.unwrap();
            }
            assert_eq!(balancer.counts()[0].ejected, None, "{way:?}");
        }
        ask_balancer(&balancer, way, &request).await.unwrap();
        assert_eq!(balancer.counts()[0].ejected, Some(EjectionCause::Hedges), "{way:?}");
        let asked = hosts.asked()[0];
        for _ in 0..10 {
            ask_balancer(&balancer, way, &request).await.unwrap();
        }
        assert_eq!((hosts.asked()[0], balancer.counts()[0].failed), (asked, 0), "{way:?}");
        assert_eq!(client.busy_connections(), 0, "{way:?}");
    }
}

/// A single host is asked over another connection.
#[tokio::test(start_paused = true)]
async fn a_balancer_of_one_host_hedges_there() {
    let stage = sometimes_silent(&[32]);
    let client = stage.builder().retry(hedging()).build();
    let balancer = client.balance(["http://a"]).unwrap().build();
    let request = Request::get("/").unwrap();
    for _ in 0..33 {
        ask_balancer(&balancer, Way::Sends, &request).await.unwrap();
    }
    let host = &balancer.counts()[0];
    assert_eq!((host.served, host.failed, host.pending), (33, 0, 0));
    assert_eq!((stage.dialed().len(), client.busy_connections(), client.idle_connections()), (2, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_cancels_both_attempts() {
    let hosts = Hosts::new();
    let (client, balancer) = warmed(&hosts, hedging(), RetryBudget::default()).await;
    hosts.become_all([Behavior::Slow; 2]);
    for way in WAYS {
        let (request, asked) = (Request::get("/").unwrap(), hosts.asked());
        {
            let mut sent = Box::pin(ask_balancer(&balancer, way, &request));
            assert!(timeout(SECOND / 10, sent.as_mut()).await.is_err());
            let pending = counts(&balancer).map(|(.., pending)| pending);
            assert_eq!(pending, [1, 1], "{way:?}");
        }
        assert_eq!(hosts.asked(), asked.map(|count| count + 1), "{way:?}");
        assert_eq!(counts(&balancer).map(|(.., pending)| pending), [0, 0], "{way:?}");
        assert_eq!(client.busy_connections(), 0, "{way:?}");
    }
}

/// A panic of the second attempt is the caller's, as that of the first one is.
#[tokio::test(start_paused = true)]
async fn a_hedge_that_panics_leaks_nothing() {
    let hosts = Hosts::new();
    let panics = |attempt: &mut Attempt<'_>| match attempt.number() {
        1 => Ok(()),
        number => panic!("attempt {number}"),
    };
    let client = hosts.builder().retry(hedging()).wrap(panics).build();
    let balancer = client.balance(["http://a", "http://b"]).unwrap().build();
    for _ in 0..32 {
        ask_balancer(&balancer, Way::Sends, &Request::get("/").unwrap()).await.unwrap();
    }
    hosts.become_all([Behavior::Slow; 2]);
    let asked = balancer.clone();
    let asked =
        tokio::spawn(
            async move { ask_balancer(&asked, Way::Sends, &Request::get("/").unwrap()).await.map(drop) },
        );
    assert!(asked.await.unwrap_err().is_panic());
    assert_eq!((client.busy_connections(), counts(&balancer).map(|host| host.2)), (0, [0, 0]));
}
