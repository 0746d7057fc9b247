//! Connections are used again, and never when they must not be (RFC 9112 §9).

use std::future::{Future, pending, poll_fn};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener};
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use corehttp::client::{ClientCause, ClientLimits, ClientPhase, ClientTimeouts, ResponseReader};
use corehttp::error::ExchangeError;
use corehttp::net::{Dialer, MemoryListener, Resolver};
use corehttp::{Client, ClientBuilder, ClientError, Method, Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};

use crate::support::{
    OK, OnRead, Peer, Received, Rigged, Scripted, Stage, ask, cancelled_after, eventually, get, post, settle,
};

/// A server whose responses say which connection they came on.
fn numbered() -> Stage {
    Stage::new(|peer, number| peer.answer(format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{number}")))
}

/// On which connection a response came.
async fn number(client: &Client) -> String {
    ask(client, &get()).await.unwrap().1
}

#[tokio::test]
async fn one_connection_serves_one_exchange_after_another() {
    let server = Scripted::always(OK).await;
    let (client, mut response) = (Client::new(), Response::new());
    let request = Request::get(&server.url).unwrap();
    for _ in 0..100 {
        client.send(&request, &mut response).await.unwrap();
        assert_eq!((response.status.as_u16(), response.body.bytes()), (200, &b"ok"[..]));
    }
    assert_eq!((server.connections(), client.idle_connections(), client.busy_connections()), (1, 1, 0));
    assert!(response.timings().reused);
}

/// Two connections, after which each dial takes so long and fails. The first server leaves at its second request.
struct TwoConnections(Duration, AtomicUsize);

impl Dialer for TwoConnections {
    type Stream = DuplexStream;

    async fn dial(&self, _host: &str, _port: u16) -> io::Result<DuplexStream> {
        let number = self.1.fetch_add(1, Relaxed) as u64;
        if number > 1 {
            sleep(self.0).await;
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = duplex(1 << 10);
        tokio::spawn(async move {
            let mut peer = Peer::new(far, Received::default());
            for request in 0.. {
                if peer.request().await?.is_none() || (number, request) == (0, 1) {
                    break;
                }
                // The first connection is the last to be used.
                sleep(Duration::from_secs(2 - number)).await;
                peer.send(OK).await?;
            }
            io::Result::Ok(())
        });
        Ok(near)
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_connection_is_replaced_by_an_idle_one_if_no_other_can_be_opened() {
    for fails_after in [Duration::ZERO, Duration::from_secs(100)] {
        let client = Client::builder().dialer(TwoConnections(fails_after, AtomicUsize::new(0))).build();
        let (one, two) = tokio::join!(client.get("http://a/"), client.get("http://a/"));
        assert!(one.is_ok() && two.is_ok() && client.idle_connections() == 2);
        let began = Instant::now();
        assert_eq!(client.get("http://a/").await.unwrap().text().unwrap(), "ok");
        assert!(began.elapsed() < Duration::from_millis(1300), "{:?}", began.elapsed());
    }
}

/// A runtime whose thread is busy has not noticed the end, and neither a POST nor a stream can be sent again.
#[tokio::test]
async fn what_is_sent_once_takes_no_connection_that_was_closed_a_moment_ago_rfc9112_9_3_1() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (answered, answers) = channel();
    let (closed, closings) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut received = Vec::new();
            while !received.ends_with(b"octets") {
                let mut piece = [0; 1 << 10];
                let len = stream.read(&mut piece).unwrap();
                received.extend_from_slice(&piece[..len]);
            }
            stream.write_all(OK.as_bytes()).unwrap();
            answers.recv().unwrap();
            drop(stream);
            closed.send(()).unwrap();
        }
    });
    let client = Client::new();
    let pipeline = client.pipeline(&url).unwrap().connections(1).allow_unsafe_methods(true).build();
    let mut response = Response::new();
    for round in 0..200 {
        let mut put = Request::new(Method::Put, &url).unwrap();
        let mut post = Request::post(if round % 4 == 0 { &url } else { "/" }).unwrap();
        post.body.set_bytes("octets");
        let sent = match round % 4 {
            0 => client.send(&post, &mut response).await,
            1 => pipeline.send(&post, &mut response).await,
            2 => {
                put.body.set_stream(&b"octets"[..], Some(6));
                client.send(&put, &mut response).await
            }
            _ => called(&client, put, &mut response).await,
        };
        assert!(sent.is_ok(), "request {round}: {sent:?}");
        answered.send(()).unwrap();
        closings.recv().unwrap();
    }
}

/// Sends six octets by a call, and receives the response.
async fn called(client: &Client, mut request: Request, response: &mut Response) -> Result<(), ClientError> {
    request.headers.set("content-length", 6).unwrap();
    let mut call = client.open_call(&request).await?;
    call.write_all(b"octets").await?;
    let mut reader = call.finish(response).await?;
    while reader.chunk().await?.is_some() {}
    Ok(())
}

/// 10,000 exchanges with a server that closes each connection whenever it likes give 10,000 responses and no error.
#[tokio::test]
async fn a_server_that_closes_at_random_is_never_noticed() {
    const EXCHANGES: usize = 10_000;
    let server = Scripted::new(|mut peer, number| async move {
        for _ in 0..=number * 7919 % 13 {
            if peer.request().await?.is_none() {
                return Ok(());
            }
            peer.send(OK).await?;
        }
        Ok(())
    })
    .await;
    let (client, request) = (Client::new(), Request::get(&server.url).unwrap());
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (client, request) = (client.clone(), request.clone());
        tasks.spawn(async move {
            let mut response = Response::new();
            for _ in 0..EXCHANGES / 8 {
                client.send(&request, &mut response).await.unwrap();
                assert_eq!(response.body.bytes(), b"ok");
            }
        });
    }
    tasks.join_all().await;
    assert!(server.connections() > 500, "{} connections", server.connections());
}

#[tokio::test(start_paused = true)]
async fn the_connection_that_was_used_last_is_used_first() {
    let client = numbered().client();
    let mut response = Response::new();
    let mut held = client.open_response(&get(), &mut response).await.unwrap();
    assert_eq!(
        (number(&client).await, client.idle_connections(), client.busy_connections()),
        ("1".into(), 1, 1)
    );
    assert_eq!(held.chunk().await.unwrap(), Some(&b"0"[..]));
    assert_eq!(held.chunk().await.unwrap(), None);
    assert_eq!((client.idle_connections(), client.busy_connections()), (2, 0));
    assert_eq!(number(&client).await, "0");
    assert_eq!(number(&client).await, "0");
    client.close_idle();
    assert_eq!((client.idle_connections(), number(&client).await), (0, "2".into()));
}

#[tokio::test(start_paused = true)]
async fn callers_that_find_no_place_wait_in_turn() {
    let stage = numbered();
    let (client, mut response) = (
        stage
            .builder()
            .limits(ClientLimits { connections_per_host_max: 2, ..ClientLimits::default() })
            .build(),
        Response::new(),
    );
    let first = client.open_response(&get(), &mut response).await.unwrap();
    let mut second = client.open_response(&get(), &mut response).await.unwrap();
    let (mut tasks, (order, mut served)) = (JoinSet::new(), tokio::sync::mpsc::unbounded_channel());
    for turn in 0..5 {
        let (client, order) = (client.clone(), order.clone());
        tasks.spawn(async move {
            let mut response = Response::new();
            client.send(&get(), &mut response).await.unwrap();
            order.send((turn, response.body.text().unwrap().to_owned(), response.timings())).unwrap();
        });
        settle().await;
    }
    sleep(Duration::from_secs(3)).await;
    assert_eq!((client.busy_connections(), stage.dialed().len(), served.len()), (2, 2, 0));
    while second.chunk().await.unwrap().is_some() {}
    tasks.join_all().await;
    for turn in 0..5 {
        let (served, on, timings) = served.recv().await.unwrap();
        assert_eq!((served, &*on, timings.reused), (turn, "1", true));
        assert_eq!((timings.queue.as_secs(), timings.send.as_secs()), (3, 0), "waiting is not sending");
    }
    drop(first);
    assert_eq!((client.idle_connections(), client.busy_connections(), stage.dialed().len()), (1, 0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_a_place_only_so_long() {
    let limit = Duration::from_millis(100);
    let queue = ClientTimeouts { queue: limit, ..ClientTimeouts::default() };
    for set in [
        |it: ClientBuilder, _: ClientTimeouts| it.timeout(Duration::from_millis(100)),
        |it: ClientBuilder, queue: ClientTimeouts| it.timeouts(queue),
    ] {
        let client = set(
            numbered()
                .builder()
                .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() }),
            queue,
        )
        .build();
        let mut response = Response::new();
        let held = client.open_response(&get(), &mut response).await.unwrap();
        let start = tokio::time::Instant::now();
        let error = ask(&client, &get()).await.unwrap_err();
        assert_eq!((error.phase(), error.is_timeout(), error.is_sent()), (ClientPhase::Queue, true, false));
        assert_eq!((start.elapsed(), client.busy_connections()), (limit, 1));
        drop(held);
        assert_eq!((client.busy_connections(), number(&client).await), (0, "1".into()), "the place is free");
    }
}

/// When a server was silent, each place that became free at the deadline went to a caller whose time was up as well. It
/// then dialed, and some even sent their request.
#[tokio::test(start_paused = true)]
async fn a_place_is_of_no_use_to_a_caller_whose_time_is_up() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        pending().await
    });
    let client = stage
        .builder()
        .limits(ClientLimits { connections_per_host_max: 2, ..ClientLimits::default() })
        .timeout(Duration::from_secs(1))
        .build();
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let client = client.clone();
        callers.spawn(async move { ask(&client, &get()).await.unwrap_err().phase() });
        settle().await;
    }
    let phases = callers.join_all().await;
    let count = |phase| phases.iter().filter(|found| **found == phase).count();
    assert_eq!((count(ClientPhase::Wait), count(ClientPhase::Queue)), (2, 18));
    assert_eq!((stage.dialed().len(), client.busy_connections()), (2, 0));
}

/// A connection has no task of its own. One task watches all that rest, until none does.
#[tokio::test(start_paused = true)]
async fn one_task_watches_all_connections_that_rest() {
    const MANY: usize = 8;
    // Each connection has a task on the server's side.
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (client, mut held) = (numbered().client(), Vec::new());
    for _ in 0..MANY {
        let mut response = Response::new();
        held.push(client.open_response(&get(), &mut response).await.unwrap());
    }
    assert_eq!((client.busy_connections(), client.idle_connections(), tasks()), (MANY, 0, MANY));
    for mut reply in held {
        while reply.chunk().await.unwrap().is_some() {}
    }
    assert_eq!((client.busy_connections(), client.idle_connections(), tasks()), (0, MANY, MANY + 1));
    sleep(Duration::from_secs(32)).await;
    assert_eq!((client.busy_connections(), client.idle_connections(), tasks()), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn each_origin_has_connections_and_places_of_its_own_rfc9110_4_3_1() {
    let stage = numbered();
    let (client, mut held) = (
        stage
            .builder()
            .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
            .build(),
        Vec::new(),
    );
    for url in ["http://a/", "http://a:81/", "http://b/", "http://b.a/", "http://127.0.0.1/", "http://[::1]/"]
    {
        let mut response = Response::new();
        held.push(client.open_response(&Request::get(url).unwrap(), &mut response).await.unwrap());
    }
    assert_eq!((client.busy_connections(), stage.dialed().len()), (6, 6));
    drop(held);
    for (url, connection) in
        [("http://a/", "6"), ("http://b/", "7"), ("HTTP://A:80/x?y", "6"), ("http://B:/", "7")]
    {
        assert_eq!(ask(&client, &Request::get(url).unwrap()).await.unwrap().1, connection, "{url}");
    }
    assert_eq!(
        stage.dialed()[..],
        ["a:80", "a:81", "b:80", "b.a:80", "127.0.0.1:80", "::1:80", "a:80", "b:80"]
    );
}

#[tokio::test(start_paused = true)]
async fn busy_connections_are_counted_whatever_the_bound() {
    for most in [0, 1, usize::MAX] {
        let (client, mut response) = (
            numbered()
                .builder()
                .limits(ClientLimits { connections_per_host_max: most, ..ClientLimits::default() })
                .build(),
            Response::new(),
        );
        assert_eq!(
            (number(&client).await, client.busy_connections(), client.idle_connections()),
            ("0".into(), 0, 1),
            "{most}"
        );
        let _held = client.open_response(&get(), &mut response).await.unwrap();
        assert_eq!((client.busy_connections(), client.idle_connections()), (1, 0), "{most}");
    }
}

/// After `rest` seconds the next response comes on connection `expected`, which is 0 if the first one is used again.
async fn check_rest(
    set: impl FnOnce(ClientBuilder) -> ClientBuilder,
    field: &str,
    rest: f64,
    expected: &str,
) {
    let field = field.to_owned();
    let stage = Stage::new(move |peer, number| {
        peer.answer(format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n{field}\r\n{number}"))
    });
    let client = set(stage.builder()).build();
    assert_eq!(number(&client).await, "0");
    sleep(Duration::from_secs_f64(rest)).await;
    assert_eq!(number(&client).await, expected, "after {rest} seconds");
}

/// Lets connections become so old.
fn aged(age: Duration) -> impl Fn(ClientBuilder) -> ClientBuilder {
    let timeouts = ClientTimeouts { connection_age: Some(age), ..ClientTimeouts::default() };
    move |it| it.timeouts(timeouts)
}

#[tokio::test(start_paused = true)]
async fn a_connection_rests_as_long_as_both_sides_let_it() {
    let same = |it| it;
    let idle = |seconds| {
        let idle = Duration::from_secs(seconds);
        move |it: ClientBuilder| it.timeouts(ClientTimeouts { idle, ..ClientTimeouts::default() })
    };
    let age = |seconds| aged(Duration::from_secs(seconds));
    check_rest(same, "", 29.9, "0").await;
    check_rest(same, "", 30.1, "1").await;
    check_rest(idle(100), "", 99.0, "0").await;
    check_rest(idle(0), "", 0.0, "1").await;
    check_rest(same, "keep-alive: timeout=5\r\n", 4.9, "0").await;
    check_rest(same, "Keep-Alive: max=100, Timeout=5\r\n", 5.1, "1").await;
    check_rest(same, "keep-alive: timeout=500\r\n", 31.0, "1").await;
    check_rest(same, "keep-alive: timeout=soon\r\n", 29.0, "0").await;
    check_rest(same, "keep-alive: timeout=+1\r\n", 29.0, "0").await;
    check_rest(same, "keep-alive: timeout=0\r\n", 0.0, "1").await;
    check_rest(age(10), "", 9.0, "0").await;
    check_rest(age(10), "", 11.0, "1").await;
    let client = aged(Duration::from_secs(10))(numbered().builder()).build();
    for expected in ["0", "0", "0", "1", "1", "1", "2"] {
        assert_eq!(number(&client).await, expected);
        sleep(Duration::from_secs(4)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn useless_connections_close_though_nothing_is_asked() {
    let client = numbered().client();
    assert_eq!((number(&client).await, client.idle_connections()), ("0".into(), 1));
    sleep(Duration::from_secs(32)).await;
    assert_eq!(client.idle_connections(), 0, "it has rested too long");
    // Who comes before it is closed does not get it any more.
    let client = numbered()
        .builder()
        .timeouts(ClientTimeouts { idle: Duration::from_millis(1500), ..ClientTimeouts::default() })
        .build();
    assert_eq!(number(&client).await, "0");
    sleep(Duration::from_millis(1750)).await;
    assert_eq!((client.idle_connections(), number(&client).await), (1, "1".into()));
    let once = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send(OK).await
    });
    let client = once.client();
    assert_eq!((number(&client).await, client.idle_connections()), ("ok".into(), 1));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(client.idle_connections(), 0, "its server has closed it");
}

/// A server answers the first request of its first connection, and to the second one says `end` and closes, or waits
/// for ever in the middle of a head. Later connections are good. The second request is answered there, or fails as
/// `expected`.
async fn check_stale(request: &Request, end: &'static str, expected: Result<(), &str>) {
    let stage = Stage::new(move |mut peer, number| async move {
        if number == 0 {
            peer.request().await?;
            peer.send(OK).await?;
            peer.head().await?;
            peer.send(end).await?;
            return match end {
                "HTTP/1.1 2" => pending().await,
                _ => Ok(()),
            };
        }
        peer.answer(OK).await
    });
    let client = stage.client();
    ask(&client, &get()).await.unwrap();
    let response = ask(&client, request).await;
    let said = format!("{} after {end:?}", request.method());
    match (&response, expected) {
        (Ok(_), Ok(())) => assert_eq!(stage.dialed().len(), 2, "{said}"),
        (Err(error), Err(expected)) => {
            assert_eq!(format!("{error:#}"), expected, "{said}");
            assert_eq!((error.is_reused(), error.is_sent(), stage.dialed().len()), (true, true, 1), "{said}");
        }
        _ => panic!("{said}: {response:?}"),
    }
    assert_eq!(client.busy_connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn row_79_an_idempotent_request_is_sent_again_when_a_stale_connection_closes_rfc9110_9_2_2() {
    const CLOSED: &str =
        "http://a/: waiting for the response of a:80: the server closed the connection without a response";
    const CUT: &str =
        "http://a/: waiting for the response of a:80 failed: the peer closed before the message was complete";
    const LATE: &str = "http://a/: waiting for the response of a:80 took longer than 30 s";
    let asked = |method| {
        let mut request = Request::new(method, "http://a/").unwrap();
        if matches!(method, Method::Post | Method::Put | Method::Patch | Method::Query) {
            request.body.set_bytes("hello");
        }
        request
    };
    for method in [
        Method::Get,
        Method::Head,
        Method::Put,
        Method::Delete,
        Method::Options,
        Method::Trace,
        Method::Query,
    ] {
        check_stale(&asked(method), "", Ok(())).await;
        check_stale(&asked(method), "H", Err(CUT)).await;
        check_stale(&asked(method), "HTTP/1.1 100 Continue\r\n\r\n", Err(CLOSED)).await;
        check_stale(&asked(method), "HTTP/1.1 2", Err(LATE)).await;
    }
    for method in [Method::Post, Method::Patch, "PURGE".parse().unwrap()] {
        check_stale(&asked(method), "", Err(CLOSED)).await;
        check_stale(&asked(method), "H", Err(CUT)).await;
    }
    let mut streamed = Request::put("http://a/").unwrap();
    streamed.body.set_stream(&b"hello"[..], Some(5));
    check_stale(&streamed, "", Err(CLOSED)).await;
}

/// A gateway opens what it forwards. Its peers must not be answered 502 when the server behind closes an idle
/// connection just then.
#[tokio::test(start_paused = true)]
async fn row_79_an_opened_request_is_sent_again_if_its_head_is_all_of_it_rfc9110_9_2_2() {
    for (method, field, body, dials) in [
        (Method::Get, None, "", Some(2)),
        (Method::Head, None, "", Some(2)),
        (Method::Delete, None, "", Some(2)),
        (Method::Get, None, "not to be sent", None),
        (Method::Get, Some(("content-length", "0")), "", Some(2)),
        (Method::Put, Some(("content-length", "0")), "", Some(2)),
        (Method::Put, Some(("content-length", "0")), "not to be sent", None),
        (Method::Put, Some(("content-length", "1")), "", None),
        (Method::Put, None, "", None),
        (Method::Post, Some(("content-length", "0")), "", None),
    ] {
        let stage = Stage::new(async |mut peer, number| {
            peer.request().await?;
            peer.send(OK).await?;
            peer.head().await?;
            if number == 0 { Ok(()) } else { peer.send("HTTP/1.1 204 x\r\n\r\n").await }
        });
        let client = stage.client();
        ask(&client, &get()).await.unwrap();
        let mut request = Request::new(method, "http://a/").unwrap();
        if !body.is_empty() {
            request.body.set_bytes(body);
        }
        field.iter().for_each(|(name, value)| request.headers.set(name, *value).unwrap());
        let mut response = Response::new();
        let answered = match client.open_call(&request).await {
            Ok(call) => call.finish(&mut response).await.map(drop),
            Err(error) => Err(error),
        };
        let said = format!("{method} {field:?} {body:?}: {answered:?}");
        assert_eq!(answered.is_ok(), dials.is_some(), "{said}");
        assert_eq!(stage.dialed().len(), dials.unwrap_or(1), "{said}");
    }
}

#[tokio::test]
async fn an_opened_request_leaves_its_body_alone() {
    let stage = Stage::new(async |mut peer, _| {
        peer.request().await?;
        peer.send(OK).await?;
        peer.request().await?;
        peer.send(OK).await
    });
    let client = stage.client();
    let mut request = Request::put("http://a/").unwrap();
    request.headers.set("content-length", 0).unwrap();
    request.body.set_stream(tokio::io::empty(), Some(0));
    client.open_call(&request).await.unwrap().finish(&mut Response::new()).await.unwrap();
    ask(&client, &request).await.expect("the stream is still there to be sent");
}

#[tokio::test(start_paused = true)]
async fn row_79_a_request_is_sent_again_once_and_only_after_a_used_connection() {
    let stage = Stage::new(|mut peer, number| async move {
        if number == 0 {
            peer.request().await?;
            peer.send(OK).await?;
        }
        peer.request().await.map(drop)
    });
    let client = stage.client();
    ask(&client, &get()).await.unwrap();
    let error = ask(&client, &get()).await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Closed) && !error.is_reused(), "{error:?}");
    assert_eq!(stage.dialed().len(), 2, "once on the old connection, once on a new one");
    let error = ask(&client, &get()).await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::Closed) && !error.is_reused(), "{error:?}");
    assert_eq!(
        (stage.dialed().len(), client.busy_connections()),
        (3, 0),
        "a new connection has failed: that is no accident"
    );
}

/// If it were kept until the response came, there would be up to twice as many connections as there may be.
#[tokio::test(start_paused = true)]
async fn a_stale_connection_is_closed_before_another_one_is_opened() {
    let closed = Arc::new(Notify::new());
    let stage = Stage::new(move |mut peer, number| {
        let closed = closed.clone();
        async move {
            if number > 0 {
                closed.notified().await;
                return peer.answer(OK).await;
            }
            peer.request().await?;
            peer.send(OK).await?;
            peer.request().await?;
            peer.stream.shutdown().await?;
            peer.receive_all().await?;
            closed.notify_one();
            Ok(())
        }
    });
    let client = stage.client();
    for dialed in 1..=2 {
        assert_eq!(ask(&client, &get()).await.unwrap(), (200, "ok".into()));
        assert_eq!(stage.dialed().len(), dialed);
    }
}

/// Connects only once.
#[derive(Clone)]
struct Single(Stage);

impl Dialer for Single {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        match self.0.dialed().is_empty() {
            true => self.0.dial(host, port).await,
            false => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

/// It must not count as not sent because the second connection did not send it.
#[tokio::test(start_paused = true)]
async fn a_request_that_may_have_been_seen_counts_as_sent() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send(OK).await?;
        peer.request().await.map(drop)
    });
    let client = Client::builder().dialer(Single(stage)).build();
    ask(&client, &get()).await.unwrap();
    for is_sent in [true, false] {
        let error = ask(&client, &get()).await.unwrap_err();
        assert_eq!((error.phase(), error.is_sent()), (ClientPhase::Connect, is_sent), "{error:?}");
    }
}

/// Opens connections of which the first accepts only a number of bytes. Later writes to it fail with an error, and
/// reads end without a response.
#[derive(Clone)]
struct Narrow(Stage, usize);

impl Dialer for Narrow {
    type Stream = Narrowed;

    async fn dial(&self, host: &str, port: u16) -> io::Result<Narrowed> {
        let room = if self.0.dialed().is_empty() { self.1 } else { usize::MAX };
        Ok(Narrowed { stream: self.0.dial(host, port).await?, room, is_gone: false })
    }
}

struct Narrowed {
    stream: DuplexStream,
    room: usize,
    is_gone: bool,
}

impl AsyncRead for Narrowed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.is_gone {
            true => Poll::Ready(Ok(())),
            false => Pin::new(&mut self.stream).poll_read(cx, out),
        }
    }
}

impl AsyncWrite for Narrowed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let data = &data[..data.len().min(self.room)];
        if data.is_empty() {
            self.is_gone = true;
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.room -= data.len();
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A server cannot have acted on a request that was never written, whatever its method. But a streamed body is gone.
#[tokio::test(start_paused = true)]
async fn row_79_an_unwritten_request_is_sent_again_whatever_its_method_rfc9110_9_2_2() {
    const FIRST: usize = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".len();
    for (method, written, is_stream, is_answered) in [
        (Method::Get, 0, false, true),
        (Method::Get, 9, false, true),
        (Method::Post, 0, false, true),
        (Method::Patch, 0, false, true),
        ("PURGE".parse().unwrap(), 0, false, true),
        (Method::Post, 1, false, false),
        (Method::Post, 40, false, false),
        (Method::Patch, 9, false, false),
        ("PURGE".parse().unwrap(), 9, false, false),
        (Method::Post, 0, true, false),
        (Method::Put, 0, true, false),
    ] {
        let stage = Stage::always(OK);
        let client = Client::builder().dialer(Narrow(stage.clone(), FIRST + written)).build();
        ask(&client, &get()).await.unwrap();
        let mut request = Request::new(method, "http://a/").unwrap();
        match is_stream {
            true => request.body.set_stream(&b"hello"[..], Some(5)),
            false if method != Method::Get => request.body.set_bytes("hello"),
            false => {}
        }
        let (said, response) = (format!("{method} after {written} bytes"), ask(&client, &request).await);
        match response {
            Ok(response) => assert!(is_answered && response == (200, "ok".into()), "{said}"),
            Err(error) => {
                assert!(!is_answered && error.is_reused(), "{said}: {error:?}");
                assert_eq!((error.phase(), error.is_sent()), (ClientPhase::Send, written > 0), "{said}");
            }
        }
        assert_eq!(
            (stage.dialed().len(), client.busy_connections()),
            (1 + usize::from(is_answered), 0),
            "{said}"
        );
    }
}

/// A close that the socket tells in time is no reason to fail, not even for a request that must not be sent twice.
#[tokio::test]
async fn a_connection_closed_while_it_was_idle_is_not_used() {
    for is_reset in [false, true] {
        let (closed, mut is_closed) = tokio::sync::mpsc::unbounded_channel();
        let server = Scripted::new(move |mut peer, number| {
            let closed = closed.clone();
            async move {
                if number > 0 {
                    return peer.answer(OK).await;
                }
                peer.request().await?;
                peer.send(OK).await?;
                // Octets that have not left would be lost with a reset.
                sleep(Duration::from_millis(10)).await;
                if is_reset {
                    peer.reset();
                }
                closed.send(()).unwrap();
                Ok(())
            }
        })
        .await;
        let client = Client::new();
        let mut request = Request::post(&server.url).unwrap();
        request.body.set_stream(&b"hello"[..], None);
        ask(&client, &request).await.unwrap();
        is_closed.recv().await.unwrap();
        sleep(Duration::from_millis(10)).await;
        request.body.set_stream(&b"hello"[..], None);
        assert_eq!(ask(&client, &request).await.unwrap(), (200, "ok".into()), "reset: {is_reset}");
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test]
async fn a_reset_right_after_the_request_is_treated_like_a_close() {
    for (method, is_answered) in [(Method::Get, true), (Method::Post, false)] {
        let server = Scripted::new(|mut peer, number| async move {
            if number == 0 {
                peer.request().await?;
                peer.send(OK).await?;
                peer.request().await?;
                peer.reset();
                return Ok(());
            }
            peer.answer(OK).await
        })
        .await;
        let (client, request) = (Client::new(), Request::new(method, &server.url).unwrap());
        ask(&client, &request).await.unwrap();
        match ask(&client, &request).await {
            Ok(response) => assert!(is_answered && response == (200, "ok".into())),
            Err(error) => {
                let was_reset = matches!(error.cause(), ClientCause::Exchange(ExchangeError::Io(_)));
                assert!(was_reset && !is_answered && error.is_reused() && error.is_sent(), "{error:?}");
            }
        }
        assert_eq!((server.connections(), client.busy_connections()), (1 + usize::from(is_answered), 0));
    }
}

/// A server whose first connection brings a response without a request.
fn poisoning() -> Stage {
    Stage::new(|mut peer, number| async move {
        if number == 0 {
            peer.request().await?;
            peer.send(OK).await?;
            settle().await;
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").await?;
            return pending().await;
        }
        peer.answer(OK).await
    })
}

#[tokio::test(start_paused = true)]
async fn row_78_unsolicited_bytes_are_never_a_response_rfc9112_9_2() {
    let (stage, post) = (poisoning(), post());
    let client = stage.client();
    ask(&client, &get()).await.unwrap();
    for _ in 0..4 {
        settle().await;
    }
    assert_eq!(ask(&client, &post).await.unwrap(), (200, "ok".into()));
    assert_eq!(stage.dialed().len(), 2);
}

/// A server in memory that has spoken before it can be asked anything.
struct Eager(Stage);

impl Dialer for Eager {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        let stream = self.0.dial(host, port).await?;
        settle().await;
        Ok(stream)
    }
}

/// A server that turns a connection away says so at once. Its response to the request goes to no other one.
#[tokio::test(start_paused = true)]
async fn what_a_new_connection_brings_first_is_its_first_response_rfc9110_15_5_9() {
    for (first, expected) in [
        ("HTTP/1.1 408 x\r\nconnection: close\r\ncontent-length: 4\r\n\r\nlate", (408, "late")),
        ("HTTP/1.1 503 x\r\ncontent-length: 4\r\n\r\nfull", (503, "full")),
        ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhail", (200, "hail")),
    ] {
        let stage = Stage::new(move |mut peer, number| async move {
            if number == 0 {
                peer.send(first).await?;
                peer.request().await?;
                peer.send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst").await?;
                return pending().await;
            }
            peer.answer(OK).await
        });
        let client = Client::builder().dialer(Eager(stage.clone())).build();
        assert_eq!(ask(&client, &get()).await.unwrap(), (expected.0, expected.1.into()));
        for _ in 0..4 {
            settle().await;
        }
        assert_eq!(ask(&client, &get()).await.unwrap(), (200, "ok".into()), "after {first:?}");
        assert_eq!((stage.dialed().len(), client.busy_connections()), (2, 0));
    }
}

/// tokio tells a task that has used up its budget that nothing has come.
#[tokio::test(start_paused = true)]
async fn row_78_unsolicited_bytes_are_seen_by_a_busy_task_rfc9112_9_2() {
    let stage = poisoning();
    let (client, busy) = (stage.client(), Semaphore::new(1));
    ask(&client, &get()).await.unwrap();
    for _ in 0..4 {
        settle().await;
    }
    let (request, mut is_first) = (get(), true);
    let mut exchange = pin!(ask(&client, &request));
    let response = poll_fn(|cx| {
        for _ in 0..if std::mem::take(&mut is_first) { 1000 } else { 0 } {
            let _ = pin!(busy.acquire()).poll(cx);
        }
        exchange.as_mut().poll(cx)
    });
    assert_eq!(response.await.unwrap(), (200, "ok".into()));
}

/// A runtime notices nothing while its thread is busy. A program that computes between two requests must not
/// send the second one over a connection that was closed long ago, or take for its response what came meanwhile.
#[tokio::test]
async fn row_78_what_came_while_the_thread_was_busy_is_noticed_rfc9112_9_2() {
    for said in ["", "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let request = Request::post(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let (go, wait) = channel();
        let (tell, told) = channel();
        let serve = move || {
            let respond = || {
                let (mut peer, _) = listener.accept().unwrap();
                assert!(peer.read(&mut [0; 1024]).unwrap() > 0);
                peer.write_all(OK.as_bytes()).unwrap();
                peer
            };
            let mut first = respond();
            wait.recv().unwrap();
            match said {
                "" => first.shutdown(Shutdown::Both).unwrap(),
                said => first.write_all(said.as_bytes()).unwrap(),
            }
            tell.send(()).unwrap();
            respond()
        };
        let server = thread::spawn(serve);
        let client = Client::new();
        assert_eq!(ask(&client, &request).await.unwrap(), (200, "ok".into()));
        go.send(()).unwrap();
        told.recv().unwrap();
        thread::sleep(Duration::from_millis(2));
        assert_eq!(ask(&client, &request).await.unwrap(), (200, "ok".into()), "{said:?}");
        server.join().unwrap();
    }
}

#[test]
fn runtimes_share_no_connection_and_take_their_own_along() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (serves, first, second) = (runtime(), runtime(), runtime());
    let server = serves.block_on(Scripted::always(OK));
    let (client, request) = (Client::new(), Request::get(&server.url).unwrap());
    for (runtime, connections) in [(&first, 1), (&second, 2), (&first, 2), (&second, 2)] {
        assert_eq!(runtime.block_on(ask(&client, &request)).unwrap(), (200, "ok".into()));
        assert_eq!((server.connections(), client.idle_connections()), (connections, connections));
    }
    drop(first);
    second.block_on(eventually("an ended runtime has closed its connections", || {
        client.idle_connections() == 1
    }));
    assert_eq!(second.block_on(ask(&client, &request)).unwrap(), (200, "ok".into()));
    assert_eq!((server.connections(), client.busy_connections()), (2, 0));
    let nowhere = pin!(client.get(&server.url).into_future()).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(nowhere, Poll::Ready(Err(error)) if matches!(error.cause(), ClientCause::NoRuntime)));
}

/// Connections that were opened in another runtime must not become idle here, nor those that are idle here be used
/// there: whoever got one would wait for a runtime that does not run.
#[test]
fn a_request_that_moves_to_another_runtime_takes_no_connection_along() {
    let here = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let serves = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for (rests, connections) in [(false, 3), (true, 2)] {
        let (server, first, second) = (serves.block_on(Scripted::always(OK)), here(), here());
        let client = Client::builder()
            .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
            .build();
        let (request, mut response) = (Request::get(&server.url).unwrap(), Response::new());
        let mut held = first.block_on(client.open_response(&request, &mut response)).unwrap();
        let mut moves = pin!(ask(&client, &request));
        assert!(
            first.block_on(async { poll_fn(|cx| Poll::Ready(moves.as_mut().poll(cx))).await }).is_pending()
        );
        if rests {
            assert!(first.block_on(held.chunk()).unwrap().is_some());
        }
        drop(held);
        let waits =
            |asks| async { tokio::time::timeout(Duration::from_secs(10), asks).await.expect("no hang") };
        assert_eq!(second.block_on(waits(moves)).unwrap(), (200, "ok".into()));
        assert_eq!((client.idle_connections(), client.busy_connections()), (usize::from(rests), 0));
        assert_eq!(first.block_on(waits(pin!(ask(&client, &request)))).unwrap(), (200, "ok".into()));
        assert_eq!(server.connections(), connections);
    }
}

/// A connection in memory goes on, and one over a socket fails: it needs its runtime. For neither may the timer
/// panic.
#[test]
fn a_response_can_be_read_after_its_runtime_has_ended() {
    const HALF: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no";
    let serves = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = MemoryListener::new();
    let client = Client::builder().connect_to(&listener).build();
    serves.spawn(async move {
        let mut peer = Peer::new(listener.accept().await, Received::default());
        peer.request().await?;
        sleep(Duration::from_millis(10)).await;
        peer.send(HALF).await?;
        sleep(Duration::from_millis(50)).await;
        peer.send("k").await
    });
    let (request, mut response) = (get(), Response::new());
    let mut reader = corehttp::block_on(client.open_response(&request, &mut response)).unwrap().unwrap();
    let mut body = Vec::new();
    corehttp::block_on(async {
        while let Some(chunk) = reader.chunk().await.unwrap() {
            body.extend_from_slice(chunk);
        }
    })
    .unwrap();
    assert_eq!((&body[..], client.busy_connections()), (&b"ok"[..], 0));
    let server = serves.block_on(Scripted::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send(HALF).await?;
        peer.receive_all().await
    }));
    let client = Client::new();
    let request = Request::get(&server.url).unwrap();
    let mut reader = corehttp::block_on(client.open_response(&request, &mut response)).unwrap().unwrap();
    let read = corehttp::block_on(async {
        let mut body = Vec::new();
        while let Some(chunk) = reader.chunk().await? {
            body.extend_from_slice(chunk);
        }
        Ok::<_, ClientError>(body)
    });
    assert_eq!(read.unwrap().unwrap_err().phase(), ClientPhase::Receive);
}

#[test]
fn a_host_shares_no_connection_between_runtimes_either() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (serves, first, second) = (runtime(), runtime(), runtime());
    let server = serves.block_on(Scripted::always(OK));
    let (client, request, mut response) = (Client::new(), Request::get("/").unwrap(), Response::new());
    let made_nowhere = client.host(&server.url).unwrap();
    let made_here = first.block_on(async { client.host(&server.url).unwrap() });
    for (runtime, connections) in [(&first, 1), (&second, 2), (&first, 2), (&second, 2)] {
        for host in [&made_here, &made_nowhere] {
            runtime.block_on(host.send(&request, &mut response)).unwrap();
            assert_eq!((server.connections(), client.idle_connections()), (connections, connections));
        }
    }
    assert_eq!(
        (made_here.idle_connections(), made_here.busy_connections(), made_nowhere.idle_connections()),
        (1, 0, 0)
    );
}

/// Dials streams of a stage that do something when they are read.
struct Interrupting(Stage, OnRead);

impl Dialer for Interrupting {
    type Stream = Rigged;

    async fn dial(&self, host: &str, port: u16) -> io::Result<Rigged> {
        Ok(Rigged::new(self.0.dial(host, port).await?).on_read(self.1.clone()))
    }
}

/// Once a second a client looks whether its idle connections are still good. Another thread may close all of them
/// meanwhile, or open another one: here the connection itself does. It is not put back then.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_looked_at_is_still_closed_and_counted() {
    for is_closed in [true, false] {
        let (stage, on_read) = (numbered(), OnRead::default());
        let dialer = Interrupting(stage.clone(), on_read.clone());
        let client = Client::builder()
            .dialer(dialer)
            .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
            .build();
        assert_eq!((number(&client).await, client.idle_connections()), ("0".into(), 1));
        let asks = client.clone();
        let mut asking = Box::pin(async move { number(&asks).await });
        let (done, asked) = std::sync::mpsc::channel();
        let meanwhile = client.clone();
        *on_read.lock().unwrap() = Some(Box::new(move || {
            match is_closed {
                true => meanwhile.close_idle(),
                false => assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()),
            }
            done.send(asking).unwrap();
        }));
        sleep(Duration::from_millis(1_500)).await;
        let asking = asked.try_recv().expect("it was looked at");
        assert_eq!(client.idle_connections(), 0, "{is_closed}");
        assert_eq!(asking.await, "1");
        assert_eq!(
            (client.idle_connections(), client.busy_connections(), stage.dialed().len()),
            (1, 0, 2),
            "{is_closed}"
        );
    }
}

/// Dials streams that use the client when they are dropped.
#[derive(Clone, Default)]
struct CuriousDialer(Arc<Mutex<Option<Client>>>);

impl Dialer for CuriousDialer {
    type Stream = Rigged;

    async fn dial(&self, host: &str, _: u16) -> io::Result<Rigged> {
        if host == "nowhere" {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, mut far) = duplex(1024);
        tokio::spawn(async move {
            far.read_exact(&mut [0; 16]).await?;
            far.write_all(OK.as_bytes()).await?;
            far.read_to_end(&mut Vec::new()).await
        });
        let client = self.0.clone();
        Ok(Rigged::new(near).on_drop(move || {
            let client = client.lock().unwrap().clone().unwrap();
            client.close_idle();
            assert_eq!(client.idle_connections(), 0);
            // Also in a runtime that the client has not seen before.
            let elsewhere =
                move || corehttp::block_on(async { client.get("http://nowhere/").await.map(drop) });
            std::thread::spawn(elsewhere).join().unwrap().unwrap().unwrap_err();
        }))
    }
}

/// However a connection that rests is closed, its client may be used meanwhile. If the connection were dropped
/// under the lock that the client asks for, the thread would stand still.
#[test]
fn a_stream_may_use_its_client_when_it_is_dropped() {
    // The client is told to, or the runtime ends.
    let ends: [fn(&Client); 2] = [Client::close_idle, |_| {}];
    for end in ends {
        let (dialer, (done, received)) = (CuriousDialer::default(), std::sync::mpsc::channel());
        let client = Client::builder().dialer(dialer.clone()).build();
        *dialer.0.lock().unwrap() = Some(client.clone());
        std::thread::spawn(move || {
            corehttp::block_on(async {
                assert_eq!(ask(&client, &get()).await.unwrap().0, 200);
                end(&client);
            })
            .unwrap();
            assert_eq!(client.idle_connections(), 0);
            done.send(())
        });
        assert_eq!(received.recv_timeout(Duration::from_secs(10)), Ok(()));
    }
}

/// Dials streams of which the first to be dropped reads a response to its end.
#[derive(Clone, Default)]
struct ReadingDialer(Arc<Mutex<Option<ResponseReader>>>);

impl Dialer for ReadingDialer {
    type Stream = Rigged;

    async fn dial(&self, _: &str, _: u16) -> io::Result<Rigged> {
        let (near, far) = duplex(1024);
        tokio::spawn(Peer::new(far, Received::default()).answer(OK));
        let response = self.0.clone();
        Ok(Rigged::new(near).on_drop(move || {
            let Some(mut response) = response.lock().unwrap().take() else { return };
            let mut cx = Context::from_waker(Waker::noop());
            while let Poll::Ready(Ok(Some(_))) = pin!(response.chunk()).poll(&mut cx) {}
        }))
    }
}

/// While the connections that rest are closed because their runtime ends, another thread may end an exchange there. Its
/// connection must not stay idle for ever because the task that looks after them has closed all that it counted.
#[test]
fn a_connection_that_comes_to_rest_while_its_runtime_ends_is_closed() {
    let dialer = ReadingDialer::default();
    let client = Client::builder().dialer(dialer.clone()).build();
    corehttp::block_on(async {
        let response = client.open_response(&get(), &mut Response::new()).await.unwrap();
        assert_eq!(ask(&client, &get()).await.unwrap().0, 200);
        assert_eq!((client.idle_connections(), client.busy_connections()), (1, 1));
        *dialer.0.lock().unwrap() = Some(response);
    })
    .unwrap();
    assert!(dialer.0.lock().unwrap().is_none(), "it was read");
    assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
}

/// A server that answers slowly with the path that was asked for, after a redirect if that is `/from`.
fn dripping() -> Stage {
    Stage::new(|mut peer, _| async move {
        while let Some(request) = peer.request().await? {
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let response = match &*path {
                "/from" => "HTTP/1.1 302 Found\r\nlocation: /to\r\ncontent-length: 2\r\n\r\nxx".to_owned(),
                path => format!(
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{path}\r\n0\r\n\r\n",
                    path.len()
                ),
            };
            for piece in response.as_bytes().chunks(11) {
                peer.send(piece).await?;
                settle().await;
            }
        }
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn row_85_a_request_dropped_at_any_point_frees_its_place() {
    let mut large = Request::post("http://a/large").unwrap();
    large.body.set_bytes("x".repeat(200 << 10));
    let mut streamed = Request::put("http://a/streamed").unwrap();
    streamed.body.set_stream(&[b'x'; 1000][..], None);
    let mut expecting = Request::post("http://a/expecting").unwrap();
    expecting.headers.set("expect", "100-continue").unwrap();
    expecting.body.set_bytes("hello");
    for request in [get(), Request::get("http://a/from").unwrap(), large, streamed, expecting] {
        for polls in 0.. {
            let (stage, mut response) = (dripping(), Response::new());
            // The server sends no 100, and no time passes here.
            let timeouts = ClientTimeouts { expect_continue: Duration::ZERO, ..ClientTimeouts::default() };
            let client = stage
                .builder()
                .timeouts(timeouts)
                .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
                .build();
            let mut request = request.clone();
            if request.body.is_stream() {
                request.body.set_stream(&[b'x'; 1000][..], None);
            }
            if polls % 2 == 0 {
                ask(&client, &Request::get("http://a/warm").unwrap()).await.unwrap();
            }
            let done = cancelled_after(polls, client.send(&request, &mut response)).await;
            assert_eq!(client.busy_connections(), 0, "{} after {polls} polls", request.path());
            let next = ask(&client, &Request::get("http://a/next").unwrap()).await;
            assert_eq!(next.unwrap(), (200, "/next".into()), "{} after {polls} polls", request.path());
            if done.is_some() {
                assert!(polls > 4, "{} took {polls} polls", request.path());
                break;
            }
        }
    }
}

/// Other ways to ask than by [`Client::send`].
#[derive(Clone, Copy, Debug)]
enum Way {
    Stream,
    Open,
    Split,
    Upgrade,
    Pipeline,
}

async fn ask_by(way: Way, client: Client) -> Result<(), ClientError> {
    let (mut request, mut response) = (Request::get("http://a/way").unwrap(), Response::new());
    match way {
        Way::Stream => {
            let mut received = client.open_response(&request, &mut response).await?;
            while received.chunk().await?.is_some() {}
        }
        Way::Open => {
            let mut call = client.open_call(&Request::post("http://a/way")?).await?;
            call.write_all(b"hello").await?;
            call.flush().await?;
            let mut received = call.finish(&mut response).await?;
            while received.chunk().await?.is_some() {}
        }
        Way::Split => {
            let (mut writer, mut reader) = client.open_call(&Request::post("http://a/way")?).await?.split();
            let write = async {
                writer.write_all(b"hello").await?;
                writer.finish().await
            };
            let read = async {
                reader.head(&mut response).await?;
                while reader.chunk().await?.is_some() {}
                Ok(())
            };
            tokio::try_join!(write, read)?;
        }
        Way::Upgrade => {
            request.headers.set("upgrade", "own").unwrap();
            let refused = client.upgrade(&request, &mut response).await.unwrap_err();
            assert!(matches!(refused.cause(), ClientCause::Upgrade), "{refused:?}");
        }
        Way::Pipeline => client.pipeline("http://a")?.build().send(&request, &mut response).await?,
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn row_85_every_way_to_ask_frees_its_place_when_dropped() {
    for way in [Way::Stream, Way::Open, Way::Split, Way::Upgrade, Way::Pipeline] {
        for polls in 0.. {
            let client = dripping()
                .builder()
                .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
                .build();
            if polls % 2 == 0 {
                ask(&client, &Request::get("http://a/warm").unwrap()).await.unwrap();
            }
            let done = cancelled_after(polls, ask_by(way, client.clone())).await;
            // A pipeline that is dropped has its response first.
            sleep(Duration::from_secs(1)).await;
            assert_eq!(client.busy_connections(), 0, "{way:?} after {polls} polls");
            let next = ask(&client, &Request::get("http://a/next").unwrap()).await;
            assert_eq!(next.unwrap(), (200, "/next".into()), "{way:?} after {polls} polls");
            if let Some(done) = done {
                done.unwrap();
                assert!(polls > 2, "{way:?} took {polls} polls");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_dropped_in_the_queue_is_skipped() {
    let (stage, mut response) = (numbered(), Response::new());
    let client = stage
        .builder()
        .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
        .build();
    let held = client.open_response(&get(), &mut response).await.unwrap();
    let waits = || {
        let client = client.clone();
        tokio::spawn(async move { ask(&client, &get()).await.unwrap() })
    };
    let (first, second, third) = (waits(), waits(), waits());
    settle().await;
    first.abort();
    settle().await;
    drop(held);
    second.abort();
    assert_eq!(third.await.unwrap().0, 200);
    assert_eq!((client.busy_connections(), client.idle_connections()), (0, 1));
}

/// Three addresses of this machine, each with a listener at the same port.
#[cfg(target_os = "linux")]
async fn three() -> ([tokio::net::TcpListener; 3], u16) {
    use tokio::net::TcpListener;

    loop {
        let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = first.local_addr().unwrap().port();
        let others = [("127.0.0.2", port), ("127.0.0.3", port)].map(TcpListener::bind);
        let [second, third] = others;
        if let (Ok(second), Ok(third)) = (second.await, third.await) {
            return ([first, second, third], port);
        }
    }
}

/// Finds each name at three addresses.
#[cfg(target_os = "linux")]
struct Three;

#[cfg(target_os = "linux")]
impl corehttp::net::Resolver for Three {
    async fn resolve(&self, _: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        Ok((1..=3).map(|last| [127, 0, 0, last].into()).collect())
    }
}

/// They must not all go to the first.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn connections_spread_over_the_addresses_of_a_name() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    let (listeners, port) = three().await;
    let counts = std::sync::Arc::new([const { AtomicUsize::new(0) }; 3]);
    for (at, listener) in listeners.into_iter().enumerate() {
        let counts = counts.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counts[at].fetch_add(1, Ordering::Relaxed);
                tokio::spawn(crate::support::Peer::new(stream, Default::default()).answer(OK));
            }
        });
    }
    for keep in [Duration::from_secs(60), Duration::ZERO] {
        let client = Client::builder().resolver(Three).dns_ttl(keep).build();
        let asks = Vec::from_iter((0..30).map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get(&format!("http://a.example:{port}/")).await })
        }));
        for asked in asks {
            asked.await.unwrap().unwrap();
        }
        let counted = counts.each_ref().map(|count| count.swap(0, Ordering::Relaxed));
        assert!(counted.iter().all(|count| (8..=12).contains(count)), "{counted:?} with {keep:?}");
    }
}

/// Panics in its first look-ups.
struct Fragile(AtomicUsize);

impl Resolver for Fragile {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        yield_now().await;
        let is_over = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err();
        assert!(is_over, "this panic is part of the test");
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

/// The look-up fails for all that wait for it, and no connection is kept from the next.
#[tokio::test]
async fn a_resolver_that_panics_costs_those_who_wait_alone() {
    let server = Scripted::always(OK).await;
    let url = server.url.replace("127.0.0.1", "a.example");
    let client = |panics| {
        let resolver = Fragile(AtomicUsize::new(panics));
        Client::builder()
            .resolver(resolver)
            .dns_ttl(Duration::from_secs(60))
            .limits(ClientLimits { connections_per_host_max: 8, ..ClientLimits::default() })
            .build()
    };
    let two = client(2);
    for _ in 0..2 {
        let asks = Vec::from_iter((0..8).map(|_| {
            let (client, url) = (two.clone(), url.clone());
            tokio::spawn(async move { client.get(&url).await.unwrap_err() })
        }));
        for asked in asks {
            let error = asked.await.unwrap();
            assert_eq!(error.phase(), ClientPhase::Resolve);
            assert!(format!("{error:#}").ends_with(": the look-up was cut short"), "{error:#}");
        }
        assert_eq!(two.busy_connections(), 0);
    }
    assert_eq!(two.get(&url).await.unwrap().status, 200);
    assert_eq!((two.busy_connections(), server.connections()), (0, 1));
    // The task of a pipeline looks up for those who wait.
    let pipeline = client(1).pipeline(&url).unwrap().build();
    let mut response = Response::new();
    pipeline.send(&Request::get("/").unwrap(), &mut response).await.unwrap_err();
    pipeline.send(&Request::get("/").unwrap(), &mut response).await.unwrap();
    assert_eq!(response.status.as_u16(), 200);
}

/// Answers after 300 ms.
struct Slow;

impl Resolver for Slow {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        sleep(Duration::from_millis(300)).await;
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

/// Each caller began a look-up of its own, which ended with the caller, so none of twenty was ever answered.
#[tokio::test]
async fn a_look_up_that_takes_longer_than_its_caller_serves_the_next() {
    let server = Scripted::always(OK).await;
    let url = server.url.replace("127.0.0.1", "a.example");
    let builder = || Client::builder().resolver(Slow).dns_ttl(Duration::from_secs(60));
    for client in [builder().timeout(Duration::from_millis(200)).build(), builder().build()] {
        let error = tokio::time::timeout(Duration::from_millis(200), client.get(&url)).await;
        if let Ok(error) = error {
            assert_eq!(error.unwrap_err().phase(), ClientPhase::Resolve);
        }
        assert_eq!(client.get(&url).await.unwrap().status, 200);
    }
}
