//! Access logs: a line for each exchange, whole lines only, and none that a peer has forged.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use corehttp::access_log::{self, AccessLog};
use corehttp::{Context, Server, TrustedProxies, routes};

use crate::support::{Served, eventually, get};

fn hello(ctx: &mut Context) {
    ctx.response.set_text("hello");
}

/// The lines of a log with this format, after these bytes were sent.
fn lines(format: access_log::Format, wire: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLog::open(&path, format).unwrap();
    let proxies = TrustedProxies::from_fn(|ip| ip.is_loopback());
    let set = |server: Server| server.trusted_proxies(proxies).observe(log.clone());
    let served = Served::with(set, routes! { any "/{name}" => hello });
    served.ask(wire);
    drop(served);
    drop(log);
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

/// A line without its time and its durations.
fn undated(line: &str) -> String {
    let (before, rest) = line.split_once('[').unwrap();
    format!("{before}{}", rest.split_once("] ").unwrap().1)
}

const ODD: &str =
    "GET /a\"%0a?q=\\ HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.7\r\nuser-agent: a\"\tb\\\r\n\r\n";

#[test]
fn lines_have_the_common_and_the_combined_format() {
    let wire = get("/Ada") + &get("/a/b").replace("GET", "DELETE") + ODD + "broken\r\n\r\n";
    let common = lines(access_log::Format::Common, &wire);
    let combined = lines(access_log::Format::Combined, &wire);
    let expected = [
        ("127.0.0.1 - - \"GET /Ada HTTP/1.1\" 200 ", " \"-\" \"-\""),
        ("127.0.0.1 - - \"DELETE /a/b HTTP/1.1\" 404 ", " \"-\" \"-\""),
        ("192.0.2.7 - - \"GET /a\\x22%0a?q=\\x5C HTTP/1.1\" 200 ", " \"-\" \"a\\x22\\x09b\\x5C\""),
        ("127.0.0.1 - - \"-\" 400 ", " \"-\" \"-\""),
    ];
    assert_eq!((common.len(), combined.len()), (4, 4), "{common:?} {combined:?}");
    for ((common, combined), (front, end)) in common.iter().zip(&combined).zip(expected) {
        assert!(undated(common).starts_with(front), "{common}");
        assert!(undated(combined).starts_with(front) && combined.ends_with(end), "{combined}");
        assert!(common.rsplit(' ').next().unwrap().parse::<u64>().unwrap() > 100, "{common}");
    }
}

/// A line has as much of the request as was read before the fault, as that of nginx has.
#[test]
fn the_line_of_a_refused_head_has_what_was_read_of_it() {
    for (wire, front, end) in [
        (
            "GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: x\r\nX: \x1b\r\n\r\n",
            "\"GET / HTTP/1.1\" 400 ",
            " \"-\" \"x\"",
        ),
        ("HEAD /a?b HTTP/1.0\r\nReferer: c\r\nUser-Ag", "\"HEAD /a?b HTTP/1.0\" 400 ", " \"c\" \"-\""),
        ("GET /\" HTTP/1.1\r\nHost:\n\r\n", "\"GET /\\x22 HTTP/1.1\" 400 ", " \"-\" \"-\""),
        ("GET / HTTP/1.1\nHost: a\r\n\r\n", "\"GET /\" 400 ", " \"-\" \"-\""),
        ("GET /a\"\u{9b} HTTP/3.0\r\n\r\n", "\"GET /a\\x22\\xC2\\x9B\" 505 ", " \"-\" \"-\""),
        ("BASELINE-CONTROL-OF-THEM-ALL /a HTTP/1.1\r\n\r\n", "\"- /a\" 501 ", " \"-\" \"-\""),
        ("\x16\x03\x01\x02 /a HTTP/1.1\r\n\r\n", "\"-\" 400 ", " \"-\" \"-\""),
        ("GET", "\"-\" 400 ", " \"-\" \"-\""),
    ] {
        let combined = lines(access_log::Format::Combined, wire);
        assert_eq!((combined.len(), lines(access_log::Format::Common, wire).len()), (1, 1), "{wire:?}");
        let line = undated(&combined[0]);
        assert!(line.starts_with(&format!("127.0.0.1 - - {front}")) && line.ends_with(end), "{line}");
    }
}

#[cfg(feature = "json")]
#[test]
fn lines_of_json_are_objects() {
    let found = lines(access_log::Format::Json, &(get("/Ada?q=1") + ODD + "broken\r\n\r\n"));
    let found: Vec<serde_json::Value> =
        found.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let member = |at: usize, name: &str| found[at].get(name).cloned().unwrap_or_default();
    assert_eq!(member(0, "target"), "/Ada?q=1");
    assert_eq!(
        (member(0, "route"), member(0, "status"), member(0, "exchange")),
        ("/{name}".into(), 200.into(), 1.into())
    );
    assert_eq!((member(1, "client"), member(1, "target")), ("192.0.2.7".into(), "/a\"%0a?q=\\".into()));
    assert_eq!((member(2, "status"), member(2, "method")), (400.into(), serde_json::Value::Null));
    assert!(found.iter().all(|line| line["duration_us"].is_u64() && line.get("cut").is_none()));
}

#[test]
fn a_line_of_the_applications_is_one_line() {
    let format = access_log::Format::from_fn(|report, line| {
        write!(line, "{}\r\nforged {report}", report.target).unwrap()
    });
    let found = lines(format, &get("/Ada"));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("/Ada  forged GET /Ada from "), "{found:?}");
}

#[cfg(feature = "tls")]
#[test]
fn a_line_of_the_applications_names_version_and_suite() {
    let secured = crate::protocol::tls::Secured::new();
    let format = access_log::Format::from_fn(|report, line| {
        let written = match report.tls() {
            Some(tls) => write!(line, "{} {}", tls.version, tls.cipher_suite),
            None => write!(line, "in the clear"),
        };
        written.unwrap();
    });
    assert_eq!(lines(format.clone(), &get("/Ada")), ["in the clear"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let log = AccessLog::open(file.path(), format).unwrap();
    let served = Served::with(|server| server.tls(secured.tls.clone()).observe(log.clone()), hello);
    assert_eq!(crate::protocol::tls::greet(&served, secured.peer(), "a.example").unwrap(), "hello");
    drop((served, log));
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "TLSv1.3 TLS13_AES_256_GCM_SHA384\n");
}

/// A file that was rotated is left to whoever has renamed it.
#[test]
fn a_rotated_file_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
    let log = AccessLog::open(&path, access_log::Format::Common).unwrap();
    let served = Served::with(|server| server.observe(log.clone()), hello);
    let written = |path: &std::path::Path| fs::read_to_string(path).unwrap_or_default().lines().count();
    served.ask(get("/"));
    eventually("the line is written", || written(&path) == 1);
    fs::rename(&path, &old).unwrap();
    log.reopen();
    served.ask(get("/"));
    eventually("the line is written to the new file", || written(&path) == 1);
    assert_eq!((written(&old), log.dropped()), (1, 0));
}

/// A writer that waits until it is let go, and counts lines.
struct Stalled(Receiver<()>, Arc<Mutex<usize>>);

impl Write for Stalled {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv(); // an error once it is let go for good
        *self.1.lock().unwrap() += line.iter().filter(|octet| **octet == b'\n').count();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_stalls_loses_lines_and_no_requests() {
    let (release, stalled): (Sender<()>, _) = channel();
    let written = Arc::new(Mutex::new(0));
    let log = AccessLog::from_writer(Stalled(stalled, written.clone()), access_log::Format::Common).unwrap();
    let served = Served::with(|server| server.observe(log.clone()), hello);
    let request = get(&format!("/{}", "a".repeat(500)));
    for _ in 0..96 {
        let received = served.ask(request.repeat(250));
        assert_eq!(received.matches("HTTP/1.1 200 OK").count(), 250);
    }
    assert!(log.dropped() >= 5000, "{} lines are dropped", log.dropped());
    let dropped = log.dropped() as usize;
    drop((release, served));
    drop(log);
    assert_eq!(*written.lock().unwrap() + dropped, 24_000, "each line is written or counted");
}

/// As on a full disk.
#[test]
fn lines_that_cannot_be_written_are_counted() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let log = AccessLog::from_writer(Full, access_log::Format::Common).unwrap();
    let served = Served::with(|server| server.observe(log.clone()), hello);
    assert_eq!(served.ask(get("/").repeat(5)).matches("HTTP/1.1 200 OK").count(), 5);
    eventually("all lines are counted", || log.dropped() == 5);
}

/// A disk that has room for some bytes, is full, and has room again later.
struct Tight(Arc<Mutex<(usize, Vec<u8>)>>);

impl Write for Tight {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let (room, written) = &mut *self.0.lock().unwrap();
        let taken = lines.len().min(*room);
        *room -= taken;
        written.extend_from_slice(&lines[..taken]);
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines are whole again once there is room, and no line is counted as dropped that is there.
#[test]
fn a_line_that_was_cut_spoils_no_other() {
    let format =
        || access_log::Format::from_fn(|report, line| line.extend_from_slice(report.target.as_bytes()));
    // A line has five bytes: the room ends within a line, behind one, and before its end.
    for room in [0, 1, 3, 4, 5, 6, 9, 10, 12] {
        let disk = Arc::new(Mutex::new((room, Vec::new())));
        let log = AccessLog::from_writer(Tight(disk.clone()), format()).unwrap();
        let served = Served::with(|server| server.observe(log.clone()), routes! { any "/{name}" => hello });
        served.ask(get("/old").repeat(3));
        let lost = 3 - room as u64 / 5;
        eventually("the disk is full", || log.dropped() == lost);
        disk.lock().unwrap().0 = usize::MAX;
        served.ask(get("/new").repeat(2));
        drop(served);
        assert_eq!(log.dropped(), lost, "{room}");
        drop(log);
        let written = String::from_utf8(disk.lock().unwrap().1.clone()).unwrap();
        let end = if room % 5 == 0 { "" } else { "\n" };
        assert_eq!(written, format!("{}{end}/new\n/new\n", &"/old\n".repeat(3)[..room]));
    }
}

#[test]
fn a_format_that_panics_costs_its_own_line_alone() {
    let format = access_log::Format::from_fn(|report, line| match report.target {
        "/panics" => std::panic::resume_unwind(Box::new("without a trace")),
        target => line.extend_from_slice(target.as_bytes()),
    });
    let found = lines(format, &(get("/panics").repeat(5000) + &get("/Ada")));
    assert_eq!(found, ["/Ada"]);
}
