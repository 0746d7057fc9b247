//! The life of a connection: functions see it open and end, refuse it or give it a state; it has an age; a handler takes
//! it over.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use corehttp::middleware::wrap;
use corehttp::server::{ConnectionEnd, ConnectionReport, CutBy, OpenedConnection};
use corehttp::{BodyPlan, Context, Request, Server, Status, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep};

use crate::support::responses::responses;
use crate::support::{Served, eventually, paused, status};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const LAST: &str = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// Counts how many values are dropped.
struct State {
    requests: Cell<u32>,
    dropped: Arc<AtomicUsize>,
}

impl Drop for State {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Relaxed);
    }
}

fn count(ctx: &mut Context) {
    assert!(ctx.connection_state::<u32>().is_none(), "it is of another type");
    let state: Option<Rc<State>> = ctx.connection_state();
    let told = state.map(|state| state.requests.replace(state.requests.get() + 1));
    ctx.response.set_text(format!("{told:?}."));
}

#[test]
fn requests_share_the_state_of_their_connection() {
    let dropped = Arc::<AtomicUsize>::default();
    let given = dropped.clone();
    let open = move |connection: &mut OpenedConnection<'_>| {
        assert!(connection.peer_addr().ip().is_some_and(|ip| ip.is_loopback()));
        // Every second connection has none.
        if connection.connection_id() % 2 == 1 {
            connection.set_state("replaced");
            connection.set_state(State { requests: Cell::new(0), dropped: given.clone() });
        }
    };
    let served = Served::with(|server| server.on_connect(open), count);
    let mut peers: Vec<_> = (0..4).map(|_| served.connect()).collect();
    for round in 0..3 {
        for (index, peer) in peers.iter_mut().enumerate() {
            peer.send(GET);
            let expected = if index % 2 == 0 { format!("Some({round}).") } else { "None.".into() };
            peer.receive_through(&expected);
        }
    }
    assert_eq!(dropped.load(Relaxed), 0);
    drop(peers);
    eventually("all states are dropped", || dropped.load(Relaxed) == 2);
    // The place of an earlier connection keeps nothing of it.
    assert!(served.ask(LAST).ends_with("Some(0)."));
    assert!(served.ask(LAST).ends_with("None."));
}

#[test]
fn a_connection_is_refused_without_a_response() {
    let calls = Arc::<AtomicUsize>::default();
    let counted = calls.clone();
    let served = Served::with(
        |server| {
            server.on_connect(move |connection| match counted.fetch_add(1, Relaxed) % 3 {
                0 => connection.refuse(),
                1 => panic!("this panic is part of the test"),
                _ => {}
            })
        },
        count,
    );
    for _ in 0..4 {
        for _ in 0..2 {
            let received = served.ask(LAST);
            assert!(received.is_empty() || received == "<ConnectionReset>", "{received}");
        }
        assert_eq!(status(&served.ask(LAST)), 200);
    }
    eventually("all are closed", || served.running.counts().total.open == 0);
    assert_eq!((calls.load(Relaxed), served.running.counts().total.requests), (12, 4));
}

#[cfg(feature = "tls")]
#[test]
fn a_connection_opens_once_it_is_secure() {
    use crate::protocol::tls::{Secured, connect_to, exchange};

    let (secured, calls) = (Secured::new(), Arc::<AtomicUsize>::default());
    let counted = calls.clone();
    let open = move |connection: &mut OpenedConnection<'_>| {
        counted.fetch_add(1, Relaxed);
        match connection.tls().and_then(|tls| tls.server_name.clone()).as_deref() {
            Some("a.example") => connection.set_state(String::from("let in")),
            _ => connection.refuse(),
        }
    };
    let tls = secured
        .tls
        .clone()
        .and_identity(crate::protocol::tls::identity(&secured.authority.issue(&["b.example"])));
    let served = Served::with(
        |server| server.tls(tls).on_connect(open),
        |ctx: &mut Context| {
            let state = ctx.connection_state::<String>().unwrap();
            ctx.response.set_text(state.as_str());
        },
    );
    assert_eq!(exchange(&mut connect_to(&served, secured.peer(), "a.example")).unwrap(), "let in");
    exchange(&mut connect_to(&served, secured.peer(), "b.example")).unwrap_err();
    // The handshake of a peer that speaks no TLS fails before.
    assert_eq!(status(&served.ask(LAST)), 400);
    assert_eq!(calls.load(Relaxed), 2);
}

/// Takes the connection over if the path says so, and writes what is read from it until the peer's end.
async fn take_over(ctx: &mut Context) -> corehttp::Result {
    match ctx.request.path() {
        "/silent" => drop(ctx.take_over().await?),
        "/raw" => {
            let mut raw = ctx.take_over().await?;
            let mut received = String::new();
            raw.read_to_string(&mut received).await?;
            raw.write_all(format!("<{received}>").as_bytes()).await?;
            raw.flush().await?;
            assert!(ctx.take_over().await.is_err(), "it was taken over");
        }
        _ => ctx.response.set_text("fine."),
    }
    Ok(())
}

#[test]
fn a_connection_is_taken_over_without_a_response() {
    let (sender, seen) = std::sync::mpsc::channel();
    let served = Served::with(
        |server| server.on_exchange(move |report| sender.send((report.status, report.cut)).unwrap()),
        wrap(BodyPlan::Stream, take_over),
    );
    let silent = "POST /silent HTTP/1.1\r\nhost: a\r\n";
    for (wire, expected) in [
        (format!("{silent}\r\n"), ""),
        (format!("{silent}content-length: 3\r\n\r\nabc"), ""),
        (format!("{silent}expect: 100-continue\r\ncontent-length: 3\r\n\r\n"), ""),
        ("GET /raw HTTP/1.1\r\nhost: a\r\n\r\nmore".into(), "<more>"),
        ("POST /raw HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx".into(), "<1\r\nx>"),
    ] {
        let received = served.ask(&wire);
        assert!(
            received == expected || (expected.is_empty() && received == "<ConnectionReset>"),
            "{received}"
        );
        assert_eq!(seen.recv().unwrap(), (None, Some(CutBy::Handler)), "{wire}");
        // A response to an earlier request comes before.
        let received = served.ask(format!("{GET}{wire}"));
        assert!(status(&received) == 200 && received.ends_with(&format!("fine.{expected}")), "{received}");
        assert_eq!(seen.recv().unwrap().0, Some(Status::OK));
        assert_eq!(seen.recv().unwrap(), (None, Some(CutBy::Handler)));
    }
    eventually("all are closed", || served.running.counts().total.open == 0);
}

/// As that of an upgrade, the time of its handler is over.
#[tokio::test(start_paused = true)]
async fn a_connection_that_was_taken_over_has_no_time_limit() {
    let timeouts = Timeouts { handler: Some(Duration::from_secs(1)), ..Timeouts::default() };
    let service = Server::new().timeouts(timeouts).service(take_over);
    let (mut near, far) = duplex(1 << 10);
    let peer = async {
        near.write_all(b"GET /raw HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        sleep(Duration::from_secs(60)).await;
        near.write_all(b"late").await.unwrap();
        near.shutdown().await.unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        received
    };
    assert_eq!(tokio::join!(peer, service.serve_connection(far)).0, "<late>");
}

#[tokio::test]
async fn without_a_connection_none_is_taken_over() {
    let service = Server::new().service(take_over);
    let response = service.respond(Request::get("/silent").unwrap()).await;
    assert_eq!(response.status, Status::INTERNAL_SERVER_ERROR);
}

/// Answers, or ends the connection in the way that the path says.
async fn end(ctx: &mut Context) -> corehttp::Result {
    match ctx.request.path() {
        "/panic" => panic!("this panic is part of the test"),
        "/pending" => pending::<()>().await,
        "/close" => ctx.response.headers.set("connection", "close")?,
        "/late" => {
            let raw = ctx.take_over().await?;
            tokio::task::spawn_local(async move {
                sleep(Duration::from_millis(20)).await;
                drop(raw);
            });
            return Ok(());
        }
        _ => return take_over(ctx).await,
    }
    ctx.response.set_text("fine.");
    Ok(())
}

/// The numbers of a report: the end, and how many requests and bytes there were.
type Told = (ConnectionEnd, u64, u64, u64);

/// A server that counts the connections that it lets in, and tells how each ends.
fn observed() -> (Served, Receiver<Told>, Arc<AtomicUsize>) {
    let ((sender, told), seen) = (channel(), Arc::<AtomicUsize>::default());
    let counted = seen.clone();
    let observe = |server: Server| {
        let server = server.on_connect(move |connection| {
            counted.fetch_add(1, Relaxed);
            connection.set_state(connection.connection_id());
        });
        server.on_disconnect(move |report| {
            let ConnectionReport { end, requests, received, sent, .. } = *report;
            assert_eq!(report.connection_state().as_deref(), Some(&report.connection_id), "{report:?}");
            sender.send((end, requests, received, sent)).unwrap();
            panic!("this panic is part of the test");
        })
    };
    (Served::with(observe, wrap(BodyPlan::Stream, end)), told, seen)
}

#[test]
fn the_end_of_a_connection_is_reported_once() {
    let (served, told, seen) = observed();
    for (wire, expected, requests) in [
        ("", ConnectionEnd::Peer, 0),
        ("GET / HTTP/1.1\r\nhost: a\r\n\r\n", ConnectionEnd::Peer, 1),
        ("GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n", ConnectionEnd::Peer, 2),
        ("GET / HTTP/1.1\r\nhost: a\r\n\r\nGET", ConnectionEnd::Failed, 1),
        (LAST, ConnectionEnd::Last, 1),
        ("GET /close HTTP/1.1\r\nhost: a\r\n\r\n", ConnectionEnd::Last, 1),
        ("GET /panic HTTP/1.1\r\nhost: a\r\n\r\n", ConnectionEnd::Failed, 1),
        ("bad\r\n\r\n", ConnectionEnd::Failed, 0),
        ("GET /silent HTTP/1.1\r\nhost: a\r\n\r\n", ConnectionEnd::Upgraded, 1),
        ("GET /raw HTTP/1.1\r\nhost: a\r\n\r\n", ConnectionEnd::Upgraded, 1),
        ("GET /late HTTP/1.1\r\nhost: a\r\n\r\n", ConnectionEnd::Upgraded, 1),
    ] {
        let received = served.ask(wire);
        let sent = if expected == ConnectionEnd::Upgraded { 0 } else { received.len() };
        assert_eq!(told.recv().unwrap(), (expected, requests, wire.len() as u64, sent as u64), "{wire}");
    }
    // Between two waits as well, bytes are counted.
    let mut peer = served.connect();
    let mut sent = 0;
    for _ in 0..3 {
        peer.send(GET);
        sent += peer.receive_through("fine.").len() as u64;
    }
    peer.reset();
    assert_eq!(told.recv().unwrap(), (ConnectionEnd::Peer, 3, 3 * GET.len() as u64, sent));
    assert!(told.try_recv().is_err());
    assert_eq!(seen.load(Relaxed), 12);
}

#[test]
fn the_end_of_a_connection_is_reported_at_a_stop() {
    for (grace, path, expected) in [
        (Duration::ZERO, "/pending", ConnectionEnd::Aborted),
        (Duration::ZERO, "/raw", ConnectionEnd::Aborted),
        (Duration::from_secs(60), "/", ConnectionEnd::Stop),
    ] {
        let (served, told, _) = observed();
        let mut peer = served.connect();
        peer.send(GET);
        peer.receive_through("fine.");
        peer.send(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"));
        eventually("it has arrived", || served.running.counts().total.requests == 2);
        served.running.stop(grace);
        served.running.wait().unwrap();
        let (end, requests, ..) = told.recv().unwrap();
        assert_eq!((end, requests), (expected, 2), "{path}");
        assert!(told.recv().is_err(), "it is reported once");
    }
}

#[test]
fn a_connection_that_was_refused_is_reported_too() {
    let (sender, told) = channel();
    let served = Served::with(
        |server| {
            let server = server.on_connect(|connection| {
                connection.set_state(7);
                connection.refuse();
            });
            server.on_disconnect(move |report| {
                sender.send((report.end, report.connection_state::<i32>().as_deref().copied())).unwrap();
            })
        },
        count,
    );
    served.ask(LAST);
    assert_eq!(told.recv().unwrap(), (ConnectionEnd::Refused, Some(7)));
    assert!(told.try_recv().is_err());
}

/// Peers that come and go in all ways, while the server stops.
#[test]
fn each_connection_of_a_storm_is_reported_once() {
    let (served, told, seen) = observed();
    let address = served.addr();
    let peers: Vec<_> = (0..8)
        .map(|peer| {
            thread::spawn(move || {
                let paths = ["/", "/close", "/panic", "/silent", "/late", "/pending"];
                for round in peer.. {
                    let Ok(stream) = std::net::TcpStream::connect(address) else { return };
                    let mut peer = crate::support::Peer::new(stream);
                    peer.send(format!("{GET}GET {} HTTP/1.1\r\nhost: a\r\n\r\n", paths[round % 6]));
                    if round % 3 == 0 || round % 6 == 5 {
                        peer.reset();
                    } else {
                        peer.end();
                        peer.receive_all();
                    }
                }
            })
        })
        .collect();
    eventually("many have come", || seen.load(Relaxed) > 300);
    served.running.stop(Duration::from_millis(50));
    served.running.wait().unwrap();
    peers.into_iter().for_each(|peer| peer.join().unwrap());
    assert_eq!(told.iter().count(), seen.load(Relaxed));
}

/// Sends a request, and returns whether its response is the last one of its connection.
async fn is_last(near: &mut DuplexStream) -> bool {
    let mut received = Vec::new();
    near.write_all(GET.as_bytes()).await.unwrap();
    while !received.ends_with(b"fine.") {
        assert!(near.read_buf(&mut received).await.unwrap() > 0, "the connection is still open");
    }
    responses(&String::from_utf8(received).unwrap())[0].is_last()
}

/// If all connections that opened together ended together, their peers would connect again at once.
#[test]
fn a_connection_ends_at_its_age_or_a_little_sooner() {
    let (age, (sender, told)) = (Duration::from_secs(100), channel());
    let timeouts = Timeouts { connection_age: Some(age), idle: 2 * age, ..Timeouts::default() };
    let server = Server::new().timeouts(timeouts);
    let server = server.on_disconnect(move |report| sender.send((report.end, report.age)).unwrap());
    let service = server.service(|ctx: &mut Context| ctx.response.set_text("fine."));
    let mut ages = BTreeSet::new();
    for is_busy in [true, false].repeat(8) {
        paused(async {
            let (mut near, far) = duplex(1 << 10);
            let talk = async move {
                let start = Instant::now();
                while !is_last(&mut near).await && is_busy {
                    sleep(Duration::from_millis(50)).await;
                }
                assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
                start.elapsed()
            };
            let (took, served) = tokio::join!(talk, service.serve_connection(far));
            served.unwrap();
            assert!((age * 9 / 10..age + Duration::from_millis(200)).contains(&took), "{took:?}");
            ages.insert(took.as_secs());
        });
        assert_eq!(told.recv().unwrap().0, ConnectionEnd::Age);
    }
    assert!(ages.len() > 6, "{ages:?}");
}
