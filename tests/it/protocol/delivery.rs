//! A response that is due reaches its peer, even one that still sends its request (RFC 9112 §9.6), or reads slowly.

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use corehttp::middleware::{Next, wrap};
use corehttp::{BodyPlan, Context, Error, Handler, Limits, Server, Status, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::{Instant, sleep};

use crate::support::responses::responses;
use crate::support::{Served, eventually, paused, send_first, status};

/// Answers without the body of its request.
struct App;

impl Handler for App {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        match ctx.request.path() {
            "/buffered" => BodyPlan::BufferUpTo(100_000),
            "/planned" => BodyPlan::Refuse(Status::FORBIDDEN),
            _ => BodyPlan::Stream,
        }
    }

    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        match ctx.request.path() {
            "/tasted" => {
                ctx.body_reader().chunk().await?;
                ctx.response.set_text("fine");
            }
            "/streamed" => return Ok(ctx.body_writer().await?.finish().await?),
            "/large" => ctx.response.body.set_bytes(vec![b'a'; LARGE]),
            "/large/file" => {
                let file = tempfile::tempfile()?;
                file.set_len(LARGE as u64)?;
                ctx.response.body.set_file(Arc::new(file), 0..LARGE as u64);
            }
            "/large/stream" => {
                let mut out = ctx.body_writer().await?;
                out.write_all(&vec![b'a'; LARGE]).await?;
                return Ok(out.finish().await?);
            }
            _ => ctx.response.set_text("fine"),
        }
        Ok(())
    }
}

async fn guard(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
    match ctx.request.path() {
        "/guarded" => Err(Error::from(Status::UNAUTHORIZED)),
        _ => next.handle(ctx).await,
    }
}

/// More than the buffers of two sockets hold.
const LARGE: usize = 12 << 20;

/// Paths, and the status of their responses to a large body.
const RESPONSES: [(&str, u16); 6] = [
    ("/buffered", 413),
    ("/planned", 403),
    ("/guarded", 401),
    ("/ignored", 200),
    ("/tasted", 200),
    ("/streamed", 200),
];

/// Requests with a body of `len` bytes, sized and in chunks.
fn posts(path: &str, len: usize) -> [Vec<u8>; 2] {
    let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\n");
    let sized = [format!("{head}content-length: {len}\r\n\r\n").into_bytes(), vec![b'b'; len]].concat();
    let mut chunked = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for _ in 0..len / CHUNK {
        chunked.extend([format!("{CHUNK:x}\r\n").as_bytes(), &[b'b'; CHUNK], b"\r\n"].concat());
    }
    chunked.extend(b"0\r\n\r\n");
    [sized, [chunked, LAST.into()].concat()]
}

const CHUNK: usize = 50_000;

/// A request over the same connection, which a server that has not said that it closes answers, too.
const LAST: &str = "GET /last HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// Checks all that was received: one response of `status`, and another one unless the first says that the connection
/// closes.
#[track_caller]
fn check_heard(received: &str, status: u16, wire: &[u8], told: &str) {
    let responses = responses(received);
    let closes = responses[0].field("connection") == Some("close");
    assert_eq!((responses[0].status, responses.len()), (status, if closes { 1 } else { 2 }), "{told}");
    assert!(closes || wire.ends_with(LAST.as_bytes()), "{told}");
}

/// Many clients read a response only once they have sent all of their request.
#[test]
fn a_response_is_read_after_a_large_body_was_sent_rfc9112_9_6() {
    let served = Served::new(wrap(guard, App));
    for (path, expected) in RESPONSES {
        for len in [1_000_000, 12_000_000] {
            for wire in posts(path, len) {
                let received = send_first(served.connect().stream, &wire);
                check_heard(&received, expected, &wire, &format!("{path}, {len} bytes"));
            }
        }
    }
}

/// Such a peer takes none of the response before it has sent everything, so neither side would go on.
#[test]
fn a_large_response_is_read_after_a_large_body_was_sent() {
    let timeouts = Timeouts { write: Duration::from_secs(3), ..Timeouts::default() };
    let served = Served::with(|server| server.timeouts(timeouts), App);
    for path in ["/large", "/large/file", "/large/stream"] {
        for wire in posts(path, 20_000_000) {
            let received = send_first(served.connect().stream, &wire);
            check_heard(&received, 200, &wire, path);
            assert!(received.len() > LARGE, "{path}: {} bytes", received.len());
        }
    }
}

/// The rest of a body of which a part was discarded must not seem to be the whole.
#[test]
fn a_body_is_not_read_on_behind_what_was_discarded() {
    let app = wrap(BodyPlan::Stream, async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.body_writer().await?;
        out.write_all(&vec![b'a'; LARGE]).await?;
        out.finish().await?;
        let read = ctx.body_reader().chunk().await.map(|chunk| chunk.map(<[u8]>::len));
        assert!(read.is_err(), "{read:?}");
        Ok(())
    });
    let served = Served::new(app);
    let received = send_first(served.connect().stream, &posts("/", 20_000_000)[0]);
    assert!(received.len() > LARGE && status(&received) == 200);
    assert_eq!(served.running.counts().total.errors.panic, 0);
}

#[cfg(unix)]
#[test]
fn a_response_is_read_after_a_large_body_was_sent_over_a_unix_socket() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("socket");
    let address = format!("unix:{}", path.display());
    let running = Server::bind(address).cores(1).start(wrap(guard, App)).unwrap();
    for (target, expected) in RESPONSES {
        for wire in posts(target, 3_000_000) {
            let peer = std::os::unix::net::UnixStream::connect(&path).unwrap();
            check_heard(&send_first(peer, &wire), expected, &wire, target);
        }
    }
    running.stop(Duration::ZERO);
    running.wait().unwrap();
}

/// How much is read to keep a connection is another bound.
#[test]
fn a_peer_that_sends_on_has_its_time_whatever_the_limit_of_a_drain() {
    for drain_max in [0, 1000, usize::MAX] {
        let limits = Limits { drain_max, ..Limits::default() };
        paused(async {
            let (service, start) = (Server::new().limits(limits).service(App), Instant::now());
            let (mut near, far) = duplex(1_000);
            let peer = async move {
                near.write_all(b"bad\r\n").await.unwrap();
                for _ in 0..29 {
                    sleep(Duration::from_secs(1)).await;
                    near.write_all(&[b'b'; 10_000]).await.expect("the server reads on");
                }
                near.shutdown().await.unwrap();
                let mut received = String::new();
                near.read_to_string(&mut received).await.unwrap();
                received
            };
            let (received, _) = tokio::join!(peer, service.serve_connection(far));
            assert_eq!((status(&received), start.elapsed()), (400, Duration::from_secs(29)), "{drain_max}");
        });
    }
}

/// A read that never waits does not expire.
#[test]
fn a_peer_that_never_stops_sending_is_cut_off() {
    let timeouts = Timeouts { linger: Duration::from_millis(300), ..Timeouts::default() };
    let served = Served::with(|server| server.timeouts(timeouts), App);
    let (mut flood, start) = (served.connect(), std::time::Instant::now());
    flood.send("bad\r\n");
    while flood.stream.write_all(&[b'b'; 100_000]).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(30), "it is read from for ever");
    }
    assert!(start.elapsed() >= Duration::from_millis(300));
}

/// The end of such a body is unknown, and the response has promised that another request may follow it.
#[test]
fn a_body_in_chunks_that_nobody_reads_has_its_time_to_end() {
    for (linger, chunks, kept) in [(30, 25, true), (30, 65, false), (0, 25, false)] {
        let timeouts = Timeouts { linger: Duration::from_secs(linger), ..Timeouts::default() };
        let limits = Limits { drain_max: 1_000, ..Limits::default() };
        paused(async {
            let (service, start) =
                (Server::new().limits(limits).timeouts(timeouts).service(App), Instant::now());
            let (mut near, far) = duplex(1_000);
            let peer = async move {
                let head = "POST /ignored HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
                let chunk = [b"bb8\r\n", &[b'b'; 3_000][..], b"\r\n"].concat();
                near.write_all(head.as_bytes()).await.unwrap();
                for _ in 0..chunks {
                    sleep(Duration::from_secs(1)).await;
                    if near.write_all(&chunk).await.is_err() {
                        break;
                    }
                }
                let _ = near.write_all(format!("0\r\n\r\n{LAST}").as_bytes()).await;
                let mut received = String::new();
                near.read_to_string(&mut received).await.unwrap();
                received
            };
            let (received, _) = tokio::join!(peer, service.serve_connection(far));
            assert_eq!(responses(&received).len(), if kept { 2 } else { 1 }, "{received:?}");
            assert!(start.elapsed() < Duration::from_secs(2 * linger + 5), "{:?}", start.elapsed());
        });
    }
}

#[test]
fn a_stop_waits_a_moment_for_a_silent_peer_that_may_linger() {
    let timeouts = Timeouts { linger: Duration::MAX, linger_idle: Duration::MAX, ..Timeouts::default() };
    paused(async {
        let (service, start) = (Server::new().timeouts(timeouts).service(App), Instant::now());
        let (mut near, far) = duplex(1 << 16);
        let peer = async {
            near.write_all(b"bad\r\n").await.unwrap();
            sleep(Duration::from_secs(100)).await;
            service.stop();
            sleep(Duration::from_millis(200)).await;
            near.write_all(b"more").await.expect("it still has time");
        };
        let _ = tokio::join!(peer, service.serve_connection(far));
        assert_eq!(start.elapsed().as_millis(), 100_450);
    });
}

/// The kernel reports a socket as writable when a third of its buffer is free, for which such a peer takes longer than
/// the limit.
#[test]
fn a_peer_that_reads_slowly_gets_all_of_its_response() {
    const LEN: usize = 12 << 20;
    let file = Arc::new(tempfile::tempfile().unwrap());
    file.set_len(LEN as u64).unwrap();
    let app = async move |ctx: &mut Context| -> corehttp::Result {
        match ctx.request.path() {
            "/file" => ctx.response.body.set_file(file.clone(), 0..LEN as u64),
            "/bytes" => ctx.response.body.set_bytes(vec![0; LEN]),
            _ => {
                let mut out = ctx.body_writer().await?;
                out.write_all(&vec![0; LEN]).await?;
                out.finish().await?;
            }
        }
        Ok(())
    };
    let timeouts = Timeouts { write: Duration::from_millis(200), ..Timeouts::default() };
    let served = Served::with(|server| server.timeouts(timeouts), app);
    let peers = ["/file", "/bytes", "/stream"].map(|path| {
        let mut peer = served.connect();
        thread::spawn(move || {
            peer.send(format!("GET {path} HTTP/1.0\r\n\r\n"));
            let (mut received, start) = (Vec::new(), std::time::Instant::now());
            let mut piece = vec![0; 32 << 10];
            // Slower than megabytes a second, for longer than two limits on a core, whose clock is coarse.
            while start.elapsed() < Duration::from_millis(2_000) {
                thread::sleep(Duration::from_millis(50));
                let count = peer.stream.read(&mut piece).unwrap();
                received.extend_from_slice(&piece[..count]);
            }
            let end = peer.stream.read_to_end(&mut received);
            let body = received
                .windows(4)
                .position(|end| end == b"\r\n\r\n")
                .map_or(0, |at| received.len() - at - 4);
            (path, end.map(drop).map_err(|error| error.kind()), body)
        })
    });
    for peer in peers {
        let (path, end, body) = peer.join().unwrap();
        assert_eq!((end, body), (Ok(()), LEN), "{path}");
    }
}

#[test]
fn a_peer_that_reads_nothing_is_cut_off_at_the_limit() {
    let app = |ctx: &mut Context| ctx.response.body.set_bytes(vec![0; 12 << 20]);
    let timeouts = Timeouts { write: Duration::from_millis(200), ..Timeouts::default() };
    let served = Served::with(|server| server.timeouts(timeouts), app);
    let (mut peer, start) = (served.connect(), std::time::Instant::now());
    peer.send("GET / HTTP/1.0\r\n\r\n");
    eventually("it is cut off", || served.running.counts().total.errors.timed_out == 1);
    let waited = start.elapsed();
    assert!((Duration::from_millis(200)..Duration::from_secs(3)).contains(&waited), "{waited:?}");
}
