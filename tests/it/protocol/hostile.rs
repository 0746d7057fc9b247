//! Peers that break rules, close and reset: the server answers or refuses each of them, and works as before after that.

use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{self, Poll};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use corehttp::middleware::{self, wrap};
use corehttp::{BodyPlan, Context, Handler, Limits, Method, Request, Result, Server, Service, Timeouts};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf, duplex};

use crate::oracle::server::{Handlers, check};
use crate::support::chance::Chance;
use crate::support::responses::responses;
use crate::support::wired::{Then, Wired};
use crate::support::{Peer, Served, eventually, paused, status, undated};
#[cfg(target_os = "linux")]
use crate::support::{alone, resident};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// Conversations good and bad, to be spoiled.
const CORPUS: &[&str] = &[
    GET,
    "HEAD /a HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n",
    "GET /?q=1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /ab HTTP/1.0\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n",
    "GET http://b:80/abc HTTP/1.1\r\nhost: a\r\nconnection: close, te\r\nte: trailers\r\n\r\n",
    "CONNECT b:443 HTTP/1.1\r\nhost: b:443\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n",
    "\r\nPOST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\nhello",
    "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 31\r\n\r\nGET /hidden HTTP/1.1\r\nhost: a\r\n\r\n",
    "POST /ab HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5;a=b;c=\"d\"\r\nhello\r\n00\r\nx: y\r\n\r\n",
    "PUT /abc HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\n\r\r\n2\r\n\n\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\nx : y\r\n z\r\n\r\n",
    "GET / HTTP/1.1\nhost: a\n\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

/// Text that readers often understand in different ways.
const SPICE: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"\"",
    b"0",
    b"-1",
    b"+",
    b"0x",
    b"\x7f",
    b"\xff",
    b"\r\n\r\n",
    b"\r\n ",
    b"chunked",
    b"content-length: 3\r\n",
    b"transfer-encoding: chunked\r\n",
    b"HTTP/1.1",
    b"ffffffffffffffff",
    b"18446744073709551616",
    b"connection: close\r\n",
    b"0\r\n\r\n",
    GET.as_bytes(),
];

impl Chance {
    /// One or two conversations, spoiled in a few places.
    fn conversation(&mut self) -> Vec<u8> {
        let count = 1 + self.below(2);
        let mut wire = (0..count).flat_map(|_| self.one_of(CORPUS).bytes()).collect();
        for _ in 0..self.below(5) {
            self.spoil(&mut wire);
        }
        wire
    }

    fn spoil(&mut self, wire: &mut Vec<u8>) {
        let at = self.below(wire.len() + 1);
        let end = (at + self.below(9)).min(wire.len());
        match self.below(6) {
            0 => wire[at..end].iter_mut().take(1).for_each(|byte| *byte ^= 1 << self.below(8)),
            1 => drop(wire.splice(at..at, self.one_of(SPICE).iter().copied())),
            2 => drop(wire.splice(at..end, self.one_of(SPICE).iter().copied())),
            3 => drop(wire.drain(at..end)),
            4 => drop(wire.splice(at..at, wire[at..end].repeat(1 + self.below(99)))),
            _ => wire.truncate(at.max(1)),
        }
    }

    /// `wire` in packets.
    fn cut<'a>(&mut self, mut wire: &'a [u8]) -> Vec<&'a [u8]> {
        let mut packets = Vec::new();
        while !wire.is_empty() {
            let (packet, rest) = wire.split_at(1 + self.below(wire.len()));
            packets.push(packet);
            wire = rest;
        }
        packets
    }
}

thread_local! {
    /// The requests of handlers on this thread.
    static SEEN: RefCell<Vec<(String, Bytes)>> = RefCell::default();
}

/// Answers in one of several ways, by the length of the path.
async fn app(ctx: &mut Context) -> Result {
    let line = format!("{} {}", ctx.request.method(), ctx.request.path());
    let body = match plan(&ctx.request) {
        BodyPlan::Stream if ctx.request.path().len() == 2 => {
            let (mut read, mut body) = (Vec::new(), ctx.body_reader());
            while let Some(chunk) = body.chunk().await? {
                read.extend_from_slice(chunk);
            }
            read.into()
        }
        // Left unread.
        BodyPlan::Stream => Bytes::new(),
        _ => Bytes::copy_from_slice(ctx.request.body.bytes()),
    };
    SEEN.with_borrow_mut(|seen| seen.push((line, body)));
    if ctx.request.method() == Method::Head {
        ctx.response.headers.set("asked", "HEAD")?;
    }
    if ctx.request.path().len() == 4 {
        let mut out = ctx.body_writer().await?;
        out.write_all(b"fi").await?;
        out.flush().await?;
        out.write_all(b"ne").await?;
        return Ok(out.finish().await?);
    }
    ctx.response.set_text("fine");
    Ok(())
}

fn plan(request: &Request) -> BodyPlan {
    match request.path().len() {
        2 | 3 => BodyPlan::Stream,
        _ => BodyPlan::Buffer,
    }
}

/// The outcome of a conversation: the requests that handlers saw, and the status of the refusal that ended it, if any.
#[derive(Debug, PartialEq)]
struct Outcome {
    seen: Vec<(String, Bytes)>,
    refused: Option<u16>,
}

/// Returns the outcome of a conversation. Checks that all responses are well formed, every request that was seen has
/// one, and nothing follows a refusal.
#[track_caller]
fn outcome<H: Handler>(wired: &Wired<H>, packets: &[&[u8]], then: Then) -> Outcome {
    let mut received = wired.ask(packets, then);
    let last = received.rsplit("HTTP/1.1 ").next().unwrap_or_default();
    if last.ends_with("\r\nconnection: close\r\n\r\n") && !last.starts_with("200 ") {
        // The response to HEAD has no content, although it states a length.
        let reason = last.split_once("\r\n").and_then(|line| line.0.split_once(' ')).unwrap().1.to_owned();
        received += &reason;
    }
    let received = responses(&received);
    let received = received.iter().filter(|response| response.status >= 200);
    let (answered, refused): (Vec<_>, Vec<_>) = received.partition(|response| response.status == 200);
    let seen = SEEN.take();
    assert_eq!(answered.len(), seen.len());
    // Nothing follows a response with `close`, which a refusal has.
    refused.iter().for_each(|refused| refused.check_refusal());
    Outcome { seen, refused: refused.first().map(|refused| refused.status) }
}

#[test]
fn spoiled_conversations_end_alike_however_they_are_cut() {
    let (wired, mut chance) = (Wired::new(wrap(middleware::plan(plan), app)), Chance::new(0x5eed));
    for round in 0..ROUNDS {
        let wire = chance.conversation();
        let then = chance.one_of(&[Then::Ends, Then::Waits]);
        let whole = outcome(&wired, &[&wire], then);
        check_read(&wire, &whole);
        let cut = outcome(&wired, &chance.cut(&wire), then);
        assert_eq!(cut, whole, "{round}: {}", wire.escape_ascii());
        let next = outcome(&wired, &[GET.as_bytes()], Then::Ends);
        assert_eq!((next.seen.len(), next.refused), (1, None), "{round}: {}", wire.escape_ascii());
    }
}

const ROUNDS: usize = 3_000;

/// Checks that `outcome` is that of what the oracle reads.
#[track_caller]
fn check_read(wire: &[u8], outcome: &Outcome) {
    let seen = outcome.seen.iter().map(|(line, body)| format!("{line} {}", body.escape_ascii()));
    check(wire, READ, &seen.collect::<Vec<_>>(), outcome.refused);
}

/// Each octet of a head is changed, doubled by another or dropped, and the head is cut before each.
#[test]
fn heads_with_any_octet_anywhere_are_read_as_by_the_oracle_rfc9112_2_2() {
    const HEADS: [&str; 4] = [
        "GET /long HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /a%20b?c=d HTTP/1.0\r\nx-b3: 1\r\nContent-Length: 5\r\n\r\nhello",
        "M-SEARCH /? HTTP/1.1\r\nHost: a:80\r\nEmpty: \r\nX_y: one, \"two\" ~\r\n\r\n",
        "\r\nOPTIONS http://a/b?c HTTP/1.9\r\nhost:a\r\na:b \r\n\r\nGET /next HTTP/1.0\r\n\r\n",
    ];
    const ODD: &[u8] = b"\0\t\n\r :/@a2\x7f\x80\xff";
    let (wired, mut refused) = (Wired::new(wrap(middleware::plan(plan), app)), 0);
    for head in HEADS.map(str::as_bytes) {
        for at in 0..head.len() {
            let (before, rest) = head.split_at(at);
            let changed = ODD.iter().map(|&odd| [before, &[odd], &rest[1..]].concat());
            let doubled = ODD.iter().map(|&odd| [before, &[odd], rest].concat());
            for wire in changed.chain(doubled).chain([[before, &rest[1..]].concat(), before.to_vec()]) {
                let whole = outcome(&wired, &[&wire], Then::Ends);
                check_read(&wire, &whole);
                refused += usize::from(whole.refused.is_some());
            }
        }
    }
    assert!(refused > 1_000, "{refused}");
}

/// A part of a line is not parsed at once, but before an error is reported that blames the peer for less.
#[test]
fn a_fault_in_a_line_that_does_not_end_is_the_error_rfc9112_2_2() {
    let wired = Wired::new(app);
    let head = "POST / HTTP/1.1\r\nhost: a\r\n";
    let trailers = format!("{head}transfer-encoding: chunked\r\n\r\n0\r\na: b\r\n");
    for (begun, line) in
        [("GET", "(/ H"), ("GET / HTTP/1.1\r\na: b", "\0"), (head, "x : y"), (&trailers, "x : y")]
    {
        let wire = format!("{begun}{line}");
        let octets: Vec<&[u8]> = wire.as_bytes().chunks(1).collect();
        for then in [Then::Ends, Then::Waits] {
            for packets in [&[begun.as_bytes(), line.as_bytes()], &octets[..]] {
                assert_eq!(outcome(&wired, packets, then).refused, Some(400), "{wire:?} {then:?}");
            }
        }
    }
}

/// The request as [`app`] sees it, after the oracle has read it.
const READ: Handlers = Handlers {
    note: &|request| {
        let [method, path] = [&request.method, request.path()].map(String::from_utf8_lossy);
        let content: &[u8] = if path.len() == 3 { b"" } else { &request.content };
        format!("{method} {path} {}", content.escape_ascii())
    },
    is_early: &|request| request.path().len() == 3,
    is_streamed: &|request| request.path().len() == 4,
};

/// The rule that is broken first counts, even if all bytes arrive at once.
#[test]
fn of_two_broken_rules_the_first_decides_wherever_packets_end() {
    let limits =
        Limits { request_line_max: 30, head_max: 80, fields_max: 4, trailers_max: 20, ..Limits::default() };
    let wired = Wired::with(|server| server.limits(limits), app);
    let (long, odd) = ("l".repeat(40), "M".repeat(99));
    let chunked = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n";
    for (wire, expected) in [
        (format!("GET /{long} HTTP/1.1\r\nhost : a\r\n\r\n"), 414),
        (format!("GET /{long}\0 HTTP/1.1\r\nhost: a\r\n\r\n"), 414),
        (format!("GET /{long} HTTP/3.0\r\nhost: a\r\n\r\n"), 414),
        (format!("GET /\0{long} HTTP/1.1\r\nhost: a\r\n\r\n"), 400),
        (format!("GET / HTTP/3.0\r\nhost : a\r\nx: {long}{long}\r\n\r\n"), 505),
        (format!("GET / HTTP/1.1\r\nhost : a\r\nx: {long}{long}\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\nx: {long}{long}\r\nhost : a\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\nx: {long}{long}\r\n\r\n"), 400),
        (format!("GET \\ HTTP/1.1\r\nx: {long}{long}\r\n\r\n"), 431),
        (format!("{odd} / HTTP/1.1\r\nhost : a\r\n\r\n"), 414),
        ("GET / HTTP/1.1\r\na:\r\nb:\r\nc:\r\nd:\r\ne:\r\nhost : a\r\n\r\n".into(), 431),
        ("GET / HTTP/1.1\r\na:\r\nb:\r\nc:\r\nhost : a\r\nd:\r\ne:\r\n\r\n".into(), 400),
        (format!("{chunked}a: {long}\r\nb : c\r\n\r\n"), 431),
        (format!("{chunked}b : c\r\na: {long}\r\n\r\n"), 400),
        (format!("{chunked}a: b\nc: {long}\r\n\r\n"), 431),
    ] {
        for cut in 1..wire.len() {
            let (first, second) = wire.as_bytes().split_at(cut);
            let received = outcome(&wired, &[first, second], Then::Waits);
            assert_eq!(received.refused, Some(expected), "{wire:?} cut at {cut}");
        }
    }
}

/// Checks that no connection is left, and that the next one is served well.
#[track_caller]
fn check_well(served: &Served) {
    eventually("all are gone", || served.running.counts().total.open == 0);
    let received = served.ask(GET);
    assert_eq!((status(&received), received.ends_with("\r\n\r\nfine")), (200, true), "{received:?}");
    eventually("this one is gone too", || served.running.counts().total.open == 0);
    assert_eq!(served.running.counts().total.errors.panic, 0);
}

/// Spoils a conversation with `served`, and leaves it in one way or another.
fn harass(served: &Served, chance: &mut Chance) {
    let (mut peer, wire) = (served.connect(), chance.conversation());
    chance.cut(&wire).into_iter().for_each(|packet| peer.send(packet));
    match chance.below(4) {
        0 => {}
        1 => peer.reset(),
        2 => peer.end(),
        _ => {
            peer.end();
            peer.receive_all();
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn thousands_of_garbage_connections_leave_the_server_well() {
    alone("protocol::hostile::thousands_of_garbage_connections_leave_the_server_well", || {
        let forgetful = async |ctx: &mut Context| {
            let answered = app(ctx).await;
            SEEN.take();
            answered
        };
        let served = Served::with(|server| server.cores(2), wrap(middleware::plan(plan), forgetful));
        let harass_all = |seed| {
            thread::scope(|scope| {
                for seed in [seed, seed + 1] {
                    let (served, mut chance) = (&served, Chance::new(seed));
                    scope.spawn(move || (0..1_000).for_each(|_| harass(served, &mut chance)));
                }
            });
            check_well(&served);
        };
        harass_all(1);
        // A round with more peers at a time than any before takes more memory, once. A leak takes more in every round.
        let is_steady = (1..20).any(|round| {
            let before = resident();
            harass_all(1 + 2 * round);
            resident() < before + (32 << 10)
        });
        assert!(is_steady, "each round took more memory");
    });
}

#[test]
fn a_reset_at_any_point_ends_one_exchange_and_nothing_else() {
    let served = Served::new(wrap(middleware::plan(plan), app));
    for body in [
        "content-length: 5\r\n\r\nhello",
        "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\n\r\n",
    ] {
        for path in ["/", "/a", "/ab", "/abc"] {
            let wire = format!("POST {path} HTTP/1.1\r\nhost: a\r\n{body}");
            for end in 0..=wire.len() {
                let mut peer = served.connect();
                peer.send(&wire[..end]);
                peer.reset();
            }
            // The same while the request is answered.
            for received in 0..20 {
                let mut peer = served.connect();
                peer.send(&wire);
                peer.stream.read_exact(&mut vec![0; received]).unwrap();
                peer.reset();
            }
            check_well(&served);
        }
    }
}

#[test]
fn slow_heads_hold_up_no_other_peer() {
    let served = Served::new(wrap(middleware::plan(plan), app));
    let mut peers: Vec<_> = (0..40).map(|_| served.connect()).collect();
    for byte in GET.as_bytes() {
        peers.iter_mut().for_each(|peer| peer.send([*byte]));
        assert_eq!(status(&served.ask(GET)), 200);
    }
    peers.iter_mut().for_each(|peer| assert_eq!(status(&peer.receive()), 200));
    drop(peers);
    check_well(&served);
}

fn announcing(path: &str, framing: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: a\r\n{framing}")
}

#[cfg(target_os = "linux")]
#[test]
fn an_announced_body_takes_no_memory_before_it_comes() {
    alone("protocol::hostile::an_announced_body_takes_no_memory_before_it_comes", || {
        const PEERS: usize = 200;
        let served = Served::new(wrap(middleware::plan(plan), app));
        check_well(&served);
        let before = resident();
        for (huge, refused) in [
            ("content-length: 10000000000\r\n\r\n", 413),
            ("transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nx", 413),
        ] {
            assert_eq!(status(&served.ask(announcing("/", huge))), refused);
            // A handler that reads the body gets the error that it was cut short.
            assert_eq!(status(&served.ask(announcing("/a", huge))), 400);
        }
        let within = format!("content-length: {}\r\n\r\nx", Limits::default().body_max);
        let mut peers: Vec<_> = (0..PEERS).map(|_| served.connect()).collect();
        peers.iter_mut().for_each(|peer| peer.send(announcing("/", &within)));
        eventually("all are there", || served.running.counts().total.requests >= PEERS as u64);
        let grown = resident().saturating_sub(before);
        assert!(grown < PEERS * (64 << 10), "{grown} bytes for {PEERS} peers");
        drop(peers);
        check_well(&served);
    });
}

/// A peer announces a window of 16 MiB in four octets, and waits.
#[cfg(all(target_os = "linux", feature = "compress"))]
#[test]
fn an_announced_window_takes_no_memory_before_it_is_filled_rfc7932_9_1() {
    alone("protocol::hostile::an_announced_window_takes_no_memory_before_it_is_filled_rfc7932_9_1", || {
        const PEERS: usize = 20;
        let reads = async |ctx: &mut Context| -> Result {
            let mut body = ctx.body_reader().decoded_up_to(64 << 20)?;
            while body.chunk().await?.is_some() {}
            Ok(())
        };
        let served = Served::new(wrap(BodyPlan::Stream, reads));
        assert_eq!(status(&served.ask(announcing("/", "content-length: 0\r\n\r\n"))), 200);
        let before = resident();
        let claim = announcing("/", "content-encoding: br\r\ncontent-length: 100\r\n\r\n");
        // An allocator may keep what the first of them have freed, and clear all of it for the next ones.
        for round in 1..=3 {
            let mut peers: Vec<_> = (0..PEERS).map(|_| served.connect()).collect();
            peers.iter_mut().for_each(|peer| peer.send([claim.as_bytes(), b"\xcf\xff\xff\xff"].concat()));
            let have_come = || served.running.counts().total.requests > (PEERS * round) as u64;
            eventually("all are there", have_come);
            thread::sleep(Duration::from_millis(50));
            let grown = resident().saturating_sub(before);
            assert!(grown < PEERS * (256 << 10), "{grown} bytes for {PEERS} peers, round {round}");
            drop(peers);
            eventually("all are gone", || served.running.counts().total.open == 0);
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn peers_that_do_not_read_take_no_memory_and_no_time() {
    alone("protocol::hostile::peers_that_do_not_read_take_no_memory_and_no_time", || {
        let much = Bytes::from(vec![b'x'; 16 << 20]);
        let served = Served::new(move |ctx: &mut Context| match ctx.request.path() {
            "/much" => ctx.response.body.set_shared_bytes(much.clone()),
            _ => ctx.response.set_text("fine"),
        });
        check_well(&served);
        let before = resident();
        let mut peers: Vec<_> = (0..20).map(|_| served.connect()).collect();
        peers[0].stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let flood = GET.repeat(1_000);
        while peers[0].stream.write_all(flood.as_bytes()).is_ok() {}
        peers[1..].iter_mut().for_each(|peer| peer.send("GET /much HTTP/1.1\r\nhost: a\r\n\r\n"));
        for _ in 0..100 {
            assert_eq!(status(&served.ask(GET)), 200);
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < 4 << 20, "{grown} bytes");
        peers.into_iter().for_each(Peer::reset);
        check_well(&served);
    });
}

#[test]
fn a_peer_that_asks_without_end_leaves_room_for_others() {
    let served = Served::new(app);
    let (mut asks, others) = (served.connect(), AtomicBool::new(true));
    let mut hears = asks.stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            while others.load(Ordering::Relaxed) {
                asks.send(GET.repeat(1_000));
            }
            asks.end();
        });
        let answered = scope.spawn(move || io::copy(&mut hears, &mut io::sink()).unwrap());
        for _ in 0..50 {
            assert_eq!(status(&served.ask(GET)), 200);
        }
        others.store(false, Ordering::Relaxed);
        assert!(answered.join().unwrap() > 0);
    });
    check_well(&served);
}

#[test]
fn a_flood_of_connections_is_turned_away_and_forgotten() {
    const PEERS: u64 = 400;
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let served = Served::with(|server| server.limits(limits), app);
    let mut first = served.connect();
    first.send(GET);
    first.receive();
    // An idle connection would give way to the others, and one amid a head does not.
    let (begun, rest) = GET.split_at(5);
    first.send(begun);
    let mut peers: Vec<_> = (0..PEERS).map(|_| served.connect()).collect();
    eventually("they are turned away", || served.running.counts().total.errors.overload == PEERS);
    first.send(rest);
    assert_eq!(status(&first.receive()), 200);
    first.send(begun);
    // Of so many, not all get a response.
    let told =
        peers.iter_mut().map(|peer| status(&peer.receive_all())).filter(|status| *status == 503).count();
    assert!(told >= 100, "{told}");
    drop(peers);
    eventually("they are gone", || served.running.counts().total.open == 1);
    // But each gets one if they connect one after the other, however many there were.
    for _ in 0..300 {
        let received = served.connect().receive_all();
        assert_eq!(status(&received), 503, "{received}");
    }
    drop(first);
    check_well(&served);
}

/// Panics as the path says, without printing anything.
async fn panics(ctx: &mut Context) -> Result {
    match ctx.request.path() {
        "/at-once" => resume_unwind(Box::new(())),
        "/later" => tokio::task::yield_now().await,
        "/while-reading" => drop(ctx.body_reader().chunk().await?),
        "/while-writing" => {
            let mut out = ctx.body_writer().await?;
            out.write_all(b"half").await?;
            out.flush().await?;
        }
        "/in-its-source" => {
            ctx.response.body.set_stream(Panics, None);
            return Ok(());
        }
        "/when-dropped" => {
            let _panics = Panics;
            pending().await
        }
        _ => {
            ctx.response.set_text("fine");
            return Ok(());
        }
    }
    resume_unwind(Box::new("quietly"))
}

fn panicky_plan(request: &Request) -> BodyPlan {
    match request.path() {
        "/by-its-head" => resume_unwind(Box::new("quietly")),
        "/while-reading" => BodyPlan::Stream,
        _ => BodyPlan::Buffer,
    }
}

/// Panics when it is read, and when it is dropped.
struct Panics;

impl AsyncRead for Panics {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        resume_unwind(Box::new("quietly"))
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if !thread::panicking() {
            resume_unwind(Box::new("quietly"));
        }
    }
}

#[test]
fn panics_at_odd_times_end_one_connection_and_no_other() {
    let timeouts = Timeouts { handler: Some(Duration::from_millis(1)), ..Timeouts::default() };
    let served =
        Served::with(|server| server.timeouts(timeouts), wrap(middleware::plan(panicky_plan), panics));
    let mut other = served.connect();
    for (path, expected, end) in [
        ("/at-once", 500, "\r\n\r\nInternal Server Error"),
        ("/later", 500, "\r\n\r\nInternal Server Error"),
        ("/by-its-head", 500, "\r\n\r\nInternal Server Error"),
        ("/while-reading", 500, "\r\n\r\nInternal Server Error"),
        // A response that has begun must not look whole.
        ("/while-writing", 200, "half\r\n<ConnectionReset>"),
        ("/in-its-source", 200, "\r\n\r\n<ConnectionReset>"),
        ("/when-dropped", 500, "\r\n\r\nInternal Server Error"),
    ] {
        let mut peer = served.connect();
        peer.send(announcing(path, "content-length: 5\r\n\r\nhello"));
        let received = peer.receive_all();
        assert!(status(&received) == expected && received.ends_with(end), "{path}: {received:?}");
        other.send(GET);
        assert_eq!(status(&other.receive()), 200, "after {path}");
    }
    drop(other);
    eventually("all are gone", || served.running.counts().total.open == 0);
    // The source panics when it is read, and again when it is dropped.
    assert_eq!(served.running.counts().total.errors.panic, 8);
    // Without middleware, nothing is left that could answer.
    let bare = Served::with(|server| server.timeouts(timeouts), panics);
    assert_eq!(bare.ask(announcing("/when-dropped", "content-length: 5\r\n\r\nhello")), "");
    assert_eq!(status(&bare.ask(GET)), 200);
}

#[test]
fn on_error_may_panic_too() {
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let told = |server: Server| server.limits(limits).on_error(|_| resume_unwind(Box::new("quietly")));
    let served = Served::with(told, |ctx: &mut Context| ctx.response.set_text("fine"));
    drop(served.ask("bad\r\n"));
    eventually("all are gone", || served.running.counts().total.open == 0);
    let mut first = served.connect();
    first.send(GET);
    first.receive();
    let peers: Vec<_> = (0..400).map(|_| served.connect()).collect();
    eventually("they are turned away", || served.running.counts().total.errors.overload == 400);
    drop((first, peers));
    check_well(&served);
}

/// Polls `future` once.
async fn poll_once(mut future: Pin<&mut impl Future>) {
    poll_fn(|cx| {
        let _ = future.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
}

#[test]
fn a_connection_may_be_dropped_at_any_point() {
    let wires = ["/", "/a", "/ab", "/abc"].map(|path| {
        let first = announcing(path, "content-length: 5\r\n\r\nhello");
        let second = announcing(path, "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\n\r\n");
        [&*first, &*second, "bad\r\n"].concat()
    });
    paused(async {
        let service = Server::new().service(wrap(middleware::plan(plan), app));
        let expected = probe(&service).await;
        for wire in wires {
            for end in 1..=wire.len() {
                let (mut near, far) = duplex(16);
                let mut serving = Box::pin(service.serve_connection(far));
                for byte in &wire.as_bytes()[..end] {
                    // The peer does not read, so at some point responses are stuck too.
                    poll_once(pin!(near.write_all(&[*byte]))).await;
                    poll_once(serving.as_mut()).await;
                }
                drop(serving);
                assert_eq!(probe(&service).await, expected, "after {end} bytes of {wire:?}");
            }
        }
    });
}

/// All that a peer receives on a connection that is served as it should be.
async fn probe<H: Handler>(service: &Service<H>) -> String {
    let (mut near, far) = duplex(1 << 16);
    let peer = async move {
        near.write_all(announcing("/", "content-length: 2\r\n\r\nhi").as_bytes()).await.unwrap();
        near.shutdown().await.unwrap();
        let mut received = String::new();
        near.read_to_string(&mut received).await.unwrap();
        received
    };
    undated(&tokio::join!(peer, service.serve_connection(far)).0)
}

#[test]
fn a_flood_does_not_keep_the_server_from_stopping() {
    for cores in [1, 2] {
        let served = Served::with(|server| server.cores(cores), wrap(middleware::plan(plan), app));
        let grace = Duration::from_millis(100);
        thread::scope(|scope| {
            for seed in 1..=4 {
                let (address, mut chance) = (served.addr(), Chance::new(seed));
                scope.spawn(move || {
                    let mut peers = Vec::new();
                    while let Ok(stream) = TcpStream::connect(address) {
                        let mut peer = Peer::new(stream);
                        peer.send(chance.conversation());
                        // Some of the peers stay, others close.
                        peers.push(peer);
                        peers.truncate(chance.below(20));
                    }
                });
            }
            eventually("there is a flood", || served.running.counts().total.accepted > 200);
            served.running.stop(grace);
            let before = served.running.counts().total.accepted;
            served.running.wait().unwrap();
            // Each core finishes its turn, and accepts the peers that wait then, but not all that connect later.
            let more = served.running.counts().total.accepted - before;
            assert!(more <= cores as u64 * (4096 + 128), "{more}");
        });
        let stats = served.running.counts().total;
        assert_eq!((stats.open, stats.errors.panic), (0, 0));
    }
}
