//! Probes find out whether a server lives and is ready, a stop shows before the listener closes, and a flood of probes is
//! none for what is behind.

use std::future::{pending, poll_fn};
use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use corehttp::health::Health;
use corehttp::{Context, Handler, IntoHandler, Request, Server, Service, Status, routes};
use tokio::time::sleep;

use crate::support::responses::responses;
use crate::support::{Served, eventually, get, paused, status};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(60);

fn service(health: &Health) -> Service<impl Handler + use<>> {
    Server::new().service(routes! { GET "/live" => health.live(), GET "/ready" => health.ready() })
}

/// The status and the content of the response to a probe.
async fn probe(service: &Service<impl Handler>, path: &str) -> (Status, String) {
    let response = service.respond(Request::get(path).unwrap()).await;
    assert_eq!(response.headers.get("cache-control"), Some("no-store"));
    (response.status, response.text().unwrap().to_owned())
}

/// A service with `health` lives, and is ready or not, with this content.
#[track_caller]
fn check(health: Health, expected: Status, content: &str) {
    let answered = paused(async {
        let service = service(&health);
        assert_eq!(probe(&service, "/live").await, (Status::OK, "alive\n".into()));
        probe(&service, "/ready").await
    });
    assert_eq!(answered, (expected, content.into()));
}

async fn works() -> io::Result<()> {
    Ok(())
}

async fn fails() -> Result<(), &'static str> {
    Err("a secret")
}

#[test]
fn a_server_is_ready_if_all_that_it_depends_on_works() {
    check(Health::new(), Status::OK, "ready\n");
    check(Health::new().check("a", works).check("b", works), Status::OK, "ready\na: ok\nb: ok\n");
    let unready = Status::SERVICE_UNAVAILABLE;
    check(Health::new().check("a", fails).check("b", works), unready, "not ready\na: failed\nb: ok\n");
    let stuck = async || pending::<io::Result<()>>().await;
    check(Health::new().check("a", works).check("b", stuck), unready, "not ready\na: ok\nb: failed\n");
    let health = Health::new().check("a", works);
    health.set_ready(false);
    check(health, unready, "not ready\n");
}

/// Checks run at the same time, so two that are stuck take no longer than one.
#[test]
fn checks_that_are_stuck_are_waited_for_together() {
    paused(async {
        let stuck = async || pending::<io::Result<()>>().await;
        let (start, limit) = (tokio::time::Instant::now(), Duration::from_secs(5));
        let health = Health::new().check_timeout(limit).check("a", stuck).check("b", stuck);
        assert_eq!(probe(&service(&health), "/ready").await.0, Status::SERVICE_UNAVAILABLE);
        assert_eq!(start.elapsed(), limit);
    });
}

/// A check that counts its runs, each of which takes a while.
fn counting(runs: &Arc<AtomicUsize>, health: Health) -> Health {
    let runs = runs.clone();
    health.check("database", async move || {
        runs.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(100)).await;
        io::Result::Ok(())
    })
}

#[test]
fn a_flood_of_probes_runs_a_check_once_in_a_while() {
    paused(async {
        let runs = Arc::<AtomicUsize>::default();
        let health = counting(&runs, Health::new().keep_outcome_for(Duration::from_secs(10)));
        let service = service(&health);
        let flood = async || {
            let probes = Vec::from_iter((0..1000).map(|_| Box::pin(probe(&service, "/ready"))));
            for answered in futures_util::future::join_all(probes).await {
                assert_eq!(answered.0, Status::OK);
            }
        };
        flood().await;
        flood().await;
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        sleep(Duration::from_secs(10)).await;
        flood().await;
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    });
}

/// A probe that gives up while its check runs, and one that waits. Returns whether that one is good, and how often the
/// check has run.
async fn abandoned() -> (Status, usize) {
    let runs = Arc::<AtomicUsize>::default();
    let service = service(&counting(&runs, Health::new()));
    let mut first = Box::pin(probe(&service, "/ready"));
    let second = probe(&service, "/ready");
    assert!(poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx))).await.is_pending());
    let (_, answered) = tokio::join!(async { drop(first) }, second);
    (answered.0, runs.load(Ordering::Relaxed))
}

/// On a core, and in other runtimes with tasks that need not be `Send`, the check goes on. Elsewhere another probe runs it
/// anew.
#[test]
fn a_check_outlives_its_probe() {
    assert_eq!(corehttp::block_on(abandoned()).unwrap(), (Status::OK, 1));
    assert_eq!(paused(abandoned()), (Status::OK, 2));
}

/// A check would never end if it began anew with each of them.
#[test]
fn probes_that_are_less_patient_than_a_check_see_its_outcome() {
    let runs = Arc::<AtomicUsize>::default();
    let changes = Arc::<Mutex<Vec<String>>>::default();
    let (counted, told) = (runs.clone(), changes.clone());
    let health = Health::new()
        .check_timeout(LONG)
        .keep_outcome_for(LONG)
        .check("database", async move || {
            counted.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(150)).await;
            Err("no route")
        })
        .on_change(move |name, error| {
            let error = error.map_or_else(|| "works".to_owned(), ToString::to_string);
            told.lock().unwrap().push(format!("{name}: {error}"));
        });
    let served = Served::with(|server| server.half_close(false), health.ready());
    let answers = (0..100).map(|_| {
        let mut peer = served.connect();
        peer.stream.set_read_timeout(Some(Duration::from_millis(40))).unwrap();
        peer.send(get("/"));
        let mut answer = [0; 12];
        peer.stream.read_exact(&mut answer).is_ok().then(|| status(&String::from_utf8_lossy(&answer)))
    });
    assert_eq!(answers.flatten().next(), Some(503));
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(*changes.lock().unwrap(), ["database: no route"]);
}

#[test]
fn a_change_is_told_once_with_its_error() {
    paused(async {
        let (works, told) = (Arc::new(AtomicBool::new(true)), Arc::<Mutex<Vec<String>>>::default());
        let (seen, told_to) = (works.clone(), told.clone());
        let health = Health::new()
            .keep_outcome_for(Duration::ZERO)
            .check("database", async move || match seen.load(Ordering::Relaxed) {
                true => Ok(()),
                false => Err("no route"),
            })
            .on_change(move |name, error| {
                let error = error.map_or_else(|| "works".to_owned(), ToString::to_string);
                told_to.lock().unwrap().push(format!("{name}: {error}"));
            });
        let service = service(&health);
        for is_good in [true, false, false, true, true] {
            works.store(is_good, Ordering::Relaxed);
            probe(&service, "/ready").await;
        }
        assert_eq!(*told.lock().unwrap(), ["database: no route", "database: works"]);
    });
}

#[test]
fn a_check_that_panics_has_failed() {
    paused(async {
        let (runs, told) = (Arc::new(AtomicUsize::new(0)), Arc::<Mutex<Vec<String>>>::default());
        let (counted, told_to) = (runs.clone(), told.clone());
        let health = Health::new()
            .check("cache", async || Ok::<(), io::Error>(()))
            .check("database", async move || {
                sleep(Duration::from_millis(1)).await;
                match counted.fetch_add(1, Ordering::Relaxed) {
                    0 => panic!("an index of the driver"),
                    _ => Ok::<(), io::Error>(()),
                }
            })
            .on_change(move |name, error| told_to.lock().unwrap().push(format!("{name}: {error:?}")));
        let service = service(&health);
        for _ in 0..3 {
            let response = service.respond(Request::get("/ready").unwrap()).await;
            assert_eq!(response.status, Status::SERVICE_UNAVAILABLE);
            assert_eq!(response.text().unwrap(), "not ready\ncache: ok\ndatabase: failed\n");
        }
        assert_eq!(runs.load(Ordering::Relaxed), 1, "the outcome is kept");
        assert_eq!(told.lock().unwrap().len(), 1);
    });
}

fn serve(delay: Duration) -> Served {
    let health = Health::new();
    let hello = |ctx: &mut Context| ctx.response.set_text("hi");
    let router = routes! { GET "/ready" => health.ready(), GET "/" => hello };
    Served::with(|server| server.cores(2).stop_delay(delay), router.into_handler())
}

#[test]
fn a_stop_shows_before_the_listener_closes() {
    let served = serve(LONG);
    let mut idle = served.connect();
    idle.send(get("/ready"));
    assert_eq!(status(&idle.receive()), 200);
    served.running.stop(LONG);
    assert!(served.running.is_stop_ordered());
    eventually("all cores refuse", || (0..20).all(|_| status(&served.ask(get("/ready"))) == 503));
    // Requests are still answered, on new connections and on old ones, and each connection is told to close.
    for mut peer in [served.connect(), idle] {
        peer.send(get("/") + &get("/"));
        let received = responses(&peer.receive_all());
        assert!(matches!(&received[..], [only] if only.status == 200 && only.is_last()), "{received:?}");
    }
    // A later stop ends the delay with the grace.
    served.running.stop(Duration::ZERO);
    served.running.wait().unwrap();
    assert!(TcpStream::connect(served.addr()).is_err());
}

#[test]
fn the_delay_ends_and_the_stop_goes_on() {
    let (served, start) = (serve(Duration::from_millis(100)), Instant::now());
    let mut idle = served.connect();
    idle.send(get("/"));
    idle.receive();
    served.running.stop(LONG);
    served.running.wait().unwrap();
    assert!(start.elapsed() >= Duration::from_millis(100) && start.elapsed() < LONG / 2);
    assert_eq!((idle.receive_all(), served.running.counts().total.aborted), (String::new(), 0));
}

#[test]
fn a_stop_without_grace_has_no_delay() {
    let (served, start) = (serve(LONG), Instant::now());
    served.running.stop(Duration::ZERO);
    served.running.wait().unwrap();
    assert!(start.elapsed() < LONG / 2);
}
