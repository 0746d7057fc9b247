//! How long the client waits in each phase, and which error it reports after that.

use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use corehttp::client::{ClientLimits, ClientPhase, ClientTimeouts, Proxies, Proxy};
use corehttp::net::{Dialer, Resolver};
use corehttp::{Client, ClientBuilder, ClientError, Request, Response, Status};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{OK, Peer, Scripted, Stage, ask, get, post};

const SECOND: Duration = Duration::from_secs(1);

/// A request that no buffer takes whole.
fn large() -> Request {
    let mut request = post();
    request.body.set_bytes(vec![0; 1 << 20]);
    request
}

/// An exchange runs out of time in `phase`, after so many seconds, and leaves nothing behind.
async fn check(client: &Client, request: &Request, phase: ClientPhase, seconds: u32) -> ClientError {
    let start = Instant::now();
    let error = ask(client, request).await.unwrap_err();
    let waited = start.elapsed();
    assert_eq!((error.phase(), error.is_timeout()), (phase, true), "{error:?}");
    assert_eq!(error.status(), Status::GATEWAY_TIMEOUT);
    // Timers count in milliseconds, and may be one late.
    let late = waited.checked_sub(seconds * SECOND).unwrap_or(Duration::MAX);
    assert!(late <= Duration::from_millis(3), "{phase:?}: {waited:?}");
    // A connection that is being opened goes on for the next request.
    let is_dialing = matches!(phase, ClientPhase::Resolve | ClientPhase::Connect | ClientPhase::Tls);
    assert!(client.busy_connections() <= usize::from(is_dialing) && client.idle_connections() == 0);
    assert_eq!(io::Error::from(ask(client, request).await.unwrap_err()).kind(), io::ErrorKind::TimedOut);
    error
}

/// Says `start`, and then `drop` again and again.
fn dripping(start: &'static str, drop: &'static str, every: Duration) -> Stage {
    Stage::new(move |mut peer, _| async move {
        peer.request().await?;
        peer.send(start).await?;
        loop {
            sleep(every).await;
            peer.send(drop).await?;
        }
    })
}

#[tokio::test(start_paused = true)]
async fn the_head_of_a_response_times_out_however_it_drips() {
    for (start, drop) in [
        ("", ""),
        ("HTTP/1.1 200 OK\r\n", "a"),
        ("HTTP/1.1 200 OK\r\na: ", "b"),
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
        ("HTTP/1.1 103 x\r\n", "a"),
    ] {
        let stage = dripping(start, drop, SECOND);
        let error = check(&stage.client(), &get(), ClientPhase::Wait, 30).await;
        assert!(error.is_sent() && !error.is_reused());
        let timeouts = ClientTimeouts { wait: 7 * SECOND, ..ClientTimeouts::default() };
        check(&stage.builder().timeouts(timeouts).build(), &get(), ClientPhase::Wait, 7).await;
        check(&stage.builder().timeout(8 * SECOND).build(), &get(), ClientPhase::Wait, 8).await;
    }
    let interim = dripping("", "HTTP/1.1 102 Processing\r\n\r\n", 5 * SECOND);
    check(&interim.client(), &get(), ClientPhase::Wait, 30).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_or_is_too_slow_times_out() {
    const SIZED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nx";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let rated = ClientTimeouts { receive_rate_min: 500, ..ClientTimeouts::default() };
    for start in
        [SIZED, "HTTP/1.1 200 OK\r\n\r\nx", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nx"]
    {
        let error = check(&dripping(start, "", SECOND).client(), &get(), ClientPhase::Receive, 30).await;
        assert!(error.is_sent());
    }
    // After ten seconds of waiting a body must have come at that rate, or the rest of it follow within a moment.
    for (start, drop) in [(SIZED, "x"), (CHUNKED, "1\r\nx\r\n")] {
        let stage = dripping(start, drop, 2 * SECOND);
        let start = Instant::now();
        let error = ask(&stage.builder().timeouts(rated).build(), &get()).await.unwrap_err();
        assert_eq!((error.phase(), error.is_timeout()), (ClientPhase::Receive, true));
        assert_eq!(start.elapsed().as_millis() / 10, 1225);
        let client = stage.builder().timeout(100 * SECOND).build();
        check(&client, &get(), ClientPhase::Receive, 100).await;
    }
    let short = ClientTimeouts { receive: 3 * SECOND, ..ClientTimeouts::default() };
    let client = dripping(SIZED, "x", 4 * SECOND).builder().timeouts(short).build();
    check(&client, &get(), ClientPhase::Receive, 3).await;
}

/// But it may come slowly, which its reader sees.
#[tokio::test(start_paused = true)]
async fn a_streamed_body_has_the_same_timeouts() {
    const SIZED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nx";
    for (drop, total, seconds) in
        [("", None, 30), ("x", Some(1000 * SECOND), 1000), ("x", Some(5 * SECOND), 5)]
    {
        let client = dripping(SIZED, drop, SECOND).builder().timeout(total).build();
        let (mut response, start) = (Response::new(), Instant::now());
        let mut reader = client.open_response(&get(), &mut response).await.unwrap();
        let error = loop {
            match reader.chunk().await {
                Ok(chunk) => assert!(chunk.is_some()),
                Err(error) => break error,
            }
        };
        assert_eq!((error.phase(), error.is_timeout()), (ClientPhase::Receive, true));
        assert_eq!(start.elapsed().as_secs(), seconds);
        assert!(reader.chunk().await.is_err(), "its end will never be reached");
        drop_and_count(reader, &client);
    }
    let slow_reader = Stage::always("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nslow").client();
    let mut response = Response::new();
    let mut reader = slow_reader.open_response(&get(), &mut response).await.unwrap();
    sleep(1000 * SECOND).await;
    assert_eq!(reader.chunk().await.unwrap(), Some(&b"slow"[..]), "a caller may read late");
    sleep(1000 * SECOND).await;
    assert_eq!(reader.chunk().await.unwrap(), None);
}

fn drop_and_count<T>(dropped: T, client: &Client) {
    drop(dropped);
    assert_eq!((client.busy_connections(), client.idle_connections()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_without_progress_times_out() {
    let deaf = Stage::new(|peer, _| async move {
        let _deaf = peer;
        pending().await
    });
    let error = check(&deaf.client(), &large(), ClientPhase::Send, 60).await;
    assert!(error.is_sent());
    let sip = |mut peer: Peer<DuplexStream>| async move {
        loop {
            sleep(20 * SECOND).await;
            peer.stream.read_exact(&mut [0; 1024]).await?;
        }
    };
    let sips = Stage::new(move |peer, _| sip(peer));
    check(&sips.builder().timeout(100 * SECOND).build(), &large(), ClientPhase::Send, 100).await;
    let mut never = post();
    never.body.set_stream(Never, None);
    let client = Stage::always(OK).builder().timeout(100 * SECOND).build();
    let error = ask(&client, &never).await.unwrap_err();
    assert_eq!((error.phase(), error.is_timeout(), client.busy_connections()), (ClientPhase::Send, true, 0));
}

/// A source that never yields anything; a connection that cannot be written to, and is silent.
struct Never;

impl AsyncRead for Never {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Never {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Opens connections after a while, if at all.
struct Dials(Option<Duration>);

impl Dialer for Dials {
    type Stream = Never;

    async fn dial(&self, _: &str, _: u16) -> io::Result<Never> {
        match self.0 {
            Some(wait) => sleep(wait).await,
            None => pending().await,
        }
        Ok(Never)
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_cannot_be_written_to_times_out() {
    let (client, start) = (Client::builder().dialer(Dials(Some(SECOND))).build(), Instant::now());
    let error = ask(&client, &get()).await.unwrap_err();
    assert_eq!((error.phase(), error.is_timeout(), error.is_sent()), (ClientPhase::Send, false, false));
    assert_eq!((start.elapsed().as_secs(), client.busy_connections()), (31, 0));
    let said = format!("{error:#}");
    let expected = "http://a/: sending the request to a:80 failed: the connection failed: ";
    assert!(said.starts_with(expected), "{said}");
}

/// As documented.
#[test]
fn the_default_timeouts_are_as_documented() {
    let ClientTimeouts {
        queue,
        resolve,
        connect,
        tls,
        send,
        wait,
        expect_continue,
        receive,
        receive_rate_min,
        idle,
        connection_age,
    } = ClientTimeouts::default();
    let limits = [queue, resolve, connect, tls, send, wait, expect_continue, receive, idle];
    assert_eq!((receive_rate_min, connection_age), (0, None));
    assert_eq!(limits.map(|limit| limit.as_secs()), [30, 5, 10, 10, 60, 30, 1, 30, 30]);
}

/// Nothing overflows when the largest duration is added to a time.
#[tokio::test(start_paused = true)]
async fn every_timeout_may_be_boundless() {
    let max = Duration::MAX;
    let timeouts = ClientTimeouts {
        queue: max,
        resolve: max,
        connect: max,
        tls: max,
        send: max,
        wait: max,
        expect_continue: max,
        receive: max,
        receive_rate_min: 0,
        idle: max,
        connection_age: Some(max),
    };
    let stage = Stage::new(|mut peer, _| async move {
        while peer.head().await?.is_some() {
            sleep(10_000 * SECOND).await;
            peer.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no").await?;
            sleep(10_000 * SECOND).await;
            peer.send("k").await?;
        }
        Ok(())
    });
    let builder = stage.builder().timeouts(timeouts).timeout(max);
    let (client, plain, mut expecting) = (
        builder.limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() }).build(),
        get(),
        get(),
    );
    expecting.headers.set("expect", "100-continue").unwrap();
    let (one, two) = tokio::join!(ask(&client, &plain), ask(&client, &expecting));
    assert_eq!((one.unwrap(), two.unwrap()), ((200, "ok".into()), (200, "ok".into())));
    sleep(10_000 * SECOND).await;
    assert_eq!((client.idle_connections(), client.busy_connections(), stage.dialed().len()), (1, 0, 1));
    let pipeline = client.pipeline("http://a").unwrap().build();
    pipeline.send(&Request::get("/").unwrap(), &mut Response::new()).await.unwrap();
    assert_eq!(stage.dialed().len(), 1);
}

/// Answers after so long; never, if that is zero.
struct Resolves(Duration);

impl Resolver for Resolves {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        match self.0 {
            Duration::ZERO => pending().await,
            wait => sleep(wait).await,
        }
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

#[tokio::test(start_paused = true)]
async fn look_up_and_connect_have_timeouts_of_their_own() {
    let dials = || Client::builder().dialer(Dials(None));
    let error = check(&dials().build(), &get(), ClientPhase::Connect, 10).await;
    assert!(!error.is_sent());
    check(&dials().timeout(4 * SECOND).build(), &get(), ClientPhase::Connect, 4).await;
    let resolves = || Client::builder().resolver(Resolves(Duration::ZERO)).dns_ttl(SECOND);
    check(&resolves().build(), &get(), ClientPhase::Resolve, 5).await;
    check(&resolves().timeout(2 * SECOND).build(), &get(), ClientPhase::Resolve, 2).await;
}

/// A proxy that takes longer to connect than a response may take must not be given up.
#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn asking_a_proxy_for_a_tunnel_is_a_part_of_connecting() {
    let proxy = Stage::new(|mut peer, _| async move {
        peer.head().await?;
        peer.receive_all().await
    });
    for (wait, connect) in [(1, 10), (30, 10), (30, 3)] {
        let timeouts =
            ClientTimeouts { wait: wait * SECOND, connect: connect * SECOND, ..Default::default() };
        let proxies = Proxies::all(Proxy::new("http://proxy").unwrap());
        let client = proxy.builder().timeouts(timeouts).proxies(proxies).build();
        let request = Request::get("https://a.example/").unwrap();
        check(&client, &request, ClientPhase::Connect, connect).await;
    }
}

/// A server that answers each request after 100 s.
fn late() -> Stage {
    Stage::new(|mut peer, _| async move {
        while peer.request().await?.is_some() {
            sleep(100 * SECOND).await;
            peer.send(OK).await?;
        }
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn a_single_request_has_limits_of_its_own_however_it_is_sent() {
    let stage = late();
    let client = stage.client();
    // The limit of the whole exchange extends no other.
    let error = client.get("http://a/").timeout(120 * SECOND).await.unwrap_err();
    assert!(format!("{error:#}").ends_with("took longer than 30 s"), "{error:#}");
    let limits = |wait: u32| ClientTimeouts { wait: wait * SECOND, ..ClientTimeouts::default() };
    for (wait, is_answered) in [(120, true), (5, false)] {
        let of_its_own = client.with_timeouts(limits(wait));
        let (request, mut response) = (get(), Response::new());
        let path = Request::get("/").unwrap();
        let host = of_its_own.host("http://a").unwrap();
        let balancer = of_its_own.balance(["http://a"]).unwrap().build();
        let pipeline = of_its_own.pipeline("http://a").unwrap().build();
        let opened = of_its_own.open_call(&request).await;
        let called = match opened {
            Ok(call) => call.finish(&mut Response::new()).await.map(drop),
            Err(error) => Err(error),
        };
        for (way, end) in [
            ("builder", client.get("http://a/").timeouts(limits(wait)).await.map(drop)),
            ("send", of_its_own.send(&request, &mut response).await),
            ("open_response", of_its_own.open_response(&request, &mut response).await.map(drop)),
            ("open", called),
            ("host", host.send(&path, &mut response).await),
            ("balancer", balancer.send(&path, &mut response).await),
            ("pipeline", pipeline.send(&path, &mut response).await),
        ] {
            match end {
                Ok(()) => assert!(is_answered, "{way} within {wait} s"),
                Err(error) => {
                    let text = format!("{error:#}");
                    assert!(!is_answered && text.ends_with("took longer than 5 s"), "{way}: {text}");
                    assert_eq!((error.phase(), error.is_timeout()), (ClientPhase::Wait, true));
                }
            }
        }
    }
    // Connections are shared, and the limits of the client are what they were.
    let dialed = stage.dialed().len();
    client.with_timeouts(limits(120)).send(&get(), &mut Response::new()).await.unwrap();
    check(&client, &get(), ClientPhase::Wait, 30).await;
    assert_eq!(stage.dialed().len(), dialed + 2, "the first was dialed, and the one that is reused was not");
}

/// Each limit of a phase is that of the request, and no other ends it.
#[tokio::test(start_paused = true)]
async fn each_phase_has_a_limit_for_a_single_request() {
    const SIZED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nx";
    let endless = ClientTimeouts {
        queue: Duration::MAX,
        resolve: Duration::MAX,
        connect: Duration::MAX,
        tls: Duration::MAX,
        send: Duration::MAX,
        wait: Duration::MAX,
        expect_continue: Duration::MAX,
        receive: Duration::MAX,
        receive_rate_min: 0,
        ..ClientTimeouts::default()
    };
    let seven = 7 * SECOND;
    let deaf = Stage::new(|peer, _| async move {
        let _deaf = peer;
        pending().await
    });
    let silent = || dripping("", "", SECOND);
    let resolving = Client::builder().resolver(Resolves(Duration::ZERO)).dns_ttl(SECOND).build();
    let dialing = Client::builder().dialer(Dials(None)).build();
    let limits = |timeouts: ClientTimeouts, client: Client| client.with_timeouts(timeouts);
    for (client, request, phase) in [
        (limits(ClientTimeouts { resolve: seven, ..endless }, resolving), get(), ClientPhase::Resolve),
        (limits(ClientTimeouts { connect: seven, ..endless }, dialing), get(), ClientPhase::Connect),
        (limits(ClientTimeouts { send: seven, ..endless }, deaf.client()), large(), ClientPhase::Send),
        (limits(ClientTimeouts { wait: seven, ..endless }, silent().client()), get(), ClientPhase::Wait),
        (
            limits(ClientTimeouts { receive: seven, ..endless }, dripping(SIZED, "", SECOND).client()),
            get(),
            ClientPhase::Receive,
        ),
    ] {
        let error = check(&client, &request, phase, 7).await;
        assert!(format!("{error:#}").ends_with("took longer than 7 s"), "{error:#}");
    }
    let rated =
        limits(ClientTimeouts { receive_rate_min: 500, ..endless }, dripping(SIZED, "x", SECOND).client());
    let error = ask(&rated, &get()).await.unwrap_err();
    assert_eq!((error.phase(), error.is_timeout()), (ClientPhase::Receive, true), "{error:#}");
    let single = silent()
        .builder()
        .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
        .build();
    let held = single.open_call(&post()).await.unwrap();
    let queued = limits(ClientTimeouts { queue: seven, ..endless }, single);
    let start = Instant::now();
    let error = ask(&queued, &get()).await.unwrap_err();
    assert_eq!((error.phase(), start.elapsed().as_secs()), (ClientPhase::Queue, 7), "{error:#}");
    drop(held);
    // The body is sent once the limit is over.
    let mut request = post();
    request.headers.set("expect", "100-continue").unwrap();
    request.body.set_bytes("body");
    let expecting = limits(ClientTimeouts { expect_continue: seven, ..endless }, Stage::always(OK).client());
    let start = Instant::now();
    assert_eq!(ask(&expecting, &request).await.unwrap().0, 200);
    assert_eq!(start.elapsed().as_secs(), 7);
}

/// A stream of events may be quiet for hours.
#[tokio::test(start_paused = true)]
async fn a_quiet_stream_is_read_with_a_limit_of_its_own() {
    let quiet = || {
        Stage::new(|mut peer, _| async move {
            peer.request().await?;
            peer.send("HTTP/1.1 200 OK\r\n\r\nfirst").await?;
            sleep(3600 * SECOND).await;
            peer.send("second").await
        })
    };
    for receive in [Duration::MAX, 30 * SECOND] {
        let client = quiet().client().with_timeouts(ClientTimeouts { receive, ..ClientTimeouts::default() });
        let mut reader = client.open_response(&get(), &mut Response::new()).await.unwrap();
        assert_eq!(reader.chunk().await.unwrap(), Some(&b"first"[..]));
        match reader.chunk().await {
            Ok(chunk) => assert_eq!((receive, chunk), (Duration::MAX, Some(&b"second"[..]))),
            Err(error) => assert!(receive < Duration::MAX && error.is_timeout(), "{error:#}"),
        }
    }
}

/// A listener that accepts no more connections, and its port.
fn full() -> (Vec<Socket>, u16) {
    let new = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let listener = new();
    listener.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut sockets = vec![listener];
    for _ in 0..4 {
        let waits = new();
        waits.set_nonblocking(true).unwrap();
        let _ = waits.connect(&address);
        sockets.push(waits);
    }
    (sockets, address.as_socket().unwrap().port())
}

#[tokio::test(start_paused = true)]
async fn the_time_of_an_exchange_that_is_over_ends_no_other() {
    let slow = Stage::new(|mut peer, _| async move {
        while peer.request().await?.is_some() {
            sleep(3 * SECOND).await;
            peer.send(OK).await?;
        }
        Ok(())
    });
    let client = slow.client().with_timeout(4 * SECOND);
    for _ in 0..3 {
        assert_eq!(ask(&client, &get()).await.unwrap(), (200, "ok".into()));
    }
    assert_eq!(slow.dialed().len(), 1);
}

/// Connecting has the part of the deadline that the look-up has left.
#[tokio::test(start_paused = true)]
async fn row_85_one_deadline_is_over_all_phases() {
    let (_sockets, port) = full();
    let request = Request::get(&format!("http://a:{port}/")).unwrap();
    let client =
        Client::builder().resolver(Resolves(3 * SECOND)).dns_ttl(Duration::ZERO).timeout(4 * SECOND).build();
    check(&client, &request, ClientPhase::Connect, 4).await;
    let hops = Stage::new(|mut peer, _| async move {
        while peer.request().await?.is_some() {
            sleep(SECOND).await;
            peer.send("HTTP/1.1 302 x\r\nlocation: /a\r\ncontent-length: 0\r\n\r\n").await?;
        }
        Ok(())
    });
    let (client, start) = (hops.client().with_timeout(3500 * SECOND / 1000), Instant::now());
    let error = ask(&client, &get()).await.unwrap_err();
    assert_eq!((error.phase(), error.is_timeout(), error.is_reused()), (ClientPhase::Wait, true, true));
    assert_eq!((start.elapsed().as_millis() / 10, client.busy_connections()), (350, 0));
    let deaf = Stage::new(|peer, _| async move {
        sleep(3600 * SECOND).await;
        drop(peer);
        Ok(())
    });
    let (client, start, mut long) = (deaf.client().with_timeout(5 * SECOND), Instant::now(), post());
    long.headers.set("x-long", "x".repeat(1 << 17)).unwrap();
    let error = client.open_call(&long).await.unwrap_err();
    assert_eq!((error.phase(), error.is_timeout()), (ClientPhase::Send, true));
    assert_eq!((start.elapsed().as_secs(), client.busy_connections()), (5, 0));
    let ended = client.with_timeout(Duration::ZERO);
    assert!(ask(&ended, &get()).await.unwrap_err().is_timeout());
}

#[tokio::test(start_paused = true)]
async fn timings_tell_how_long_each_phase_took() {
    let stage = Stage::new(|mut peer, _| async move {
        loop {
            sleep(SECOND).await;
            if peer.request().await?.is_none() {
                return Ok(());
            }
            sleep(2 * SECOND).await;
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no").await?;
            sleep(3 * SECOND).await;
            peer.send("k").await?;
        }
    });
    struct Late(Stage);
    impl Dialer for Late {
        type Stream = DuplexStream;

        async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
            sleep(4 * SECOND).await;
            self.0.dial(host, port).await
        }
    }
    let (client, mut response) = (Client::builder().dialer(Late(stage)).build(), Response::new());
    let mut request = post();
    request.body.set_bytes("x".repeat(100 << 10));
    for (is_reused, connect) in [(false, 4), (true, 0)] {
        let start = Instant::now();
        client.send(&request, &mut response).await.unwrap();
        let times = response.timings();
        let phases =
            [times.queue, times.resolve, times.connect, times.tls, times.send, times.wait, times.receive];
        assert_eq!(phases.map(|phase| phase.as_secs()), [0, 0, connect, 0, 1, 2, 3], "{times:?}");
        assert_eq!((times.reused, times.total()), (is_reused, start.elapsed()));
    }
    // A response that no client has received has none, even where an earlier one was.
    timeout(SECOND, client.send(&request, &mut response)).await.unwrap_err();
    for response in [response, Response::new()] {
        assert_eq!(response.timings().total(), Duration::ZERO);
    }
}

/// The time until an early response must not be told as the wait for it, and only what comes behind it as sending.
#[tokio::test(start_paused = true)]
async fn a_response_that_comes_early_was_not_waited_for() {
    let stage = Stage::new(|mut peer, _| async move {
        while peer.head().await?.is_some() {
            sleep(SECOND).await;
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no").await?;
            sleep(2 * SECOND).await;
            peer.stream.read_exact(&mut vec![0; 1 << 20]).await?;
            sleep(4 * SECOND).await;
            peer.send("k").await?;
        }
        Ok(())
    });
    let (client, mut request, mut response) = (stage.client(), large(), Response::new());
    let seconds = |response: &Response| {
        let times = response.timings();
        [times.send, times.wait, times.receive].map(|phase| phase.as_secs())
    };
    client.send(&request, &mut response).await.unwrap();
    assert_eq!(seconds(&response), [3, 0, 4]);
    let mut received = client.open_response(&request, &mut response).await.unwrap();
    assert_eq!(seconds(&response), [3, 0, 0]);
    while received.chunk().await.unwrap().is_some() {}
    request.headers.set("content-length", 1 << 20).unwrap();
    let mut call = client.open_call(&request).await.unwrap();
    call.write_all(request.body.bytes()).await.unwrap();
    let mut received = call.finish(&mut response).await.unwrap();
    assert_eq!(seconds(&response), [3, 0, 0]);
    while received.chunk().await.unwrap().is_some() {}
    let (mut writer, mut reader) = client.open_call(&request).await.unwrap().split();
    let (written, output) = tokio::join!(writer.write_all(request.body.bytes()), reader.head(&mut response));
    written.and(output).unwrap();
    assert_eq!(seconds(&response), [0, 1, 0], "the request is still being sent");
}

/// It is the look-up that takes long here, and the way to this machine is short.
#[tokio::test]
async fn timings_tell_a_look_up_from_connecting() {
    let (server, wait) = (Scripted::always(OK).await, Duration::from_millis(50));
    let client = Client::builder().resolver(Resolves(wait)).dns_ttl(SECOND).build();
    let url = server.url.replace("127.0.0.1", "a.example");
    for is_reused in [false, true] {
        let times = client.get(&url).await.unwrap().timings();
        assert_eq!((times.resolve >= wait, times.reused), (!is_reused, is_reused), "{times:?}");
        assert_eq!((times.connect.is_zero(), times.tls), (is_reused, Duration::ZERO), "{times:?}");
    }
}

/// That of a proxy counts as well.
#[tokio::test]
async fn timings_tell_of_the_look_up_of_a_proxy() {
    let proxy = Scripted::new(|mut peer, _| async move {
        for (received, response) in [(3, &b"\x05\x00"[..]), (10, b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")]
        {
            peer.stream.read_exact(&mut vec![0; received]).await?;
            peer.send(response).await?;
        }
        peer.answer(OK).await
    })
    .await;
    let (url, wait) =
        (proxy.url.replace("http://127.0.0.1", "socks5://p.example"), Duration::from_millis(50));
    let proxies = Proxies::all(Proxy::new(&url).unwrap());
    let client = Client::builder().resolver(Resolves(wait)).dns_ttl(SECOND).proxies(proxies).build();
    let times = client.get("http://a.example/").await.unwrap().timings();
    assert!(times.resolve >= 2 * wait, "{times:?}");
}

/// A response that came before the request was sent has its times, too.
#[tokio::test(start_paused = true)]
async fn timings_of_a_call_tell_of_its_connection() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send(OK).await?;
        peer.head().await?;
        sleep(2 * SECOND).await;
        peer.send("HTTP/1.1 413 x\r\ncontent-length: 0\r\n\r\n").await?;
        pending().await
    });
    let (client, mut response) = (stage.client(), Response::new());
    ask(&client, &get()).await.unwrap();
    let mut call = client.open_call(&post()).await.unwrap();
    call.write_all(&vec![0; 1 << 20]).await.unwrap();
    call.finish(&mut response).await.unwrap();
    assert_eq!((response.timings().reused, response.timings().total().as_secs()), (true, 2));
}

#[tokio::test]
async fn errors_say_what_was_done_and_all_causes() {
    async fn said(builder: ClientBuilder, url: &str) -> [String; 2] {
        let error = builder.build().get(url).await.unwrap_err();
        [format!("{error}"), format!("{error:#}")]
    }
    let closed = TcpStream::connect("127.0.0.1:1").await.unwrap_err();
    let refused = "http://127.0.0.1:1/: connecting to 127.0.0.1:1 failed";
    let chain = format!("{refused}: 127.0.0.1:1 cannot be reached: {closed}");
    let pipeline = Client::new().pipeline("http://127.0.0.1:1").unwrap().build();
    let error = pipeline.send(&Request::get("/").unwrap(), &mut Response::new()).await.unwrap_err();
    assert_eq!(format!("{error:#}"), chain);
    assert_eq!(said(Client::builder(), "http://127.0.0.1:1/").await, [refused.into(), chain]);
    let url = "preparing the request failed";
    let chain = format!("{url}: the url `ftp://a/` is invalid: the scheme is neither http nor https");
    assert_eq!(said(Client::builder(), "ftp://a/").await, [url.into(), chain]);
    let server = Scripted::always("HTTP/1.1 2 OK\r\n\r\n").await;
    let address = server.url.strip_prefix("http://").unwrap().trim_end_matches('/');
    let broken = format!("http://{address}: waiting for the response of {address} failed");
    let chain = format!("{broken}: the status line is malformed: `HTTP/1.1 2 OK`");
    assert_eq!(said(Client::builder(), &server.url).await, [broken, chain]);
}

/// Dials, and counts it. The first request is answered; then the system gives the connection up, since nobody has
/// acknowledged the second one for long.
struct GivesUp(Arc<AtomicUsize>);

impl Dialer for GivesUp {
    type Stream = GivenUp;

    async fn dial(&self, _: &str, _: u16) -> io::Result<GivenUp> {
        self.0.fetch_add(1, Relaxed);
        Ok(GivenUp::default())
    }
}

#[derive(Default)]
struct GivenUp {
    asked: usize,
    answered: usize,
}

impl AsyncRead for GivenUp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.answered == self.asked {
            return Poll::Pending;
        }
        self.answered += 1;
        match self.answered {
            1 => out.put_slice(OK.as_bytes()),
            _ => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for GivenUp {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.asked += 1;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A timeout is a failure, and not the fault of a connection that rested too long.
#[tokio::test(start_paused = true)]
async fn a_timeout_is_never_retried() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        peer.send(OK).await?;
        pending().await
    });
    let client = stage.client();
    ask(&client, &get()).await.unwrap();
    let error = ask(&client, &get()).await.unwrap_err();
    assert_eq!((error.is_timeout(), error.is_reused(), stage.dialed().len()), (true, true, 1));
    let (dialed, mut response) = (Arc::default(), Response::new());
    let client = Client::builder().dialer(GivesUp(Arc::clone(&dialed))).build();
    client.send(&get(), &mut response).await.unwrap();
    let error = client.send(&get(), &mut response).await.unwrap_err();
    assert_eq!((error.is_timeout(), error.is_reused(), dialed.load(Relaxed)), (true, true, 1));
}
