//! The memory of responses that wait for their peers: a large one takes its part, the content of its request makes room, a
//! response without memory is refused, and one that is read too slowly is cut once memory is scarce.
#![allow(clippy::unwrap_used, reason = "a test is short, and may panic")]

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use corehttp::{Context, Handler, Limits, routes};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep, timeout};

use super::memory::{BODY, HOUR, InMemory, LARGE, MEMORY, Near, SECOND};
use crate::support::{Served, eventually, get, status};

/// How long a peer may take nothing of its response.
const WRITE: Duration = Duration::from_secs(60);

fn handler() -> impl Handler + Send + Sync {
    routes! {
        GET "/small" => |ctx: &mut Context| ctx.response.set_text("small"),
        GET "/large" => |ctx: &mut Context| ctx.response.body.set_bytes(vec![7; BODY]),
        GET "/medium" => |ctx: &mut Context| ctx.response.body.set_bytes(vec![7; 300_000]),
        GET "/vec" => |ctx: &mut Context| ctx.response.body.set_shared_bytes(vec![7; BODY]),
        GET "/static" => |ctx: &mut Context| ctx.response.body.set_shared_bytes(&STATIC[..]),
        GET "/huge" => |ctx: &mut Context| ctx.response.body.set_shared_bytes(vec![7; 2 * MEMORY]),
        POST "/" => |_: &mut Context| {},
        POST "/copy" => |ctx: &mut Context| {
            let Context { request, response, .. } = ctx;
            response.body.set_bytes(request.body.bytes());
        },
        POST "/swap" => |ctx: &mut Context| std::mem::swap(&mut ctx.request.body, &mut ctx.response.body),
    }
}

static STATIC: [u8; BODY] = [7; BODY];

/// A peer that has asked for this, and reads nothing yet.
async fn asking(server: &InMemory, path: &str) -> Near {
    let mut peer = server.connect();
    peer.send(get(path)).await;
    sleep(SECOND).await;
    peer
}

/// The status and the length of the content, once all of it is here.
async fn read(mut peer: Near) -> (u16, usize) {
    let (_, response) = peer.response().await;
    (status(&response), response.split_once("\r\n\r\n").unwrap().1.len())
}

#[test]
fn a_response_that_waits_for_its_peer_takes_memory() {
    InMemory::run(handler(), async |server| {
        for path in ["/large", "/vec"] {
            let first = asking(&server, path).await;
            // The connection of a response without memory goes on.
            let mut second = asking(&server, path).await;
            let (waited, response) = second.response().await;
            assert_eq!((status(&response), waited), (503, Duration::ZERO));
            assert!(response.contains("\r\nretry-after: 1\r\n"), "{response}");
            second.send(get("/small")).await;
            assert!(second.receive().await.ends_with("\r\n\r\nsmall"));
            assert_eq!(read(first).await, (200, BODY));
            second.send(get(path)).await;
            assert_eq!(read(second).await, (200, BODY));
        }
    });
}

#[test]
fn what_all_peers_share_takes_none() {
    InMemory::run(handler(), async |server| {
        let _large = asking(&server, "/large").await;
        let peers = [asking(&server, "/static").await, asking(&server, "/static").await];
        for peer in peers {
            assert_eq!(read(peer).await, (200, BODY));
        }
    });
}

#[test]
fn a_response_that_can_never_fit_takes_all() {
    InMemory::run(handler(), async |server| {
        let huge = asking(&server, "/huge").await;
        assert_eq!(read(asking(&server, "/large").await).await.0, 503);
        assert_eq!(read(huge).await, (200, 2 * MEMORY));
        let _large = asking(&server, "/large").await;
        assert_eq!(read(asking(&server, "/huge").await).await.0, 503);
    });
}

/// Bodies may take all there is, and would leave nothing for their responses.
#[test]
fn the_content_of_a_request_makes_room_for_its_response() {
    InMemory::run(handler(), async |server| {
        for path in ["/copy", "/swap"] {
            let mut peer = server.connect();
            peer.begin("POST", path, LARGE - (100 << 10), "").await;
            peer.send(vec![7; LARGE - (100 << 10)]).await;
            let mut other = server.connect();
            other.begin("POST", "/", BODY, "expect: 100-continue\r\n").await;
            assert_eq!(other.receive().await, "");
            assert_eq!(read(peer).await, (200, LARGE - (100 << 10)));
            assert!(other.receive().await.starts_with("HTTP/1.1 100 "));
        }
    });
}

/// Such peers would keep others out for hours with a few octets a minute.
#[test]
fn a_response_that_is_read_slowly_does_not_keep_others_out() {
    InMemory::run(handler(), async |server| {
        // There is plenty beside the first.
        for (path, must_hurry) in [("/medium", false), ("/large", true), ("/huge", true)] {
            let mut slow = asking(&server, path).await;
            let start = Instant::now();
            let mut piece = [0; 2000];
            let mut read = 0;
            let is_cut = loop {
                match timeout(HOUR, slow.0.read(&mut piece)).await.unwrap() {
                    Ok(0) | Err(_) => break true,
                    Ok(_) if read > 250_000 => break false,
                    Ok(count) => read += count,
                }
                sleep(SECOND).await;
            };
            let time = start.elapsed();
            assert!(is_cut == must_hurry && time > WRITE, "{path}: {read} octets in {time:?}");
        }
    });
}

/// A message is copied, since its sender may drop the future and go on.
#[cfg(feature = "websocket")]
#[test]
fn a_message_that_waits_for_its_peer_takes_memory() {
    use corehttp::error::ExchangeError;

    use crate::websocket::support::HEAD;

    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    let handler = routes! {
        POST "/" => |_: &mut Context| {},
        GET "/echo" => async |ctx: &mut Context| -> corehttp::Result {
            let mut socket = ctx.websocket(&corehttp::websocket::Options::default()).await?;
            if let Err(error) = socket.send(&[7; LARGE / 3 * 2][..]).await {
                let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
                assert!(matches!(cause, Some(ExchangeError::NoMemory)), "{error:?}");
                REFUSED.fetch_add(1, Relaxed);
                return Err(error.into());
            }
            while socket.receive().await?.is_some() {}
            Ok(())
        },
    };
    InMemory::run(handler, async |server| {
        let open = async || {
            let mut peer = server.connect();
            peer.send(HEAD.to_owned() + "\r\n").await;
            sleep(SECOND).await;
            peer
        };
        let received = async |mut peer: Near| {
            let mut received = Vec::new();
            let read = timeout(SECOND, peer.0.read_to_end(&mut received)).await;
            (received.len() > BODY, read.is_ok())
        };
        let (first, second) = (open().await, open().await);
        assert_eq!(received(second).await, (false, true), "the message ends with its connection");
        assert_eq!(REFUSED.load(Relaxed), 1);
        assert_eq!(received(first).await, (true, false));
        assert_eq!(received(open().await).await, (true, false));
    });
}

/// The gauge counts what waits, and not what was sent.
#[test]
fn responses_that_wait_are_shown() {
    static SENT: AtomicUsize = AtomicUsize::new(0);
    const LEN: usize = 16 << 20;
    let limits = Limits { memory_max: 8 * LEN, ..Limits::default() };
    let served = Served::with(
        |server| {
            server.limits(limits).on_exchange(|_: &corehttp::server::ExchangeReport| {
                SENT.fetch_add(1, Relaxed);
            })
        },
        |ctx: &mut Context| ctx.response.body.set_shared_bytes(vec![7; LEN]),
    );
    let memory = || served.running.counts().memory;
    let mut peers: Vec<_> = (0..2).map(|_| served.connect()).collect();
    let request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    peers.iter_mut().for_each(|peer| peer.send(request));
    eventually("both wait", || memory().reserved == 2 * LEN as u64);
    for peer in &mut peers {
        assert!(std::io::copy(&mut peer.stream, &mut std::io::sink()).unwrap() > LEN as u64);
    }
    eventually("both are sent", || SENT.load(Relaxed) == 2);
    eventually("it is given back", || memory().reserved == 0);
}
