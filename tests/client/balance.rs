//! A balancer asks the healthy host that has the fewest requests to answer.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use corehttp::client::{
    Balancer, BalancerBuilder, BalancerChoice, ClientCause, ClientLimits, ClientPhase, ClientTimeouts,
    Ejection, EjectionCause, HealthCheck, HostChange, HostReport, PanicReport, Retry, RetryBudget,
};
use corehttp::error::ExchangeError;
use corehttp::net::Dialer;
use corehttp::{Client, ClientError, Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt, DuplexStream, ReadBuf, duplex};
use tokio::time::Instant;

use crate::support::{OK, Peer, Received, Stage, each, paused};

/// How a host behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behavior {
    /// Answers with this status, and with its name.
    Well(u16),
    /// Answers after so many seconds.
    Slow(u64),
    /// Cannot be connected to.
    Refusing,
    /// Cannot be connected to, which shows after so many seconds.
    Unreachable(u64),
    /// Closes before it receives anything.
    Gone,
    /// Closes when it has received a request.
    Closing,
    /// Answers with something that is not HTTP.
    Babbling,
    /// Says nothing.
    Silent,
}

use Behavior::{Babbling, Closing, Gone, Refusing, Silent, Slow, Unreachable, Well};

/// Hosts in memory, and what each was asked for.
#[derive(Clone, Default)]
struct Hosts {
    behaviors: Arc<Mutex<HashMap<String, Behavior>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Hosts {
    fn new(behaviors: &[(&str, Behavior)]) -> Hosts {
        let hosts = Hosts::default();
        behaviors.iter().for_each(|(host, behavior)| hosts.set(host, *behavior));
        hosts
    }

    fn set(&self, host: &str, behavior: Behavior) {
        self.behaviors.lock().unwrap().insert(host.to_owned(), behavior);
    }

    fn behavior(&self, host: &str) -> Behavior {
        self.behaviors.lock().unwrap()[host]
    }

    fn client(&self) -> Client {
        // One exchange for each connection, so that each sees the behavior of its time.
        let (wait, idle) = (Duration::from_secs(2), Duration::ZERO);
        let timeouts = ClientTimeouts { wait, idle, ..ClientTimeouts::default() };
        Client::builder().dialer(self.clone()).timeouts(timeouts).build()
    }

    /// A balancer over all of them, in the order of the alphabet.
    fn balance(&self) -> BalancerBuilder {
        let mut urls: Vec<String> =
            self.behaviors.lock().unwrap().keys().map(|host| format!("http://{host}")).collect();
        urls.sort();
        self.client().balance(urls).unwrap()
    }

    /// Which hosts were asked since the last call, in order; a check is marked with `?`.
    fn asked(&self) -> String {
        std::mem::take(&mut *self.asked.lock().unwrap()).join(" ")
    }
}

impl Dialer for Hosts {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, _port: u16) -> io::Result<DuplexStream> {
        if let behavior @ (Refusing | Unreachable(_)) = self.behavior(host) {
            self.asked.lock().unwrap().push(host.to_owned());
            if let Unreachable(after) = behavior {
                seconds(after).await;
            }
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(1 << 10);
        if self.behavior(host) == Gone {
            self.asked.lock().unwrap().push(host.to_owned());
            return Ok(near);
        }
        let (hosts, host) = (self.clone(), host.to_owned());
        tokio::spawn(async move { hosts.serve(Peer::new(far, Received::default()), host).await });
        Ok(near)
    }
}

impl Hosts {
    async fn serve(&self, mut peer: Peer<DuplexStream>, host: String) -> io::Result<()> {
        let Some(head) = peer.head().await? else { return Ok(()) };
        let is_check = head.starts_with("GET /health ");
        let asked = if is_check { format!("{host}?") } else { host.clone() };
        self.asked.lock().unwrap().push(asked);
        let status = match self.behavior(&host) {
            Well(status) => status,
            Slow(seconds) => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                200
            }
            Refusing | Unreachable(_) | Gone | Closing => return Ok(()),
            Babbling => return peer.send("220 mail.example ESMTP\r\n\r\n").await,
            Silent => std::future::pending().await,
        };
        let head = match status {
            101 => "HTTP/1.1 101 Said\r\nconnection: upgrade\r\nupgrade: own\r\n\r\n".to_owned(),
            _ => format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n\r\n", host.len()),
        };
        peer.send(head).await?;
        peer.send(host).await
    }
}

async fn ask(balancer: &Balancer) -> Result<String, ClientError> {
    let mut response = Response::new();
    balancer.send(&Request::get("/").unwrap(), &mut response).await?;
    Ok(response.body.text().unwrap().to_owned())
}

/// Who answers so many requests, one after the other; `-` is an error.
async fn responses(balancer: &Balancer, count: usize) -> String {
    let mut responses = Vec::new();
    for _ in 0..count {
        responses.push(ask(balancer).await.unwrap_or("-".to_owned()));
    }
    responses.join(" ")
}

/// Pending, served, failed and penalty of each host.
fn counts(balancer: &Balancer) -> Vec<(usize, u64, u64, usize)> {
    balancer.counts().iter().map(|host| (host.pending, host.served, host.failed, host.penalties)).collect()
}

const ALL_WELL: [(&str, Behavior); 3] = [("a", Well(200)), ("b", Well(200)), ("c", Well(200))];

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

/// A host that answers with an error at once is never busy.
#[test]
fn a_host_that_fails_fast_attracts_nothing() {
    for (status, shares) in [(500, 0..20), (507, 0..20), (501, 40..100), (404, 40..100)] {
        paused(async move {
            let hosts = Hosts::new(&[("a", Slow(1)), ("b", Slow(1)), ("c", Well(status))]);
            let balancer = hosts.balance().build();
            let mut callers = tokio::task::JoinSet::new();
            for _ in 0..4 {
                let balancer = balancer.clone();
                callers.spawn(async move {
                    for _ in 0..100 {
                        ask(&balancer).await.unwrap();
                    }
                });
            }
            callers.join_all().await;
            let asked = hosts.asked();
            let failed = asked.split(' ').filter(|host| *host == "c").count();
            let share = failed * 100 / asked.split(' ').count();
            assert!(shares.contains(&share), "{share}% of all get {status}");
        });
    }
}

#[test]
fn hosts_that_do_equally_well_are_asked_in_turn() {
    paused(async {
        let balancer = Hosts::new(&ALL_WELL).balance().build();
        assert_eq!(responses(&balancer, 7).await, "a b c a b c a");
        assert_eq!(counts(&balancer), [(0, 3, 0, 0), (0, 2, 0, 0), (0, 2, 0, 0)]);
    });
}

#[test]
fn a_busy_host_is_asked_less() {
    paused(async {
        let hosts = Hosts::new(&[("a", Slow(1)), ("b", Well(200)), ("c", Well(200))]);
        let balancer = hosts.balance().build();
        let slow = async {
            let slow = ask(&balancer);
            tokio::join!(slow, async {
                assert_eq!(responses(&balancer, 4).await, "b c b c");
                assert_eq!(counts(&balancer)[0], (1, 0, 0, 0));
            })
        };
        assert_eq!(slow.await.0.unwrap(), "a");
        assert_eq!(counts(&balancer)[0], (0, 1, 0, 0));
    });
}

/// However a host fails, it is asked less for a while; and then it is asked again.
#[test]
fn a_failure_counts_for_three_seconds() {
    for behavior in [Refusing, Closing, Babbling, Silent, Slow(9)] {
        paused(async move {
            let hosts = Hosts::new(&ALL_WELL);
            hosts.set("a", behavior);
            let balancer = hosts.balance().build();
            assert_eq!(responses(&balancer, 7).await, "- b c b c b c", "{behavior:?}");
            assert_eq!(counts(&balancer)[0], (0, 0, 1, 1), "{behavior:?}");
            hosts.set("a", Well(200));
            assert_eq!(responses(&balancer, 2).await, "b c", "{behavior:?}");
            seconds(3).await;
            assert_eq!(responses(&balancer, 1).await, "a", "{behavior:?}");
            assert_eq!(counts(&balancer)[0], (0, 1, 1, 0), "{behavior:?}");
        });
    }
}

#[test]
fn healthy_if_decides_what_a_failure_is() {
    let is_good = |status: u16| status < 500 || status == 501;
    for status in [200, 204, 301, 404, 429, 500, 501, 502, 503, 504] {
        paused(async move {
            let hosts = Hosts::new(&[("a", Well(status)), ("b", Well(200))]);
            let balancer = hosts.balance().build();
            let _ = responses(&balancer, 2).await;
            let cannot_work = [502, 503, 504].contains(&status);
            let expected =
                if cannot_work { (0, 0, 1, 1) } else { (0, 1, 0, usize::from([429, 500].contains(&status))) };
            assert_eq!(counts(&balancer)[0], expected, "{status}");
            let balancer = hosts
                .balance()
                .healthy_if(move |outcome| outcome.is_ok_and(|it| is_good(it.status.as_u16())))
                .penalty(Duration::from_secs(60))
                .build();
            let _ = responses(&balancer, 2).await;
            let penalties = usize::from(status == 429);
            let expected = if is_good(status) { (0, 1, 0, penalties) } else { (0, 0, 1, 1) };
            assert_eq!(counts(&balancer)[0], expected, "{status}");
            seconds(59).await;
            assert_eq!(counts(&balancer)[0], expected, "{status}");
            seconds(1).await;
            assert_eq!(counts(&balancer)[0].3, 0, "{status}");
        });
    }
}

/// A host that refuses at once is never busy, so it would get nearly all requests.
#[test]
fn a_host_that_cannot_work_gets_few_requests() {
    for behavior in [Well(502), Well(503), Well(504), Refusing, Closing] {
        for choice in [BalancerChoice::LeastPending, BalancerChoice::TwoRandom] {
            paused(async move {
                let hosts = Hosts::new(&[("a", behavior), ("b", Slow(1)), ("c", Slow(1))]);
                let balancer = hosts.balance().choice(choice).build();
                let mut clients = tokio::task::JoinSet::new();
                for _ in 0..30 {
                    let balancer = balancer.clone();
                    clients.spawn(async move {
                        for _ in 0..10 {
                            let _ = ask(&balancer).await;
                        }
                    });
                }
                clients.join_all().await;
                let asked = hosts.asked();
                let share = asked.matches('a').count();
                assert!(share <= 75, "{behavior:?} {choice:?}: {share} of 300");
            });
        }
    }
}

#[test]
fn failures_count_up_to_a_limit() {
    for most in [0, 1, 5] {
        paused(async move {
            let balancer = Hosts::new(&[("a", Refusing)]).balance().penalty_max(most).build();
            assert_eq!(responses(&balancer, 9).await, "- - - - - - - - -");
            assert_eq!(counts(&balancer), [(0, 0, 9, most)]);
        });
    }
}

/// The source of a body that cannot be read.
struct Broken;

impl AsyncRead for Broken {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::ErrorKind::NotFound.into()))
    }
}

#[test]
fn faults_of_the_caller_count_against_no_host() {
    paused(async {
        let hosts = Hosts::new(&[("a", Well(200))]);
        let balancer = hosts.balance().build();
        let mut response = Response::new();
        for url in ["http://a/", "http://b/", "https://a/"] {
            let error = balancer.send(&Request::get(url).unwrap(), &mut response).await.unwrap_err();
            assert!(matches!(error.cause(), ClientCause::Origin), "{url}: {error:#}");
        }
        let mut spent = Request::post("/").unwrap();
        spent.body.set_stream(&b"short"[..], Some(7));
        for _ in 0..2 {
            balancer.send(&spent, &mut response).await.unwrap_err();
        }
        let mut broken = Request::post("/").unwrap();
        broken.body.set_stream(Broken, None);
        let error = balancer.send(&broken, &mut response).await.unwrap_err();
        assert!(matches!(error.cause(), ClientCause::Exchange(ExchangeError::Source(_))), "{error:?}");
        assert_eq!(counts(&balancer), [(0, 0, 0, 0)]);
    });
}

#[test]
fn a_balancer_without_hosts_is_an_error() {
    paused(async {
        let hosts = Hosts::new(&[("a", Well(200))]);
        let none: [&str; 0] = [];
        let balancer = hosts.client().balance(none).unwrap().retry_other_hosts(true).build();
        for is_empty in [true, false, true] {
            match ask(&balancer).await {
                Ok(host) => assert!(!is_empty && host == "a"),
                Err(error) => {
                    assert!(is_empty && matches!(error.cause(), ClientCause::NoHost), "{error:#}");
                    assert_eq!((error.phase(), error.is_sent()), (ClientPhase::Prepare, false));
                }
            }
            if !balancer.remove("http://a") {
                assert!(balancer.add("http://a").unwrap());
            }
        }
    });
    for url in ["", "/", "a", "ftp://a", "http://", "http://a b"] {
        assert!(Client::new().balance(["http://a", url]).is_err(), "{url:?}");
        assert!(Client::new().balance(["http://a"]).unwrap().build().add(url).is_err(), "{url:?}");
        assert!(!Client::new().balance(["http://a"]).unwrap().build().remove(url), "{url:?}");
    }
    for path in ["", "http://a/health", "health"] {
        assert!(HealthCheck::get(path).is_err(), "{path:?}");
    }
}

#[test]
fn hosts_come_and_go() {
    paused(async {
        let hosts = Hosts::new(&[("a", Slow(1)), ("b", Well(200)), ("c", Well(200))]);
        let balancer = hosts.client().balance(["http://a", "http://a:80/x", "HTTP://A"]).unwrap().build();
        assert_eq!(balancer.counts().len(), 1, "one host is one, however it is spelled");
        let (slow, ()) = tokio::join!(ask(&balancer), async {
            tokio::task::yield_now().await;
            assert!(balancer.remove("http://A:80/") && !balancer.remove("http://a"));
            assert!(balancer.add("http://b").unwrap() && !balancer.add("http://b:80").unwrap());
            assert_eq!(responses(&balancer, 4).await, "b b b b");
        });
        assert_eq!(slow.unwrap(), "a", "what it was asked it answers");
        assert!(balancer.add("http://c").unwrap());
        assert_eq!(responses(&balancer, 4).await, "c b c b", "a host that comes late need not catch up");
    });
}

#[test]
fn another_host_is_asked_if_the_first_cannot_have_heard_the_request() {
    #[track_caller]
    fn check(behaviors: &[(&str, Behavior)], expected: &str, asked: &str) {
        paused(async {
            let hosts = Hosts::new(behaviors);
            let balancer = hosts.balance().retry_other_hosts(true).build();
            assert_eq!(responses(&balancer, 1).await, expected);
            assert_eq!(hosts.asked(), asked);
            let pending: usize = counts(&balancer).iter().map(|(pending, ..)| pending).sum();
            assert_eq!(pending, 0);
        });
    }
    check(&[("a", Refusing), ("b", Well(200))], "b", "a b");
    check(&[("a", Refusing), ("b", Refusing), ("c", Well(200))], "-", "a b");
    check(&[("a", Refusing)], "-", "a");
    check(&[("a", Gone), ("b", Well(200))], "b", "a b");
    for behavior in [Closing, Babbling, Silent] {
        check(&[("a", behavior), ("b", Well(200))], "-", "a");
    }
    check(&[("a", Well(503)), ("b", Well(200))], "a", "a");
    paused(async {
        let hosts = Hosts::new(&[("a", Refusing), ("b", Well(200))]);
        assert_eq!(responses(&hosts.balance().build(), 1).await, "-", "only if asked");
    });
    // There is nothing to ask another one with, and what the caller is told is why the first one failed.
    paused(async {
        let hosts = Hosts::new(&[("a", Gone), ("b", Well(200))]);
        let (balancer, mut streamed) =
            (hosts.balance().retry_other_hosts(true).build(), Request::post("/").unwrap());
        streamed.body.set_stream(&b"body"[..], Some(4));
        let error = balancer.send(&streamed, &mut Response::new()).await.unwrap_err();
        assert!(matches!(error.cause(), ClientCause::Exchange(ExchangeError::Io(_))), "{error:?}");
        assert_eq!((error.is_sent(), &*hosts.asked()), (false, "a"));
    });
}

/// A host must not lead its balancer elsewhere, whichever connections that uses.
#[cfg(feature = "proxy-protocol")]
#[test]
fn redirects_are_returned_through_another_client_as_well_rfc9110_15_4() {
    paused(async {
        let stage = Stage::always("HTTP/1.1 302 x\r\nlocation: http://b/x\r\ncontent-length: 0\r\n\r\n");
        let client = stage.client();
        let balancer = client.balance(["http://a"]).unwrap().build();
        let (request, mut response) = (Request::get("/").unwrap(), Response::new());
        for balancer in [balancer.through(&client), balancer] {
            balancer.send(&request, &mut response).await.unwrap();
            assert_eq!(response.status.as_u16(), 302);
            balancer.open_response(&request, &mut response).await.unwrap();
            assert_eq!(response.status.as_u16(), 302);
        }
        assert!(stage.dialed().iter().all(|host| host == "a:80"), "{:?}", stage.dialed());
    });
}

/// The second host has the time that the first one has left.
#[test]
fn the_limit_for_the_whole_exchange_is_that_of_all_hosts() {
    paused(async {
        let hosts = Hosts::new(&[("a", Unreachable(2)), ("b", Unreachable(2))]);
        let client = Client::builder().dialer(hosts.clone()).timeout(Duration::from_secs(3)).build();
        let balancer = || client.balance(["http://a", "http://b"]).unwrap();
        for (balancer, by) in [
            (balancer().retry_other_hosts(true).build(), "retry_other_hosts"),
            (balancer().retry(Retry::new()).build(), "a policy"),
        ] {
            let (mut request, mut response) = (Request::get("/").unwrap(), Response::new());
            request.headers.set("upgrade", "own").unwrap();
            for way in ["send", "open_response", "open_call", "upgrade"] {
                let began = Instant::now();
                let error = match way {
                    "send" => balancer.send(&request, &mut response).await.err(),
                    "open_response" => balancer.open_response(&request, &mut response).await.err(),
                    "open_call" => balancer.open_call(&request).await.err(),
                    _ => balancer.upgrade(&request, &mut response).await.err(),
                };
                let took = began.elapsed().as_secs();
                assert!(error.is_some_and(|error| error.is_timeout()) && took == 3, "{by}, {way}: {took} s");
            }
        }
    });
}

/// One that has gone and come back meanwhile must not pass for another.
#[test]
fn the_same_host_is_not_asked_again_even_if_it_is_new() {
    paused(async {
        let hosts = Hosts::new(&[("a", Unreachable(1)), ("b", Well(200))]);
        for url in ["http://b", "http://A:80"] {
            let balancer = hosts.client().balance(["http://a"]).unwrap().retry_other_hosts(true).build();
            let (told, ()) = tokio::join!(responses(&balancer, 1), async {
                tokio::task::yield_now().await;
                assert!(balancer.remove("http://a") && balancer.add(url).unwrap());
            });
            let expected = if url == "http://b" { ("b", "a b") } else { ("-", "a") };
            assert_eq!((&*told, &*hosts.asked()), expected, "{url}");
        }
    });
}

/// How the body of a request is written, and its response is read.
#[derive(Clone, Copy, Debug)]
enum Way {
    InTurn,
    AtOnce,
}

/// Writes `body` under this length, and reads the response, which names its host. Until then the request is pending.
async fn write(balancer: &Balancer, way: Way, length: usize, body: &[u8]) -> Result<String, ClientError> {
    let (mut request, mut response) = (Request::post("/").unwrap(), Response::new());
    request.headers.set("content-length", length).unwrap();
    let mut call = balancer.open_call(&request).await?;
    let pending = || -> usize { counts(balancer).iter().map(|(pending, ..)| pending).sum() };
    assert_eq!(pending(), 1);
    let mut output = Vec::new();
    match way {
        Way::InTurn => {
            call.write_all(body).await?;
            let mut received = call.finish(&mut response).await?;
            assert_eq!(pending(), 1);
            received.read_to_end(&mut output).await.unwrap();
            assert_eq!(pending(), 0);
        }
        Way::AtOnce => {
            let (mut writer, mut reader) = call.split();
            writer.write_all(body).await?;
            writer.finish().await?;
            reader.head(&mut response).await?;
            assert_eq!(pending(), 1);
            while let Some(chunk) = reader.chunk().await? {
                output.extend_from_slice(chunk);
                assert_eq!(pending(), 1);
            }
            assert_eq!(pending(), 0);
        }
    }
    Ok(String::from_utf8(output).unwrap())
}

#[test]
fn an_opened_request_is_counted_when_it_is_answered() {
    for way in [Way::InTurn, Way::AtOnce] {
        for (behavior, expected, noted) in [
            (Well(200), "a", (0, 1, 0, 0)),
            (Well(404), "a", (0, 1, 0, 0)),
            (Well(429), "a", (0, 1, 0, 1)),
            (Well(500), "a", (0, 0, 1, 1)),
            (Slow(1), "a", (0, 1, 0, 0)),
            (Slow(9), "-", (0, 0, 1, 1)),
            (Refusing, "-", (0, 0, 1, 1)),
            (Closing, "-", (0, 0, 1, 1)),
            (Babbling, "-", (0, 0, 1, 1)),
            (Silent, "-", (0, 0, 1, 1)),
        ] {
            paused(async move {
                let is_good = |status: u16| status < 500;
                let hosts = Hosts::new(&[("a", behavior)]).balance();
                let balancer =
                    hosts.healthy_if(move |it| it.is_ok_and(|it| is_good(it.status.as_u16()))).build();
                let received = write(&balancer, way, 3, b"abc").await.unwrap_or("-".to_owned());
                assert_eq!((&*received, counts(&balancer)[0]), (expected, noted), "{behavior:?} {way:?}");
            });
        }
        paused(async move {
            let hosts = Hosts::new(&[("a", Refusing), ("b", Well(200))]);
            let balancer = hosts.balance().retry_other_hosts(true).build();
            assert_eq!(write(&balancer, way, 3, b"abc").await.unwrap(), "b", "{way:?}");
            assert_eq!(counts(&balancer), [(0, 0, 1, 1), (0, 1, 0, 0)], "{way:?}");
        });
    }
}

#[test]
fn a_call_that_the_caller_ends_counts_against_no_host() {
    paused(async {
        let balancer = Hosts::new(&[("a", Silent)]).balance().build();
        for (length, body) in [(3, "ab"), (3, "abcd"), (1, "ab")] {
            for way in [Way::InTurn, Way::AtOnce] {
                write(&balancer, way, length, body.as_bytes()).await.unwrap_err();
                assert_eq!(counts(&balancer), [(0, 0, 0, 0)], "{body:?} of {length}, {way:?}");
            }
        }
        let mut request = Request::post("/").unwrap();
        drop(balancer.open_call(&request).await.unwrap());
        drop(balancer.open_call(&request).await.unwrap().split());
        let (mut writer, reader) = balancer.open_call(&request).await.unwrap().split();
        drop(reader);
        writer.flush().await.unwrap_err();
        assert_eq!(counts(&balancer), [(0, 0, 0, 0)], "nobody waits for the response");
        request.set_url("http://a/").unwrap();
        assert!(matches!(balancer.open_call(&request).await.unwrap_err().cause(), ClientCause::Origin));
        balancer.remove("http://a");
        request.set_url("/").unwrap();
        assert!(matches!(balancer.open_call(&request).await.unwrap_err().cause(), ClientCause::NoHost));
    });
}

#[test]
fn an_upgraded_connection_counts_until_it_is_dropped() {
    for (behavior, noted) in [
        (Well(200), (0, 1, 0, 0)),
        (Well(426), (0, 1, 0, 0)),
        (Well(500), (0, 0, 1, 1)),
        (Refusing, (0, 0, 1, 1)),
        (Closing, (0, 0, 1, 1)),
        (Babbling, (0, 0, 1, 1)),
        (Silent, (0, 0, 1, 1)),
    ] {
        paused(async move {
            let hosts = Hosts::new(&[("a", behavior), ("b", Well(101))]);
            let is_good = |response: &Response| response.status.as_u16() < 500;
            let balancer = hosts.balance().healthy_if(move |it| it.is_ok_and(is_good)).build();
            let (mut request, mut response) = (Request::get("/").unwrap(), Response::new());
            request.headers.set("upgrade", "own").unwrap();
            balancer.upgrade(&request, &mut response).await.unwrap_err();
            assert_eq!(counts(&balancer)[0], noted, "{behavior:?}");
            let mut tunnel = balancer.upgrade(&request, &mut response).await.unwrap();
            assert_eq!(tunnel.read_u8().await.unwrap(), b'b');
            assert_eq!(counts(&balancer)[1], (1, 1, 0, 0));
            drop(tunnel);
            assert_eq!(counts(&balancer)[1], (0, 1, 0, 0));
        });
    }
}

#[test]
fn a_streamed_response_counts_until_it_is_read() {
    for is_read in [true, false] {
        paused(async {
            let balancer = Hosts::new(&ALL_WELL[..1]).balance().build();
            let (request, mut response) = (Request::get("/").unwrap(), Response::new());
            let mut reader = balancer.open_response(&request, &mut response).await.unwrap();
            assert_eq!(counts(&balancer), [(1, 1, 0, 0)]);
            if is_read {
                assert_eq!(reader.chunk().await.unwrap(), Some(&b"a"[..]));
                assert_eq!(reader.chunk().await.unwrap(), None);
            } else {
                drop(reader);
            }
            assert_eq!(counts(&balancer), [(0, 1, 0, 0)], "{is_read}");
            let head = balancer.open_response(&Request::head("/").unwrap(), &mut response).await.unwrap();
            assert_eq!(counts(&balancer), [(0, 2, 0, 0)], "there is no body to wait for");
            drop(head);
        });
    }
    paused(async {
        let balancer =
            Hosts::new(&[("a", Refusing), ("b", Well(200))]).balance().retry_other_hosts(true).build();
        let mut response = Response::new();
        let mut reader = balancer.open_response(&Request::get("/").unwrap(), &mut response).await.unwrap();
        assert_eq!(reader.chunk().await.unwrap(), Some(&b"b"[..]));
        assert_eq!(counts(&balancer), [(0, 0, 1, 1), (1, 1, 0, 0)]);
    });
}

#[test]
fn a_cancelled_request_is_no_failure() {
    paused(async {
        let balancer = Hosts::new(&[("a", Slow(1))]).balance().build();
        let gone = tokio::time::timeout(Duration::from_millis(500), ask(&balancer)).await;
        assert!(gone.is_err());
        assert_eq!(counts(&balancer), [(0, 0, 0, 0)]);
    });
}

#[test]
fn of_two_random_hosts_the_less_busy_is_asked() {
    paused(async {
        let hosts = Hosts::new(&[("a", Well(200)), ("b", Slow(1)), ("c", Well(200))]);
        let balancer = hosts.balance().choice(BalancerChoice::TwoRandom).build();
        // First, requests until one waits for the slow host.
        let (mut waiting, mut others) = (tokio::task::JoinSet::new(), Vec::new());
        while balancer.counts()[1].pending == 0 {
            let balancer = balancer.clone();
            waiting.spawn(async move { ask(&balancer).await.unwrap() });
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for _ in 0..60 {
            others.push(ask(&balancer).await.unwrap());
        }
        for (host, is_asked) in [("a", true), ("b", false), ("c", true)] {
            assert_eq!(others.iter().any(|it| it == host), is_asked, "{host}");
        }
        assert!(waiting.join_all().await.contains(&"b".to_owned()));
    });
    for hosts in 1..=2 {
        paused(async {
            let balancer = Hosts::new(&ALL_WELL[..hosts]).balance().choice(BalancerChoice::TwoRandom).build();
            assert_eq!(responses(&balancer, 2).await, ["a a", "a b"][hosts - 1]);
        });
    }
}

#[test]
fn of_random_hosts_each_gets_its_share_by_weight() {
    paused(async {
        let balancer = Hosts::new(&ALL_WELL).balance().choice(BalancerChoice::TwoRandom).build();
        assert!(balancer.set_weight("http://c", 10));
        for _ in 0..300 {
            ask(&balancer).await.unwrap();
        }
        let served: Vec<u64> = balancer.counts().iter().map(|host| host.served).collect();
        // Of 12 parts, 10 are 250 requests.
        assert!((235..=265).contains(&served[2]), "{served:?}");
    });
}

/// Such as the one host of a canary, once it gets its full share.
#[test]
fn a_host_whose_weight_is_raised_has_its_share_at_once() {
    for choice in [BalancerChoice::LeastPending, BalancerChoice::RoundRobin] {
        paused(async {
            let balancer = Hosts::new(&ALL_WELL).balance().choice(choice).build();
            for host in ["http://a", "http://b"] {
                assert!(balancer.set_weight(host, 1000));
            }
            let served = async |requests: usize| {
                let before = balancer.counts()[2].served;
                for _ in 0..requests {
                    ask(&balancer).await.unwrap();
                }
                balancer.counts()[2].served - before
            };
            assert_eq!(served(600).await, 1, "{choice:?}");
            assert!(balancer.set_weight("http://c", 1000));
            assert_eq!(served(30).await, 10, "{choice:?}");
            assert!(balancer.set_weight("http://c", 1));
            assert_eq!(served(600).await, 0, "{choice:?}");
        });
    }
}

#[test]
fn a_host_that_fails_its_check_is_not_asked_while_there_are_others() {
    for behavior in [Refusing, Closing, Babbling, Silent, Well(503), Well(302), Well(404)] {
        paused(async {
            let hosts = Hosts::new(&ALL_WELL[..2]);
            let balancer = hosts.balance().health_check(each("/health", Duration::from_secs(1))).build();
            let is_up = || balancer.counts().iter().map(|host| host.down.is_none()).collect::<Vec<_>>();
            assert_eq!((responses(&balancer, 2).await.as_str(), is_up()), ("a b", vec![true, true]));
            hosts.set("a", behavior);
            seconds(3).await;
            assert_eq!(
                (responses(&balancer, 3).await.as_str(), is_up()),
                ("b b b", vec![false, true]),
                "{behavior:?}"
            );
            hosts.set("b", Well(500));
            seconds(3).await;
            assert_eq!(is_up(), [false, false]);
            hosts.set("a", Well(299));
            assert_ne!(responses(&balancer, 4).await, "b b b b", "if all are down all are asked");
            seconds(3).await;
            assert_eq!(
                (responses(&balancer, 2).await.as_str(), is_up()),
                ("a a", vec![true, false]),
                "{behavior:?}"
            );
            assert!(counts(&balancer).iter().all(|(_, _, failed, _)| *failed == 0), "a check is no request");
        });
    }
}

#[test]
fn checks_end_with_the_balancer_and_with_the_host() {
    paused(async {
        let hosts = Hosts::new(&ALL_WELL[..2]);
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let balancer = hosts.balance().health_check(each("/health", Duration::from_secs(1))).build();
        // The third one gives memory back.
        assert_eq!((responses(&balancer, 1).await.as_str(), tasks()), ("a", 3));
        // In between no check is due.
        tokio::time::sleep(Duration::from_millis(5_500)).await;
        let asked = hosts.asked();
        assert!(["a?", "b?"].iter().all(|check| (5..=6).contains(&asked.matches(check).count())), "{asked}");
        balancer.remove("http://b");
        tokio::task::yield_now().await;
        assert_eq!(tasks(), 2);
        seconds(5).await;
        assert!(!hosts.asked().contains('b'));
        drop(balancer);
        tokio::task::yield_now().await;
        assert_eq!(tasks(), 1);
        seconds(60).await;
        assert_eq!(tasks(), 0);
    });
}

/// A check of a host that was removed, or whose balancer is gone, must not go on until it fails.
#[test]
fn a_check_under_way_ends_with_the_balancer_and_with_the_host() {
    for is_removed in [true, false] {
        paused(async move {
            let (left, mut leaving) = tokio::sync::mpsc::unbounded_channel();
            let stage = Stage::new(move |mut peer, _| {
                let left = left.clone();
                async move {
                    // The check is the one that is not answered.
                    let response =
                        if peer.head().await?.unwrap().starts_with("GET /health ") { "" } else { OK };
                    peer.send(response).await?;
                    peer.receive_all().await?;
                    let _ = left.send(response);
                    Ok(())
                }
            });
            let timeouts = ClientTimeouts { idle: Duration::ZERO, ..ClientTimeouts::default() };
            let client = stage.builder().timeouts(timeouts).build();
            let balancer = client.balance(["http://a"]).unwrap();
            let balancer = balancer.health_check(each("/health", Duration::from_secs(20))).build();
            assert_eq!(ask(&balancer).await.unwrap(), "ok");
            assert_eq!(leaving.recv().await, Some(OK));
            seconds(1).await;
            let began = Instant::now();
            match is_removed {
                true => assert!(balancer.remove("http://a")),
                false => drop(balancer),
            }
            assert_eq!((leaving.recv().await, began.elapsed()), (Some(""), Duration::ZERO), "{is_removed}");
        });
    }
}

/// A request under way keeps its host for as long as it takes, which may be days.
#[test]
fn a_removed_host_is_checked_no_more_though_it_has_yet_to_answer() {
    paused(async {
        let stage = Stage::new(async |mut peer, _| {
            while let Some(request) = peer.request().await? {
                if !request.contains("/health") {
                    seconds(20).await;
                }
                peer.send(OK).await?;
            }
            Ok(())
        });
        let balancer = stage.client().balance(["http://a"]).unwrap();
        let balancer = balancer.health_check(each("/health", Duration::from_secs(2))).build();
        let asked = tokio::spawn({
            let balancer = balancer.clone();
            async move { ask(&balancer).await.unwrap() }
        });
        seconds(9).await;
        assert!(stage.received().len() > 1 && balancer.remove("http://a"));
        seconds(9).await;
        assert!(stage.received().is_empty() && !asked.is_finished());
        assert_eq!(asked.await.unwrap(), "ok");
    });
}

/// The check has no connection to ask over, which says nothing about the host. It must not be taken for down.
#[test]
fn a_host_whose_connections_are_all_in_use_is_not_down() {
    paused(async {
        let stage = Stage::new(async |mut peer, _| {
            while let Some(head) = peer.head().await? {
                if !head.contains("/health") {
                    seconds(20).await;
                }
                peer.send(OK).await?;
            }
            Ok(())
        });
        let client = stage
            .builder()
            .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
            .build();
        let balancer = client.balance(["http://a"]).unwrap();
        let balancer = balancer.health_check(each("/health", Duration::from_secs(2))).build();
        let asked = tokio::spawn({
            let balancer = balancer.clone();
            async move { ask(&balancer).await.unwrap() }
        });
        for _ in 0..9 {
            seconds(2).await;
            assert!(balancer.counts()[0].down.is_none() && !asked.is_finished());
        }
        assert_eq!(asked.await.unwrap(), "ok");
    });
}

/// The runtime with the checks ends; the next request in another one starts them there.
#[test]
fn a_balancer_outlives_its_runtime() {
    let hosts = Hosts::new(&ALL_WELL[..1]);
    let balancer = hosts.balance().health_check(each("/health", Duration::from_secs(1))).build();
    for _ in 0..2 {
        paused(async {
            assert_eq!(responses(&balancer, 1).await, "a");
            hosts.asked();
            seconds(3).await;
            assert!(hosts.asked().contains("a?"));
        });
    }
}

/// Notes the changes of hosts, in their order.
fn changes() -> (impl Fn(&HostReport<'_>) + Send + Sync + 'static, impl Fn() -> String) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let note = move |report: &HostReport<'_>| {
        let host = report.origin.trim_start_matches("http://");
        noted.lock().unwrap().push(match report.change {
            HostChange::Ejected(cause, time) => {
                format!("{host} ejected for {} s by {cause:?}", time.as_secs())
            }
            change => format!("{host} {change:?}"),
        });
    };
    (note, move || std::mem::take(&mut *seen.lock().unwrap()).join(", "))
}

/// Why the first host is ejected, and how often it was.
fn ejected(balancer: &Balancer) -> (Option<EjectionCause>, u64) {
    let first = &balancer.counts()[0];
    (first.ejected, first.ejections)
}

#[test]
fn a_host_that_fails_is_ejected_and_comes_back_after_a_trial() {
    for behavior in [Well(502), Well(503), Well(504), Refusing, Closing, Babbling] {
        paused(async move {
            let hosts = Hosts::new(&ALL_WELL[..2]);
            let (note, seen) = changes();
            let ejection = Ejection::new().time(Duration::from_secs(30), Duration::from_secs(100));
            let builder = hosts.balance().penalty_max(0).ejection(ejection).on_change(note);
            let balancer = builder.on_change(|_| panic!("a panic is ignored")).build();
            hosts.set("a", behavior);
            let _ = responses(&balancer, 9).await;
            assert_eq!(seen(), "a ejected for 30 s by Failures", "{behavior:?}");
            assert_eq!(responses(&balancer, 20).await, ["b"; 20].join(" "), "{behavior:?}");
            assert_eq!(ejected(&balancer), (Some(EjectionCause::Failures), 1));
            // One trial, which fails.
            seconds(30).await;
            hosts.asked();
            let _ = responses(&balancer, 20).await;
            assert_eq!(hosts.asked().matches('a').count(), 1, "{behavior:?}");
            assert_eq!(seen(), "a OnTrial, a ejected for 60 s by Trial", "{behavior:?}");
            hosts.set("a", Well(200));
            seconds(59).await;
            assert_eq!(responses(&balancer, 4).await, "b b b b");
            seconds(1).await;
            assert_eq!(responses(&balancer, 20).await.matches('a').count(), 10, "{behavior:?}");
            assert_eq!(seen(), "a OnTrial, a Returned", "{behavior:?}");
            assert_eq!(ejected(&balancer), (None, 2));
        });
    }
}

/// The function that is called for each change may use the balancer.
#[test]
fn a_host_that_is_ejected_may_be_removed_at_once() {
    paused(async {
        let hosts = Hosts::new(&[("a", Well(503)), ("b", Well(200))]);
        let shared = Arc::new(std::sync::OnceLock::<Balancer>::new());
        let known = shared.clone();
        let remove = move |report: &HostReport<'_>| assert!(known.get().unwrap().remove(report.origin));
        let balancer = hosts.balance().penalty_max(0).on_change(remove).build();
        shared.set(balancer.clone()).unwrap();
        let _ = responses(&balancer, 10).await;
        assert_eq!(balancer.counts().len(), 1);
    });
}

/// Outcomes that say nothing about the host eject none; and without the policy, nothing does.
#[test]
fn hosts_that_answer_are_not_ejected() {
    for (behavior, ejection) in [
        (Well(200), Some(Ejection::new())),
        (Well(404), Some(Ejection::new())),
        (Well(500), Some(Ejection::new())),
        (Well(503), Some(Ejection::new().failures(0))),
        (Well(503), None),
    ] {
        paused(async move {
            let hosts = Hosts::new(&[("a", behavior), ("b", Well(200))]);
            let (note, seen) = changes();
            let balancer = hosts.balance().penalty_max(0).ejection(ejection).on_change(note).build();
            let _ = responses(&balancer, 100).await;
            assert_eq!((seen().as_str(), hosts.asked().matches('a').count()), ("", 50), "{behavior:?}");
        });
    }
}

/// A fault that all hosts share must not take all of them out.
#[test]
fn no_more_than_a_part_of_the_hosts_is_ejected_at_once() {
    for (percent, expected) in [(0, 0), (24, 0), (25, 1), (50, 2), (99, 3), (100, 4), (255, 4)] {
        paused(async move {
            let hosts = Hosts::new(&["a", "b", "c", "d"].map(|host| (host, Refusing)));
            let balancer =
                hosts.balance().penalty_max(0).ejection(Ejection::new().percent_max(percent)).build();
            let _ = responses(&balancer, 100).await;
            let ejected = balancer.counts().iter().filter(|host| host.ejected.is_some()).count();
            assert_eq!(ejected, expected, "{percent}");
        });
    }
}

/// A request on a connection of a host that dies may have been sent, and a policy once had no other host asked then.
#[test]
fn a_host_that_dies_between_two_requests_costs_none_rfc9110_9_2_2() {
    paused(async {
        let hosts = Hosts::new(&ALL_WELL);
        let balancer = hosts.balance().retry(Retry::new()).build();
        assert_eq!(responses(&balancer, 3).await, "a b c");
        hosts.set("a", Refusing);
        let answers = responses(&balancer, 4).await;
        assert!(!answers.contains(['-', 'a']), "{answers}");
        assert_eq!(balancer.counts()[0].failed, 1);
    });
}

/// A backup once got no request while one of two dead hosts could not be ejected, by default, for the sake of the share.
#[test]
fn a_backup_that_can_be_used_lets_all_others_be_ejected() {
    for (percent, backup, expected) in
        [(50, Well(200), 2), (1, Well(200), 2), (0, Well(200), 0), (50, Refusing, 2)]
    {
        paused(async move {
            let hosts = Hosts::new(&[("a", Refusing), ("b", Refusing), ("c", backup)]);
            let builder =
                hosts.client().balance(["http://a", "http://b"]).unwrap().backup("http://c").unwrap();
            let balancer = builder.penalty_max(0).ejection(Ejection::new().percent_max(percent)).build();
            let _ = responses(&balancer, 100).await;
            let ejected = balancer.counts().iter().filter(|host| host.ejected.is_some()).count();
            assert_eq!(ejected, expected, "{percent} {backup:?}");
        });
    }
}

/// One in five requests of a host fails, which never fails five times in a row for long.
#[test]
fn a_host_that_fails_more_than_the_others_is_ejected() {
    paused(async {
        let names = ["a", "b", "c", "d", "e", "f"];
        let hosts = Hosts::new(&names.map(|host| (host, Well(200))));
        let (note, seen) = changes();
        let ejection = Ejection::new().failures(0).compared_from(20);
        let balancer = hosts.balance().penalty_max(0).ejection(ejection).on_change(note).build();
        for round in 0..400 {
            hosts.set("a", if round % 5 == 0 { Well(503) } else { Well(200) });
            let _ = responses(&balancer, 6).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            let seen = seen();
            if !seen.is_empty() {
                return assert_eq!(seen, "a ejected for 30 s by SuccessRate");
            }
        }
        panic!("it was never ejected");
    });
}

/// The failures for which a host was ejected once ejected it again when another one had failed, however well it did.
#[test]
fn a_host_that_is_back_is_compared_by_what_it_does_since() {
    paused(async {
        let hosts = Hosts::new(&["a", "b", "c", "d", "e"].map(|host| (host, Well(200))));
        let (note, seen) = changes();
        let ejection = Ejection::new().compared_from(20);
        let balancer = hosts.balance().penalty_max(0).ejection(ejection).on_change(note).build();
        // The window begins with a failure, and half of the requests of `a` fail in it.
        for round in 0..20 {
            let is_failing = round == 0 || round % 2 == 1 || round > 15;
            hosts.set("a", if is_failing { Well(503) } else { Well(200) });
            let _ = responses(&balancer, 5).await;
        }
        assert_eq!(seen(), "a ejected for 30 s by Failures");
        hosts.set("a", Well(200));
        seconds(30).await;
        let _ = responses(&balancer, 100).await;
        assert_eq!(seen(), "a OnTrial, a Returned");
        hosts.set("b", Well(503));
        let _ = responses(&balancer, 5).await;
        assert_eq!(seen(), "");
    });
}

/// A host that is out of use gets no trial. Its ejection once kept others from being ejected for as long as it lasted.
#[test]
fn a_host_without_requests_keeps_no_other_from_being_ejected() {
    for is_backup in [true, false] {
        paused(async move {
            let hosts = Hosts::new(&ALL_WELL);
            let (note, seen) = changes();
            let mut builder = hosts.client().balance(["http://a", "http://b"]).unwrap();
            builder = if is_backup {
                builder.backup("http://c").unwrap()
            } else {
                builder.weighted("http://c", 1).unwrap()
            };
            let builder = builder.penalty_max(0).ejection(Ejection::new().failures(1).percent_max(34));
            let balancer = builder.on_change(note).build();
            hosts.set("c", Well(503));
            if is_backup {
                assert!(balancer.set_weight("http://a", 0) && balancer.set_weight("http://b", 0));
            }
            let _ = responses(&balancer, 3).await;
            let weights = if is_backup { [1, 1, 1] } else { [1, 1, 0] };
            for (host, weight) in std::iter::zip(["http://a", "http://b", "http://c"], weights) {
                assert!(balancer.set_weight(host, weight));
            }
            if !is_backup {
                assert!(balancer.add("http://d").unwrap());
                hosts.set("d", Well(200));
            }
            seconds(30).await;
            seen();
            hosts.set("a", Well(503));
            let _ = responses(&balancer, 6).await;
            assert_eq!(seen(), "a ejected for 30 s by Failures", "{is_backup}");
        });
    }
}

/// The request that a policy does not send again once took the trial of a host, which stayed out for another second.
#[test]
fn a_retry_that_is_not_made_takes_no_trial() {
    paused(async {
        let hosts = Hosts::new(&[("a", Well(503)), ("b", Well(200))]);
        let (note, seen) = changes();
        let budget = RetryBudget { percent: 0, per_second: 0 };
        let client = Client::builder().dialer(hosts.clone()).retry(Retry::new()).retry_budget(budget).build();
        let ejection = Ejection::new().failures(2).time(Duration::from_secs(10), Duration::from_secs(10));
        let builder = client.balance(["http://a", "http://b"]).unwrap().ejection(ejection).on_change(note);
        let balancer = builder.penalty_max(0).build();
        let _ = responses(&balancer, 3).await;
        assert_eq!(seen(), "a ejected for 10 s by Failures");
        // `b` answers late that it cannot, when the time of `a` is over.
        hosts.set("b", Unreachable(11));
        let (_, ()) = tokio::join!(ask(&balancer), async {
            seconds(10).await;
            hosts.set("a", Well(200));
        });
        assert_eq!(seen(), "");
        assert_eq!((responses(&balancer, 1).await, seen()), ("a".into(), "a OnTrial, a Returned".into()));
    });
}

/// A retry once took the trial of a host before its wait, and the host stayed out meanwhile.
#[test]
fn a_retry_that_waits_is_no_trial_yet() {
    paused(async {
        let hosts = Hosts::new(&[("a", Well(503)), ("b", Well(200))]);
        let (note, seen) = changes();
        let wait = Duration::from_secs(100_000);
        let client = Client::builder().dialer(hosts.clone()).retry(Retry::new().backoff(wait, wait)).build();
        let ejection = Ejection::new().failures(2).time(Duration::from_secs(10), Duration::from_secs(10));
        let balancer = client
            .balance(["http://a", "http://b"])
            .unwrap()
            .ejection(ejection)
            .on_change(note)
            .penalty_max(0)
            .build();
        let _ = responses(&balancer, 3).await;
        assert_eq!(seen(), "a ejected for 10 s by Failures");
        hosts.set("b", Unreachable(11));
        let waiting = tokio::spawn({
            let balancer = balancer.clone();
            async move { responses(&balancer, 1).await }
        });
        seconds(9).await;
        hosts.set("a", Well(200));
        seconds(3).await;
        assert!(balancer.set_weight("http://b", 0) && seen().is_empty());
        assert_eq!((responses(&balancer, 1).await, seen()), ("a".into(), "a OnTrial, a Returned".into()));
        assert_eq!(waiting.await.unwrap(), "a");
    });
}

/// A retry goes to the host that was chosen for it, unless that is removed or ejected while it waits.
#[test]
fn a_retry_that_waits_goes_to_no_host_that_is_gone() {
    paused(async {
        let hosts = Hosts::new(&[("a", Refusing), ("b", Well(200)), ("c", Well(200))]);
        let wait = Duration::from_secs(100_000);
        let client = Client::builder().dialer(hosts.clone()).retry(Retry::new().backoff(wait, wait)).build();
        let balancer = client.balance(["http://a", "http://b", "http://c"]).unwrap().build();
        let removed = async {
            seconds(1).await;
            assert_eq!(counts(&balancer)[1].0, 1, "it waits for `b`");
            assert!(balancer.remove("http://b"));
        };
        let (response, ()) = tokio::join!(ask(&balancer), removed);
        assert_eq!((response.unwrap().as_str(), hosts.asked().as_str()), ("c", "a c"));
    });
}

#[test]
fn a_weight_is_a_share_of_the_requests() {
    for choice in [BalancerChoice::LeastPending, BalancerChoice::RoundRobin] {
        paused(async move {
            let hosts = Hosts::new(&ALL_WELL[..2]);
            let balancer = hosts.client().balance(["http://a"]).unwrap().weighted("http://b", 3).unwrap();
            let balancer = balancer.choice(choice).build();
            assert_eq!(responses(&balancer, 40).await.matches('b').count(), 30, "{choice:?}");
            assert!(balancer.set_weight("http://b", 1) && !balancer.set_weight("http://c", 1));
            assert_eq!(responses(&balancer, 40).await.matches('b').count(), 20, "{choice:?}");
            // Drained, even if the other one is gone.
            assert!(balancer.set_weight("http://b", 0));
            assert_eq!(responses(&balancer, 4).await, "a a a a", "{choice:?}");
            balancer.remove("http://a");
            let error = ask(&balancer).await.unwrap_err();
            assert!(matches!(error.cause(), ClientCause::NoHost), "{error:?}");
            assert!(balancer.set_weight("http://b", u32::MAX));
            assert_eq!((responses(&balancer, 1).await.as_str(), balancer.counts()[0].weight), ("b", 1_000));
        });
    }
}

/// The shares hold for pending requests as well.
#[test]
fn a_weight_is_a_share_of_the_load() {
    paused(async {
        let hosts = Hosts::new(&[("a", Slow(10)), ("b", Slow(10))]);
        let balancer = hosts.client().balance(["http://a"]).unwrap().weighted("http://b", 3).unwrap().build();
        for _ in 0..40 {
            let balancer = balancer.clone();
            tokio::spawn(async move { drop(ask(&balancer).await) });
        }
        seconds(1).await;
        assert_eq!(counts(&balancer).iter().map(|host| host.0).collect::<Vec<_>>(), [10, 30]);
    });
}

#[test]
fn a_backup_is_asked_only_while_no_other_host_can_be() {
    paused(async {
        let hosts = Hosts::new(&ALL_WELL[..3]);
        let builder = hosts.client().balance(["http://a", "http://b"]).unwrap().backup("http://c").unwrap();
        let ejection = Ejection::new().percent_max(100).failures(1);
        let balancer = builder.penalty_max(0).ejection(ejection).build();
        assert_eq!(responses(&balancer, 4).await, "a b a b");
        hosts.set("a", Well(503));
        let _ = responses(&balancer, 2).await;
        assert_eq!(responses(&balancer, 4).await, "b b b b");
        hosts.set("b", Refusing);
        let _ = responses(&balancer, 1).await;
        assert_eq!(responses(&balancer, 4).await, "c c c c");
        hosts.set("c", Refusing);
        let _ = responses(&balancer, 1).await;
        hosts.asked();
        let _ = responses(&balancer, 3).await;
        assert!(["a", "b", "c"].iter().all(|host| hosts.asked.lock().unwrap().contains(&host.to_string())));
    });
}

#[test]
fn a_host_that_is_back_starts_slowly() {
    paused(async {
        let hosts = Hosts::new(&ALL_WELL[..2]);
        let ejection = Ejection::new().failures(1).time(Duration::from_secs(10), Duration::from_secs(10));
        let builder = hosts.balance().penalty_max(0).slow_start(Duration::from_secs(100));
        let balancer = builder.ejection(ejection).build();
        hosts.set("a", Well(503));
        let _ = responses(&balancer, 2).await;
        hosts.set("a", Well(200));
        seconds(10).await;
        let mut shares = Vec::new();
        for _ in 0..5 {
            shares.push(responses(&balancer, 100).await.matches('a').count());
            seconds(25).await;
        }
        assert!(shares[0] <= 15 && shares.is_sorted() && shares[4] == 50, "{shares:?}");
    });
}

#[test]
fn with_too_few_fit_hosts_all_are_asked() {
    for (percent, is_asked) in [(0, false), (50, false), (51, true), (100, true)] {
        paused(async move {
            let hosts = Hosts::new(&ALL_WELL[..2]);
            let balancer = hosts.balance().health_check(each("/health", Duration::from_secs(1)));
            let balancer = balancer.panic_below(percent).penalty_max(0).build();
            hosts.set("a", Well(500));
            let _ = responses(&balancer, 1).await;
            seconds(3).await;
            hosts.asked();
            let _ = responses(&balancer, 10).await;
            assert_eq!(hosts.asked().split(' ').any(|host| host == "a"), is_asked, "{percent}");
        });
    }
}

/// It is reported once when it begins and once when it ends, by a threshold or because no host is fit at all.
#[test]
fn the_use_of_all_hosts_is_reported() {
    for (percent, began, ended) in [(0, "Began 0 of 3", "Ended 1 of 3"), (60, "Began 1 of 3", "Ended 2 of 3")]
    {
        paused(async move {
            let hosts = Hosts::new(&ALL_WELL);
            let seen = Arc::new(Mutex::new(Vec::new()));
            let noted = seen.clone();
            let note = move |report: &PanicReport| {
                noted.lock().unwrap().push(format!("{:?} {} of {}", report.change, report.fit, report.hosts));
            };
            let builder = hosts.balance().health_check(each("/health", Duration::from_secs(1)));
            let builder = builder.panic_below(percent).penalty_max(0).ejection(None);
            let balancer = builder.on_panic(|_| panic!("a panic is ignored")).on_panic(note).build();
            let mut reports = Vec::new();
            for (host, behavior) in [
                ("a", Well(200)),
                ("a", Well(500)),
                ("b", Well(500)),
                ("c", Well(500)),
                ("a", Well(200)),
                ("b", Well(200)),
                ("c", Well(200)),
            ] {
                hosts.set(host, behavior);
                let _ = responses(&balancer, 1).await;
                seconds(3).await;
                let _ = responses(&balancer, 9).await;
                reports.append(&mut seen.lock().unwrap());
            }
            assert_eq!(reports, [began, ended], "{percent}");
        });
    }
}

#[test]
fn a_key_leads_to_the_same_host_until_that_has_too_much() {
    fn key(request: &Request) -> Option<&[u8]> {
        request.headers.get_bytes("x-key")
    }
    paused(async {
        let names = ["a", "b", "c", "d"];
        let hosts = Hosts::new(&names.map(|host| (host, Well(200))));
        let balancer = hosts.balance().key_by(key).build();
        let host_of = async |key: &str| {
            let mut request = Request::get("/").unwrap();
            let mut response = Response::new();
            request.headers.set("x-key", key).unwrap();
            balancer.send(&request, &mut response).await.unwrap();
            response.body.text().unwrap().to_owned()
        };
        let keys: Vec<_> = (0..40).map(|number| number.to_string()).chain(["x".repeat(1 << 10)]).collect();
        let mut before = Vec::new();
        for key in &keys {
            let host = host_of(key).await;
            assert_eq!(host, host_of(key).await);
            before.push(host);
        }
        assert!(names.iter().all(|name| before.iter().any(|host| host == name)), "{before:?}");
        balancer.remove("http://b");
        for (key, before) in keys.iter().zip(&before) {
            let after = host_of(key).await;
            assert!(after == *before || before == "b", "{before} {after}");
        }
        // One key for all: each host gets at most a quarter more than its share.
        for host in ["a", "c", "d"] {
            hosts.set(host, Slow(10));
        }
        for _ in 0..60 {
            let balancer = balancer.clone();
            tokio::spawn(async move {
                let mut request = Request::get("/").unwrap();
                request.headers.set("x-key", "popular").unwrap();
                let _ = balancer.send(&request, &mut Response::new()).await;
            });
        }
        seconds(1).await;
        let pending: Vec<_> = balancer.counts().iter().map(|host| host.pending).collect();
        assert!(
            pending.iter().sum::<usize>() == 60 && pending.iter().all(|count| *count <= 26),
            "{pending:?}"
        );
    });
}

/// A third of the hosts is dead, refuses at once or is ten times slower: callers hardly see it.
#[test]
fn most_requests_succeed_with_a_third_of_the_hosts_out_of_order() {
    for behavior in [Refusing, Well(503), Closing, Unreachable(1), Slow(10)] {
        paused(async move {
            let names: Vec<_> = (0..20).map(|number| format!("h{number:02}")).collect();
            let behaviors: Vec<_> = names
                .iter()
                .enumerate()
                .map(|(at, name)| (name.as_str(), if at < 6 { behavior } else { Slow(1) }))
                .collect();
            let hosts = Hosts::new(&behaviors);
            let balancer = hosts.balance().build();
            let mut clients = tokio::task::JoinSet::new();
            for _ in 0..40 {
                let balancer = balancer.clone();
                clients.spawn(async move {
                    let mut served = 0;
                    for _ in 0..100 {
                        served += usize::from(ask(&balancer).await.is_ok_and(|host| !host.is_empty()));
                    }
                    served
                });
            }
            let served: usize = clients.join_all().await.into_iter().sum();
            let failed: u64 = balancer.counts().iter().map(|host| host.failed).sum();
            assert!(failed <= 200, "{behavior:?}: {failed} of 4000 failed, {served} were answered");
        });
    }
}

#[test]
fn a_single_request_has_limits_of_its_own() {
    paused(async {
        let hosts = Hosts::new(&[("a", Slow(1)), ("b", Slow(1))]);
        let balancer = hosts.balance().build();
        let brief = Duration::from_millis(100);
        let short_wait = ClientTimeouts { wait: brief, ..ClientTimeouts::default() };
        let (request, mut response) = (Request::get("/").unwrap(), Response::new());
        for (limited, expected) in [
            (balancer.with_timeout(brief), "the whole exchange took longer than 100 ms"),
            (balancer.with_timeouts(short_wait), "took longer than 100 ms"),
        ] {
            let start = Instant::now();
            let error = limited.send(&request, &mut response).await.unwrap_err();
            let text = format!("{error:#}");
            assert!(text.contains(expected) && start.elapsed() < 2 * brief, "{text}");
            limited
                .with_timeouts(ClientTimeouts::default())
                .with_timeout(None)
                .send(&request, &mut response)
                .await
                .unwrap();
        }
        balancer.send(&request, &mut response).await.unwrap();
        // They are one balancer.
        let counts = balancer.counts();
        assert_eq!(counts.iter().map(|host| host.served).sum::<u64>(), 3);
        assert_eq!(counts.iter().map(|host| host.failed).sum::<u64>(), 2);
    });
}
