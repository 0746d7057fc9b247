//! Server-sent events (HTML §9.2): what a page receives, and when.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use corehttp::error::ExchangeError;
use corehttp::error::MessageError;
use corehttp::sse::{Event, EventReader};
use corehttp::{Client, Context, Request, Response, Server, Status, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::support::responses::responses;
use crate::support::{ErrorReports, Peer, Served, eventually, paused};

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// The events that a page has received: the id, type and data of each.
type Received = Vec<(String, String, String)>;

/// Reads `stream` as browsers do (HTML §9.2.6).
fn received(stream: &str) -> Received {
    let (mut received, mut id, mut event, mut data) =
        (Vec::new(), String::new(), String::new(), String::new());
    for line in stream.replace("\r\n", "\n").replace('\r', "\n").split_terminator('\n') {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" if line.is_empty() => {
                if let Some(data) = data.strip_suffix('\n') {
                    received.push((id.clone(), event.clone(), data.to_owned()));
                }
                (event, data) = Default::default();
            }
            "id" => id = value.to_owned(),
            "event" => event = value.to_owned(),
            "data" => data.extend([value, "\n"]),
            _ => {}
        }
    }
    received
}

/// A page receives `expected` from `events` with comments between them.
#[track_caller]
fn check<const N: usize>(events: [Event<'static>; N], expected: &[(&str, &str, &str)]) {
    let sends = async move |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.events().await?;
        for event in events {
            out.send_comment("data: no event\n\ndata: either").await?;
            out.send(event).await?;
        }
        Ok(out.finish().await?)
    };
    let response = paused(Server::new().half_close(true).service(sends).respond(Request::get("/").unwrap()));
    let expected: Received =
        expected.iter().map(|(id, event, data)| ((*id).into(), (*event).into(), (*data).into())).collect();
    assert_eq!(received(response.body.text().unwrap()), expected, "{events:?}");
    assert_eq!(response.headers.content_type(), Some("text/event-stream"));
    assert_eq!(response.headers.get("cache-control"), Some("no-store"));
    assert_eq!(response.headers.get("x-accel-buffering"), Some("no"));
}

/// Time limits of handlers are for those that end. Parameters and case of a type do not change it (RFC 9110 §8.3.1).
#[test]
fn a_stream_of_events_has_no_time_limit_however_its_type_is_written() {
    for (content_type, has_limit) in [
        ("text/event-stream", false),
        ("text/event-stream; charset=utf-8", false),
        ("Text/Event-Stream ;charset=UTF-8", false),
        ("text/event-streams", true),
        ("text/plain", true),
    ] {
        let sends = async move |ctx: &mut Context| -> corehttp::Result {
            ctx.response.headers.set("content-type", content_type)?;
            let mut out = ctx.body_writer().await?;
            tokio::time::sleep(Duration::from_secs(60)).await;
            out.write_all(b"data: late\n\n").await?;
            Ok(out.finish().await?)
        };
        let timeouts = Timeouts { handler: Some(Duration::from_secs(5)), ..Timeouts::default() };
        let service = Server::new().half_close(true).timeouts(timeouts).service(sends);
        let response = paused(service.respond(Request::get("/").unwrap()));
        assert_eq!(response.body.bytes().is_empty(), has_limit, "{content_type}");
    }
}

/// nginx buffers the responses of servers behind it, unless `x-accel-buffering` is `no`.
#[test]
fn a_handler_may_let_proxies_gather_events() {
    let gathers = async |ctx: &mut Context| -> corehttp::Result {
        ctx.response.headers.set("X-Accel-Buffering", "yes")?;
        Ok(ctx.events().await?.finish().await?)
    };
    let response =
        paused(Server::new().half_close(true).service(gathers).respond(Request::get("/").unwrap()));
    assert!(response.headers.all("x-accel-buffering").eq([b"yes"]));
}

#[test]
fn a_page_reads_events_as_they_were_sent_html_9_2_6() {
    const NONE: Event<'_> = Event { id: None, event: None, data: None, retry: None };
    check([], &[]);
    check([NONE], &[]);
    check(
        [Event { data: Some("a"), ..NONE }, Event { data: Some(""), ..NONE }],
        &[("", "", "a"), ("", "", "")],
    );
    check([Event { data: Some(" a\n\r\nb\rc:\n"), ..NONE }], &[("", "", " a\n\nb\nc:\n")]);
    check([Event { data: Some("id: 1\n\ndata: own"), ..NONE }], &[("", "", "id: 1\n\ndata: own")]);
    check(
        [
            Event {
                id: Some("1"),
                event: Some("tick"),
                data: Some("a"),
                retry: Some(Duration::from_secs(1)),
            },
            Event { id: Some(" 2:"), event: Some(" x"), ..NONE },
            Event { data: Some("b"), ..NONE },
        ],
        &[("1", "tick", "a"), (" 2:", "", "b")],
    );
}

#[test]
fn nothing_of_an_invalid_event_is_sent() {
    let refusals = ErrorReports::default();
    let sends = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.events().await?;
        for event in [
            Event { id: Some("a\n\ndata: own"), ..Event::new("x") },
            Event { event: Some("a\r"), ..Event::new("x") },
            Event { id: Some("\0"), ..Event::new("x") },
        ] {
            let refused = out.send(event).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
            assert!(refused.get_ref().unwrap().downcast_ref::<MessageError>().is_some());
        }
        out.send(Event::new("good")).await?;
        Ok(out.finish().await?)
    };
    let served = Served::with(|server| refusals.attach(server), sends);
    let body = served.ask(GET);
    assert!(body.ends_with("\r\n\r\nc\r\ndata: good\n\n\r\n0\r\n\r\n"), "{body}");
    assert_eq!(refusals.take(), []);
}

#[test]
fn each_event_leaves_at_once_and_the_connection_persists() {
    let go = Arc::new(Notify::new());
    let received = go.clone();
    let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.events().await?;
        for number in ["0", "1", "2"] {
            out.send(Event::new(number)).await?;
            // Nothing more is sent until the peer has received the event.
            out.wait(received.notified()).await?;
        }
        Ok(out.finish().await?)
    });
    let mut peer = served.connect();
    for _ in 0..2 {
        peer.send(GET);
        for number in 0..3 {
            let said = peer.receive_through(&format!("data: {number}\n\n\r\n"));
            assert!(!said.contains(&format!("data: {}", number + 1)), "{said}");
            go.notify_one();
        }
        peer.receive_through("0\r\n\r\n");
    }
}

#[test]
fn comments_keep_a_connection_alive_while_nothing_happens() {
    let check = |keep_alive: Option<Duration>, nothing: u64, comments: usize| {
        paused(async {
            let (mut near, far) = tokio::io::duplex(1 << 16);
            let service =
                Server::new().half_close(true).service(async move |ctx: &mut Context| -> corehttp::Result {
                    let mut out = ctx.events().await?;
                    out.keep_alive = keep_alive.unwrap_or(out.keep_alive);
                    let waited = out.wait(async {
                        sleep(Duration::from_millis(nothing)).await;
                        "waited"
                    });
                    let waited = waited.await?;
                    out.send(Event::new(waited)).await?;
                    Ok(out.finish().await?)
                });
            let peer = async {
                near.write_all(GET.as_bytes()).await.unwrap();
                near.shutdown().await.unwrap();
                let mut received = String::new();
                near.read_to_string(&mut received).await.unwrap();
                assert!(received.contains("data: waited\n\n"), "{received}");
                assert_eq!(received.matches("3\r\n: \n\r\n").count(), comments, "{received}");
            };
            let (served, ()) = tokio::join!(service.serve_connection(far), peer);
            served.unwrap();
        });
    };
    check(None, 14_900, 0);
    check(None, 15_100, 1);
    check(None, 40_000, 2);
    check(Some(Duration::from_secs(2)), 9_000, 4);
    check(Some(Duration::ZERO), 3_500, 3);
    check(Some(Duration::MAX), 1_000_000, 0);
}

#[test]
fn a_peer_that_is_gone_is_an_error() {
    let refusals = ErrorReports::default();
    let endless = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.events().await?;
        loop {
            out.send(Event::new("tick")).await?;
            tokio::task::yield_now().await;
        }
    };
    let served = Served::with(|server| refusals.attach(server), endless);
    let mut peer = served.connect();
    peer.send(GET);
    peer.receive_through("data: tick\n\n");
    peer.reset();
    let seen = std::cell::RefCell::new(Vec::new());
    eventually("the handler ends", || {
        seen.borrow_mut().extend(refusals.take());
        !seen.borrow().is_empty()
    });
    let seen = seen.into_inner();
    assert!(seen.len() == 1 && seen[0].0 == 0 && seen[0].1.contains("the connection failed"), "{seen:?}");
}

/// Nothing is sent behind a head of 204, so no write fails once the peer is gone. The handler of a method that is not safe
/// must be stopped otherwise.
#[test]
fn a_peer_that_gets_no_content_and_is_gone_is_an_error() {
    let flushes = async |ctx: &mut Context| -> corehttp::Result {
        ctx.response.status = Status::NO_CONTENT;
        let mut out = ctx.events().await?;
        loop {
            out.send(Event::new("tick")).await?;
            sleep(Duration::from_millis(1)).await;
        }
    };
    let writes = async |ctx: &mut Context| -> corehttp::Result {
        ctx.response.status = Status::NO_CONTENT;
        let mut out = ctx.body_writer().await?;
        loop {
            out.write_all(b"tick").await?;
            sleep(Duration::from_millis(1)).await;
        }
    };
    let refusals = [ErrorReports::default(), ErrorReports::default()];
    let served = [
        Served::with(|server| refusals[0].attach(server), flushes),
        Served::with(|server| refusals[1].attach(server), writes),
    ];
    for leave in [drop as fn(Peer), Peer::reset] {
        for (served, refusals) in served.iter().zip(&refusals) {
            let mut peer = served.connect();
            peer.send(GET.replace("GET", "POST"));
            peer.receive();
            leave(peer);
            eventually("the handler ends", || served.running.counts().total.open == 0);
            let told = "the peer closed before it was answered in full";
            assert_eq!(refusals.take(), [(0, told.to_owned())]);
        }
    }
}

/// A comment would fail, too, but not before the second one: the first still fits into the buffer of the socket.
#[test]
fn a_silent_stream_notices_that_its_peer_has_left() {
    for leave in [drop as fn(Peer), Peer::reset] {
        let refusals = ErrorReports::default();
        let waits = async |ctx: &mut Context| -> corehttp::Result {
            let mut out = ctx.events().await?;
            out.send(Event::new("begun")).await?;
            out.peer_closed().await;
            Err(ExchangeError::PeerClosed.into())
        };
        let served = Served::with(|server| refusals.attach(server), waits);
        let mut peer = served.connect();
        peer.send(GET);
        peer.receive_through("data: begun\n\n");
        leave(peer);
        eventually("the handler ends", || served.running.counts().total.open == 0);
        let told = "the peer closed before it was answered in full";
        assert_eq!(refusals.take(), [(0, told.to_owned())]);
        assert_eq!(served.running.counts().total.errors.incomplete, 1);
    }
}

#[test]
fn the_handler_gets_the_last_event_id_html_9_2_4() {
    let tells = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.events().await?;
        let last = format!("{:?}", out.last_id());
        out.send(Event::new(&last)).await?;
        Ok(out.finish().await?)
    };
    let served = Served::new(tells);
    assert!(served.ask(GET).contains("data: None\n"));
    assert!(
        served.ask(GET.replace("\r\n\r\n", "\r\nLast-Event-ID: 7 \r\n\r\n")).contains("data: Some(\"7\")\n")
    );
}

/// Events are separated from comments, across chunks, and none is lost if the caller cancels and waits again.
#[test]
fn a_reader_follows_a_stream_from_one_connection_to_the_next_html_9_2_4() {
    let sends = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.events().await?;
        let first = out.last_id().map_or(1, |id| id.parse::<u64>().unwrap() + 1);
        for number in first..first + 3 {
            let id = number.to_string();
            let (id, retry) = (Some(id.as_str()), Some(Duration::from_millis(number)));
            out.send_comment("no event").await?;
            out.send(Event { id, retry, ..Event::new("of two\nlines") }).await?;
            out.send_comment("").await?;
        }
        Ok(out.finish().await?)
    };
    let served = Served::new(sends);
    let (mut request, mut response) =
        (Request::get(&format!("http://{}/", served.addr())).unwrap(), Response::new());
    let reads = async {
        let (client, mut count) = (Client::new(), 0);
        for _ in 0..3 {
            let mut events = EventReader::new(client.open_response(&request, &mut response).await.unwrap());
            loop {
                let event = tokio::select! {
                    biased;
                    event = events.event() => event.unwrap(),
                    () = tokio::task::yield_now() => continue,
                };
                let Some(event) = event else { break };
                count += 1;
                assert_eq!((event.id, event.data), (Some(count.to_string().as_str()), Some("of two\nlines")));
            }
            assert_eq!(events.event().await.unwrap(), None, "it has ended");
            assert_eq!(events.last_retry(), Some(Duration::from_millis(count)));
            request.headers.set("last-event-id", events.last_id().unwrap()).unwrap();
        }
        count
    };
    assert_eq!(corehttp::block_on(reads).unwrap(), 9);
}

#[test]
fn an_event_without_end_is_an_error_of_the_reader() {
    let mut events = EventReader::new(tokio::io::repeat(b'x'));
    assert_eq!(events.event_max, 1 << 20);
    events.event_max = 1 << 16;
    paused(async {
        for _ in 0..2 {
            assert_eq!(events.event().await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    });
}

#[test]
fn an_event_stream_sees_that_the_server_stops() {
    let until_stopping = async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.events().await?;
        while !out.is_stopping() {
            out.send(Event::new("tick")).await?;
            tokio::task::yield_now().await;
        }
        out.send(Event::new("last")).await?;
        Ok(out.finish().await?)
    };
    let served = Served::new(until_stopping);
    let mut peer = served.connect();
    peer.send(GET);
    peer.receive_through("data: tick\n\n");
    served.running.stop(Duration::from_secs(5));
    peer.receive_through("data: last\n\n\r\n0\r\n\r\n");
    assert_eq!(peer.receive_all(), "");
}

/// A client must not take the next event for the rest of a cancelled one.
#[test]
fn a_cancelled_event_is_still_sent_whole() {
    let long = "x".repeat(100_000);
    for (version, is_last) in [("1.0", false), ("1.0", true), ("1.1", false)] {
        let (mut near, far) = tokio::io::duplex(1 << 10);
        let data = long.clone();
        let service =
            Server::new().half_close(true).service(async move |ctx: &mut Context| -> corehttp::Result {
                let mut out = ctx.events().await?;
                for _ in 0..3 {
                    let sending = out.send(Event { id: Some("1"), ..Event::new(&data) });
                    assert!(timeout(Duration::from_secs(1), sending).await.is_err(), "nobody reads");
                    assert!(timeout(Duration::from_secs(1), out.send_comment("no event")).await.is_err());
                }
                if !is_last {
                    out.send(Event::new("last")).await?;
                }
                Ok(out.finish().await?)
            });
        let peer = async {
            near.write_all(GET.replace("1.1", version).as_bytes()).await.unwrap();
            near.shutdown().await.unwrap();
            sleep(Duration::from_secs(10)).await;
            let mut received = String::new();
            near.read_to_string(&mut received).await.unwrap();
            received
        };
        let (_, said) = paused(async { tokio::join!(service.serve_connection(far), peer) });
        let stream = &responses(&said)[0].body;
        let expected =
            [("1", &*long), ("1", "last")].map(|(id, data)| (id.to_owned(), String::new(), data.to_owned()));
        let expected = &expected[..if is_last { 1 } else { 2 }];
        assert!(received(stream) == expected, "{version}, {is_last}: {} bytes", stream.len());
    }
}
