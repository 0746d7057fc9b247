//! Requests that wait for a busy core: those that have waited for too long are refused.

use std::thread;
use std::time::Duration;

use corehttp::middleware::{Next, timeouts, wrap};
use corehttp::{Context, Error, Server, Timeouts, routes};

use crate::support::{ErrorReports, Peer, Served, get, status};

/// How long a handler has the core.
const STEP: Duration = Duration::from_millis(5);
/// More than eight steps, of which one may take longer than others.
const LIMIT: Duration = Duration::from_millis(60);
const PEERS: usize = 60;

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
    // A burst is served. Behind it, the core knows that it is behind.
    assert_eq!(refused(&ask_at_once(&mut peers, "/")), 0);
    let rounds: Vec<usize> = (0..6).map(|_| refused(&ask_at_once(&mut peers, "/"))).collect();
    let (most, all) = (PEERS * rounds.len(), rounds.iter().sum::<usize>());
    assert!(all > 0 && all < most, "{rounds:?}");
    for _ in 0..3 {
        let received = ask_at_once(&mut peers, "/");
        let late = received.iter().filter(|received| status(received) == 503);
        for received in late {
            assert!(received.contains("retry-after: 1\r\n"), "{received}");
        }
    }
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

#[test]
fn middleware_sees_the_refusal_and_no_handler_is_called() {
    let named = async |ctx: &mut Context, next: Next<'_>| -> Result<(), Error> {
        let result = next.handle(ctx).await;
        ctx.response.headers.set("x-app", "named")?;
        result
    };
    let served = Served::with(queued, wrap(named, computes));
    let mut peers: Vec<Peer> = (0..PEERS).map(|_| served.connect()).collect();
    for _ in 0..6 {
        for received in ask_at_once(&mut peers, "/") {
            assert!(received.contains("x-app: named\r\n"), "{received}");
            assert_eq!(received.contains("computed"), status(&received) == 200, "{received}");
        }
    }
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

#[cfg(feature = "metrics")]
#[test]
fn operators_are_answered_by_a_core_that_is_behind() {
    use corehttp::health::Health;
    use corehttp::metrics::{Metrics, Page, Text};

    let (health, metrics) = (Health::new(), Metrics::new());
    let paths = ["/livez", "/readyz", "/metrics", "/page"];
    let router = routes! {
        GET "/" => computes,
        GET "/livez" => health.live(),
        GET "/readyz" => health.ready(),
        GET "/metrics" => Text::new(&metrics),
        GET "/page" => Page::new(&metrics),
    };
    let served = Served::with(|server| queued(server.observe(metrics)), router);
    let mut peers: Vec<Peer> = (0..PEERS).map(|_| served.connect()).collect();
    let mut refusals = 0;
    for _ in 0..8 {
        // The last to ask have waited for the others.
        let (busy, operators) = peers.split_at_mut(PEERS - paths.len());
        busy.iter_mut().for_each(|peer| peer.send(get("/")));
        operators.iter_mut().zip(paths).for_each(|(peer, path)| peer.send(get(path)));
        refusals += busy.iter_mut().map(Peer::receive).filter(|received| status(received) == 503).count();
        for peer in operators {
            let received = peer.receive();
            assert_ne!(status(&received), 503, "{received}");
        }
    }
    assert!(refusals > 0);
}
