//! Every wait ends, at its time and with its response. The clock is paused, except in the last test.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::io;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use corehttp::coding::Flush;
use corehttp::middleware::{self, wrap};
use corehttp::server::{Transform, TransformAction};
use corehttp::sse::Event;
use corehttp::{
    BodyPlan, BodyWriter, Context, Handler, IntoHandler, Limits, Request, Response, Server, Timeouts,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use crate::support::responses::responses;
use crate::support::{Served, eventually, paused, status};

/// All that a peer received, and when and how the server ended its connection.
struct Told {
    received: String,
    time: Duration,
    outcome: io::Result<()>,
}

/// Lets a peer `act` on a connection whose pipe holds so many bytes each way, then listen. It never closes by itself.
fn talk<Kind>(
    timeouts: Timeouts,
    handler: impl IntoHandler<Kind>,
    pipe: usize,
    act: impl AsyncFnOnce(&mut DuplexStream),
) -> Told {
    paused(async {
        let service = Server::new().half_close(true).timeouts(timeouts).service(handler);
        let ((mut near, far), start) = (duplex(pipe), Instant::now());
        let peer = async {
            act(&mut near).await;
            let mut received = Vec::new();
            near.read_to_end(&mut received).await.unwrap();
            (String::from_utf8(received).unwrap(), near)
        };
        let server = async { (service.serve_connection(far).await, start.elapsed()) };
        let ((received, _near), (outcome, time)) = tokio::join!(peer, server);
        Told { received, time, outcome }
    })
}

/// The defaults, but without lingering after a refusal, and half the time for a write.
fn defaults() -> Timeouts {
    Timeouts { linger: Duration::ZERO, write: Duration::from_secs(30), ..Timeouts::default() }
}

/// Checks that by default a peer that does `act` is cut off after so many seconds. The status of its last response is
/// `last`, or 0 if it gets none.
#[track_caller]
fn check(seconds: u64, last: u16, act: impl AsyncFnOnce(&mut DuplexStream)) {
    check_with(defaults(), app, seconds, last, act);
}

#[track_caller]
fn check_with<Kind>(
    timeouts: Timeouts,
    handler: impl IntoHandler<Kind>,
    seconds: u64,
    last: u16,
    act: impl AsyncFnOnce(&mut DuplexStream),
) {
    let told = talk(timeouts, handler, 1 << 16, act);
    let received = responses(&told.received);
    assert_eq!(received.last().map_or(0, |response| response.status), last);
    assert_time(told.time, seconds);
    if last >= 400 {
        received.last().unwrap().check_refusal();
    }
}

/// As [`check`] of a body that is refused for its rate, which the rest of it may follow within a quarter of a second.
#[track_caller]
fn check_slow(seconds: u64, timeouts: Timeouts, act: impl AsyncFnOnce(&mut DuplexStream)) {
    let told = talk(timeouts, app, 1 << 16, act);
    let received = responses(&told.received);
    assert_eq!(received.last().map_or(0, |response| response.status), 408);
    received.last().unwrap().check_refusal();
    assert_time(told.time - Duration::from_millis(250), seconds);
}

/// Never early, and hardly late.
#[track_caller]
fn assert_time(time: Duration, seconds: u64) {
    let due = Duration::from_secs(seconds);
    assert!(time >= due && time < due + Duration::from_millis(5), "{time:?} for {due:?}");
}

fn app(ctx: &mut Context) {
    ctx.response.set_text("fine");
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const POST: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10000\r\n\r\n";
const CHUNKED: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";

async fn send(peer: &mut DuplexStream, wire: &[u8]) {
    peer.write_all(wire).await.unwrap();
}

/// Lets the time pass.
async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

/// Sends `packet` every so many seconds, until the server closes.
async fn drip(peer: &mut DuplexStream, packet: &[u8], seconds: u64) {
    while peer.write_all(packet).await.is_ok() {
        pass(seconds).await;
    }
}

/// Sends `wire` and receives its response.
async fn ask(peer: &mut DuplexStream, wire: &[u8]) {
    send(peer, wire).await;
    let mut received = Vec::new();
    while !received.ends_with(b"fine") {
        received.push(peer.read_u8().await.unwrap());
    }
}

#[test]
fn the_default_timeouts_are_as_documented() {
    let seconds = Duration::from_secs;
    let Timeouts {
        head,
        queue,
        body,
        body_grace,
        body_rate_min,
        idle,
        connection_age,
        write,
        handler,
        linger,
        linger_idle,
    } = Timeouts::default();
    assert_eq!((head, body, body_grace, body_rate_min), (seconds(10), seconds(30), seconds(10), 500));
    assert_eq!((idle, write, handler, linger), (seconds(60), seconds(60), None, seconds(30)));
    assert_eq!((linger_idle, connection_age), (seconds(5), None));
    assert_eq!(queue, Some(Duration::from_millis(400)));
}

#[test]
fn the_first_head_is_timed_from_the_accept_rfc9110_15_5_9() {
    check(10, 0, async |_| ());
    for begun in [&b"G"[..], b"\r\nG", &GET[..GET.len() - 1]] {
        check(10, 408, async |peer| send(peer, begun).await);
    }
    // An empty line begins no head.
    check(10, 0, async |peer| send(peer, b"\r\n").await);
    check(10, 408, async |peer| {
        pass(9).await;
        send(peer, b"G").await;
    });
    check(10, 408, async |peer| drip(peer, b"G", 1).await);
    check(9 + 60, 200, async |peer| {
        pass(9).await;
        send(peer, GET).await;
    });
}

#[test]
fn a_later_head_is_timed_from_its_first_byte() {
    check(69, 408, async |peer| {
        ask(peer, GET).await;
        pass(59).await;
        send(peer, b"G").await;
    });
    check(15, 408, async |peer| {
        ask(peer, GET).await;
        pass(5).await;
        drip(peer, b"G", 1).await;
    });
    // An empty line may come before a request, but is nothing to be answered.
    check(10, 0, async |peer| ask(peer, &[GET, b"\r\n"].concat()).await);
    check(5 + 10, 0, async |peer| {
        ask(peer, GET).await;
        pass(5).await;
        send(peer, b"\r\n").await;
    });
    // The first half of the next one came with this one.
    check(10, 408, async |peer| send(peer, &[GET, b"GET"].concat()).await);
}

#[test]
fn an_idle_connection_ends_in_silence_rfc9112_9_5() {
    check(60, 0, async |peer| ask(peer, GET).await);
    check(100, 0, async |peer| {
        ask(peer, GET).await;
        pass(40).await;
        ask(peer, GET).await;
    });
    let told = talk(defaults(), app, 1 << 16, async |peer| ask(peer, GET).await);
    assert_eq!((&*told.received, told.outcome.is_ok()), ("", true));
}

#[test]
fn a_body_without_progress_is_408_rfc9110_15_5_9() {
    check(30, 408, async |peer| send(peer, POST).await);
    check(30, 408, async |peer| send(peer, CHUNKED).await);
    check(30, 408, async |peer| send(peer, &[POST, &[b'b'; 9_999]].concat()).await);
    check(30, 408, async |peer| send(peer, &[CHUNKED, b"5\r\n12345\r\n0\r\n"].concat()).await);
    let patient = Timeouts { body_rate_min: 0, ..defaults() };
    check_with(patient, app, 29 * 3 + 30, 408, async |peer| {
        send(peer, POST).await;
        for _ in 0..3 {
            pass(29).await;
            send(peer, b"b").await;
        }
    });
    check_with(patient, app, 29 * 3, 200, async |peer| {
        send(peer, CHUNKED).await;
        for packet in ["1\r\nb\r\n", "0\r\nx: y", "\r\n\r\n"] {
            pass(29).await;
            send(peer, packet.as_bytes()).await;
        }
        peer.shutdown().await.unwrap();
    });
}

/// Sends a body of `POST`'s length, a packet every so many seconds, until the server closes.
async fn pour(peer: &mut DuplexStream, packet: usize, seconds: u64) {
    send(peer, POST).await;
    for packet in vec![b'b'; 10_000].chunks(packet) {
        pass(seconds).await;
        if peer.write_all(packet).await.is_err() {
            return;
        }
    }
    peer.shutdown().await.unwrap();
}

#[test]
fn a_body_below_the_least_rate_is_408_after_the_grace_rfc9110_15_5_9() {
    // The first packet beyond the grace shows that they come too slowly.
    check_slow(11, defaults(), async |peer| pour(peer, 1, 1).await);
    check_slow(11, defaults(), async |peer| pour(peer, 499, 1).await);
    check(20, 200, async |peer| pour(peer, 500, 1).await);
    check_slow(20, defaults(), async |peer| pour(peer, 4_999, 10).await);
    check(20, 200, async |peer| pour(peer, 5_000, 10).await);
    check_slow(29, defaults(), async |peer| pour(peer, 1, 29).await);
    check_slow(11, defaults(), async |peer| {
        send(peer, CHUNKED).await;
        drip(peer, b"1\r\nb\r\n", 1).await;
    });
    check_slow(11, defaults(), async |peer| {
        send(peer, CHUNKED).await;
        drip(peer, b"0", 1).await;
    });
    let lenient = Timeouts { body_rate_min: 1, ..defaults() };
    check_with(lenient, app, 10_000, 200, async |peer| pour(peer, 1, 1).await);
    let patient = Timeouts { body_grace: Duration::MAX, ..defaults() };
    check_with(patient, app, 10_000, 200, async |peer| pour(peer, 1, 1).await);
    let strict = Timeouts { body_grace: Duration::ZERO, body_rate_min: 10_000, ..defaults() };
    check_slow(1, strict, async |peer| pour(peer, 9_999, 1).await);
    let hopeless = Timeouts { body_rate_min: u64::MAX, ..defaults() };
    check_slow(11, hopeless, async |peer| pour(peer, 800, 1).await);
}

/// Sends the pieces of `wire` between `cuts`, each in a packet of its own.
async fn send_cut(peer: &mut DuplexStream, wire: &[u8], cuts: &[usize]) {
    let mut said = 0;
    for cut in cuts.iter().copied().chain([wire.len()]) {
        send(peer, &wire[said..cut]).await;
        for _ in 0..8 {
            yield_now().await;
        }
        said = cut;
    }
}

/// Bytes in the packet of the head count, and so do those that arrive while the handler works.
#[test]
fn a_rate_does_not_depend_on_how_a_message_is_split_into_packets() {
    let body = [b'b'; 10_000];
    let begun = [POST, &body[..9_900]].concat();
    let chunked = [CHUNKED, b"26ac\r\n", &body[..9_900], b"\r\n"].concat();
    let read = async |ctx: &mut Context| -> corehttp::Result {
        let closed = timeout(Duration::from_secs(1), ctx.peer_closed()).await;
        assert!(closed.is_err());
        ctx.buffer_body().await?;
        ctx.response.set_text("fine");
        Ok(())
    };
    let ends: [(&[u8], &[u8]); 2] = [(&begun, &body[9_900..]), (&chunked, b"1\r\nb\r\n0\r\n\r\n")];
    for (begun, end) in ends {
        for cuts in [&[][..], &[30], &[POST.len()], &[CHUNKED.len()], &[POST.len() + 20, 5_000, 9_000]] {
            for cut in 0..end.len().min(12) {
                let act = async |peer: &mut DuplexStream| {
                    send_cut(peer, begun, cuts).await;
                    pass(12).await;
                    send_cut(peer, end, &[cut]).await;
                    peer.shutdown().await.unwrap();
                };
                check(12, 200, act);
                check_with(defaults(), wrap(BodyPlan::Stream, read), 12, 200, act);
            }
        }
    }
    // A head and half of the body in the first packet, the rest of it in three that are late.
    check(18, 200, async |peer| {
        send(peer, &[POST, &body[..5_000]].concat()).await;
        pass(9).await;
        send(peer, &body[5_000..9_500]).await;
        pass(9 - 5).await;
        send(peer, &body[9_500..9_510]).await;
        pass(5).await;
        send(peer, &body[9_510..]).await;
        peer.shutdown().await.unwrap();
    });
}

/// However much came at once, it is credited for the grace alone, in one packet with the head or not.
#[test]
fn a_body_that_began_fast_must_go_on() {
    let begun = &[b'b'; 9_000];
    for cut in [0, 10, POST.len()] {
        let wire = [POST, begun].concat();
        check_slow(15, defaults(), async |peer| {
            send_cut(peer, &wire, &[cut]).await;
            drip(peer, b"b", 15).await;
        });
        check(14, 200, async |peer| {
            send_cut(peer, &wire, &[cut]).await;
            pass(7).await;
            send(peer, &begun[..100]).await;
            pass(7).await;
            send(peer, &begun[..900]).await;
            peer.shutdown().await.unwrap();
        });
    }
}

#[test]
fn bytes_that_complete_a_body_are_never_too_slow() {
    let hopeless = Timeouts { body_rate_min: u64::MAX, ..defaults() };
    let short = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n";
    let ends: [(&[u8], &[u8]); 4] = [
        (short, b"ok"),
        (CHUNKED, b"0\r\n\r\n"),
        (CHUNKED, b"2\r\nok\r\n0\r\n\r\n"),
        (CHUNKED, b"0\r\na: b\r\n\r\n"),
    ];
    for (head, end) in ends {
        for cut in 0..end.len() {
            check_with(hopeless, app, 29, 200, async |peer| {
                send(peer, head).await;
                pass(29).await;
                send_cut(peer, end, &[cut]).await;
                peer.shutdown().await.unwrap();
            });
        }
    }
}

/// The time that a handler sleeps between two reads, or after one that it has dropped, is not the peer's.
#[test]
fn the_sleep_of_a_handler_counts_neither_as_silence_nor_against_the_rate() {
    let read = async |ctx: &mut Context| -> corehttp::Result {
        let mut body = ctx.body_reader();
        let mut byte = [0];
        loop {
            let read = timeout(Duration::from_secs(1), body.read(&mut byte)).await;
            pass(49).await;
            if let Ok(read) = read
                && read? == 0
            {
                ctx.response.set_text("fine");
                return Ok(());
            }
        }
    };
    check_with(defaults(), wrap(BodyPlan::Stream, read), 247, 200, async |peer| {
        send(peer, b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n").await;
        for _ in 0..2 {
            pass(60).await;
            send(peer, b"b").await;
        }
        peer.shutdown().await.unwrap();
    });
}

#[test]
fn a_streamed_body_has_the_same_timeouts() {
    let read = async |ctx: &mut Context| -> corehttp::Result {
        let mut body = ctx.body_reader();
        while body.chunk().await?.is_some() {
            // Only the time that the peer takes counts against it.
            pass(45).await;
        }
        ctx.response.set_text("fine");
        Ok(())
    };
    let streamed = || wrap(BodyPlan::Stream, read);
    check_with(defaults(), streamed(), 30, 408, async |peer| send(peer, POST).await);
    check_with(defaults(), streamed(), 45 + 30, 408, async |peer| {
        send(peer, &[POST, b"b"].concat()).await;
    });
    check_with(defaults(), streamed(), 2 * 45, 200, async |peer| {
        send(peer, &[POST, &[b'b'; 10_000]].concat()).await;
        peer.shutdown().await.unwrap();
    });
    // The time after a read was dropped does not count either.
    let gives_up = async |ctx: &mut Context| -> corehttp::Result {
        let mut body = ctx.body_reader();
        assert!(timeout(Duration::from_secs(1), body.chunk()).await.is_err());
        pass(45).await;
        while body.chunk().await?.is_some() {}
        ctx.response.set_text("fine");
        Ok(())
    };
    let gives_up = || wrap(BodyPlan::Stream, gives_up);
    for (after, seconds) in [(2, 1 + 45), (50, 50), (54, 54)] {
        check_with(defaults(), gives_up(), seconds, 200, async |peer| {
            send(peer, POST).await;
            pass(after).await;
            send(peer, &[b'b'; 10_000]).await;
            peer.shutdown().await.unwrap();
        });
    }
    check_with(defaults(), gives_up(), 1 + 45 + 29, 408, async |peer| send(peer, POST).await);
    // A read that is dropped again and again times out, too.
    let looks_up = async |ctx: &mut Context| -> corehttp::Result {
        let mut body = ctx.body_reader();
        loop {
            if let Ok(chunk) = timeout(Duration::from_secs(1), body.chunk()).await {
                chunk?;
            }
        }
    };
    check_with(defaults(), wrap(BodyPlan::Stream, looks_up), 30, 408, async |peer| {
        send(peer, POST).await;
    });
    // The server waits no longer for an unread body, whose response was sent long before.
    check_with(defaults(), wrap(BodyPlan::Stream, app), 30, 0, async |peer| {
        ask(peer, POST).await;
    });
}

/// More than any pipe here holds.
const MUCH: usize = 1 << 20;

#[test]
fn a_write_without_progress_is_cut_off() {
    let buffered = |ctx: &mut Context| ctx.response.body.set_bytes(vec![b'x'; MUCH]);
    let streamed = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.body_writer().await?;
        let error = out.write_all(&vec![b'x'; MUCH]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        Err(error.into())
    };
    let sourced =
        |ctx: &mut Context| ctx.response.body.set_stream(tokio::io::repeat(b'x').take(MUCH as u64), None);
    for outcome in [check_stalled(buffered), check_stalled(sourced)] {
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
    let _ = check_stalled(streamed);
}

/// Sends `request`, and reads nothing for 50 seconds.
fn talk_late<Kind>(handler: impl IntoHandler<Kind>, request: &str) -> Told {
    talk(defaults(), handler, 1_000, async |peer| {
        send(peer, request.as_bytes()).await;
        pass(50).await;
        peer.shutdown().await.unwrap();
    })
}

/// A handler that ignores the error must not end the body as if nothing were missing.
#[test]
fn a_body_is_never_whole_once_a_write_has_failed() {
    let stubborn = async |ctx: &mut Context| -> corehttp::Result {
        let (length, coded) = (ctx.request.query().get("length"), ctx.request.query().get("coded"));
        if let Some(length) = length {
            ctx.response.headers.set("content-length", length)?;
        }
        if coded.is_some() {
            ctx.transform = Some(Box::new(Held(Vec::new(), 0)));
        }
        let (mut out, piece) = (ctx.body_writer().await?, [b'x'; 20_000]);
        let timed_out =
            |failed: io::Result<()>| assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut written = Ok(());
        while written.is_ok() {
            written = out.write_all(&piece).await;
        }
        timed_out(written);
        // The data that could be written reaches the peer meanwhile.
        pass(30).await;
        timed_out(out.write_all(&piece[..1]).await);
        timed_out(out.write_all(&piece).await);
        timed_out(out.shutdown().await);
        timed_out(out.finish().await);
        Ok(())
    };
    for (query, version) in [("", "1.1"), ("", "1.0"), ("length=1000000", "1.1"), ("coded", "1.1")] {
        let told = talk_late(stubborn, &format!("GET /?{query} HTTP/{version}\r\nhost: a\r\n\r\n"));
        assert_eq!(told.outcome.unwrap_err().kind(), io::ErrorKind::InvalidInput, "{query:?} {version}");
        assert!(told.received.contains("xxx") && !told.received.contains("\r\n0\r\n"), "{query:?} {version}");
    }
}

/// Holds back up to so many bytes until a flush.
struct Held(Vec<u8>, usize);

impl Transform for Held {
    fn begin(&mut self, _: &mut Response) -> TransformAction {
        TransformAction::Apply
    }

    fn apply(&mut self, data: &[u8], flush: Flush, out: &mut Vec<u8>) -> io::Result<()> {
        self.0.extend(data);
        if flush != Flush::Later || self.0.len() > self.1 {
            out.append(&mut self.0);
        }
        Ok(())
    }
}

/// The size of a chunk that failed must not be sent, or it would pass for that of the next chunk.
#[test]
fn a_flush_that_failed_leaves_no_part_of_a_chunk() {
    let stubborn = async |ctx: &mut Context| -> corehttp::Result {
        ctx.transform = Some(Box::new(Held(Vec::new(), usize::MAX)));
        let mut out = ctx.body_writer().await?;
        for _ in 0..2 {
            out.write_all(&[b'x'; 20_000]).await?;
            assert_eq!(out.flush().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        pass(30).await;
        Ok(out.finish().await?)
    };
    let told = talk_late(stubborn, "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert!(told.outcome.is_ok(), "{:?}", told.outcome);
    assert_eq!(responses(&told.received)[0].body.len(), 40_000);
}

/// An empty flush is no progress, and a body that is read flushes before it waits.
#[test]
fn a_write_without_progress_is_cut_off_while_a_body_still_comes() {
    let both = async |ctx: &mut Context| -> corehttp::Result {
        let (mut body, mut out) = ctx.duplex().await?;
        // The read may be the first to fail when the connection is cut off.
        let reading = async {
            while let Ok(Some(_)) = body.chunk().await {}
            pending().await
        };
        let much = vec![b'x'; MUCH];
        tokio::select! {
            written = out.write_all(&much) => Ok(written?),
            never = reading => never,
        }
    };
    let told = talk(defaults(), wrap(BodyPlan::Stream, both), 1_000, async |peer| {
        send(peer, CHUNKED).await;
        drip(peer, format!("258\r\n{:600}\r\n", "").as_bytes(), 1).await;
    });
    assert_time(told.time, 30);
    assert_eq!(told.outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

/// A peer that sends all of its body first takes nothing meanwhile. A handler that keeps the body and does not read it
/// stands still with that peer for as long as a write may; one that reads, or does not want the body, does not.
#[test]
fn a_peer_that_sends_its_whole_body_first_needs_a_handler_that_reads() {
    let keeps = async |ctx: &mut Context| -> corehttp::Result {
        let (_body, mut out) = ctx.duplex().await?;
        out.write_all(&vec![b'x'; MUCH]).await?;
        Ok(out.finish().await?)
    };
    let reads = async |ctx: &mut Context| -> corehttp::Result {
        let (mut body, mut out) = ctx.duplex().await?;
        let reading = async {
            while body.chunk().await?.is_some() {}
            Ok(())
        };
        let writing = async {
            out.write_all(&vec![b'x'; MUCH]).await?;
            out.finish().await
        };
        tokio::try_join!(reading, writing)?;
        Ok(())
    };
    let discards = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.body_writer().await?;
        out.write_all(&vec![b'x'; MUCH]).await?;
        Ok(out.finish().await?)
    };
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {MUCH}\r\nconnection: close\r\n\r\n");
    let sends_first = async |peer: &mut DuplexStream| {
        send(peer, head.as_bytes()).await;
        // Fails where the server cuts the connection off.
        let _ = peer.write_all(&vec![b'b'; MUCH]).await;
    };
    let streamed = |_: &Request| BodyPlan::Stream;
    let told = talk(defaults(), wrap(middleware::plan(streamed), keeps), 1_000, sends_first);
    assert_time(told.time, 30);
    assert_eq!(told.outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
    for told in [
        talk(defaults(), wrap(middleware::plan(streamed), reads), 1_000, sends_first),
        talk(defaults(), wrap(middleware::plan(streamed), discards), 1_000, sends_first),
    ] {
        assert_time(told.time, 0);
        assert!(told.outcome.is_ok(), "{:?}", told.outcome);
        assert_eq!(responses(&told.received)[0].body.len(), MUCH);
    }
}

/// The time in which the server does not read, since its peer has not read the response yet, does not count.
#[test]
fn a_body_is_not_timed_while_the_response_comes_first() {
    let both = async |ctx: &mut Context| -> corehttp::Result {
        let (mut body, mut out) = ctx.duplex().await?;
        let reading = async {
            while body.chunk().await?.is_some() {}
            Ok(())
        };
        let writing = async {
            for _ in 0..6 {
                out.write_all(&[b'x'; 10_000]).await?;
            }
            out.finish().await
        };
        tokio::try_join!(reading, writing)?;
        Ok(())
    };
    let told = talk(defaults(), wrap(BodyPlan::Stream, both), 1_000, async |peer| {
        send(peer, POST).await;
        send(peer, &[b'b'; 100]).await;
        for _ in 0..60 {
            pass(1).await;
            peer.read_exact(&mut [0; 1_000]).await.unwrap();
        }
        send(peer, &[b'b'; 9_900]).await;
        peer.shutdown().await.unwrap();
    });
    assert_time(told.time, 60);
    assert!(told.outcome.is_ok() && told.received.ends_with("0\r\n\r\n"), "{:?}", told.outcome);
}

/// Runs a future as `FuturesUnordered` does: with a waker of its own, and only when that was woken.
fn apart<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let (mut future, own) =
        (Box::pin(future), Arc::new(Own { is_woken: true.into(), task: Mutex::default() }));
    poll_fn(move |cx| {
        *own.task.lock().unwrap() = Some(cx.waker().clone());
        match own.is_woken.swap(false, Ordering::SeqCst) {
            true => future.as_mut().poll(&mut task::Context::from_waker(&own.clone().into())),
            false => Poll::Pending,
        }
    })
}

struct Own {
    is_woken: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wake for Own {
    fn wake(self: Arc<Own>) {
        self.is_woken.store(true, Ordering::SeqCst);
        let task = self.task.lock().unwrap().take();
        task.into_iter().for_each(Waker::wake);
    }
}

/// The server sends the data of a waiting handler, and must then wake also a part of the handler that has a waker of
/// its own, or that part would wait for ever.
#[test]
fn parts_of_a_handler_with_wakers_of_their_own_go_on() {
    async fn write(mut out: BodyWriter<'_>, pieces: usize) -> io::Result<()> {
        for _ in 0..pieces {
            out.write_all(&[b'x'; 10_000]).await?;
        }
        out.finish().await
    }
    let one = async |ctx: &mut Context| -> corehttp::Result {
        let out = ctx.body_writer().await?;
        Ok(apart(write(out, 6)).await?)
    };
    // Waiting data is sent at once when the peer reads, whether that is before the server writes again or after.
    let large = |turns| {
        async move |ctx: &mut Context| -> corehttp::Result {
            for _ in 0..turns {
                yield_now().await;
            }
            let out = ctx.body_writer().await?;
            Ok(apart(write(out, 60)).await?)
        }
    };
    let two = async |ctx: &mut Context| -> corehttp::Result {
        let (mut body, out) = ctx.duplex().await?;
        let read = async {
            while body.chunk().await?.is_some() {}
            io::Result::Ok(())
        };
        tokio::try_join!(apart(read), apart(write(out, 6)))?;
        Ok(())
    };
    let limits = Timeouts { handler: Some(Duration::from_secs(100)), ..defaults() };
    let check = |told: Told| {
        assert!(told.outcome.is_ok() && told.received.ends_with("0\r\n\r\n"), "{:?}", told.outcome);
    };
    let listen = async |peer: &mut DuplexStream, body: &[u8]| {
        for _ in 0..75 {
            pass(1).await;
            peer.read_exact(&mut [0; 800]).await.unwrap();
        }
        send(peer, body).await;
        peer.shutdown().await.unwrap();
    };
    check(talk(limits, one, 1_000, async |peer| {
        send(peer, GET).await;
        listen(peer, b"").await;
    }));
    for turns in 0..2 {
        check(talk(limits, large(turns), 100_000, async |peer| {
            send(peer, GET).await;
            peer.shutdown().await.unwrap();
        }));
    }
    check(talk(limits, wrap(BodyPlan::Stream, two), 1_000, async |peer| {
        send(peer, POST).await;
        send(peer, &[b'b'; 100]).await;
        listen(peer, &[b'b'; 9_900]).await;
    }));
}

/// A connection that waits for a request must not wake itself whenever it is polled with another waker.
#[test]
fn a_connection_that_is_polled_with_ever_new_wakers_waits_in_peace() {
    paused(async {
        let (service, start) =
            (Server::new().half_close(true).timeouts(defaults()).service(app), Instant::now());
        let ((mut near, far), mut polls) = (duplex(1 << 16), 0);
        let mut served = Box::pin(service.serve_connection(far));
        let serving = poll_fn(|cx| {
            polls += 1;
            assert!(polls < 100, "it wakes itself");
            let own = Own { is_woken: false.into(), task: Mutex::new(Some(cx.waker().clone())) };
            served.as_mut().poll(&mut task::Context::from_waker(&Arc::new(own).into()))
        });
        let peer = async {
            ask(&mut near, GET).await;
            ask(&mut near, GET).await;
        };
        tokio::join!(serving, peer).0.unwrap();
        assert_time(start.elapsed(), 60);
    });
}

#[test]
fn a_part_of_a_handler_with_a_waker_of_its_own_is_cut_off_too() {
    let stalled = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.body_writer().await?;
        let writing = async {
            loop {
                out.write_all(&[b'x'; 10_000]).await?;
            }
        };
        let Err::<(), io::Error>(error) = apart(writing).await else { panic!("nobody reads") };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        Err(error.into())
    };
    let limits = Timeouts { handler: Some(Duration::from_secs(100)), ..defaults() };
    let told = talk(limits, stalled, 1_000, async |peer| {
        send(peer, GET).await;
        pass(60).await;
    });
    assert_eq!(told.outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_time(told.time, 30);
}

/// A peer that reads a byte now and then is served; one that does not read is cut off.
#[track_caller]
fn check_stalled<Kind>(handler: impl IntoHandler<Kind>) -> io::Result<()> {
    let told = talk(defaults(), handler, 1_000, async |peer| {
        send(peer, GET).await;
        for _ in 0..5 {
            pass(29).await;
            peer.read_u8().await.unwrap();
        }
        pass(2 * 29).await;
    });
    assert_time(told.time, 29 * 5 + 30);
    assert_eq!(told.received.len(), 1_000, "what was in the pipe");
    told.outcome
}

/// Records when it is dropped.
struct Guard(Arc<AtomicBool>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_handler_that_takes_too_long_is_dropped_rfc9110_15_6_4() {
    let limited = Timeouts { handler: Some(Duration::from_secs(5)), ..defaults() };
    let dropped = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&dropped);
    let hangs = async move |_: &mut Context| {
        let _guard = Guard(Arc::clone(&seen));
        pending::<()>().await;
    };
    check_with(limited, hangs, 5, 503, async |peer| send(peer, GET).await);
    assert!(dropped.load(Ordering::SeqCst));
    let waits_for_the_body = async |ctx: &mut Context| -> corehttp::Result {
        while ctx.body_reader().chunk().await?.is_some() {}
        Ok(())
    };
    let streamed = wrap(BodyPlan::Stream, waits_for_the_body);
    check_with(limited, streamed, 5, 503, async |peer| send(peer, POST).await);
    let in_time = async |ctx: &mut Context| {
        pass(4).await;
        ctx.response.set_text("fine");
    };
    // The time is that of each exchange, not of the connection.
    check_with(limited, in_time, 4 * 4 + 60, 0, async |peer| {
        for _ in 0..4 {
            ask(peer, GET).await;
        }
    });
    check_with(limited, in_time, 10, 200, async |peer| {
        pass(6).await;
        send(peer, GET).await;
        peer.shutdown().await.unwrap();
    });
    let takes_an_hour = async |_: &mut Context| pass(3600).await;
    check_with(defaults(), takes_an_hour, 3600 + 60, 200, async |peer| send(peer, GET).await);
}

#[test]
fn a_late_handler_that_has_begun_its_response_is_cut_off() {
    let limited = Timeouts { handler: Some(Duration::from_secs(5)), ..defaults() };
    let half = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.body_writer().await?;
        out.write_all(b"half").await?;
        out.flush().await?;
        pending().await
    };
    let told = talk(limited, half, 1 << 16, async |peer| send(peer, GET).await);
    assert_time(told.time, 5);
    assert!(told.outcome.is_err() && told.received.ends_with("\r\n\r\n4\r\nhalf\r\n"), "{:?}", told.received);
}

/// A stream of events and an upgraded connection last as long as both sides like.
#[test]
fn the_time_of_a_handler_ends_with_an_upgrade_or_the_head_of_a_stream_of_events() {
    let limited = Timeouts { handler: Some(Duration::from_secs(5)), ..defaults() };
    let events = async |ctx: &mut Context| -> corehttp::Result {
        let mut events = ctx.events().await?;
        for _ in 0..3 {
            pass(10).await;
            events.send(Event::new("tick")).await?;
        }
        Ok(events.finish().await?)
    };
    let told = talk(limited, events, 1 << 16, async |peer| {
        send(peer, GET).await;
        peer.shutdown().await.unwrap();
    });
    assert_time(told.time, 30);
    assert!(told.outcome.is_ok() && told.received.ends_with("0\r\n\r\n"), "{:?}", told.received);
    let late = async |ctx: &mut Context| -> corehttp::Result {
        pass(6).await;
        ctx.events().await.map(drop)?;
        Ok(())
    };
    check_with(limited, late, 5, 503, async |peer| send(peer, GET).await);
    let upgraded = async |ctx: &mut Context| -> corehttp::Result {
        let mut stream = ctx.upgrade("echo").await?;
        pass(30).await;
        stream.write_all(b"late").await?;
        Ok(stream.shutdown().await?)
    };
    let told = talk(limited, upgraded, 1 << 16, async |peer| {
        send(peer, b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n").await;
    });
    assert_time(told.time, 30);
    assert!(told.received.ends_with("\r\n\r\nlate"), "{:?}", told.received);
}

#[test]
fn the_server_lingers_after_a_refusal_rfc9112_9_6() {
    for (linger, seconds) in [(Duration::ZERO, 0), (Duration::from_secs(1), 1), (Duration::from_secs(5), 5)] {
        let timeouts = || Timeouts { linger, linger_idle: Duration::MAX, ..defaults() };
        let told = talk(timeouts(), app, 1 << 16, async |peer| send(peer, b"bad\r\n").await);
        assert_eq!(status(&told.received), 400);
        assert_time(told.time, seconds);
        // The server waits no longer for a peer that goes on sending.
        let told = talk(timeouts(), app, 1 << 16, async |peer| {
            send(peer, b"bad\r\n").await;
            drip(peer, b"!", 1).await;
        });
        assert_time(told.time, seconds);
        // The time of an earlier wait does not count.
        let told = talk(timeouts(), app, 1 << 16, async |peer| send(peer, b"GET").await);
        assert_eq!(status(&told.received), 408);
        assert_time(told.time, 10 + seconds);
    }
    // A silent peer has less time than one that sends.
    for (pause, seconds) in [(4, 30), (6, 5)] {
        let told = talk(Timeouts::default(), app, 1 << 16, async |peer| {
            send(peer, b"bad\r\n").await;
            drip(peer, b"!", pause).await;
        });
        assert_time(told.time, seconds);
    }
    let told = talk(Timeouts::default(), app, 1 << 16, async |peer| {
        send(peer, b"bad\r\n").await;
        peer.shutdown().await.unwrap();
    });
    assert_time(told.time, 0);
    // The rest of a body on a connection that closes is not awaited.
    let streamed = wrap(BodyPlan::Stream, app);
    let last = [&POST[..POST.len() - 2], b"connection: close\r\n\r\n"].concat();
    check_with(defaults(), streamed, 0, 200, async |peer| send(peer, &last).await);
}

#[test]
fn a_wait_that_was_given_up_does_not_end_another() {
    let gives_up = async |ctx: &mut Context| {
        let waited = timeout(Duration::from_secs(1), ctx.body_reader().chunk()).await.map(drop);
        assert!(waited.is_err());
        ctx.peer_closed().await;
        ctx.response.set_text("fine");
    };
    let streamed = wrap(BodyPlan::Stream, gives_up);
    let told = talk(defaults(), streamed, 1 << 16, async |peer| {
        send(peer, POST).await;
        pass(100).await;
        peer.shutdown().await.unwrap();
    });
    assert_time(told.time, 100);
    assert_eq!(status(&told.received), 200);
}

#[test]
fn a_wait_that_is_over_wakes_no_task() {
    let (near, far) = duplex(1 << 16);
    let (polls, outcome) = paused(async {
        let held = Holding::new(far);
        let polls = Rc::clone(&held.polls);
        let service = Server::new()
            .half_close(true)
            .timeouts(Timeouts { write: Duration::from_secs(1), ..defaults() })
            .service(app);
        let peer = async move {
            let mut near = near;
            for _ in 0..3 {
                ask(&mut near, GET).await;
                pass(50).await;
            }
        };
        let (_, outcome) = tokio::join!(peer, service.serve_connection(held));
        (polls.get(), outcome)
    });
    assert!(outcome.is_ok() && polls < 50, "{outcome:?} after {polls} polls");
}

/// A flush that completes is progress, and the next write has a time of its own.
#[test]
fn a_flush_that_is_over_ends_no_later_write() {
    let pauses = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.body_writer().await?;
        out.flush().await?;
        pass(40).await;
        out.write_all(&[b'x'; 10_000]).await?;
        Ok(out.finish().await?)
    };
    let mut pipe = 1 << 16;
    for _ in 0..2 {
        let (mut near, far) = duplex(pipe);
        let (received, outcome) = paused(async {
            let peer = async {
                send(&mut near, b"GET / HTTP/1.0\r\n\r\n").await;
                pass(50).await;
                let mut received = String::new();
                near.read_to_string(&mut received).await.unwrap();
                received
            };
            let service = Server::new().half_close(true).service(pauses);
            tokio::join!(peer, service.serve_connection(Holding::new(far)))
        });
        assert!(outcome.is_ok() && received.ends_with(&"x".repeat(10_000)), "{outcome:?}, {pipe}");
        // Next time the head fills the pipe, so that the first thing that is written behind it waits.
        pipe = received.len() - 10_000;
    }
}

#[test]
fn an_end_that_cannot_be_said_is_given_up() {
    let (mut near, far) = duplex(1 << 16);
    let time = paused(async {
        let start = Instant::now();
        send(&mut near, b"GET / HTTP/1.0\r\n\r\n").await;
        let stuck = Holding { never_ends: true, ..Holding::new(far) };
        Server::new()
            .half_close(true)
            .timeouts(defaults())
            .service(app)
            .serve_connection(stuck)
            .await
            .unwrap();
        start.elapsed()
    });
    assert_time(time, 30);
}

/// A transport that holds written data back for a moment, as encryption may.
struct Holding {
    stream: DuplexStream,
    is_held: bool,
    /// Whether its shutdown never completes.
    never_ends: bool,
    polls: Rc<Cell<usize>>,
}

impl Holding {
    fn new(stream: DuplexStream) -> Holding {
        Holding { stream, is_held: true, never_ends: false, polls: Rc::default() }
    }
}

impl AsyncRead for Holding {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.polls.set(self.polls.get() + 1);
        Pin::new(&mut self.stream).poll_read(cx, out)
    }
}

impl AsyncWrite for Holding {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_held = true;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        if mem::take(&mut self.is_held) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        match self.never_ends {
            true => Poll::Pending,
            false => Pin::new(&mut self.stream).poll_shutdown(cx),
        }
    }
}

/// All waits have this limit, and no body is fast enough after it.
fn all_timeouts(limit: Duration) -> Timeouts {
    Timeouts {
        head: limit,
        queue: Some(limit),
        body: limit,
        body_grace: limit,
        body_rate_min: u64::MAX,
        idle: limit,
        connection_age: Some(limit),
        write: limit,
        handler: Some(limit),
        linger: limit,
        linger_idle: limit,
    }
}

/// Gives a device more time for its body, and less room.
struct Devices;

impl Handler for Devices {
    fn on_head(&self, ctx: &mut Context) -> BodyPlan {
        if ctx.request.headers.get_bytes("x-device").is_some() {
            let body = Duration::from_secs(100);
            ctx.set_timeouts(Timeouts { body, body_rate_min: 0, ..ctx.timeouts() });
            ctx.set_limits(Limits { body_max: 4, ..ctx.limits() });
        }
        BodyPlan::Buffer
    }

    async fn handle(&self, ctx: &mut Context) -> corehttp::Result {
        app(ctx);
        Ok(())
    }
}

#[test]
fn the_head_of_a_request_decides_about_its_bounds() {
    const DEVICE: &str = "POST / HTTP/1.1\r\nhost: a\r\nx-device: 1\r\ncontent-length: ";
    let (slow, large) = (format!("{DEVICE}2\r\n\r\na"), format!("{DEVICE}5\r\n\r\n"));
    check_with(defaults(), Devices, 90 + 60, 200, async |peer| {
        send(peer, slow.as_bytes()).await;
        pass(90).await;
        send(peer, b"b").await;
    });
    check_with(defaults(), Devices, 100, 408, async |peer| send(peer, slow.as_bytes()).await);
    check_with(defaults(), Devices, 0, 413, async |peer| send(peer, large.as_bytes()).await);
    // The next request of the connection has the bounds of the server.
    check_with(defaults(), Devices, 90 + 30, 408, async |peer| {
        send(peer, slow.as_bytes()).await;
        pass(90).await;
        send(peer, b"b").await;
        send(peer, POST).await;
    });
}

#[test]
fn without_limits_the_server_waits_for_days() {
    const DAY: u64 = 24 * 3600;
    let slow = async |ctx: &mut Context| {
        pass(DAY).await;
        ctx.response.set_text("fine");
    };
    check_with(all_timeouts(Duration::MAX), slow, 7 * DAY, 200, async |peer| {
        for _ in 0..2 {
            let request = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nb";
            let (head, body) = request.split_at(request.len() - 1);
            for packet in [&head[..5], &head[5..], body] {
                pass(DAY).await;
                send(peer, packet).await;
            }
        }
        peer.shutdown().await.unwrap();
    });
}

#[test]
fn with_no_time_at_all_every_wait_ends_at_once() {
    for wire in [b"", GET, POST, CHUNKED, b"bad\r\n", &GET[..5]] {
        let hangs = async |_: &mut Context| pending::<()>().await;
        let told = talk(all_timeouts(Duration::ZERO), hangs, 1 << 16, async |peer| send(peer, wire).await);
        assert_time(told.time, 0);
    }
}

#[test]
fn all_timeouts_end_on_a_core_of_a_server() {
    let (soon, dropped) = (Duration::from_millis(100), Arc::new(AtomicBool::new(false)));
    let timeouts = Timeouts {
        head: soon,
        body: soon,
        idle: soon,
        write: soon,
        handler: Some(Duration::from_millis(300)),
        ..Timeouts::default()
    };
    let (seen, much) = (Arc::clone(&dropped), Bytes::from(vec![b'x'; 32 << 20]));
    let file = Arc::new(tempfile::tempfile().unwrap());
    file.set_len(32 << 20).unwrap();
    let app = async move |ctx: &mut Context| match ctx.request.path() {
        "/much" => ctx.response.body.set_shared_bytes(much.clone()),
        "/file" => ctx.response.body.set_file(file.clone(), 0..32 << 20),
        "/hang" => {
            let _guard = Guard(Arc::clone(&seen));
            pending().await
        }
        _ => ctx.response.set_text("fine"),
    };
    let served = Served::with(|server| server.timeouts(timeouts), app);
    let talks = [&b""[..], b"\r\n", b"G", GET, POST, b"GET /hang HTTP/1.1\r\nhost: a\r\n\r\n"];
    let mut stalled = ["much", "file"].map(|path| {
        let mut peer = served.connect();
        peer.send(format!("GET /{path} HTTP/1.1\r\nhost: a\r\n\r\n"));
        peer
    });
    let mut peers = talks.map(|_| served.connect());
    peers.iter_mut().zip(talks).for_each(|(peer, wire)| peer.send(wire));
    let received = peers.each_mut().map(|peer| status(&peer.receive_all()));
    assert_eq!((received, dropped.load(Ordering::SeqCst)), ([0, 0, 408, 200, 408, 503], true));
    eventually("the stalled ones are cut off", || served.running.counts().total.errors.timed_out == 4);
    assert_eq!(served.running.counts().total.errors.handler, 1);
    for peer in &mut stalled {
        let received = peer.receive_all();
        assert!(received.len() < 32 << 20 && received.ends_with("<ConnectionReset>"));
    }
}

/// The clock of a core is too coarse to time them one by one.
#[test]
fn waits_that_are_given_up_at_once_end_on_a_core_of_a_server() {
    let looks_up = async |ctx: &mut Context| -> corehttp::Result {
        let mut body = ctx.body_reader();
        loop {
            if let Ok(chunk) = timeout(Duration::from_millis(20), body.chunk()).await {
                chunk?;
            }
        }
    };
    let timeouts = Timeouts { body: Duration::from_millis(500), ..Timeouts::default() };
    let looked_up = wrap(BodyPlan::Stream, looks_up);
    let served = Served::with(|server| server.timeouts(timeouts), looked_up);
    let mut peer = served.connect();
    peer.send(POST);
    assert_eq!(status(&peer.receive_all()), 408);
}
