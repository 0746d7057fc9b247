//! Requests that wait for a busy core: those that have waited for too long are refused.

use std::thread;
use std::time::Duration;

use corehttp::health::Health;
use corehttp::middleware::{Cors, Next, timeouts, wrap};
use corehttp::{BoxHandler, Context, Error, Handler, Server, Timeouts, routes};

use crate::support::{ErrorReports, Peer, Served, get, status};

/// How long a handler has the core.
const STEP: Duration = Duration::from_millis(5);
/// The steps of a fifth of the peers.
const LIMIT: Duration = Duration::from_millis(60);
const PEERS: usize = 60;
/// A core finds out within a quarter of a second that it is behind, so that a few rounds are not refused.
const ROUNDS_MAX: usize = 20;

fn computes(ctx: &mut Context) {
    thread::sleep(STEP);
    ctx.response.set_text("computed");
}

fn queued(server: Server) -> Server {
    server.cores(1).timeouts(Timeouts { queue: Some(LIMIT), ..Timeouts::default() })
}

/// The responses to so many requests for `path` at once.
fn ask_at_once(peers: &mut [Peer], path: &str) -> Vec<String> {
    peers.iter_mut().for_each(|peer| peer.send(get(path)));
    peers.iter_mut().map(Peer::receive).collect()
}

/// How many of them were refused.
fn refused(received: &[String]) -> usize {
    received.iter().filter(|received| status(received) == 503).count()
}

#[test]
fn requests_that_have_waited_too_long_for_their_core_are_refused_rfc9110_15_6_4() {
    let reports = ErrorReports::default();
    let router = routes! {
        GET "/" => computes,
        GET "/patient" => wrap(timeouts(|timeouts| timeouts.queue = None), computes),
    };
    let served = Served::with(|server| queued(reports.attach(server)), router);
    let mut peers: Vec<Peer> = (0..PEERS).map(|_| served.connect()).collect();
    let late = (0..ROUNDS_MAX).find_map(|_| {
        let received = ask_at_once(&mut peers, "/");
        received.into_iter().find(|received| status(received) == 503)
    });
    let late = late.expect("a request is refused");
    assert!(late.contains("retry-after: 1\r\n"), "{late}");
    let reports = reports.take();
    let (code, text) = reports.first().expect("a refusal is reported");
    assert_eq!(*code, 503);
    assert!(text.contains("the wait for a busy core took longer than 60 ms"), "{text}");
    for _ in 0..3 {
        assert_eq!(refused(&ask_at_once(&mut peers, "/patient")), 0);
    }
    // Once the queue is short, all are served.
    thread::sleep(10 * STEP);
    for peer in &mut peers[..10] {
        peer.send(get("/"));
        assert_eq!(status(&peer.receive()), 200);
    }
}

/// So many requests come at once that the task of the core, which measures the queue, waits behind all of them.
#[test]
fn a_burst_on_an_idle_core_is_refused_in_part() {
    let served = Served::with(queued, computes);
    let mut peers: Vec<Peer> = (0..3 * PEERS).map(|_| served.connect()).collect();
    thread::sleep(STEP);
    let received = ask_at_once(&mut peers, "/");
    assert!(0 < refused(&received) && refused(&received) < received.len(), "{}", refused(&received));
}

#[test]
fn middleware_sees_the_refusal_and_no_handler_is_called() {
    let named = async |ctx: &mut Context, next: Next<'_>| -> Result<(), Error> {
        let result = next.handle(ctx).await;
        ctx.response.headers.set("x-app", "named")?;
        result
    };
    let served = Served::with(queued, wrap(named, computes));
    let mut peers: Vec<Peer> = (0..PEERS).map(|_| served.connect()).collect();
    let is_refused = (0..ROUNDS_MAX).any(|_| {
        let received = ask_at_once(&mut peers, "/");
        for received in &received {
            assert!(received.contains("x-app: named\r\n"), "{received}");
            assert_eq!(received.contains("computed"), status(received) == 200, "{received}");
        }
        refused(&received) > 0
    });
    assert!(is_refused);
}

#[test]
fn a_few_that_compute_for_long_refuse_nobody() {
    let long = |_: &mut Context| thread::sleep(4 * LIMIT);
    let served = Served::with(queued, long);
    let mut peers: Vec<Peer> = (0..5).map(|_| served.connect()).collect();
    for _ in 0..3 {
        assert_eq!(refused(&ask_at_once(&mut peers, "/")), 0);
    }
}

#[test]
fn probes_are_answered_by_a_core_that_is_behind() {
    check_probes(|router| router);
}

/// Files ask what is behind them only once there is no file.
#[cfg(feature = "fs")]
#[test]
fn probes_behind_files_are_answered_as_well() {
    let directory = tempfile::tempdir().unwrap();
    check_probes(|router| corehttp::fs::Files::new(directory.path()).unwrap().not_found(router).boxed());
}

fn check_probes(around: impl FnOnce(BoxHandler) -> BoxHandler) {
    let health = Health::new();
    let paths = ["/livez", "/readyz"];
    let router = routes! {
        GET "/" => wrap(Cors::new().allow_any_origin(), computes),
        GET "/livez" => health.live(),
        GET "/readyz" => health.ready(),
    };
    let served = Served::with(queued, around(router.boxed()));
    let mut peers: Vec<Peer> = (0..PEERS).map(|_| served.connect()).collect();
    let is_refused = (0..ROUNDS_MAX).any(|_| {
        // The last to ask have waited for the others. A second request of a peer comes when the core is behind.
        let (busy, probes) = peers.split_at_mut(PEERS - paths.len());
        busy.iter_mut().for_each(|peer| peer.send(get("/").repeat(2)));
        probes.iter_mut().zip(paths).for_each(|(peer, path)| peer.send(get(path)));
        let received: Vec<String> =
            busy.iter_mut().flat_map(|peer| [peer.receive(), peer.receive()]).collect();
        assert!(received.iter().all(|received| received.contains("access-control-allow-origin: *")));
        for peer in probes {
            let received = peer.receive();
            assert_eq!(status(&received), 200, "{received}");
        }
        refused(&received) > 0
    });
    assert!(is_refused);
}
