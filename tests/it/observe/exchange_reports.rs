//! Reports of exchanges: each exchange once, with the status, the bytes and the cause that are true.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::middleware::{CrossOriginProtection, guard, plan, wrap};
use corehttp::server::{CutBy, ErrorReport, ExchangeReport};
use corehttp::sse::Event;
use corehttp::{
    BodyPlan, BoxHandler, Context, Limits, Method, Request, Router, Server, Status, Timeouts, routes,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Served, eventually, get, status};

/// The reports so far: a line for each.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<String>>>);

impl Reports {
    fn attach(&self, server: Server) -> Server {
        let lines = self.0.clone();
        server.on_exchange(move |report: &ExchangeReport| lines.lock().unwrap().push(line(report)))
    }

    /// Waits for so many reports, and takes them.
    fn take(&self, count: usize) -> Vec<String> {
        eventually("all exchanges are reported", || self.0.lock().unwrap().len() >= count);
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn line(report: &ExchangeReport) -> String {
    assert!(report.until_handler.unwrap_or_default() <= report.duration);
    assert!(report.until_response.unwrap_or_default() <= report.duration);
    assert_eq!(report.until_response.is_some(), report.status.is_some());
    format!(
        "{} {} {} {} {} {}",
        report.exchange_number,
        report.method.map_or("-".to_owned(), |method| method.to_string()),
        if report.target.is_empty() { "-" } else { report.target },
        report.matched_pattern().unwrap_or("-"),
        report.status.map_or("-".to_owned(), |status| status.as_u16().to_string()),
        report.cut.map_or("whole".to_owned(), |cut| cut.to_string()),
    )
}

async fn streamed(ctx: &mut Context) -> corehttp::Result {
    let mut out = ctx.body_writer().await?;
    for _ in 0..10_000 {
        out.write_all(&[b'x'; 10_000]).await?;
    }
    Ok(out.finish().await?)
}

async fn events(ctx: &mut Context) -> corehttp::Result {
    let mut events = ctx.events().await?;
    loop {
        events.send(Event { data: Some("tick"), ..Event::default() }).await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn breaks(ctx: &mut Context) -> corehttp::Result {
    let mut out = ctx.body_writer().await?;
    out.write_all(b"half").await?;
    out.flush().await?;
    Err(Status::BAD_GATEWAY.into())
}

async fn panics(ctx: &mut Context) -> corehttp::Result {
    if ctx.request.path() == "/panics" {
        std::panic::resume_unwind(Box::new("without a trace"));
    }
    Ok(())
}

fn hello(ctx: &mut Context) {
    ctx.response.set_text("hello");
}

fn served(reports: &Reports) -> Served {
    let router = routes! {
        any "/hello/{name}" => hello,
        GET "/rewritten" => |ctx: &mut Context| ctx.request = Request::default(),
        GET "/streamed" => streamed,
        GET "/events" => events,
        GET "/breaks" => breaks,
        GET "/panics" => panics,
        GET "/sleeps" => async |_: &mut Context| tokio::time::sleep(Duration::from_secs(3600)).await,
        GET "/large" => |ctx: &mut Context| ctx.response.body.set_bytes(vec![0; 50 << 20]),
        POST "/refused" => wrap(BodyPlan::Refuse(Status::FORBIDDEN), hello),
        GET "/upgrades" => async |ctx: &mut Context| -> corehttp::Result {
            drop(ctx.upgrade("echo").await?);
            Ok(())
        },
    };
    let timeouts = Timeouts {
        head: Duration::from_secs(1),
        handler: Some(Duration::from_secs(1)),
        ..Timeouts::default()
    };
    let limits = Limits { body_max: 10, ..Limits::default() };
    Served::with(|server| reports.attach(server).timeouts(timeouts).limits(limits), router)
}

#[test]
fn each_exchange_is_reported_once_and_as_it_ended() {
    let reports = Reports::default();
    let served = served(&reports);
    let post = |path: &str, len: usize| {
        format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {len}\r\n\r\n{}", "x".repeat(len))
    };
    for (wire, expected) in [
        (get("/hello/Ada?q=1"), vec!["1 GET /hello/Ada?q=1 /hello/{name} 200 whole"]),
        (get("/hello/Ada").replace("GET", "HEAD"), vec!["1 HEAD /hello/Ada /hello/{name} 200 whole"]),
        (get("/rewritten"), vec!["1 GET /rewritten - 200 whole"]),
        (get("/none"), vec!["1 GET /none - 404 whole"]),
        (get("/none").replace("GET", "PUT"), vec!["1 PUT /none - 404 whole"]),
        (get("/events").replace("GET", "PUT"), vec!["1 PUT /events - 405 whole"]),
        (get("/streamed"), vec!["1 GET /streamed /streamed 200 whole"]),
        (get("/large"), vec!["1 GET /large /large 200 whole"]),
        (get("/breaks"), vec!["1 GET /breaks /breaks 200 handler"]),
        (get("/panics"), vec!["1 GET /panics /panics 500 whole"]),
        (get("/sleeps"), vec!["1 GET /sleeps /sleeps 503 whole"]),
        (post("/refused", 5), vec!["1 POST /refused /refused 403 whole"]),
        (post("/hello/Ada", 10), vec!["1 POST /hello/Ada /hello/{name} 200 whole"]),
        (post("/hello/Ada", 11), vec!["1 POST /hello/Ada /hello/{name} 413 whole"]),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), vec!["1 GET / - 400 whole"]),
        ("GET /hello/Ada?q HTTP/1.1\r\nhost".to_owned(), vec!["1 GET /hello/Ada?q - 400 whole"]),
        ("PUT /hello/Ada HTTP/1.0\r\n: x\r\n\r\n".to_owned(), vec!["1 PUT /hello/Ada - 400 whole"]),
        ("broken\r\n\r\n".to_owned(), vec!["1 - - - 400 whole"]),
        (get("/hello/Ada?q").replace("1.1", "2.0"), vec!["1 GET /hello/Ada?q - 505 whole"]),
        (
            get("/hello/a").repeat(2) + &get("/none") + &get("/hello/b"),
            vec![
                "1 GET /hello/a /hello/{name} 200 whole",
                "2 GET /hello/a /hello/{name} 200 whole",
                "3 GET /none - 404 whole",
                "4 GET /hello/b /hello/{name} 200 whole",
            ],
        ),
        (
            get("/upgrades").replace("\r\n\r\n", "\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n"),
            vec!["1 GET /upgrades /upgrades 101 whole"],
        ),
        (
            get("/hello/a") + "broken\r\n\r\n",
            vec!["1 GET /hello/a /hello/{name} 200 whole", "2 - - - 400 whole"],
        ),
    ] {
        served.ask(&wire);
        assert_eq!(reports.take(expected.len()), expected, "{wire}");
    }
}

/// The same pattern for a request with a body and without, whoever refuses it: by its head, that is by the body.
#[test]
fn a_request_that_is_refused_by_its_head_has_its_whole_pattern() {
    let refuses = || guard(|_: &mut Context| Err(Status::UNAUTHORIZED.into()));
    let inner = || routes! { any "/users/{id}" => hello, GET "/only" => hello };
    let boxed = || Router::new().any("/users/{id}", hello).unwrap();
    let router = routes! {
        mount "/guarded" => wrap(refuses(), inner()),
        mount "/planned" => wrap(BodyPlan::Refuse(Status::UNAUTHORIZED), inner()),
        mount "/boxed" => wrap(refuses(), BoxHandler::new(boxed())),
        mount "/shared" => wrap(refuses(), Arc::new(inner())),
        mount "/{tenant}/deep" => wrap((refuses(), refuses()), routes! {
            mount "/below" => wrap(refuses(), routes! { mount "/further" => inner() }),
        }),
        mount "/within" => routes! { wrap refuses() => { any "/users/{id}" => hello } },
        mount "/open" => routes! { mount "/guarded" => wrap(refuses(), inner()) },
    };
    let reports = Reports::default();
    let all = wrap((BodyPlan::Stream, refuses()), wrap(CrossOriginProtection::new(), inner()));
    let by_request = wrap((plan(|_| BodyPlan::BufferUpTo(9)), refuses()), inner());
    let router = routes! { any "*" => router, mount "/all" => all, mount "/by-request" => by_request };
    let served = Served::with(|server| reports.attach(server), router);
    for (path, pattern) in [
        ("/guarded/users/7", "/guarded/users/{id}"),
        ("/guarded/none", "/guarded/{*rest}"),
        ("/guarded/only", "/guarded/{*rest}"),
        ("/planned/users/7", "/planned/users/{id}"),
        ("/boxed/users/7", "/boxed/users/{id}"),
        ("/shared/users/7", "/shared/users/{id}"),
        ("/a/deep/below/further/users/7", "/{tenant}/deep/below/further/users/{id}"),
        ("/a/deep/none", "/{tenant}/deep/{*rest}"),
        ("/within/users/7", "/within/users/{id}"),
        ("/open/guarded/users/7", "/open/guarded/users/{id}"),
        ("/all/users/7", "/all/users/{id}"),
        ("/by-request/users/7", "/by-request/users/{id}"),
    ] {
        for body in
            ["", "content-length: 2\r\n\r\nab", "transfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"]
        {
            let end = if body.is_empty() { "\r\n" } else { "" };
            served.ask(format!("POST {path} HTTP/1.1\r\nhost: a\r\n{body}{end}"));
            assert_eq!(reports.take(1), [format!("1 POST {path} {pattern} 401 whole")], "{body:?}");
        }
    }
}

/// A client that leaves early is never reported as one that has got all.
#[test]
fn a_peer_that_leaves_is_reported_as_cut() {
    let reports = Reports::default();
    let served = served(&reports);
    for path in ["/streamed", "/events", "/large"] {
        let mut peer = TcpStream::connect(served.addr()).unwrap();
        peer.write_all(get(path).as_bytes()).unwrap();
        peer.read_exact(&mut [0; 100]).unwrap();
        drop(peer); // with unread bytes, this is a reset
        assert_eq!(reports.take(1), [format!("1 GET {path} {path} 200 peer")]);
    }
    let mut peer = TcpStream::connect(served.addr()).unwrap();
    peer.write_all(b"POST /hello/Ada HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhe").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    peer.read_to_end(&mut Vec::new()).unwrap();
    let [line] = &reports.take(1)[..] else { panic!("one report") };
    assert!(line.starts_with("1 POST /hello/Ada /hello/{name} 400 whole"), "{line}");
}

/// Reads and writes an upgraded connection, or a tunnel, until that fails.
async fn upgraded(ctx: &mut Context) -> corehttp::Result {
    let mut stream = match ctx.request.method() {
        Method::Connect => ctx.accept_tunnel().await?,
        _ => ctx.upgrade("echo").await?,
    };
    while ctx.request.path() == "/writes" {
        stream.write_all(b"tick").await?;
        stream.flush().await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stream.read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// As with any other reader and writer, the error that the handler passes on is no fault of the server.
#[test]
fn a_peer_that_resets_an_upgraded_connection_is_reported_as_cut() {
    let (reports, faults) = (Reports::default(), Arc::new(Mutex::new(Vec::new())));
    let noted = faults.clone();
    let on_error = move |report: &ErrorReport| noted.lock().unwrap().push(report.is_fault());
    let served =
        Served::with(|server| reports.attach(server).on_error(on_error), wrap(BodyPlan::Tunnel, upgraded));
    for (target, line) in [
        ("GET /reads", "1 GET /reads - 101"),
        ("GET /writes", "1 GET /writes - 101"),
        ("CONNECT b:1", "1 CONNECT b:1 - 200"),
    ] {
        let mut peer = served.connect();
        peer.send(format!("{target} HTTP/1.1\r\nhost: b:1\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n"));
        peer.receive_through("\r\n\r\n");
        peer.reset();
        assert_eq!(reports.take(1), [format!("{line} peer")]);
    }
    eventually("each is an error of the connection", || served.running.counts().total.errors.io == 3);
    assert_eq!(*faults.lock().unwrap(), [false; 3]);
}

/// The status that the application has chosen cannot be sent any more, and the peer sees a reset.
#[test]
fn a_handler_that_fails_amid_its_response_is_at_fault_whatever_its_status() {
    let faults = Arc::new(Mutex::new(Vec::new()));
    let noted = faults.clone();
    let served = Served::with(
        |server| {
            let server = server.error_status(|_: &std::num::ParseIntError| Status::BAD_REQUEST);
            server.on_error(move |report| noted.lock().unwrap().push(report.is_fault()))
        },
        async |ctx: &mut Context| -> corehttp::Result {
            if ctx.request.path() == "/late" {
                ctx.body_writer().await?.write_all(b"half").await?;
            }
            "x".parse::<u8>().map(drop)?;
            Ok(())
        },
    );
    assert_eq!(status(&served.ask(get("/early"))), 400);
    served.ask(get("/late"));
    eventually("both are reported", || *faults.lock().unwrap() == [false, true]);
}

#[test]
fn a_stop_reports_what_it_cuts() {
    let reports = Reports::default();
    let served = served(&reports);
    let mut peer = TcpStream::connect(served.addr()).unwrap();
    peer.write_all(get("/events").as_bytes()).unwrap();
    peer.read_exact(&mut [0; 100]).unwrap();
    served.running.stop(Duration::ZERO);
    peer.read_to_end(&mut Vec::new()).unwrap_or_default();
    assert_eq!(reports.take(1), ["1 GET /events /events 200 stop"]);
}

/// The bytes are those of each exchange, however many a connection carries.
#[test]
fn bytes_and_addresses_are_those_of_the_exchange() {
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let noted = sizes.clone();
    let served = Served::with(
        |server| {
            server.on_exchange(move |report: &ExchangeReport| {
                assert_eq!(report.peer_addr.ip(), report.client_ip());
                noted.lock().unwrap().push((report.received, report.sent, report.connection_id));
            })
        },
        hello,
    );
    let mut peer = served.connect();
    let (mut expected, mut id) = (Vec::new(), None);
    for len in [0, 5, 1000, 0] {
        let wire = format!("POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: {len}\r\n\r\n{}", "x".repeat(len));
        peer.send(&wire);
        let received = peer.receive();
        expected.push((wire.len() as u64, received.len() as u64));
        eventually("the exchange is reported", || sizes.lock().unwrap().len() == expected.len());
    }
    for ((received, sent, connection), expected) in sizes.lock().unwrap().iter().zip(expected) {
        assert_eq!((*received, *sent), expected);
        assert_eq!(*connection, *id.get_or_insert(*connection), "one connection has one number");
    }
}

#[test]
fn a_panic_of_the_function_ends_nothing() {
    let served =
        Served::with(|server| server.on_exchange(|_| std::panic::resume_unwind(Box::new("no trace"))), hello);
    let received = served.ask(get("/") + &get("/"));
    assert_eq!(received.matches("HTTP/1.1 200 OK").count(), 2, "{received}");
}

#[test]
fn causes_have_names() {
    let names = [CutBy::Peer, CutBy::Timeout, CutBy::Stop, CutBy::Handler].map(CutBy::as_str);
    assert_eq!(names, ["peer", "timeout", "stop", "handler"]);
}
