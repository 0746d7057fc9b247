//! Memory that is taken in steps, since nobody knows how much comes: peers that hold a part of what all of them wait for do not
//! keep each other, or small bodies, waiting.
#![allow(clippy::unwrap_used, reason = "a test is short, and may panic")]

use std::io::Write;
use std::net::TcpStream;
use std::rc::Rc;

use corehttp::{BoxHandler, Context, Handler, Limits, Server, Service, routes};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep};

use super::memory::{HOUR, InMemory, LARGE, SECOND, handler};
use crate::support::{eventually, paused, status};

/// One that waits for large memory must not hold small memory for which others wait.
#[test]
fn a_body_that_has_outgrown_small_memory_leaves_it_to_small_bodies() {
    InMemory::run(handler(), async |server| {
        let chunk = [&b"2710\r\n"[..], &[7; 10_000], b"\r\n"].concat();
        let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunked = async |chunks: usize| {
            let mut peer = server.connect();
            peer.send(head).await;
            peer.send(chunk.repeat(chunks)).await;
            peer
        };
        let mut holder = server.connect();
        holder.begin("POST", "/", LARGE - (8 << 10), "").await;
        sleep(SECOND).await;
        // Each takes half of the small memory, and waits for large memory with that.
        let mut first = chunked(15).await;
        let mut second = chunked(15).await;
        sleep(SECOND).await;
        for _ in 0..3 {
            let start = Instant::now();
            let mut small = chunked(10).await;
            small.send("0\r\n\r\n").await;
            assert!(small.receive().await.ends_with("\r\n\r\n100000"));
            assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
        }
        let outcomes = [first.receive().await, second.receive().await];
        let refused = outcomes.iter().filter(|response| response.starts_with("HTTP/1.1 503 ")).count();
        assert!(
            refused > 0 && outcomes.iter().all(|it| it.is_empty() || it.contains("\r\nretry-after: 1\r\n"))
        );
    });
}

/// Twice as many peers as there is memory for send this at once, and all are served before any has waited for long.
#[track_caller]
fn check(handler: impl Handler + Send + Sync + 'static, fields: &str, content: &[u8]) {
    let limits = Limits { memory_max: 16 * LEN, body_max: LEN, ..Limits::default() };
    let service = Rc::new(Server::new().limits(limits).service(BoxHandler::new(handler)));
    paused(LocalSet::new().run_until(async {
        let head =
            format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n{fields}\r\n\r\n", content.len());
        let start = Instant::now();
        let mut peers = Vec::new();
        for _ in 0..24 {
            let (near, far) = duplex(64 << 10);
            let service = service.clone();
            spawn_local(async move { service.serve_connection(far).await });
            let (mut read, mut write) = tokio::io::split(near);
            let wire = [head.as_bytes(), content].concat();
            peers.push(spawn_local(async move {
                write.write_all(&wire).await.unwrap();
                let mut first = [0; 12];
                read.read_exact(&mut first).await.unwrap();
                (status(&String::from_utf8_lossy(&first)), write, read)
            }));
        }
        for peer in peers {
            assert_eq!(peer.await.unwrap().0, 200);
        }
        assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    }));
}

const LEN: usize = 1 << 20;

/// So many peers at once send chunks, of which each may become most of the memory, until they are served.
#[track_caller]
fn check_chunks(peers: usize, refused_max: usize) {
    let head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = [&b"4000\r\n"[..], &[7; 0x4000], b"\r\n"].concat();
    let wire = [head.as_bytes(), &chunk.repeat(2 * LEN / 0x4000), b"0\r\n\r\n"].concat();
    check_growth(8 * LEN, routes! { POST "/" => |_: &mut Context| {} }, wire, [peers, refused_max]);
}

/// So many peers at once send this until they are served. Peers that are refused come back a second later.
#[track_caller]
fn check_growth(
    memory_max: usize,
    handler: impl Handler + Send + Sync + 'static,
    wire: Vec<u8>,
    [peers, refused_max]: [usize; 2],
) {
    let limits = Limits { memory_max, body_max: 4 * LEN, ..Limits::default() };
    let service = Rc::new(Server::new().limits(limits).service(BoxHandler::new(handler)));
    let wire: Rc<[u8]> = wire.into();
    paused(LocalSet::new().run_until(async {
        let start = Instant::now();
        let uploads: Vec<_> = (0..peers)
            .map(|_| {
                let (service, wire) = (service.clone(), wire.clone());
                spawn_local(async move {
                    let mut refused = 0;
                    loop {
                        match upload(&service, &wire).await {
                            200 => return refused,
                            503 => refused += 1,
                            other => panic!("{other}"),
                        }
                        sleep(SECOND).await;
                    }
                })
            })
            .collect();
        let mut refused = 0;
        for upload in uploads {
            refused += upload.await.unwrap();
        }
        assert!(refused <= refused_max, "{refused} of {peers} were refused");
        assert!(start.elapsed() < 5 * SECOND, "{:?}", start.elapsed());
    }));
}

/// The status of the response to this request.
async fn upload(service: &Rc<Service<BoxHandler>>, wire: &Rc<[u8]>) -> u16 {
    let (near, far) = duplex(64 << 10);
    let service = service.clone();
    spawn_local(async move { service.serve_connection(far).await });
    let (mut read, mut write) = tokio::io::split(near);
    let wire = wire.clone();
    let sending = spawn_local(async move { write.write_all(&wire).await });
    let mut first = [0; 12];
    read.read_exact(&mut first).await.unwrap();
    sending.abort();
    status(&String::from_utf8_lossy(&first))
}

/// Peers that all held a part once waited for each other until [`Timeouts::body`](corehttp::Timeouts::body).
#[test]
fn chunks_of_few_peers_do_not_wait_for_each_other() {
    check_chunks(1, 0);
    check_chunks(3, 3);
    check_chunks(6, 6);
}

#[test]
fn chunks_of_many_peers_do_not_wait_for_each_other() {
    check_chunks(40, 40);
}

#[test]
fn bodies_of_many_peers() {
    check(routes! { POST "/" => |_: &mut Context| {} }, "x: y", &[7; LEN]);
}

/// A request with content of this length in gzip.
#[cfg(feature = "compress")]
fn in_gzip(len: usize) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&vec![7; len]).unwrap();
    let coded = encoder.finish().unwrap();
    let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-encoding: gzip\r\n";
    [format!("{head}content-length: {}\r\n\r\n", coded.len()).as_bytes(), &coded].concat()
}

#[cfg(feature = "compress")]
fn decodes() -> impl Handler + Send + Sync {
    routes! {
        POST "/" => async |ctx: &mut Context| -> corehttp::Result { Ok(ctx.decode_body().await?) },
    }
}

/// The buffer of decoded content once doubled for the last of it, so two of these peers never fitted.
#[cfg(feature = "compress")]
#[test]
fn decoded_content_of_few_peers_fits() {
    for (len, memory_max, peers, refused_max) in [
        (2 * LEN, 8 * LEN, 2, 0),
        (2 * LEN, 8 * LEN, 10, 10),
        (2 * LEN, 24 * LEN, 5, 0),
        (LEN, 24 * LEN, 10, 0),
    ] {
        check_growth(memory_max, decodes(), in_gzip(len), [peers, refused_max]);
    }
}

/// Layers decode as much as there is memory for, and what they have decoded is held while the handler runs.
#[cfg(all(feature = "compress", feature = "tower"))]
#[test]
fn content_that_layers_decode_is_counted() {
    use corehttp::Timeouts;
    use corehttp::middleware::wrap;
    use corehttp::tower::layer;
    use tower_http::decompression::RequestDecompressionLayer;

    let decodes = || wrap(layer(RequestDecompressionLayer::new()), |_: &mut Context| {});
    for (memory_max, peers, refused_max) in [(8 * LEN, 1, 0), (24 * LEN, 5, 0), (8 * LEN, 10, 10)] {
        check_growth(memory_max, decodes(), in_gzip(2 * LEN), [peers, refused_max]);
    }

    let waits =
        wrap(layer(RequestDecompressionLayer::new()), async |_: &mut Context| sleep(20 * SECOND).await);
    let limits = Limits { memory_max: 8 * LEN, body_max: 4 * LEN, ..Limits::default() };
    let timeouts = Timeouts { body: 5 * SECOND, ..Timeouts::default() };
    let service = Rc::new(Server::new().limits(limits).timeouts(timeouts).service(BoxHandler::new(waits)));
    let wire: Rc<[u8]> = in_gzip(2 * LEN).into();
    paused(LocalSet::new().run_until(async {
        let uploads = Vec::from_iter((0..10).map(|_| {
            let (service, wire) = (service.clone(), wire.clone());
            spawn_local(async move { upload(&service, &wire).await })
        }));
        let mut statuses = Vec::new();
        for upload in uploads {
            statuses.push(upload.await.unwrap());
        }
        let served = statuses.iter().filter(|status| **status == 200).count();
        let refused = statuses.iter().filter(|status| **status == 503).count();
        assert!((1..=4).contains(&served) && served + refused == 10, "{statuses:?}");
    }));
}

/// The context of a request may still have the large buffer of another one.
#[cfg(feature = "compress")]
#[test]
fn decoded_content_takes_the_place_of_what_was_kept() {
    use crate::support::Served;

    let limits = Limits { memory_max: 24 * LEN, ..Limits::default() };
    let served = Served::with(|server| server.limits(limits), decodes());
    let (wire, start) = (in_gzip(2 * LEN), std::time::Instant::now());
    let peers = [(); 3].map(|()| {
        let (mut peer, wire) = (served.connect(), wire.clone());
        std::thread::spawn(move || {
            [(); 6].map(|()| {
                peer.send(&wire);
                status(&peer.receive())
            })
        })
    });
    for peer in peers {
        assert_eq!(peer.join().unwrap(), [200; 6]);
    }
    assert!(start.elapsed() < 5 * SECOND, "{:?}", start.elapsed());
}

/// Content of a length for which the buffer doubles once more at the end.
#[cfg(feature = "compress")]
#[test]
fn decoded_content_of_many_peers() {
    use std::io::Write;

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&vec![0; LEN - 1000]).unwrap();
    let decodes = routes! {
        POST "/" => async |ctx: &mut Context| -> corehttp::Result { Ok(ctx.decode_body().await?) },
    };
    check(decodes, "content-encoding: gzip", &encoder.finish().unwrap());
}

#[cfg(feature = "multipart")]
#[test]
fn parts_of_many_peers() {
    use crate::support::streaming;

    let reads_whole = streaming(async |ctx: &mut Context| -> corehttp::Result {
        let mut parts = ctx.multipart()?;
        while let Some(mut part) = parts.part().await? {
            part.bytes().await?;
        }
        Ok(())
    });
    let head = &b"--b\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n"[..];
    let content = [head, &[7; LEN - 1000], b"\r\n--b--\r\n"].concat();
    check(reads_whole, "content-type: multipart/form-data; boundary=b", &content);
}

/// A peer that sends a little of its content each second would keep others out for hours.
#[cfg(any(feature = "multipart", feature = "zstd"))]
#[track_caller]
fn check_slow(handler: impl Handler + Send + Sync + 'static, head: String, now: &[u8], piece: &[u8]) {
    InMemory::run(handler, async |server| {
        let mut slow = server.connect();
        slow.send(head).await;
        slow.send(now).await;
        sleep(5 * SECOND).await;
        let mut other = server.connect();
        other.begin("POST", "/", LARGE - (8 << 10), "expect: 100-continue\r\n").await;
        for _ in 0..29 {
            // It fails once the server has closed.
            let _ = slow.0.write_all(piece).await;
            sleep(SECOND).await;
        }
        assert_eq!(status(&slow.receive().await), 408);
        assert!(other.receive().await.starts_with("HTTP/1.1 100 "));
    });
}

#[cfg(feature = "multipart")]
#[test]
fn parts_that_do_not_end_do_not_keep_others_out() {
    use corehttp::BodyPlan;
    use corehttp::middleware::wrap;

    let parts = async |ctx: &mut Context| -> corehttp::Result {
        let mut parts = ctx.multipart()?;
        while let Some(mut part) = parts.part().await? {
            part.bytes().await?;
        }
        Ok(())
    };
    let handler =
        routes! { POST "/" => |_: &mut Context| {}, POST "/parts" => wrap(BodyPlan::Stream, parts) };
    let head = "POST /parts HTTP/1.1\r\nhost: a\r\ncontent-type: multipart/form-data; boundary=b\r\n\
                content-length: 5000000\r\n\r\n--b\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n";
    check_slow(handler, head.to_owned(), &[b'x'; 600_000], &[b'x'; 600]);
}

#[cfg(feature = "zstd")]
#[test]
fn windows_of_content_that_does_not_end_do_not_keep_others_out() {
    use std::io::Write;

    use corehttp::BodyPlan;
    use corehttp::middleware::wrap;

    let decoded = async |ctx: &mut Context| -> corehttp::Result {
        let mut content = ctx.body_reader().decoded_up_to(1 << 30)?;
        while content.chunk().await?.is_some() {}
        Ok(())
    };
    let handler =
        routes! { POST "/" => |_: &mut Context| {}, POST "/decoded" => wrap(BodyPlan::Stream, decoded) };
    let head =
        "POST /decoded HTTP/1.1\r\nhost: a\r\ncontent-encoding: zstd\r\ncontent-length: 5000000\r\n\r\n";
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(19).unwrap();
    encoder.write_all(&vec![7; 600_000]).unwrap();
    encoder.flush().unwrap();
    let now = encoder.get_ref().clone();
    // An empty block, after which others follow.
    check_slow(handler, head.to_owned(), &now, &[0, 0, 0]);
}

/// Heads of 60 kB with which handlers take long: each once had three times as much, of which nothing was counted. One that does
/// not get memory waits, with 16 KiB of it read.
#[test]
fn large_heads_take_memory_for_as_long_as_their_requests() {
    const LONG: usize = 60_000;
    let limits = Limits { memory_max: 1 << 20, ..Limits::default() };
    let handler = routes! { GET "/" => async |_: &mut Context| sleep(HOUR).await };
    let running = Server::bind("127.0.0.1:0").cores(1).limits(limits).start(handler).unwrap();
    let head = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "x".repeat(LONG));
    let reserved = || running.counts().memory.reserved as usize;
    let mut peers = Vec::new();
    let mut connect = || {
        let mut peer = TcpStream::connect(running.local_addr()).unwrap();
        peer.write_all(head.as_bytes()).unwrap();
        peers.push(peer);
    };
    connect();
    eventually("a head takes memory for its bytes and their copy", || reserved() >= 2 * LONG);
    (0..20).for_each(|_| connect());
    eventually("the others take what is left, and wait", || running.counts().memory.waiting > 0);
    drop(peers);
    eventually("all of it was given back", || reserved() == 0 && running.counts().memory.waiting == 0);
}
