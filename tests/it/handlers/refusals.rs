//! The reports to `on_error`: which peer was refused, in which exchange, and with which request.

use std::mem;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::middleware::{self, wrap};
use corehttp::{BodyPlan, Context, Limits, Server, Status};

use crate::support::Served;
use crate::support::wired::{Then, Wired};

/// The reports, a line each.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    fn by(&self, server: Server) -> Server {
        let told = self.0.clone();
        server.on_error(move |report| {
            let line = format!("{}.{} {report}", report.connection_id, report.exchange_number);
            let secrets = [&line, &format!("{report:?}")].map(|text| text.contains("secret"));
            assert_eq!(secrets, [false, false], "{line}");
            told.lock().unwrap().push(line);
        })
    }

    fn take(&self) -> Vec<String> {
        mem::take(&mut self.0.lock().unwrap())
    }
}

async fn app(ctx: &mut Context) -> corehttp::Result {
    match ctx.request.path() {
        "/fails" => return Err(std::io::Error::other("as told").into()),
        "/forges" => {
            let forged = "no\r\nsuch \u{1b}[2J\u{85}peer's\u{2028}\u{2029}thing";
            return Err(std::io::Error::other(forged).into());
        }
        "/panics" => panic!("as told"),
        "/cut" => {
            let mut out = ctx.body_writer().await?;
            out.write_all(b"half of").await?;
            return Err(std::io::Error::other("as told").into());
        }
        "/aimed" => {
            ctx.request.set_url("/elsewhere?secret")?;
            return Err(std::io::Error::other("as told").into());
        }
        "/taken" => {
            drop(mem::take(&mut ctx.request));
            return Err(std::io::Error::other("as told").into());
        }
        "/refuses" => return Err(Status::CONTENT_TOO_LARGE.into()),
        "/form" => _ = ctx.request.form()?,
        "/chosen" => return Err(corehttp::Error::new(Status::CONFLICT, "as told")),
        "/bad-gateway" => return Err(corehttp::Error::new(Status::BAD_GATEWAY, "as told")),
        "/unfinished" => _ = ctx.body_writer().await?,
        "/hangs" => std::future::pending().await,
        "/cannot" => return Err(Status::SERVICE_UNAVAILABLE.into()),
        _ => ctx.response.set_text("fine"),
    }
    Ok(())
}

/// A request with some secrets.
fn ask(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nhost: a\r\ncookie: secret\r\n{fields}\r\n")
}

fn get(path: &str) -> String {
    ask("GET", &format!("{path}?secret"), "")
}

/// Checks that these lines are reported of `wire`, each behind the number of its connection.
#[track_caller]
fn check(wire: &str, expected: &[&str]) {
    let told = Told::default();
    let wired = Wired::with(|server| told.by(server), app);
    for connection in 1..=3 {
        // Of malformed heads, one a second is reported.
        wired.pass(Duration::from_secs(1));
        wired.ask(&[wire.as_bytes()], Then::Ends);
        let expected = expected.iter().map(|line| format!("{connection}.{line}"));
        assert_eq!(told.take(), Vec::from_iter(expected), "{wire:?}");
    }
}

#[test]
fn a_refusal_names_its_request() {
    check(&get("/"), &[]);
    check(
        &get("/fails"),
        &["1 500 Internal Server Error to memory, GET /fails: the handler failed: as told"],
    );
    check(
        &(get("/") + &get("/fails") + &get("/") + &get("/fails")),
        &[
            "2 500 Internal Server Error to memory, GET /fails: the handler failed: as told",
            "4 500 Internal Server Error to memory, GET /fails: the handler failed: as told",
        ],
    );
    // Text of the peer may stand in the text of an error, and must not pass for a line of its own.
    check(
        &get("/forges"),
        &[
            r"1 500 Internal Server Error to memory, GET /forges: the handler failed: no\r\nsuch \u{1b}[2J\u{85}peer's\u{2028}\u{2029}thing",
        ],
    );
    check(&get("/panics"), &["1 500 Internal Server Error to memory, GET /panics: the handler panicked"]);
    check(&get("/cut"), &["1 memory cut off, GET /cut: the handler failed: as told"]);
    check(
        &get("/aimed"),
        &["1 500 Internal Server Error to memory, GET /elsewhere: the handler failed: as told"],
    );
    check(&get("/taken"), &["1 500 Internal Server Error to memory, GET /: the handler failed: as told"]);
    check(
        &ask("PROPFIND", "http://a/fails?secret", ""),
        &["1 500 Internal Server Error to memory, PROPFIND /fails: the handler failed: as told"],
    );
    check(
        &ask("CONNECT", "a:80", ""),
        &["1 501 Not Implemented to memory, CONNECT a:80: the handler refused the request by its head"],
    );
    check(
        &ask("POST", "/up", "content-length: 10737418240\r\n"),
        &[
            "1 413 Content Too Large to memory, POST /up: the body is too large: 10737418240 bytes, and at most 4194304 are allowed (`body_max`)",
        ],
    );
    check(
        &(get("/") + &ask("POST", "/up", "content-length: 2\r\n")),
        &["2 400 Bad Request to memory, POST /up: the peer closed before the message was complete"],
    );
}

/// A peer that is refused should send no more, so it is not reported for its incomplete message.
#[test]
fn a_peer_that_stops_sending_when_it_is_refused_is_not_reported_rfc9112_9_5() {
    let told = Told::default();
    let wired = Wired::with(|server| told.by(server), wrap(BodyPlan::Stream, app));
    let chunked = "transfer-encoding: chunked\r\n";
    let cut = "memory cut off, POST /: the peer closed before the message was complete";
    for (number, framing) in [(1, "content-length: 9\r\n"), (4, chunked)] {
        for (target, status) in [("/refuses", 413), ("/cannot", 503)] {
            let received = wired.ask(&[ask("POST", target, framing).as_bytes()], Then::Ends);
            assert!(received.starts_with(&format!("HTTP/1.1 {status} ")), "{received}");
            assert_eq!(told.take(), Vec::<String>::new(), "{framing:?}");
        }
        wired.ask(&[ask("POST", "/", framing).as_bytes()], Then::Ends);
        assert_eq!(told.take(), [format!("{}.1 {cut}", number + 2)], "{framing:?}");
    }
    // A peer that goes on, but against the rules, is reported.
    wired.ask(&[(ask("POST", "/refuses", chunked) + "x\r\n").as_bytes()], Then::Ends);
    let bad = "memory cut off, POST /refuses: a chunk size is malformed";
    assert_eq!(told.take(), [format!("7.1 {bad}")]);
}

#[test]
fn a_refusal_tells_nothing_of_a_malformed_head() {
    for (bad, status, why) in [
        ("GET /secret\r\n\r\n", "400 Bad Request", "the request line is malformed"),
        (
            "GET /secret HTTP/1.1\r\n\r\n",
            "400 Bad Request",
            "the field host is missing, repeated or malformed",
        ),
        (
            "GET /secret HTTP/1.1\r\nhost: a\r\nx: secret\0\r\n\r\n",
            "400 Bad Request",
            "a field value is malformed: `x`",
        ),
        ("GET /secret HTTP/3.0\r\n\r\n", "505 HTTP Version Not Supported", "the version is not supported"),
    ] {
        check(bad, &[&format!("1 {status} to memory: {why}")]);
        check(&(get("/") + bad), &[&format!("2 {status} to memory: {why}")]);
        let failed = "1 500 Internal Server Error to memory, GET /fails: the handler failed: as told";
        check(&(get("/fails") + bad), &[failed, &format!("2 {status} to memory: {why}")]);
    }
    let cut = "1 400 Bad Request to memory: the peer closed before the message was complete";
    check("GET /secret HT", &[cut]);
    check("POST /secret HTTP/1.1\r\nhost: a\r\n", &[cut]);
}

#[test]
fn a_refused_connection_has_no_request() {
    let told = Told::default();
    let limits = Limits { connections_max: 0, ..Limits::default() };
    let served = Served::with(|server| told.by(server).limits(limits), app);
    let peer = served.connect();
    let who = peer.stream.local_addr().unwrap();
    let received = { peer }.receive_all();
    assert!(received.starts_with("HTTP/1.1 503 "), "{received}");
    let why = "the server has 0 connections, as many as it may have (`connections_max`)";
    assert_eq!(told.take(), [format!("1.0 503 Service Unavailable to {who}: {why}")]);
}

/// Checks whether the report of `wire` is one of a fault of the server.
#[track_caller]
fn check_fault(wire: &str, expected: &[bool]) {
    let faults = Arc::new(Mutex::new(Vec::new()));
    let told = faults.clone();
    let settings = move |server: Server| {
        let timeouts = corehttp::Timeouts { handler: Some(Duration::from_secs(5)), ..Default::default() };
        let server = server.limits(Limits { body_max: 4, ..Limits::default() }).timeouts(timeouts);
        server.on_error(move |report| told.lock().unwrap().push(report.is_fault()))
    };
    let plan = |request: &corehttp::Request| match request.path() {
        "/plan/403" => BodyPlan::Refuse(Status::FORBIDDEN),
        "/plan/503" => BodyPlan::Refuse(Status::SERVICE_UNAVAILABLE),
        _ => BodyPlan::Buffer,
    };
    Wired::with(settings, wrap(middleware::plan(plan), app)).ask(&[wire.as_bytes()], Then::Ends);
    assert_eq!(*faults.lock().unwrap(), expected, "{wire:?}");
}

#[test]
fn faults_of_the_server_are_told_from_refusals() {
    for path in ["/fails", "/panics", "/cut", "/bad-gateway", "/unfinished", "/hangs", "/plan/503"] {
        check_fault(&get(path), &[true]);
    }
    for path in ["/form", "/chosen", "/plan/403"] {
        check_fault(&get(path), &[false]);
    }
    // Bare statuses are answers, which are not reported.
    for path in ["/", "/refuses", "/cannot"] {
        check_fault(&get(path), &[]);
    }
    check_fault("GET /\r\n\r\n", &[false]);
    check_fault("GET / HTTP/3.0\r\n\r\n", &[false]);
    check_fault(&ask("CONNECT", "a:443", ""), &[false]);
    check_fault(&ask("POST", "/", "content-length: 5\r\n"), &[false]);
    check_fault(&ask("POST", "/", "content-length: 4\r\n"), &[false]);
}
