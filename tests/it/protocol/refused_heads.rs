//! Heads that are refused, or that do not come to their end, as hooks and logs see them: all of a report can be read, and
//! it has the lines before the fault (RFC 9112 §2.2, §3, §5).

use std::io::{self, Write};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::access_log::{self, AccessLog};
use corehttp::server::{ErrorReport, ExchangeReport, ForwardedHeader, error_page};
use corehttp::{Context, Limits, Request, Server, Timeouts, TrustedProxies, routes};

use crate::everything;
use crate::support::wired::{Then, Wired};
use crate::support::{Served, eventually, status};

/// The reports so far, a line each, and logs of all formats.
struct Watched {
    reports: Arc<Mutex<Vec<String>>>,
    logs: Vec<AccessLog>,
    lines: Lines,
}

/// The lines of all logs.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Watched {
    fn new() -> Watched {
        let own = access_log::Format::from_fn(|report, line| line.extend(of_exchange(report).bytes()));
        let (lines, reports) = (Lines::default(), Arc::default());
        let formats =
            [access_log::Format::Common, access_log::Format::Combined, access_log::Format::Json, own];
        let logs = formats.map(|format| AccessLog::from_writer(lines.clone(), format).unwrap());
        Watched { reports, logs: logs.into(), lines }
    }

    /// Makes all hooks of `server` read all that they are given.
    fn by(&self, server: Server) -> Server {
        let reports = self.reports.clone();
        let failed = reports.clone();
        let logged = self.logs.iter().fold(server, |server, log| server.observe(log.clone()));
        logged
            .trusted_proxies(proxies())
            .on_exchange(move |report| {
                let read = AssertUnwindSafe(|| of_exchange(report));
                let line = catch_unwind(read).map_or("panicked".to_owned(), |_| line(report));
                reports.lock().unwrap().push(line);
            })
            .on_error(move |report| {
                if catch_unwind(AssertUnwindSafe(|| of_error(report))).is_err() {
                    failed.lock().unwrap().push("on_error panicked".to_owned());
                }
            })
            .error_response(|report, response| {
                of_error(report);
                error_page(report, response);
                everything::of_response(response);
            })
    }

    /// Takes the reports.
    fn take(&self) -> Vec<String> {
        mem::take(&mut self.reports.lock().unwrap())
    }

    /// The lines of the logs, which are over.
    fn into_lines(self) -> String {
        drop(self.logs);
        let lines = mem::take(&mut *self.lines.0.lock().unwrap());
        String::from_utf8(lines).unwrap()
    }
}

/// Each peer is a proxy, and all of its fields are believed.
fn proxies() -> TrustedProxies {
    use ForwardedHeader::{Forwarded, XForwardedFor, XForwardedHost, XForwardedProto};
    TrustedProxies::from_fn(|ip| ip.is_loopback()).headers([
        Forwarded,
        XForwardedFor,
        XForwardedHost,
        XForwardedProto,
    ])
}

fn of_exchange(report: &ExchangeReport) -> String {
    let secure = report.tls().is_some();
    let whole = format!("{report} {report:?} {:?} {secure}", report.client_ip());
    let parts = format!("{:?} {} {:?}", report.method, report.target, report.matched_pattern());
    [whole, parts, everything::of_request(report.request)].concat()
}

fn of_error(report: &ErrorReport) -> String {
    let request = report.request.map(everything::of_request);
    format!("{report} {report:?} {:?} {request:?}", report.problem())
}

/// The status, the request line and the fields of a report.
fn line(report: &ExchangeReport) -> String {
    let status = report.status.map_or("-".to_owned(), |status| status.as_u16().to_string());
    let method = report.method.map_or("-".to_owned(), |method| method.to_string());
    let fields =
        report.request.headers.iter().map(|(name, value)| format!("{name}={}", value.escape_ascii()));
    format!("{status} {method} {} {}", report.target, Vec::from_iter(fields).join(" "))
}

/// The same of a head of which so many octets are good: its lines that are complete, and the first one as far as its
/// target.
fn expected(status: u16, front: &[u8]) -> String {
    let text = front.escape_ascii().to_string();
    let mut lines: Vec<&str> = text.split(r"\r\n").collect();
    lines.pop_if(|line| text.len() > line.len() || line.split(' ').count() < 3);
    let mut words = lines.first().copied().unwrap_or("- ").split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let fields = lines.iter().skip(1).map(|line| line.replacen(": ", "=", 1));
    format!("{status} {method} {target} {}", Vec::from_iter(fields).join(" "))
}

const HEAD: &str = "POST /a/b%20c?d=e&f HTTP/1.1\r\nHost: a.example\r\nUser-Agent: x\r\nCookie: a=b; c=d\r\n\
    X-Forwarded-For: 192.0.2.7\r\nForwarded: for=192.0.2.8;host=b\r\nContent-Length: 0\r\nAccept: text/html;q=0.5\r\n\r\n";

fn hello(ctx: &mut Context) {
    ctx.response.set_text("hello");
}

fn watched_server() -> (Watched, Wired<impl corehttp::Handler>) {
    let watched = Watched::new();
    let wired = Wired::with(|server| watched.by(server), routes! { any "/a/{*rest}" => hello });
    (watched, wired)
}

#[test]
fn a_head_that_ends_anywhere_is_reported_with_its_lines_rfc9112_8() {
    let (watched, wired) = watched_server();
    let mut count = 0;
    for (then, status) in [(Then::Ends, 400), (Then::Waits, 408)] {
        for cut in 1..HEAD.len() {
            let (whole, pieces) = (&HEAD.as_bytes()[..cut], HEAD.as_bytes()[..cut].chunks(7));
            for packets in [vec![whole], pieces.collect()] {
                wired.ask(&packets, then);
                assert_eq!(watched.take(), [expected(status, whole)], "cut at {cut}, {then:?}");
                count += 1;
            }
        }
    }
    drop(wired);
    assert_eq!(watched.into_lines().lines().count(), 4 * count, "each format has a line for each");
}

/// Any octet anywhere, which spoils most heads. Behind a head that is still good, the connection goes on.
#[test]
fn a_head_that_is_spoiled_anywhere_can_be_read_in_full_rfc9112_2_2() {
    let (watched, wired) = watched_server();
    let mut count = 0;
    for at in 0..HEAD.len() {
        let (before, rest) = HEAD.as_bytes().split_at(at);
        let added = [&b"\r\n"[..], b"\n", b" "].map(|odd| [before, odd, rest].concat());
        let changed = [0, 0x1b, 0xff, b':', b'\r'].map(|odd| [before, &[odd], &rest[1..]].concat());
        for wire in added.into_iter().chain(changed) {
            let received = wired.ask(&[&wire], Then::Ends);
            let reports = watched.take();
            assert!(!reports.concat().contains("panicked"), "{reports:?} of {}", wire.escape_ascii());
            assert_eq!(reports.len(), received.matches("HTTP/1.1 ").count(), "{}", wire.escape_ascii());
            count += reports.len();
        }
    }
    drop(wired);
    assert_eq!(watched.into_lines().lines().count(), 4 * count, "each format has a line for each");
}

#[test]
fn the_lines_before_a_fault_are_reported_and_no_others_rfc9112_5() {
    let limits = Limits { fields_max: 8, head_max: 1000, request_line_max: 100, ..Limits::default() };
    let watched = Watched::new();
    let wired = Wired::with(|server| watched.by(server.limits(limits)), hello);
    let long = "x".repeat(1000);
    for (wire, expected) in [
        ("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: x\r\nX: \x1b\r\n\r\n", "400 GET / Host=a User-Agent=x"),
        ("GET /a HTTP/1.1\r\nHost: a\r\nX : y\r\nz: 1\r\n\r\n", "400 GET /a Host=a"),
        ("GET /a HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", "400 GET /a "),
        ("GET /a HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", "400 GET /a Host=a"),
        ("GET /a HTTP/1.1\nHost: a\r\n\r\n", "400 GET /a "),
        ("HEAD /a HTTP/1.0\r\nHost: a\r\nX", "400 HEAD /a Host=a"),
        (
            &format!("GET /a HTTP/1.1\r\nHost: a\r\n{}", "b: c\r\n".repeat(8)),
            "431 GET /a Host=a b=c b=c b=c b=c b=c b=c b=c",
        ),
        (&format!("GET /a HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), "431 GET /a Host=a"),
        (&format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), &format!("414 GET /{} ", &long[..95])),
        ("GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "400 GET / "),
        ("GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n", "400 GET http:/// "),
        ("GET /\"\\\u{202e} HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", "400 GET /\"\\\u{202e} "),
        ("GET /\u{202e} HTTP/3.0\r\nHost: a\r\n\r\n", "505 GET /\u{202e} "),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", "505 GET / "),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "400 GET /a "),
        (&format!("{} /a HTTP/1.1\r\nHost: a\r\n\r\n", &long[..40]), "501 - /a "),
        ("\x16\x03\x01 /a HTTP/1.1\r\nHost: a\r\n\r\n", "400 -  "),
        // All of these heads is known, and what is wrong with them is what it says.
        ("GET /a HTTP/1.1\r\nX: y\r\n\r\n", "400 GET /a X=y"),
        ("GET /a HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 GET /a Host=a Host=b"),
        ("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", "400 PUT /a Host=a Content-Length=+1"),
        (
            "PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "501 PUT /a Host=a Transfer-Encoding=gzip, chunked",
        ),
        ("PUT /a HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", "417 PUT /a Host=a Expect=x"),
    ] {
        for packets in [vec![wire.as_bytes()], wire.as_bytes().chunks(1).collect()] {
            wired.ask(&packets, Then::Ends);
            assert_eq!(watched.take(), [expected], "{wire:?}");
        }
        // The exchange before has left nothing.
        let earlier = "GET /earlier?secret HTTP/1.1\r\nHost: earlier\r\nX-Earlier: 1\r\n\r\n";
        wired.ask(&[[earlier, wire].concat().as_bytes()], Then::Ends);
        assert_eq!(watched.take()[1..], [expected], "{wire:?}");
    }
    drop(wired);
    let lines = watched.into_lines();
    // A version that is not known is in no line.
    assert!(lines.contains("\"GET /\" 505 ") && !lines.contains("HTTP/1.1\" 505 "), "{lines}");
    assert!(lines.contains(r#""method":"GET","target":"http:///""#), "{lines}");
}

/// Fields of a head that was read in part may be those that a client has forged, and the proxy's come after them.
#[test]
fn the_client_of_a_partial_head_is_its_peer_rfc7239_8_1() {
    let clients = Arc::new(Mutex::new(Vec::new()));
    let noted = clients.clone();
    let timeouts = Timeouts { head: Duration::from_secs(60), ..Timeouts::default() };
    let served = Served::with(
        |server| {
            server.trusted_proxies(proxies()).timeouts(timeouts).on_exchange(move |report| {
                noted.lock().unwrap().push(report.client_ip().map(|ip| ip.to_string()));
            })
        },
        hello,
    );
    let take = || {
        eventually("the exchange is reported", || !clients.lock().unwrap().is_empty());
        mem::take(&mut *clients.lock().unwrap())
    };
    let forwarded = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\n";
    for (rest, expected, client) in [
        ("\r\n", 200, "192.0.2.7"),
        ("X-Forwarded-For: 192.0.2.8\r\n\r\n", 200, "192.0.2.8"),
        // All fields are known.
        ("Host: b\r\n\r\n", 400, "192.0.2.7"),
        ("", 400, "127.0.0.1"),
        ("X-Forwarded-For: 192.0.2.8", 400, "127.0.0.1"),
        ("X: \x1b\r\nX-Forwarded-For: 192.0.2.8\r\n\r\n", 400, "127.0.0.1"),
    ] {
        assert_eq!(status(&served.ask(format!("{forwarded}{rest}"))), expected, "{rest:?}");
        assert_eq!(take(), [Some(client.to_owned())], "{rest:?}");
    }
}

/// Requests that a program makes can be read in full as well.
#[test]
fn a_new_request_can_be_read_in_full() {
    for request in [Request::default(), Request::get("http://joe:secret@a/b?c").unwrap()] {
        assert!(!everything::of_request(&request).contains("secret"));
    }
}
