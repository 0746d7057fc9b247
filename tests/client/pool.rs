//! Connections are used again, and never when they must not be (RFC 9112 §9).

use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use corehttp::{
    Client, ClientBuilder, ClientCause, ClientPhase, ClientTimeouts, Dialer, ExchangeError, Method, Request,
    Response,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::{OK, Scripted, Stage, ask, cancelled_after, eventually, settle};

/// A server whose answers say which connection they came on.
fn numbered() -> Stage {
    Stage::new(|peer, number| peer.answer(format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{number}")))
}

fn get() -> Request {
    Request::get("http://a/").unwrap()
}

/// On which connection an answer came.
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
    assert_eq!((server.connections(), client.idle(), client.busy()), (1, 1, 0));
    assert!(response.timings().reused);
}

/// 10,000 exchanges with a server that closes each connection whenever it likes give 10,000 answers and no error.
#[tokio::test]
async fn who_closes_connections_at_random_is_never_noticed() {
    const EXCHANGES: usize = 10_000;
    let server = Scripted::new(|mut peer, number| async move {
        for _ in 0..=number * 7919 % 13 {
            if peer.request().await?.is_none() {
                return Ok(());
            }
            peer.say(OK).await?;
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
    let mut held = client.stream(&get(), &mut response).await.unwrap();
    assert_eq!((number(&client).await, client.idle(), client.busy()), ("1".into(), 1, 1));
    assert_eq!(held.chunk().await.unwrap(), Some(&b"0"[..]));
    assert_eq!(held.chunk().await.unwrap(), None);
    assert_eq!((client.idle(), client.busy()), (2, 0));
    assert_eq!(number(&client).await, "0");
    assert_eq!(number(&client).await, "0");
    client.close_idle();
    assert_eq!((client.idle(), number(&client).await), (0, "2".into()));
}

#[tokio::test(start_paused = true)]
async fn whoever_finds_no_place_waits_in_turn() {
    let stage = numbered();
    let (client, mut response) = (stage.builder().connections_per_host_max(2).build(), Response::new());
    let first = client.stream(&get(), &mut response).await.unwrap();
    let mut second = client.stream(&get(), &mut response).await.unwrap();
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
    assert_eq!((client.busy(), stage.dialed().len(), served.len()), (2, 2, 0));
    while second.chunk().await.unwrap().is_some() {}
    tasks.join_all().await;
    for turn in 0..5 {
        let (served, on, timings) = served.recv().await.unwrap();
        assert_eq!((served, &*on, timings.reused), (turn, "1", true));
        assert_eq!((timings.queue.as_secs(), timings.send.as_secs()), (3, 0), "waiting is not sending");
    }
    drop(first);
    assert_eq!((client.idle(), client.busy(), stage.dialed().len()), (1, 0, 2));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_too_long_for_a_place_goes_without() {
    let limit = Duration::from_millis(100);
    let queue = ClientTimeouts { queue: limit, ..ClientTimeouts::default() };
    for set in [
        |it: ClientBuilder, _: ClientTimeouts| it.timeout(Duration::from_millis(100)),
        |it: ClientBuilder, queue: ClientTimeouts| it.timeouts(queue),
    ] {
        let client = set(numbered().builder().connections_per_host_max(1), queue).build();
        let mut response = Response::new();
        let held = client.stream(&get(), &mut response).await.unwrap();
        let start = tokio::time::Instant::now();
        let error = ask(&client, &get()).await.unwrap_err();
        assert_eq!((error.phase(), error.is_timeout(), error.is_sent()), (ClientPhase::Queue, true, false));
        assert_eq!((start.elapsed(), client.busy()), (limit, 1));
        drop(held);
        assert_eq!((client.busy(), number(&client).await), (0, "1".into()), "the place is free");
    }
}

#[tokio::test(start_paused = true)]
async fn how_many_are_busy_is_counted_whatever_the_bound() {
    for most in [0, 1, usize::MAX] {
        let (client, mut response) =
            (numbered().builder().connections_per_host_max(most).build(), Response::new());
        assert_eq!((number(&client).await, client.busy(), client.idle()), ("0".into(), 0, 1), "{most}");
        let _held = client.stream(&get(), &mut response).await.unwrap();
        assert_eq!((client.busy(), client.idle()), (1, 0), "{most}");
    }
}

/// Whether a connection is used again that has rested for `rest`, and whether it was still counted.
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

#[tokio::test(start_paused = true)]
async fn a_connection_rests_as_long_as_both_sides_let_it() {
    let same = |it| it;
    let idle = |seconds| move |it: ClientBuilder| it.idle_timeout(Duration::from_secs(seconds));
    let age = |seconds| move |it: ClientBuilder| it.age_max(Duration::from_secs(seconds));
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
    let client = numbered().builder().age_max(Duration::from_secs(10)).build();
    for expected in ["0", "0", "0", "1", "1", "1", "2"] {
        assert_eq!(number(&client).await, expected);
        sleep(Duration::from_secs(4)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_are_of_no_use_go_although_nobody_comes() {
    let client = numbered().client();
    assert_eq!((number(&client).await, client.idle()), ("0".into(), 1));
    sleep(Duration::from_secs(32)).await;
    assert_eq!(client.idle(), 0, "it has rested too long");
    let once = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        peer.say(OK).await
    });
    let client = once.client();
    assert_eq!((number(&client).await, client.idle()), ("ok".into(), 1));
    sleep(Duration::from_secs(2)).await;
    assert_eq!(client.idle(), 0, "its server has closed it");
}

/// A server answers one request, and does `end` to the connection when it has heard another one, `heard`; on other
/// connections it is well. How the second request fares: answered, or why not.
async fn check_stale(request: &Request, end: &'static str, expected: Result<(), &str>) {
    let stage = Stage::new(move |mut peer, number| async move {
        if number == 0 {
            peer.request().await?;
            peer.say(OK).await?;
            peer.head().await?;
            peer.say(end).await?;
            return match end {
                "HTTP/1.1 2" => pending().await,
                _ => Ok(()),
            };
        }
        peer.answer(OK).await
    });
    let client = stage.client();
    ask(&client, &get()).await.unwrap();
    let answer = ask(&client, request).await;
    let said = format!("{} after {end:?}", request.method());
    match (&answer, expected) {
        (Ok(_), Ok(())) => assert_eq!(stage.dialed().len(), 2, "{said}"),
        (Err(error), Err(expected)) => {
            assert_eq!(format!("{error:#}"), expected, "{said}");
            assert_eq!((error.is_reused(), error.is_sent(), stage.dialed().len()), (true, true, 1), "{said}");
        }
        _ => panic!("{said}: {answer:?}"),
    }
    assert_eq!(client.busy(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_may_be_done_twice_is_sent_again_when_nobody_answers_9110_9_2_2() {
    const CLOSED: &str = "waiting for the answer: the server closed the connection and answered nothing";
    const CUT: &str =
        "waiting for the answer: the exchange failed: the peer closed before the message was complete";
    const LATE: &str = "waiting for the answer: it took too long";
    let asked = |method| {
        let mut request = Request::new(method, "http://a/").unwrap();
        if matches!(method, Method::Post | Method::Put | Method::Patch) {
            request.body.set("hello");
        }
        request
    };
    for method in [Method::Get, Method::Head, Method::Put, Method::Delete, Method::Options, Method::Trace] {
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
    streamed.body.stream(&b"hello"[..], Some(5));
    check_stale(&streamed, "", Err(CLOSED)).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_again_twice_nor_after_a_first_failure() {
    let stage = Stage::new(|mut peer, number| async move {
        if number == 0 {
            peer.request().await?;
            peer.say(OK).await?;
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
        (stage.dialed().len(), client.busy()),
        (3, 0),
        "a new connection has failed: that is no accident"
    );
}

/// What a socket tells in time is no reason to fail, not even for what must not be done twice.
#[tokio::test]
async fn connections_that_were_closed_while_they_rested_are_seen() {
    for is_reset in [false, true] {
        let (closed, mut is_closed) = tokio::sync::mpsc::unbounded_channel();
        let server = Scripted::new(move |mut peer, number| {
            let closed = closed.clone();
            async move {
                if number > 0 {
                    return peer.answer(OK).await;
                }
                peer.request().await?;
                peer.say(OK).await?;
                // What has not left would be lost with a reset.
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
        request.body.stream(&b"hello"[..], None);
        ask(&client, &request).await.unwrap();
        is_closed.recv().await.unwrap();
        sleep(Duration::from_millis(10)).await;
        request.body.stream(&b"hello"[..], None);
        assert_eq!(ask(&client, &request).await.unwrap(), (200, "ok".into()), "reset: {is_reset}");
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test]
async fn a_reset_right_after_the_request_is_retried_and_told_like_a_close() {
    for (method, is_answered) in [(Method::Get, true), (Method::Post, false)] {
        let server = Scripted::new(|mut peer, number| async move {
            if number == 0 {
                peer.request().await?;
                peer.say(OK).await?;
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
            Ok(answer) => assert!(is_answered && answer == (200, "ok".into())),
            Err(error) => {
                let was_reset = matches!(error.cause(), ClientCause::Exchange(ExchangeError::Io(_)));
                assert!(was_reset && !is_answered && error.is_reused() && error.is_sent(), "{error:?}");
            }
        }
        assert_eq!((server.connections(), client.busy()), (1 + usize::from(is_answered), 0));
    }
}

/// A server whose first connection brings an answer that nobody has asked for.
fn poisoning() -> Stage {
    Stage::new(|mut peer, number| async move {
        if number == 0 {
            peer.request().await?;
            peer.say(OK).await?;
            settle().await;
            peer.say("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").await?;
            return pending().await;
        }
        peer.answer(OK).await
    })
}

#[tokio::test(start_paused = true)]
async fn what_comes_unasked_is_nobodys_answer_9_2() {
    let (stage, post) = (poisoning(), Request::post("http://a/").unwrap());
    let client = stage.client();
    ask(&client, &get()).await.unwrap();
    for _ in 0..4 {
        settle().await;
    }
    assert_eq!(ask(&client, &post).await.unwrap(), (200, "ok".into()));
    assert_eq!(stage.dialed().len(), 2);
}

/// tokio tells a task that has done much in one go that nothing has come.
#[tokio::test(start_paused = true)]
async fn what_comes_unasked_is_seen_by_a_busy_task_9_2() {
    let stage = poisoning();
    let (client, busy) = (stage.client(), Semaphore::new(1));
    ask(&client, &get()).await.unwrap();
    for _ in 0..4 {
        settle().await;
    }
    let (request, mut is_first) = (get(), true);
    let mut exchange = pin!(ask(&client, &request));
    let answer = poll_fn(|cx| {
        for _ in 0..if std::mem::take(&mut is_first) { 1000 } else { 0 } {
            let _ = pin!(busy.acquire()).poll(cx);
        }
        exchange.as_mut().poll(cx)
    });
    assert_eq!(answer.await.unwrap(), (200, "ok".into()));
}

#[test]
fn two_runtimes_share_no_connection_and_one_that_ends_takes_its_own_along() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (serves, first, second) = (runtime(), runtime(), runtime());
    let server = serves.block_on(Scripted::always(OK));
    let (client, request) = (Client::new(), Request::get(&server.url).unwrap());
    for (runtime, connections) in [(&first, 1), (&second, 2), (&first, 2), (&second, 2)] {
        assert_eq!(runtime.block_on(ask(&client, &request)).unwrap(), (200, "ok".into()));
        assert_eq!((server.connections(), client.idle()), (connections, connections));
    }
    drop(first);
    second.block_on(eventually("the connections of a runtime that is gone are", || client.idle() == 1));
    assert_eq!(second.block_on(ask(&client, &request)).unwrap(), (200, "ok".into()));
    assert_eq!((server.connections(), client.busy()), (2, 0));
    let nowhere = pin!(client.get(&server.url)).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(nowhere, Poll::Ready(Err(error)) if matches!(error.cause(), ClientCause::NoRuntime)));
}

/// A stream that asks its client how it is when it is dropped, and whoever dials such streams.
struct Curious(DuplexStream, Arc<Mutex<Option<Client>>>);

#[derive(Clone, Default)]
struct CuriousDialer(Arc<Mutex<Option<Client>>>);

impl Dialer for CuriousDialer {
    type Stream = Curious;

    async fn dial(&self, _: &str, _: u16) -> io::Result<Curious> {
        let (near, mut far) = duplex(1024);
        tokio::spawn(async move {
            far.read_exact(&mut [0; 16]).await?;
            far.write_all(OK.as_bytes()).await?;
            far.read_to_end(&mut Vec::new()).await
        });
        Ok(Curious(near, self.0.clone()))
    }
}

impl Drop for Curious {
    fn drop(&mut self) {
        let client = self.1.lock().unwrap().clone().unwrap();
        client.close_idle();
        assert_eq!(client.idle(), 0);
    }
}

impl AsyncRead for Curious {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, out)
    }
}

impl AsyncWrite for Curious {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// However a connection goes that has rested, its client may be used meanwhile. Found as a thread that stood still: it was
/// dropped under the lock that the client asks for.
#[test]
fn a_stream_may_use_its_client_when_it_is_dropped() {
    // The client is told to, or the runtime ends.
    let ends: [fn(&Client); 2] = [Client::close_idle, |_| {}];
    for end in ends {
        let (dialer, (done, heard)) = (CuriousDialer::default(), std::sync::mpsc::channel());
        let client = Client::builder().dialer(dialer.clone()).build();
        *dialer.0.lock().unwrap() = Some(client.clone());
        std::thread::spawn(move || {
            corehttp::block_on(async {
                assert_eq!(ask(&client, &get()).await.unwrap().0, 200);
                end(&client);
            })
            .unwrap();
            assert_eq!(client.idle(), 0);
            done.send(())
        });
        assert_eq!(heard.recv_timeout(Duration::from_secs(10)), Ok(()));
    }
}

/// A server that answers slowly with the path that was asked for, after a redirect if that is `/from`.
fn dripping() -> Stage {
    Stage::new(|mut peer, _| async move {
        while let Some(request) = peer.request().await? {
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let answer = match &*path {
                "/from" => "HTTP/1.1 302 Found\r\nlocation: /to\r\ncontent-length: 2\r\n\r\nxx".to_owned(),
                path => format!(
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{path}\r\n0\r\n\r\n",
                    path.len()
                ),
            };
            for piece in answer.as_bytes().chunks(11) {
                peer.say(piece).await?;
                settle().await;
            }
        }
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn whatever_is_dropped_at_any_point_leaks_no_place_and_poisons_no_connection() {
    let mut large = Request::post("http://a/large").unwrap();
    large.body.set("x".repeat(200 << 10));
    let mut streamed = Request::put("http://a/streamed").unwrap();
    streamed.body.stream(&[b'x'; 1000][..], None);
    let mut expecting = Request::post("http://a/expecting").unwrap();
    expecting.headers.set("expect", "100-continue").unwrap();
    expecting.body.set("hello");
    for request in [get(), Request::get("http://a/from").unwrap(), large, streamed, expecting] {
        for polls in 0.. {
            let (stage, mut response) = (dripping(), Response::new());
            // Nobody gives the word, and no time passes here.
            let timeouts = ClientTimeouts { go_ahead: Duration::ZERO, ..ClientTimeouts::default() };
            let client = stage.builder().timeouts(timeouts).connections_per_host_max(1).build();
            let mut request = request.clone();
            if request.body.is_stream() {
                request.body.stream(&[b'x'; 1000][..], None);
            }
            if polls % 2 == 0 {
                ask(&client, &Request::get("http://a/warm").unwrap()).await.unwrap();
            }
            let done = cancelled_after(polls, client.send(&request, &mut response)).await;
            assert_eq!(client.busy(), 0, "{} after {polls} polls", request.path());
            let next = ask(&client, &Request::get("http://a/next").unwrap()).await;
            assert_eq!(next.unwrap(), (200, "/next".into()), "{} after {polls} polls", request.path());
            if done.is_some() {
                assert!(polls > 4, "{} took {polls} polls", request.path());
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_dropped_in_the_line_is_skipped() {
    let (stage, mut response) = (numbered(), Response::new());
    let client = stage.builder().connections_per_host_max(1).build();
    let held = client.stream(&get(), &mut response).await.unwrap();
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
    assert_eq!((client.busy(), client.idle()), (0, 1));
}
