//! The life of a connection: a function sees it open, refuses it or gives it a state; a handler takes it over.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use corehttp::{BodyPlan, Context, CutBy, OpenedConnection, Request, Server, Status, with_plan};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Served, eventually, status};

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
        if connection.id() % 2 == 1 {
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
    eventually("all are closed", || served.running.stats().total.open == 0);
    assert_eq!((calls.load(Relaxed), served.running.stats().total.requests), (12, 4));
}

#[cfg(feature = "tls")]
#[test]
fn a_connection_opens_once_it_is_secure() {
    use crate::tls::{Secured, connect_to, exchange};

    let (secured, calls) = (Secured::new(), Arc::<AtomicUsize>::default());
    let counted = calls.clone();
    let open = move |connection: &mut OpenedConnection<'_>| {
        counted.fetch_add(1, Relaxed);
        match connection.tls().and_then(|tls| tls.server_name).as_deref() {
            Some("a.example") => connection.set_state(String::from("let in")),
            _ => connection.refuse(),
        }
    };
    let tls = secured.tls.clone().and(crate::tls::identity(&secured.authority.issue(&["b.example"])));
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
        with_plan(|_| BodyPlan::Stream, take_over),
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
    eventually("all are closed", || served.running.stats().total.open == 0);
}

#[tokio::test]
async fn without_a_connection_none_is_taken_over() {
    let service = Server::new().service(take_over);
    let response = service.respond(Request::get("/silent").unwrap()).await;
    assert_eq!(response.status, Status::INTERNAL_SERVER_ERROR);
}
