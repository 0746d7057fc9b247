//! The memory that the peers of a server share: a body takes its part before it is received, others wait in turn and not
//! for ever, and all of it is free again afterwards, however an exchange ends.
#![allow(clippy::unwrap_used, reason = "a test is short, and may panic")]

use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use corehttp::{BoxHandler, Context, Handler, Limits, Server, Service, routes};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Served, eventually, paused, status, streaming};

/// The memory of large bodies, that of all, and a body that leaves too little for another one.
pub(super) const LARGE: usize = 5 << 18;
pub(super) const MEMORY: usize = LARGE / 3 * 4;
pub(super) const BODY: usize = 700_000;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
/// How long a body is waited for, and how long memory is.
pub(super) const WAIT: Duration = Duration::from_secs(30);

/// A server without sockets, on a paused clock.
#[derive(Clone)]
pub(super) struct InMemory(Rc<Service<BoxHandler>>);

impl InMemory {
    /// Runs `talk`, after which all memory must be free.
    #[track_caller]
    pub(super) fn run<F: Future<Output = ()>>(
        handler: impl Handler + Send + Sync + 'static,
        talk: impl FnOnce(InMemory) -> F,
    ) {
        let limits = Limits { memory_max: MEMORY, ..Limits::default() };
        let tasks = LocalSet::new();
        paused(tasks.run_until(async {
            let service = Server::new().limits(limits).service(BoxHandler::new(handler));
            let server = InMemory(Rc::new(service));
            talk(server.clone()).await;
            sleep(SECOND).await;
            let mut last = server.connect();
            last.begin("POST", "/", LARGE - (8 << 10), "expect: 100-continue\r\n").await;
            assert!(last.receive().await.starts_with("HTTP/1.1 100 "), "memory was not given back");
        }));
    }

    pub(super) fn connect(&self) -> Near {
        let (near, far) = duplex(64 << 10);
        let server = self.0.clone();
        spawn_local(async move { server.serve_connection(far).await });
        Near(near)
    }
}

/// A peer.
pub(super) struct Near(pub(super) DuplexStream);

impl Near {
    /// Sends a head that announces so many bytes.
    pub(super) async fn begin(&mut self, method: &str, path: &str, len: usize, fields: &str) {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {len}\r\n{fields}\r\n");
        self.send(head).await;
    }

    pub(super) async fn send(&mut self, octets: impl AsRef<[u8]>) {
        self.0.write_all(octets.as_ref()).await.unwrap();
    }

    /// All that arrives within a second; a longer wait is none, since clocks jump.
    pub(super) async fn receive(&mut self) -> String {
        String::from_utf8(self.receive_octets().await).unwrap()
    }

    async fn receive_octets(&mut self) -> Vec<u8> {
        let (mut received, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(Ok(count @ 1..)) = timeout(SECOND, self.0.read(&mut piece)).await {
            received.extend_from_slice(&piece[..count]);
        }
        received
    }

    /// The response, and after how long its status was here.
    pub(super) async fn response(&mut self) -> (Duration, String) {
        let (start, mut first) = (Instant::now(), [0; 12]);
        timeout(HOUR, self.0.read_exact(&mut first)).await.unwrap().unwrap();
        (start.elapsed(), String::from_utf8_lossy(&first).into_owned() + &self.receive().await)
    }
}

/// Handlers that say how much they have received.
pub(super) fn handler() -> impl Handler + Send + Sync {
    routes! {
        POST "/" => |ctx: &mut Context| {
            let len = ctx.request.body.len();
            ctx.response.set_text(len.to_string());
        },
        POST "/hold" => hold,
        POST "/buffer" => streaming(async |ctx: &mut Context| -> corehttp::Result {
            ctx.buffer_body().await?;
            ctx.response.set_text(ctx.request.body.len().to_string());
            Ok(())
        }),
    }
}

pub(super) async fn hold(_: &mut Context) {
    sleep(HOUR).await;
}

/// A peer whose body is received, and holds memory for an hour.
async fn holder(server: &InMemory) -> Near {
    let mut holder = server.connect();
    holder.begin("POST", "/hold", BODY, "").await;
    holder.send(vec![7; BODY]).await;
    sleep(SECOND).await;
    holder
}

#[test]
fn a_body_waits_until_another_has_gone() {
    InMemory::run(handler(), async |server| {
        for path in ["/", "/buffer"] {
            let (mut first, mut second) = (server.connect(), server.connect());
            first.begin("POST", "/", BODY, "").await;
            first.send([7; 100]).await;
            sleep(SECOND).await;
            second.begin("POST", path, BODY, "expect: 100-continue\r\n").await;
            assert_eq!(second.receive().await, "", "the content is not asked for before there is memory");
            // Small bodies need none.
            let mut small = server.connect();
            small.begin("POST", "/", 5, "").await;
            small.send("hello").await;
            assert!(small.receive().await.ends_with("\r\n\r\n5"));
            first.send(vec![7; BODY - 100]).await;
            assert!(first.receive().await.ends_with("\r\n\r\n700000"));
            assert!(second.receive().await.starts_with("HTTP/1.1 100 "));
            second.send(vec![7; BODY]).await;
            assert!(second.receive().await.ends_with("\r\n\r\n700000"));
        }
    });
}

#[test]
fn nothing_waits_for_ever() {
    InMemory::run(handler(), async |server| {
        let _holder = holder(&server).await;
        for (path, fields) in [("/", ""), ("/buffer", ""), ("/", "expect: 100-continue\r\n")] {
            let mut late = server.connect();
            late.begin("POST", path, BODY, fields).await;
            let (waited, response) = late.response().await;
            assert_eq!((status(&response), waited.as_secs()), (503, WAIT.as_secs()), "{path}: {response}");
            assert!(response.contains("\r\nretry-after: 1\r\n"), "{response}");
        }
    });
}

#[test]
fn a_body_that_can_never_fit_is_refused_at_once() {
    InMemory::run(handler(), async |server| {
        for path in ["/", "/buffer"] {
            let mut large = server.connect();
            large.begin("POST", path, MEMORY + 1, "expect: 100-continue\r\n").await;
            let (waited, response) = large.response().await;
            assert_eq!((status(&response), waited), (413, Duration::ZERO), "{response}");
        }
    });
}

/// Such peers would keep others out for hours with a few octets a second.
#[test]
fn a_slow_body_does_not_keep_others_out() {
    InMemory::run(handler(), async |server| {
        let (mut slow, mut other) = (server.connect(), server.connect());
        slow.begin("POST", "/", BODY, "").await;
        let drip = spawn_local(async move {
            while timeout(SECOND, slow.0.write_all(&[7; 2000])).await.is_ok_and(|sent| sent.is_ok()) {
                sleep(SECOND).await;
            }
            slow.receive().await
        });
        sleep(5 * SECOND).await;
        other.begin("POST", "/", BODY, "expect: 100-continue\r\n").await;
        let (waited, response) = other.response().await;
        assert!(response.starts_with("HTTP/1.1 100 "), "{response}");
        assert!(waited < WAIT, "{waited:?}");
        other.send(vec![7; BODY]).await;
        assert!(other.receive().await.ends_with("\r\n\r\n700000"));
        assert_eq!(status(&drip.await.unwrap()), 408);
    });
}

/// Small bodies that withhold their last octet once kept others out for as long as a body may pause.
#[test]
fn bodies_that_stand_still_make_room_within_five_seconds() {
    for (count, len) in [(1, BODY), (20, 100_000)] {
        InMemory::run(handler(), async |server| {
            let mut still = Vec::new();
            for _ in 0..count {
                let mut peer = server.connect();
                peer.begin("POST", "/", len, "").await;
                peer.send([7; 20_000]).await;
                still.push(peer);
            }
            sleep(4 * SECOND).await;
            let mut other = server.connect();
            other.begin("POST", "/", len, "expect: 100-continue\r\n").await;
            let (waited, response) = other.response().await;
            assert!(response.starts_with("HTTP/1.1 100 "), "{response}");
            assert!(waited < 6 * SECOND, "{count}: {waited:?}");
            other.send(vec![7; len]).await;
            assert!(other.receive().await.ends_with(&format!("\r\n\r\n{len}")));
            assert!(still[0].response().await.1.starts_with("HTTP/1.1 408 "));
        });
    }
}

#[test]
fn a_slow_body_that_nobody_waits_for_may_take_its_time() {
    InMemory::run(handler(), async |server| {
        let mut slow = server.connect();
        slow.begin("POST", "/", BODY, "").await;
        for _ in 0..BODY / 2000 {
            slow.send([7; 2000]).await;
            sleep(SECOND).await;
        }
        assert!(slow.receive().await.ends_with("\r\n\r\n700000"));
    });
}

#[test]
fn a_peer_that_leaves_leaves_the_queue() {
    InMemory::run(handler(), async |server| {
        let (mut first, mut gone, mut last) = (server.connect(), server.connect(), server.connect());
        first.begin("POST", "/", BODY, "").await;
        sleep(SECOND).await;
        gone.begin("POST", "/", BODY, "").await;
        sleep(SECOND).await;
        last.begin("POST", "/", BODY, "expect: 100-continue\r\n").await;
        drop(gone);
        sleep(SECOND).await;
        drop(first);
        assert!(last.receive().await.starts_with("HTTP/1.1 100 "));
    });
}

/// A head that is not small waits as a body does.
#[test]
fn a_peer_that_leaves_within_a_large_head_leaves_the_queue() {
    let limits = Limits { memory_max: 256 << 10, head_max: 64 << 10, ..Limits::default() };
    let service = Rc::new(Server::new().limits(limits).service(BoxHandler::new(handler())));
    paused(LocalSet::new().run_until(async {
        let connect = || {
            let (near, far) = duplex(64 << 10);
            let service = service.clone();
            (Near(near), spawn_local(async move { service.serve_connection(far).await }))
        };
        let half = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}", "x".repeat(40_000));
        let mut holders = Vec::new();
        for _ in 0..8 {
            let (mut peer, served) = connect();
            peer.send(&half).await;
            holders.push((peer, served));
        }
        sleep(SECOND).await;
        let (mut late, served) = connect();
        late.send(&half).await;
        sleep(SECOND).await;
        let start = Instant::now();
        drop(late);
        let _ = served.await.unwrap();
        assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    }));
}

#[test]
fn chunks_take_memory_as_they_come() {
    InMemory::run(handler(), async |server| {
        let chunk = [&b"4000\r\n"[..], &[7; 0x4000], b"\r\n"].concat();
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        let mut one = server.connect();
        one.send(head).await;
        one.send(chunk.repeat(40)).await;
        one.send("0\r\n\r\n").await;
        assert!(one.receive().await.ends_with("\r\n\r\n655360"));
        let _holder = holder(&server).await;
        let mut two = server.connect();
        two.send(head).await;
        let flood = chunk.repeat(60);
        assert!(timeout(SECOND, two.0.write_all(&flood)).await.is_err(), "nothing is read without memory");
        let (_, response) = two.response().await;
        assert_eq!(status(&response), 503, "{response}");
    });
}

#[cfg(feature = "multipart")]
#[test]
fn parts_that_are_read_whole_take_memory() {
    let handler = routes! {
        POST "/" => |_: &mut Context| {},
        POST "/hold" => hold,
        POST "/parts" => streaming(async |ctx: &mut Context| -> corehttp::Result {
            let mut parts = ctx.multipart()?;
            while let Some(mut part) = parts.part().await? {
                part.bytes().await?;
            }
            Ok(())
        }),
    };
    InMemory::run(handler, async |server| {
        let content = [
            &b"--b\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n"[..],
            &[7; BODY / 2],
            b"\r\n--b\r\ncontent-disposition: form-data; name=\"b\"\r\n\r\n",
            &[7; BODY / 2],
            b"\r\n--b--\r\n",
        ]
        .concat();
        let ask = async || {
            let mut peer = server.connect();
            let fields = "content-type: multipart/form-data; boundary=b\r\n";
            peer.begin("POST", "/parts", content.len(), fields).await;
            let (mut near, mut far) = tokio::io::split(peer.0);
            let content = content.clone();
            let sending = spawn_local(async move { far.write_all(&content).await });
            let mut head = [0; 12];
            near.read_exact(&mut head).await.unwrap();
            sending.abort();
            status(&String::from_utf8_lossy(&head))
        };
        assert_eq!(ask().await, 200);
        let _holder = holder(&server).await;
        assert_eq!(ask().await, 503);
    });
}

#[cfg(feature = "compress")]
#[test]
fn decoded_content_takes_memory() {
    use std::io::Write;

    let handler = routes! {
        POST "/" => |_: &mut Context| {},
        POST "/hold" => hold,
        POST "/decoded" => async |ctx: &mut Context| -> corehttp::Result {
            ctx.decode_body().await?;
            ctx.response.set_text(ctx.request.body.len().to_string());
            Ok(())
        },
    };
    InMemory::run(handler, async |server| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&vec![0; BODY]).unwrap();
        let coded = encoder.finish().unwrap();
        let ask = async || {
            let mut peer = server.connect();
            peer.begin("POST", "/decoded", coded.len(), "content-encoding: gzip\r\n").await;
            peer.send(&coded).await;
            peer.response().await.1
        };
        assert!(ask().await.ends_with("\r\n\r\n700000"));
        let _holder = holder(&server).await;
        let response = ask().await;
        assert_eq!(status(&response), 503);
        assert!(response.contains("\r\nretry-after: 1\r\n"), "{response}");
    });
}

/// Many may wait for a thread that compresses, and each has its content meanwhile.
#[cfg(feature = "compress")]
#[test]
fn content_that_waits_to_be_compressed_takes_memory() {
    use corehttp::middleware::{Compress, wrap};

    let handler = routes! {
        POST "/" => |_: &mut Context| {},
        POST "/hold" => hold,
        GET "/" => wrap(Compress::new(), |ctx: &mut Context| ctx.response.set_text("a".repeat(BODY))),
    };
    InMemory::run(handler, async |server| {
        let ask = async || {
            let mut peer = server.connect();
            peer.begin("GET", "/", 0, "accept-encoding: gzip\r\n").await;
            String::from_utf8_lossy(&peer.receive_octets().await).into_owned()
        };
        let received = ask().await;
        assert!(status(&received) == 200 && received.contains("content-encoding: gzip"), "{received}");
        let _holder = holder(&server).await;
        let refused = ask().await;
        assert!(status(&refused) == 503 && refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
    });
}

/// Streams that last for days leave room for bodies: the later ones are sent as they are.
#[cfg(feature = "compress")]
#[test]
fn streams_that_are_compressed_leave_half_of_the_memory() {
    use corehttp::middleware::{Compress, wrap};

    let stream = async |ctx: &mut Context| -> corehttp::Result {
        ctx.response.headers.set("content-type", "text/plain")?;
        let mut out = ctx.body_writer().await?;
        out.write_all(&[b'a'; 4096]).await?;
        out.flush().await?;
        std::future::pending().await
    };
    let handler = || wrap(Compress::new(), routes! { POST "/" => |_: &mut Context| {}, GET "/" => stream });
    for (memory_max, compressed) in [(MEMORY, 0), (8 << 20, 3)] {
        let limits = Limits { memory_max, ..Limits::default() };
        let tasks = LocalSet::new();
        paused(tasks.run_until(async {
            let service = Server::new().limits(limits).service(BoxHandler::new(handler()));
            let server = InMemory(Rc::new(service));
            let mut streams = Vec::new();
            let mut found = 0;
            for _ in 0..5 {
                let mut peer = server.connect();
                peer.begin("GET", "/", 0, "accept-encoding: gzip\r\n").await;
                let received = peer.receive_octets().await;
                found += usize::from(String::from_utf8_lossy(&received).contains("content-encoding: gzip"));
                streams.push(peer);
            }
            assert_eq!(found, compressed, "{memory_max}");
            let mut other = server.connect();
            other.begin("POST", "/", BODY, "expect: 100-continue\r\n").await;
            assert!(other.receive().await.starts_with("HTTP/1.1 100 "));
        }));
    }
}

#[cfg(feature = "websocket")]
#[test]
fn messages_of_websockets_take_memory() {
    use crate::websocket::support::{BINARY, HEAD, frame, shown};

    let handler = routes! {
        POST "/" => |_: &mut Context| {},
        POST "/hold" => hold,
        GET "/socket" => async |ctx: &mut Context| -> corehttp::Result {
            let mut socket = ctx.websocket(&corehttp::websocket::Options::default()).await?;
            while let Some(message) = socket.receive().await? {
                let len = message.as_bytes().len().to_string();
                socket.send(&*len).await?;
            }
            Ok(())
        },
    };
    InMemory::run(handler, async |server| {
        let open = async || {
            let mut peer = server.connect();
            peer.send(HEAD.replace("/echo", "/socket") + "\r\n").await;
            assert_eq!(status(&peer.receive().await), 101);
            peer
        };
        let message = frame(BINARY, vec![7; BODY]);
        let mut peer = open().await;
        for _ in 0..2 {
            peer.send(&message).await;
            assert_eq!(shown(&peer.receive_octets().await), ["text \"700000\""]);
        }
        let _holder = holder(&server).await;
        // Small ones go on, and a large one waits.
        peer.send(frame(BINARY, b"hello")).await;
        assert_eq!(shown(&peer.receive_octets().await), ["text \"5\""]);
        assert!(timeout(WAIT / 2, peer.send(&message)).await.is_err());
        let mut octets = vec![0; 4];
        timeout(WAIT, peer.0.read_exact(&mut octets)).await.unwrap().unwrap();
        assert_eq!(octets[2..], 1013u16.to_be_bytes());
    });
}

/// Such peers would keep others out for as long as they answer pings.
#[cfg(feature = "websocket")]
#[test]
fn a_message_that_does_not_end_does_not_keep_others_out() {
    use crate::websocket::support::{BINARY, HEAD, frame};

    let handler = routes! {
        POST "/" => |_: &mut Context| {},
        GET "/socket" => async |ctx: &mut Context| -> corehttp::Result {
            let mut socket = ctx.websocket(&corehttp::websocket::Options::default()).await?;
            while socket.receive().await?.is_some() {}
            Ok(())
        },
    };
    InMemory::run(handler, async |server| {
        let mut slow = server.connect();
        slow.send(HEAD.replace("/echo", "/socket") + "\r\n").await;
        slow.receive().await;
        let message = frame(BINARY, vec![7; BODY]);
        let (now, later) = message.split_at(BODY - 100_000);
        slow.send(now).await;
        sleep(5 * SECOND).await;
        let mut other = server.connect();
        other.begin("POST", "/", BODY, "expect: 100-continue\r\n").await;
        for octet in later.chunks(1).take(20) {
            slow.send(octet).await;
            sleep(SECOND).await;
        }
        assert_eq!(other.receive().await, "");
        sleep(5 * SECOND).await;
        slow.send(&later[20..21]).await;
        let octets = slow.receive_octets().await;
        assert!(octets.ends_with(&1013u16.to_be_bytes()), "{octets:?}");
        assert!(other.receive().await.starts_with("HTTP/1.1 100 "));
    });
}

/// Nor do those that send nothing more, though no pings are sent.
#[cfg(feature = "websocket")]
#[test]
fn a_message_that_stops_does_not_keep_others_out() {
    use corehttp::websocket::Options;

    use crate::websocket::support::{BINARY, HEAD, frame};

    let handler = routes! {
        POST "/" => |_: &mut Context| {},
        GET "/socket" => async |ctx: &mut Context| -> corehttp::Result {
            let options = Options { ping_interval: None, ..Options::default() };
            let mut socket = ctx.websocket(&options).await?;
            while socket.receive().await?.is_some() {}
            Ok(())
        },
    };
    InMemory::run(handler, async |server| {
        let mut silent = server.connect();
        silent.send(HEAD.replace("/echo", "/socket") + "\r\n").await;
        silent.receive().await;
        let message = frame(BINARY, vec![7; BODY]);
        silent.send(&message[..BODY - 100_000]).await;
        // No other peer needs the memory for long.
        sleep(5 * WAIT / 2).await;
        let mut other = server.connect();
        other.begin("POST", "/", BODY, "expect: 100-continue\r\n").await;
        sleep(WAIT).await;
        assert!(other.receive().await.starts_with("HTTP/1.1 100 "));
        let octets = silent.receive_octets().await;
        assert!(octets.ends_with(&1013u16.to_be_bytes()), "{octets:?}");
    });
}

/// While its message waits for memory, nothing is read that would find the reset.
#[cfg(feature = "websocket")]
#[test]
fn a_websocket_that_is_reset_leaves_the_queue() {
    use crate::websocket::support::{BINARY, HEAD, frame};

    let handler = routes! {
        POST "/hold" => hold,
        GET "/socket" => async |ctx: &mut Context| -> corehttp::Result {
            let mut socket = ctx.websocket(&corehttp::websocket::Options::default()).await?;
            while socket.receive().await?.is_some() {}
            Ok(())
        },
    };
    let limits = Limits { memory_max: MEMORY, ..Limits::default() };
    let served = Served::with(|server| server.limits(limits), handler);
    let memory = || served.running.counts().memory;
    let mut holder = served.connect();
    holder.send(format!("POST /hold HTTP/1.1\r\nhost: a\r\ncontent-length: {BODY}\r\n\r\n"));
    holder.send(vec![7; BODY]);
    eventually("the body is here", || memory().reserved > 0);
    let mut peer = served.connect();
    peer.send(HEAD.replace("/echo", "/socket") + "\r\n");
    peer.receive_through("\r\n\r\n");
    peer.send(frame(BINARY, vec![7; BODY]));
    eventually("the message waits", || memory().waiting == 1);
    let start = std::time::Instant::now();
    peer.reset();
    eventually("the message has left the queue", || memory().waiting == 0);
    assert!(start.elapsed() < WAIT / 3, "{:?}", start.elapsed());
}

/// A context that is free keeps a large buffer for the next body, but not for long, and not while others wait for memory.
#[test]
fn memory_that_is_kept_for_the_next_body_is_given_back() {
    let limits = Limits { memory_max: 8 * MEMORY, ..Limits::default() };
    let served = Served::with(|server| server.limits(limits), handler());
    let memory = || served.running.counts().memory;
    let mut peers: Vec<_> = (0..4).map(|_| served.connect()).collect();
    for round in 0..3 {
        for peer in &mut peers {
            peer.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {BODY}\r\n\r\n"));
            peer.send(vec![7; BODY]);
            assert!(peer.receive().ends_with("\r\n\r\n700000"), "round {round}");
        }
    }
    eventually("it is given back", || memory().reserved == 0);
    // A body that needs more than is left beside such buffers.
    for peer in &mut peers {
        peer.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {BODY}\r\n\r\n"));
        peer.send(vec![7; BODY]);
        peer.receive();
    }
    let whole = 3 << 20;
    let mut peer = served.connect();
    peer.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {whole}\r\n\r\n"));
    peer.send(vec![7; whole]);
    assert!(peer.receive().ends_with("\r\n\r\n3145728"));
}

/// Handlers that use their pieces for long, such as to write them to a disk, hold no more large ones than there is memory
/// for. The others read less at once.
#[test]
fn pieces_of_streamed_bodies_take_memory() {
    const STREAMED: usize = 4 << 20;
    // Half of it is for others.
    const MEMORY: usize = 6 << 20;
    static LARGE_PIECES: AtomicUsize = AtomicUsize::new(0);
    static HELD: AtomicUsize = AtomicUsize::new(0);
    let limits = Limits { memory_max: MEMORY, ..Limits::default() };
    let served = Served::with(
        |server| server.limits(limits).cores(1),
        streaming(async |ctx: &mut Context| -> corehttp::Result {
            let mut body = ctx.body_reader();
            let mut read = 0;
            while let Some(piece) = body.chunk().await? {
                let is_first = read < STREAMED / 2;
                read += piece.len();
                let is_large = piece.len() > 128 << 10;
                if is_first && (is_large || read >= STREAMED / 2) {
                    read = read.max(STREAMED / 2);
                    LARGE_PIECES.fetch_add(usize::from(is_large), Relaxed);
                    HELD.fetch_add(1, Relaxed);
                    while HELD.load(Relaxed) < 6 {
                        sleep(Duration::from_millis(1)).await;
                    }
                }
            }
            Ok(())
        }),
    );
    thread::scope(|scope| {
        for _ in 0..6 {
            let mut peer = served.connect();
            scope.spawn(move || {
                peer.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {STREAMED}\r\n\r\n"));
                peer.send(vec![7; STREAMED]);
                assert_eq!(status(&peer.receive()), 200);
            });
        }
    });
    let large = LARGE_PIECES.load(Relaxed);
    assert!((1..=5).contains(&large), "{large} large pieces at once");
    eventually("all is given back", || served.running.counts().memory.reserved == 0);
}
