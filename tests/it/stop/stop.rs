//! How a server stops: the connections that it has accepted are served, no others are, and the stop takes no longer
//! than its grace.

use std::future::{pending, poll_fn};
use std::io::{self, ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use corehttp::middleware::wrap;
use corehttp::server::{IntoIoResult, ServerCore};
use corehttp::{BodyPlan, Context, Request, Server, ServerHandle, Status, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::support::responses::responses;
use crate::support::{Peer, Served, eventually, in_time, paused, status};

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// Longer than any test.
const LONG: Duration = Duration::from_secs(60);

/// Stops `served`, which must take no longer than a moment.
#[track_caller]
fn check_stops_at_once(served: &Served) {
    let start = Instant::now();
    served.running.stop(LONG);
    served.running.wait().unwrap();
    assert!(start.elapsed() < LONG / 10);
    let stats = served.running.counts().total;
    assert_eq!((stats.open, stats.aborted), (0, 0));
}

/// Waits until no listener is left, and only `left` of the connections that were tried.
#[track_caller]
fn check_stopped_listening(served: &Served, left: u64) {
    eventually("nobody listens", || TcpStream::connect(served.addr()).is_err());
    eventually("the others are gone", || served.running.counts().total.open == left);
}

/// Where handlers wait until a test opens it.
#[derive(Clone)]
struct Gate {
    waiting: Arc<AtomicUsize>,
    way: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Gate {
        Gate { waiting: Arc::default(), way: Arc::new(Semaphore::new(0)) }
    }

    /// Waits in a handler until the gate opens.
    async fn pass(&self) {
        let _counted = Counted::new(&self.waiting);
        let _permit = self.way.acquire().await.unwrap();
    }

    /// Waits in a test until so many handlers wait.
    #[track_caller]
    fn reached_by(&self, count: usize) {
        eventually("they reach the gate", || self.waiting.load(Ordering::SeqCst) == count);
    }

    fn open(&self) {
        self.way.add_permits(1_000);
    }
}

/// Adds one to a count until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Counted {
        count.fetch_add(1, Ordering::SeqCst);
        Counted(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers `fine`, after passing the gate if the path says so.
async fn app(ctx: &mut Context, gate: &Gate) {
    if ctx.request.path() == "/gate" {
        gate.pass().await;
    }
    ctx.response.set_text(if ctx.is_stop_ordered() { "stopping" } else { "fine" });
}

fn serve(set: impl FnOnce(Server) -> Server) -> (Served, Gate) {
    let gate = Gate::new();
    let inner = gate.clone();
    (Served::with(set, async move |ctx: &mut Context| app(ctx, &inner).await), gate)
}

const GATED: &[u8] = b"GET /gate HTTP/1.1\r\nhost: a\r\n\r\n";

#[test]
fn a_stopped_server_listens_no_more() {
    let (served, _) = serve(|server| server.cores(2).and_bind("127.0.0.1:0"));
    let addresses = served.running.addresses().to_vec();
    assert_eq!(addresses.len(), 2);
    check_stops_at_once(&served);
    for address in addresses {
        let address: SocketAddr = address.to_string().parse().unwrap();
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        TcpListener::bind(address).unwrap();
    }
}

#[test]
fn idle_connections_are_closed_at_once_rfc9112_9_6() {
    for cores in [1, 2] {
        let (served, _) = serve(|server| server.cores(cores));
        let mut peers: Vec<_> = (0..10).map(|_| served.connect()).collect();
        for peer in &mut peers {
            peer.send(GET);
            assert_eq!(status(&peer.receive()), 200);
        }
        check_stops_at_once(&served);
        peers.iter_mut().for_each(|peer| assert_eq!(peer.receive_all(), ""));
    }
}

#[test]
fn responses_in_flight_carry_close_rfc9112_9_6() {
    let (served, gate) = serve(|server| server.cores(2));
    let mut peers = [GATED.to_vec(), [GATED, GET].concat(), [GET, GATED].concat()].map(|wire| {
        let mut peer = served.connect();
        peer.send(wire);
        peer
    });
    gate.reached_by(3);
    served.running.stop(LONG);
    check_stopped_listening(&served, 3);
    gate.open();
    let received = peers.each_mut().map(|peer| responses(&peer.receive_all()));
    for (received, bodies) in received.iter().zip([&["stopping"][..], &["stopping"], &["fine", "stopping"]]) {
        assert_eq!(received.iter().map(|response| &*response.body).collect::<Vec<_>>(), bodies);
        assert!(received.last().is_some_and(|response| response.is_last()));
    }
    drop(peers);
    check_stops_at_once(&served);
}

/// Checks that the peers in `talk` are served if they send a request within `limit`.
#[track_caller]
fn check_served_within(limit: Duration, talk: impl Fn() -> (Duration, Vec<String>)) {
    for received in in_time(limit, talk) {
        let received = responses(&received);
        assert!(
            matches!(&received[..], [response] if response.status == 200 && response.is_last()),
            "{received:?}"
        );
    }
}

#[test]
fn a_peer_that_connected_before_the_stop_is_served() {
    check_served_within(Duration::from_secs(1), || {
        let (served, _) = serve(|server| server);
        let mut peers: Vec<_> = (0..20).map(|_| served.connect()).collect();
        let start = Instant::now();
        served.running.stop(LONG);
        eventually("nobody listens", || TcpStream::connect(served.addr()).is_err());
        peers.iter_mut().for_each(|peer| peer.send(GET));
        let took = start.elapsed();
        let received = peers.iter_mut().map(Peer::receive_all).collect();
        drop(peers);
        check_stops_at_once(&served);
        (took, received)
    });
}

/// A busy client has its next request on its way when the response leaves.
#[test]
fn a_peer_that_was_just_answered_is_served_once_more() {
    check_served_within(Duration::from_millis(100), || {
        let (served, _) = serve(|server| server.cores(2));
        let mut peers = [served.connect(), served.connect()];
        let start = Instant::now();
        for peer in &mut peers {
            peer.send(GET);
            assert_eq!(status(&peer.receive()), 200);
        }
        served.running.stop(LONG);
        thread::sleep(Duration::from_millis(20));
        peers.iter_mut().for_each(|peer| peer.send(GET));
        let took = start.elapsed();
        let received = peers.iter_mut().map(Peer::receive_all).collect();
        drop(peers);
        check_stops_at_once(&served);
        (took, received)
    });
}

#[test]
fn a_peer_that_waits_for_a_busy_core_is_served_before_it_stops() {
    let busy = Arc::new(Barrier::new(2));
    let gate = Arc::clone(&busy);
    let make = async move |_: ServerCore| {
        let gate = Arc::clone(&gate);
        Ok(move |ctx: &mut Context| {
            if ctx.request.path() == "/gate" {
                gate.wait();
                gate.wait();
            }
        })
    };
    let server = Server::bind("127.0.0.1:0").cores(2).balanced(true);
    let served = Served { running: server.start_per_core(make).unwrap() };
    let mut first = served.connect();
    first.send(GATED);
    busy.wait();
    // The core that accepts for both is busy, and the other one has drained before these connections are handed over.
    let mut peers: Vec<_> = (0..8).map(|_| served.connect()).collect();
    peers.iter_mut().for_each(|peer| peer.send(GET));
    served.running.stop(LONG);
    // The idle core drains within this time. If it does not, it serves the peers itself, and they are answered as well.
    thread::sleep(Duration::from_millis(50));
    busy.wait();
    assert_eq!(responses(&first.receive_all()).len(), 1);
    for peer in &mut peers {
        let received = responses(&peer.receive_all());
        assert!(
            matches!(&received[..], [response] if response.status == 200 && response.is_last()),
            "{received:?}"
        );
    }
    drop((first, peers));
    check_stops_at_once(&served);
}

/// A connection that has long been silent is closed at once, but not if a request has arrived that the core, which was
/// busy, has not seen yet.
#[test]
fn a_request_that_a_busy_core_has_not_seen_is_answered_before_it_stops() {
    let busy = Arc::new(Barrier::new(2));
    let gate = Arc::clone(&busy);
    let served = Served::new(move |ctx: &mut Context| {
        if ctx.request.path() == "/gate" {
            gate.wait();
            gate.wait();
        }
    });
    let [mut first, mut second] = [served.connect(), served.connect()];
    second.send(GET);
    assert_eq!(status(&second.receive()), 200);
    thread::sleep(Duration::from_millis(400));
    first.send(GATED);
    busy.wait();
    second.send(GET);
    served.running.stop(LONG);
    busy.wait();
    for peer in [&mut first, &mut second] {
        assert_eq!(responses(&peer.receive_all()).len(), 1);
    }
    drop((first, second));
    check_stops_at_once(&served);
}

/// A core that is still starting must not give up at the signal: connections that wait for it would be reset.
#[test]
fn a_peer_that_waits_for_a_core_to_start_is_served_before_it_stops() {
    let (stop, signal) = oneshot::channel::<()>();
    let (gate, listener) = (Gate::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (slow, address) = (gate.clone(), listener.local_addr().unwrap());
    let make = async move |core: ServerCore| {
        if core.index() == 1 {
            slow.pass().await;
        }
        Ok(|ctx: &mut Context| ctx.response.set_text("fine"))
    };
    let server = Server::bind(listener).cores(2).balanced(true);
    let server = server.stop_on(async { drop(signal.await) }, LONG);
    let running = thread::spawn(move || server.start_per_core(make).unwrap());
    let mut peers = [(); 3].map(|()| Peer::new(TcpStream::connect(address).unwrap()));
    peers.iter_mut().for_each(|peer| peer.send(GET));
    gate.reached_by(1);
    stop.send(()).unwrap();
    gate.open();
    for peer in &mut peers {
        let received = responses(&peer.receive_all());
        assert!(
            matches!(&received[..], [response] if response.status == 200 && response.is_last()),
            "{received:?}"
        );
    }
    drop(peers);
    running.join().unwrap().wait().unwrap();
}

#[test]
fn connections_left_after_the_grace_are_cut() {
    let grace = Duration::from_millis(100);
    // With a timeout of handlers a connection is still cut only once.
    for handler in [None, Some(LONG)] {
        let timeouts = Timeouts { handler, ..Timeouts::default() };
        let (served, gate) = serve(|server| server.cores(2).timeouts(timeouts));
        let mut peers = [(); 3].map(|()| served.connect());
        peers.iter_mut().for_each(|peer| peer.send(GATED));
        gate.reached_by(3);
        let start = Instant::now();
        served.running.stop(grace);
        served.running.wait().unwrap();
        assert!((grace..grace + LONG / 10).contains(&start.elapsed()));
        gate.reached_by(0);
        let stats = served.running.counts().total;
        assert_eq!((stats.open, stats.aborted), (0, 3));
        peers.iter_mut().for_each(|peer| assert_eq!(status(&peer.receive_all()), 0));
    }
}

/// A look-up that hung, or a read of a dead disk, kept a server for seconds beyond its grace.
#[test]
fn work_that_blocks_does_not_outlast_the_grace() {
    for (takes, grace, is_done) in [(100, LONG, true), (20_000, Duration::from_millis(50), false)] {
        let (begun, has_begun) = mpsc::channel();
        let done = Arc::new(AtomicBool::new(false));
        let blocked = Arc::clone(&done);
        let served = Served::with(
            |server| server.cores(2),
            move |_: &mut Context| {
                let (begun, blocked) = (begun.clone(), Arc::clone(&blocked));
                tokio::task::spawn_blocking(move || {
                    begun.send(()).unwrap();
                    thread::sleep(Duration::from_millis(takes));
                    blocked.store(true, Ordering::Relaxed);
                });
            },
        );
        assert_eq!(status(&served.ask(GET)), 200);
        has_begun.recv().unwrap();
        let start = Instant::now();
        served.running.stop(grace);
        served.running.wait().unwrap();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        assert_eq!(done.load(Ordering::Relaxed), is_done, "it has the time of the grace");
    }
}

#[test]
fn a_response_that_is_cut_does_not_look_whole() {
    let gate = Gate::new();
    let inner = gate.clone();
    let served = Served::new(async move |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.body_writer().await?;
        out.write_all(b"half").await?;
        out.flush().await?;
        inner.pass().await;
        Ok(out.finish().await?)
    });
    let mut peers = ["1.0", "1.1"].map(|version| {
        let mut peer = served.connect();
        peer.send(format!("GET / HTTP/{version}\r\nhost: a\r\n\r\n"));
        peer
    });
    gate.reached_by(2);
    served.running.stop(Duration::ZERO);
    served.running.wait().unwrap();
    assert_eq!(served.running.counts().total.aborted, 2);
    for peer in &mut peers {
        let received = peer.receive_all();
        assert!(received.contains("half") && received.ends_with("<ConnectionReset>"), "{received:?}");
    }
}

/// The connection is open only for the rest of the request, which the handler does not read.
#[test]
fn a_connection_that_is_cut_behind_a_whole_response_is_not_reset() {
    let handler = |ctx: &mut Context| ctx.response.set_text("whole");
    let served = Served::new(wrap(BodyPlan::Stream, handler));
    let mut peer = served.connect();
    peer.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhello");
    assert!(peer.receive().ends_with("\r\n\r\nwhole"));
    served.running.stop(Duration::ZERO);
    served.running.wait().unwrap();
    assert_eq!((served.running.counts().total.aborted, &*peer.receive_all()), (1, ""));
}

#[test]
fn a_later_shutdown_can_only_shorten_the_grace() {
    let zero = Duration::ZERO;
    for [first, later] in [[LONG, zero], [Duration::MAX, zero], [zero, LONG], [zero, Duration::MAX]] {
        let (served, gate) = serve(|server| server.cores(2));
        let mut peers = [(); 4].map(|()| served.connect());
        peers.iter_mut().for_each(|peer| peer.send(GATED));
        gate.reached_by(4);
        let start = Instant::now();
        served.running.stop(first);
        if first != zero {
            check_stopped_listening(&served, 4);
        }
        served.running.stop(later);
        served.running.wait().unwrap();
        assert!(start.elapsed() < LONG / 10);
        assert_eq!(served.running.counts().total.aborted, 4);
    }
}

#[test]
fn a_signal_stops_the_server_too() {
    for cores in [1, 2] {
        let (stop, signal) = oneshot::channel::<()>();
        let (served, gate) = serve(|server| server.cores(cores).stop_on(async { drop(signal.await) }, LONG));
        let mut peer = served.connect();
        peer.send(GATED);
        gate.reached_by(1);
        stop.send(()).unwrap();
        check_stopped_listening(&served, 1);
        gate.open();
        assert!(responses(&peer.receive_all())[0].is_last());
        drop(peer);
        served.running.wait().unwrap();
    }
}

/// A server whose signal is lost could not be stopped otherwise.
#[test]
fn a_signal_that_fails_stops_the_server_with_its_error() {
    check_signal(async { Err(io::Error::other("deaf")) }, Some("deaf"));
    check_signal(poll_fn(|_| -> Poll<()> { panic!("dumb") }), Some("panicked"));
    check_signal(async { Ok(()) }, None);
    check_signal(async {}, None);
}

/// Checks that a server with this signal stops, with this error or with none.
#[track_caller]
fn check_signal(signal: impl Future<Output: IntoIoResult> + Send + 'static, expected: Option<&str>) {
    let server = Server::bind("127.0.0.1:0").cores(2).stop_on(signal, LONG);
    let running = server.start(|ctx: &mut Context| ctx.response.set_text("fine")).unwrap();
    let end = running.wait().map_err(|error| error.to_string()).err();
    assert_eq!(end.is_some(), expected.is_some(), "{end:?}");
    assert!(end.unwrap_or_default().contains(expected.unwrap_or_default()));
}

#[test]
fn a_signal_gives_no_more_than_its_grace() {
    let (stop, signal) = oneshot::channel::<()>();
    let grace = Duration::from_millis(50);
    let (served, gate) = serve(|server| server.stop_on(async { drop(signal.await) }, grace));
    let mut peer = served.connect();
    peer.send(GATED);
    gate.reached_by(1);
    let start = Instant::now();
    stop.send(()).unwrap();
    served.running.wait().unwrap();
    assert!((grace..grace + LONG / 10).contains(&start.elapsed()));
    assert_eq!(served.running.counts().total.aborted, 1);
}

/// A handler that streams for days can thus end its response in time.
#[test]
fn a_writer_sees_that_the_server_stops() {
    let served = Served::new(async |ctx: &mut Context| -> corehttp::Result {
        let mut out = ctx.body_writer().await?;
        out.write_all(if out.is_stopping() { b"stopping" } else { b"going on" }).await?;
        out.flush().await?;
        while !out.is_stopping() {
            sleep(Duration::from_millis(1)).await;
        }
        out.write_all(b", and done").await?;
        Ok(out.finish().await?)
    });
    let mut peer = served.connect();
    peer.send(GET);
    peer.receive_through("going on\r\n");
    served.running.stop(LONG);
    assert_eq!(peer.receive_all(), "a\r\n, and done\r\n0\r\n\r\n");
    drop(peer);
    check_stops_at_once(&served);
}

/// A handler may wait for an event that never comes, on a connection that may have been taken over.
#[test]
fn a_handler_that_waits_sees_that_the_server_stops() {
    let waits = async |ctx: &mut Context| -> corehttp::Result {
        let (stopping, others) = (ctx.stopping(), ctx.stopping());
        match ctx.request.path() {
            "/answered" => {
                stopping.await;
                ctx.response.set_text("stopping");
            }
            "/streamed" => {
                let mut out = ctx.body_writer().await?;
                out.write_all(b"going on").await?;
                stopping.await;
                out.write_all(b", and done").await?;
                out.finish().await?;
            }
            _ => {
                let mut io = ctx.upgrade("echo").await?;
                stopping.await;
                io.write_all(b"stopping").await?;
            }
        }
        // The stop is final, and visible to each task.
        others.await;
        ctx.stopping().await;
        Ok(())
    };
    for cores in [1, 2] {
        let served = Served::with(|server| server.cores(cores), waits);
        let mut peers = ["/answered", "/streamed", "/upgraded"].map(|path| {
            let mut peer = served.connect();
            peer.send(format!(
                "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n"
            ));
            peer
        });
        peers[1].receive_through("going on\r\n");
        peers[2].receive_through("\r\n\r\n");
        eventually("all wait", || served.running.counts().total.requests == 3);
        let start = Instant::now();
        served.running.stop(LONG);
        assert!(peers[0].receive_all().ends_with("\r\n\r\nstopping"));
        assert_eq!(peers[1].receive_all(), "a\r\n, and done\r\n0\r\n\r\n");
        assert_eq!(peers[2].receive_all(), "stopping");
        drop(peers);
        served.running.wait().unwrap();
        assert!(start.elapsed() < LONG / 2);
        assert_eq!(served.running.counts().total.aborted, 0);
    }
}

/// A request is on its way at most to a connection that has just opened, or has just carried a response.
#[test]
fn a_stop_closes_silent_connections_at_once_rfc9112_9_6() {
    let millis = Duration::from_millis;
    for (requests, silence, expected) in [
        (0, millis(0), millis(1_000)),
        (0, millis(400), millis(600)),
        (0, millis(1_000), millis(0)),
        (1, millis(0), millis(100)),
        (1, millis(30), millis(70)),
        (2, millis(100), millis(0)),
        (2, LONG / 2, millis(0)),
    ] {
        check_silent(None, requests, silence, expected);
        // The wait would be ended by the age, or by the usual limit.
        for age in [silence + millis(5_000), Duration::MAX] {
            check_silent(Some(age), requests, silence, expected);
        }
    }
}

/// Checks how long a stop waits for a connection that has carried so many requests, and has been silent since.
fn check_silent(connection_age: Option<Duration>, requests: usize, silence: Duration, expected: Duration) {
    paused(async {
        let timeouts = Timeouts { connection_age, ..Timeouts::default() };
        let server = Server::new().timeouts(timeouts);
        let service = server.service(|ctx: &mut Context| ctx.response.set_text("fine"));
        let (mut near, far) = duplex(1 << 10);
        let talk = async {
            for _ in 0..requests {
                let mut received = Vec::new();
                near.write_all(GET).await.unwrap();
                while !received.ends_with(b"fine") {
                    near.read_buf(&mut received).await.unwrap();
                }
            }
            sleep(silence).await;
            service.stop();
            let start = tokio::time::Instant::now();
            assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
            start.elapsed()
        };
        let (took, served) = tokio::join!(talk, service.serve_connection(far));
        served.unwrap();
        let close = expected..expected + Duration::from_millis(5);
        assert!(close.contains(&took), "{requests} requests, silent for {silence:?}: {took:?}");
    });
}

#[test]
fn a_handler_that_waits_sees_that_the_service_stops() {
    paused(async {
        let service = Server::new().service(async |ctx: &mut Context| {
            let start = tokio::time::Instant::now();
            ctx.stopping().await;
            ctx.response.set_text(start.elapsed().as_secs().to_string());
        });
        let asked = service.respond(Request::get("/").unwrap());
        let stops = async {
            sleep(Duration::from_secs(7)).await;
            service.stop();
        };
        let (response, ()) = tokio::join!(asked, stops);
        assert_eq!(response.body.text().unwrap(), "7");
    });
}

/// The other cores would go on otherwise, and a thread that waits for the server would not return.
#[cfg(target_os = "linux")]
#[test]
fn a_listener_that_fails_stops_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let same = listener.try_clone().unwrap();
    let (served, gate) = serve(|_| Server::bind(listener).and_bind("127.0.0.1:0").cores(3));
    let addresses = [served.addr(), served.running.addresses()[1].to_string().parse().unwrap()];
    let mut peers = Vec::new();
    for address in addresses.into_iter().cycle().take(6) {
        let mut peer = Peer::new(TcpStream::connect(address).unwrap());
        peer.send(GATED);
        peers.push(peer);
    }
    gate.reached_by(6);
    socket2::SockRef::from(&same).shutdown(Shutdown::Both).unwrap();
    for address in addresses {
        eventually("nobody listens", || TcpStream::connect(address).is_err());
    }
    gate.open();
    for mut peer in peers {
        let received = peer.receive_all();
        assert!(
            received.contains("\r\nconnection: close\r\n") && received.ends_with("stopping"),
            "{received}"
        );
    }
    let error = served.running.wait().unwrap_err();
    let cause = error.cause().and_then(|cause| cause.downcast_ref::<std::io::Error>()).unwrap();
    assert_eq!(cause.kind(), ErrorKind::InvalidInput);
    assert_eq!(served.running.counts().total.aborted, 0);
}

#[test]
fn any_number_of_threads_may_wait_for_a_server() {
    let (served, gate) = serve(|server| server.cores(2));
    let mut peer = served.connect();
    peer.send(GATED);
    gate.reached_by(1);
    let waiting = [(); 3].map(|()| {
        let running = served.running.clone();
        thread::spawn(move || running.wait())
    });
    served.running.stop(LONG);
    check_stopped_listening(&served, 1);
    assert!(waiting.iter().all(|thread| !thread.is_finished()));
    gate.open();
    assert_eq!(status(&peer.receive_all()), 200);
    drop(peer);
    waiting.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    served.running.wait().unwrap();
}

/// A server of two cores whose handler has the server itself.
fn serve_with_own(handle: impl Fn(&ServerHandle, &mut Context) + Send + Sync + 'static) -> Served {
    let own = Arc::new(OnceLock::<ServerHandle>::new());
    let seen = Arc::clone(&own);
    let handler = move |ctx: &mut Context| handle(seen.get().unwrap(), ctx);
    let served = Served::with(|server| server.cores(2), handler);
    own.set(served.running.clone()).unwrap();
    served
}

#[test]
fn a_handler_may_stop_its_own_server() {
    let served = serve_with_own(|own, ctx| {
        own.stop(LONG);
        ctx.response.set_text("farewell");
    });
    let received = responses(&served.ask(GET));
    assert_eq!((received.len(), &*received[0].body), (1, "farewell"));
    served.running.wait().unwrap();
}

/// A core would wait for itself, and stand still for ever, also if another thread waits already.
#[test]
fn a_core_that_waits_for_its_own_server_panics() {
    let served = serve_with_own(|own, _| {
        own.stop(LONG);
        own.wait().unwrap();
    });
    let (told, tells) = mpsc::channel();
    let running = served.running.clone();
    let waiting = thread::spawn(move || {
        told.send(()).unwrap();
        running.wait()
    });
    tells.recv().unwrap();
    // By now the other thread waits, most likely. If it does not, this test checks less, but does not fail.
    thread::sleep(Duration::from_millis(20));
    assert_eq!(status(&served.ask(GET)), 500);
    waiting.join().unwrap().unwrap();
    assert_eq!(served.running.counts().total.errors.panic, 1);
}

#[test]
fn a_server_runs_on_after_its_handle_was_dropped() {
    let running = Server::bind("127.0.0.1:0")
        .cores(1)
        .start(|ctx: &mut Context| ctx.response.set_text("fine"))
        .unwrap();
    let (address, held) = (running.local_addr(), running.clone());
    drop(running);
    let mut peer = Peer::new(TcpStream::connect(address).unwrap());
    peer.send(GET);
    assert_eq!(status(&peer.receive()), 200);
    check_stops_at_once(&Served { running: held });
}

/// A handler that reads its body piece by piece, and sends it back as it arrives.
async fn echo(ctx: &mut Context) -> corehttp::Result {
    let (mut body, mut out) = ctx.duplex().await?;
    while let Some(chunk) = body.chunk().await? {
        out.write_all(chunk).await?;
        out.flush().await?;
    }
    Ok(out.finish().await?)
}

#[test]
fn bodies_on_their_way_still_arrive() {
    let buffered = Served::new(|ctx: &mut Context| ctx.response.body.set_bytes(ctx.request.body.bytes()));
    let streamed = Served::new(wrap(BodyPlan::Stream, echo));
    for served in [buffered, streamed] {
        let mut peer = served.connect();
        peer.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n12345");
        eventually("it is there", || served.running.counts().total.requests == 1);
        served.running.stop(LONG);
        check_stopped_listening(&served, 1);
        peer.send("67890");
        let received = responses(&peer.receive_all());
        assert!(matches!(&received[..], [response] if response.body == "1234567890"), "{received:?}");
        drop(peer);
        check_stops_at_once(&served);
    }
}

#[test]
fn an_upgraded_connection_has_the_grace_too() {
    let served = Served::new(async |ctx: &mut Context| -> corehttp::Result {
        let mut io = ctx.upgrade("echo").await?;
        let mut received = [0; 1];
        while io.read_exact(&mut received).await.is_ok() {
            io.write_all(&received).await?;
        }
        Ok(())
    });
    let mut upgraded = [(); 2].map(|()| {
        let mut peer = served.connect();
        peer.send("GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
        assert_eq!(status(&peer.receive()), 101);
        peer
    });
    served.running.stop(LONG);
    eventually("nobody listens", || TcpStream::connect(served.addr()).is_err());
    upgraded[0].send("still here\n");
    assert_eq!(upgraded[0].receive_through("\n"), "still here\n");
    let [first, mut second] = upgraded;
    drop(first);
    served.running.stop(Duration::ZERO);
    served.running.wait().unwrap();
    assert_eq!(second.receive_all(), "");
}

/// The count does not depend on which task holds the connection.
#[test]
fn an_upgraded_connection_counts_until_it_is_dropped() {
    for (is_left, cut) in [(true, 0), (false, 1)] {
        let served = Served::new(async |ctx: &mut Context| -> corehttp::Result {
            let mut io = ctx.upgrade("silence").await?;
            spawn_local(async move { io.read_to_end(&mut Vec::new()).await });
            Ok(())
        });
        let mut peer = served.connect();
        peer.send("GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: silence\r\n\r\n");
        assert_eq!(status(&peer.receive()), 101);
        served.running.stop(LONG);
        check_stopped_listening(&served, 1);
        match is_left {
            true => peer.end(),
            false => served.running.stop(Duration::ZERO),
        }
        served.running.wait().unwrap();
        assert_eq!((served.running.counts().total.aborted, &*peer.receive_all()), (cut, ""));
    }
}

/// A task that waits for ever would keep its server from stopping.
#[test]
fn tasks_that_handlers_left_behind_are_dropped() {
    let kept = Arc::new(());
    let given = Arc::clone(&kept);
    let served = Served::new(async move |_: &mut Context| {
        let given = Arc::clone(&given);
        spawn_local(async move {
            pending::<()>().await;
            drop(given);
        });
    });
    let mut peer = served.connect();
    peer.send(GET);
    assert_eq!(status(&peer.receive()), 200);
    check_stops_at_once(&served);
    eventually("task and handler are dropped", || Arc::strong_count(&kept) == 1);
}

/// A pool of database connections that cores share has its tasks on the cores that opened them: if such a core ended as
/// soon as it had no connections left, queries of the other cores would fail.
#[test]
fn the_tasks_of_a_core_run_until_all_cores_have_drained() {
    let (queries, asked) = unbounded_channel::<oneshot::Sender<&str>>();
    let gate = Gate::new();
    let (slow, asked) = (gate.clone(), Mutex::new(Some(asked)));
    let make = async move |core: ServerCore| {
        if core.index() == 0 {
            let mut asked = asked.lock().unwrap().take().unwrap();
            spawn_local(async move {
                while let Some(query) = asked.recv().await {
                    let _ = query.send("42");
                }
            });
        }
        let (slow, queries) = (slow.clone(), queries.clone());
        Ok(async move |ctx: &mut Context| {
            if core.index() == 0 {
                return ctx.response.set_text("idle");
            }
            slow.pass().await;
            let (query, response) = oneshot::channel();
            let asked = queries.send(query).is_ok();
            ctx.response.set_text(if asked { response.await.unwrap_or("lost") } else { "closed" });
        })
    };
    let server = Server::bind("127.0.0.1:0").cores(2).balanced(true);
    let served = Served { running: server.start_per_core(make).unwrap() };
    let mut peers = [served.connect(), served.connect()];
    for peer in &mut peers {
        peer.send(GET);
    }
    gate.reached_by(1);
    served.running.stop(LONG);
    eventually("the other core has drained", || served.running.counts().total.open == 1);
    // Longer than a core without connections needs to end, if it does not wait for the others.
    thread::sleep(Duration::from_millis(50));
    gate.open();
    let responses = peers.each_mut().map(|peer| peer.receive_all());

    assert!(
        ["42", "idle"].iter().all(|end| responses.iter().any(|response| response.ends_with(end))),
        "{responses:?}"
    );
    served.running.wait().unwrap();
}

/// Clients that send a request as soon as the last one is answered, and connect again after the last response of a
/// connection.
struct Load {
    clients: Vec<JoinHandle<Vec<String>>>,
    enough: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
}

impl Load {
    fn on(address: SocketAddr) -> Load {
        let (enough, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let client = |_| {
            let (enough, answered) = (Arc::clone(&enough), Arc::clone(&answered));
            thread::spawn(move || request_repeatedly(address, &enough, &answered))
        };
        Load { clients: (0..CLIENTS).map(client).collect(), enough, answered }
    }

    /// Waits until so many more requests were answered.
    fn wait_for(&self, count: usize) {
        let before = self.answered.load(Ordering::Relaxed);
        eventually("they are answered", || self.answered.load(Ordering::Relaxed) >= before + count);
    }

    /// Ends the load, and returns the requests that were lost. Clients that cannot connect any more have ended already.
    fn lost(self) -> Vec<String> {
        self.enough.store(true, Ordering::Relaxed);
        self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    }
}

const CLIENTS: usize = 8;

fn request_repeatedly(address: SocketAddr, enough: &AtomicBool, answered: &AtomicUsize) -> Vec<String> {
    let (mut lost, goes_on) = (Vec::new(), || !enough.load(Ordering::Relaxed));
    while let (true, Ok(stream)) = (goes_on(), TcpStream::connect(address)) {
        let mut peer = Peer::new(stream);
        for number in (0..).take_while(|_| goes_on()) {
            peer.send(format!("GET /{number} HTTP/1.1\r\nhost: a\r\n\r\n"));
            let received = receive(&mut peer, &format!("response {number}."));
            answered.fetch_add(usize::from(received.is_ok()), Ordering::Relaxed);
            match received {
                Ok(received) if !received.contains("\r\nconnection: close\r\n") => {}
                Ok(_) => break,
                // The connection was never accepted: the system closes waiting connections with their listener.
                Err((received, _)) if received.is_empty() && number == 0 => break,
                // The connection was closed while it was idle: if the request had arrived, this would be a reset.
                Err((received, None)) if received.is_empty() => break,
                Err(received) => {
                    lost.push(format!("response {number}: {received:?}"));
                    break;
                }
            }
        }
    }
    lost
}

/// Receives all through `end`, or the bytes before the connection ends or fails.
fn receive(peer: &mut Peer, end: &str) -> Result<String, (String, Option<ErrorKind>)> {
    let (mut received, mut room) = (String::new(), [0; 500]);
    while !received.ends_with(end) {
        match peer.stream.read(&mut room) {
            Ok(0) => return Err((received, None)),
            Ok(count) => received += &String::from_utf8_lossy(&room[..count]),
            Err(error) => return Err((received, Some(error.kind()))),
        }
    }
    Ok(received)
}

/// Answers with the number in the path.
fn number(ctx: &mut Context) {
    ctx.response.set_text(format!("response {}.", &ctx.request.path()[1..]));
}

/// How connections are spread: the number of cores, and whether they are balanced.
const SPREADS: [(usize, bool); 3] = [(1, false), (2, false), (2, true)];

#[test]
fn under_load_nothing_is_lost() {
    for (cores, balanced) in SPREADS {
        let served = Served::with(|server| server.cores(cores).balanced(balanced), number);
        let load = Load::on(served.addr());
        load.wait_for(500);
        check_stops_at_once(&served);
        assert_eq!(load.lost(), [""; 0], "{cores} cores, balanced: {balanced}");
    }
}

#[cfg(unix)]
#[test]
fn a_second_server_takes_over_and_nothing_is_lost() {
    for (cores, balanced) in SPREADS {
        let first = Served::with(|server| server.cores(cores).balanced(balanced).reuse_port(true), number);
        let load = Load::on(first.addr());
        load.wait_for(300);
        let second = Server::bind(first.addr()).cores(cores).balanced(balanced).reuse_port(true);
        let second = Served { running: second.start(number).unwrap() };
        load.wait_for(300);
        check_stops_at_once(&first);
        load.wait_for(300);
        assert_eq!(load.lost(), [""; 0], "{cores} cores, balanced: {balanced}");
        assert!(second.running.counts().total.requests >= 300);
    }
}

/// Peers that the system gives to a server which cannot start would wait for as long as it tries, and be reset when it
/// fails.
#[cfg(target_os = "linux")]
#[test]
fn a_second_server_that_cannot_start_takes_no_peer() {
    let (first, gate) = (Served::with(|server| server.reuse_port(true), number), Gate::new());
    let (slow, address) = (gate.clone(), first.addr());
    let make = async move |core: ServerCore| {
        if core.index() == 1 {
            slow.pass().await;
            return Err(Status::INTERNAL_SERVER_ERROR.into());
        }
        Ok(|_: &mut Context| {})
    };
    let second = Server::bind(address).cores(2).reuse_port(true);
    let second = thread::spawn(move || second.start_per_core(make));
    gate.reached_by(1);
    let mut peers: Vec<_> = (0..64).map(|_| first.connect()).collect();
    for round in 0..2 {
        for peer in &mut peers {
            peer.send(format!("GET /{round} HTTP/1.1\r\nhost: a\r\n\r\n"));
            assert!(peer.receive().ends_with(&format!("response {round}.")));
        }
        gate.open();
    }
    assert!(second.join().unwrap().is_err());
}
