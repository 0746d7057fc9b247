//! Rates that a store counts: under which keys, and what becomes of requests when it fails.

use std::future::pending;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::middleware::{OnStoreFailure, RateDecision, RateQuota, RateStore, SharedRateLimit, wrap};
use corehttp::server::ErrorCause;
use corehttp::{Context, Error, Request, Response, Result, Server, Status};
use tokio::time::Instant;

use crate::support::{ErrorReports, Served, paused, status};

const MINUTE: Duration = Duration::from_secs(60);

/// A store that decides as its function does, and keeps the keys.
struct Store<F> {
    decide: F,
    keys: Arc<Mutex<Vec<String>>>,
}

impl<F: AsyncFn(&RateQuota) -> Result<RateDecision> + 'static> RateStore for Store<F> {
    async fn count(&self, key: &str, quota: &RateQuota) -> Result<RateDecision> {
        self.keys.lock().unwrap().push(key.to_owned());
        (self.decide)(quota).await
    }
}

fn store<F: AsyncFn(&RateQuota) -> Result<RateDecision> + 'static>(decide: F) -> Store<F> {
    Store { decide, keys: Arc::default() }
}

async fn allow(quota: &RateQuota) -> Result<RateDecision> {
    Ok(RateDecision::Allowed { remaining: quota.burst - 1, reset: quota.share() })
}

async fn refuse(quota: &RateQuota) -> Result<RateDecision> {
    Ok(RateDecision::Refused { retry_after: quota.share(), reset: quota.interval })
}

fn hello(ctx: &mut Context) {
    ctx.response.set_text("hello");
}

fn told(response: &Response) -> [Option<&str>; 3] {
    ["ratelimit-policy", "ratelimit", "retry-after"].map(|name| response.headers.get(name))
}

#[test]
fn the_store_decides_and_clients_are_told() {
    paused(async {
        let limit = |store| SharedRateLimit::new("a", store, 30, MINUTE);
        let allowed = Server::new().service(wrap(limit(store(allow)).burst(5).told(), hello));
        let response = allowed.respond(Request::get("/").unwrap()).await;
        assert_eq!(response.text(), Ok("hello"));
        assert_eq!(told(&response), [Some("\"a\";q=30;w=60"), Some("\"a\";r=4;t=2"), None]);
    });
    paused(async {
        let limit = SharedRateLimit::new("a", store(refuse), 30, MINUTE);
        let [quiet, open] =
            [limit.clone(), limit.told()].map(|limit| Server::new().service(wrap(limit, hello)));
        let response = open.respond(Request::get("/").unwrap()).await;
        assert_eq!(response.status, Status::TOO_MANY_REQUESTS);
        assert_eq!(told(&response), [Some("\"a\";q=30;w=60"), Some("\"a\";r=0;t=60"), Some("2")]);
        let response = quiet.respond(Request::get("/").unwrap()).await;
        assert_eq!(told(&response), [None, None, Some("2")]);
    });
}

#[test]
fn a_refused_request_has_its_body_not_received() {
    for expect in ["", "expect: 100-continue\r\n"] {
        let reports = ErrorReports::default();
        let limit = SharedRateLimit::new("a", store(refuse), 1, MINUTE);
        let served = Served::with(|server| reports.attach(server), wrap(limit, hello));
        let mut peer = served.connect();
        peer.send(format!("POST / HTTP/1.1\r\nhost: a\r\n{expect}content-length: 5000000\r\n\r\n"));
        let received = peer.receive();
        assert!(status(&received) == 429 && received.contains("retry-after: 60\r\n"), "{received}");
        assert_eq!(reports.take(), [], "a refusal is a response like any other");
        let refusals = served.running.counts().total.refusals().find(|(guard, _)| *guard == "rate_limit");
        assert_eq!(refusals, Some(("rate_limit", 1)));
    }
    let echo = |ctx: &mut Context| std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
    let served = Served::new(wrap(SharedRateLimit::new("a", store(allow), 1, MINUTE), echo));
    let received = served.ask("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody");
    assert!(received.ends_with("\r\n\r\nbody"), "{received}");
}

/// A request from `ip` with these values of `x-user` is counted under `expected`.
#[track_caller]
fn check_key(ip: &str, user: Option<&str>, expected: &str) {
    let store = store(allow);
    let keys = store.keys.clone();
    let limit = SharedRateLimit::new("sign-in", store, 1, MINUTE);
    let limit = limit.by(|ctx| ctx.request.headers.get("x-user").map(str::to_owned));
    let service = Server::new().service(wrap(limit, hello));
    let mut request = Request::get("/").unwrap();
    if let Some(user) = user {
        request.headers.set("x-user", user).unwrap();
    }
    let peer = match ip {
        "" => Default::default(),
        ip => std::net::SocketAddr::new(ip.parse::<IpAddr>().unwrap(), 4711).into(),
    };
    assert_eq!(paused(service.respond_from(peer, request)).status, Status::OK);
    assert_eq!(*keys.lock().unwrap(), [expected]);
}

#[test]
fn keys_of_ones_own_are_none_of_clients() {
    check_key("192.0.2.1", None, "sign-in:ip:192.0.2.1");
    check_key("::ffff:192.0.2.1", None, "sign-in:ip:192.0.2.1");
    check_key("2001:db8:1:2:3:4:5:6", None, "sign-in:ip:2001:db8:1:2::");
    check_key("2001:db8:1:2::", None, "sign-in:ip:2001:db8:1:2::");
    check_key("192.0.2.1", Some("ada"), "sign-in:key:ada");
    check_key("192.0.2.1", Some("ip:192.0.2.2"), "sign-in:key:ip:192.0.2.2");
    check_key("192.0.2.1", Some(""), "sign-in:key:");
    check_key("192.0.2.1", Some(&"x".repeat(200)), &format!("sign-in:key:{}", "x".repeat(200)));
    check_key("192.0.2.1", Some(&"x".repeat(201)), "sign-in:ip:192.0.2.1");
    check_key("192.0.2.1", Some("a\tb"), "sign-in:ip:192.0.2.1");
}

#[test]
fn every_setting_is_a_quota() {
    for (requests, interval, expected) in [
        (0, MINUTE, (1, MINUTE)),
        (30, MINUTE, (30, MINUTE)),
        (5, Duration::ZERO, (5, Duration::from_micros(5))),
        (u32::MAX, Duration::MAX, (u32::MAX, 365 * 24 * 60 * MINUTE)),
    ] {
        let seen = Arc::new(Mutex::new(None));
        let kept = seen.clone();
        let keep = async move |quota: &RateQuota| {
            *kept.lock().unwrap() = Some(*quota);
            allow(quota).await
        };
        let limit = SharedRateLimit::new("a", store(keep), requests, interval).burst(0);
        let service = Server::new().service(wrap(limit, hello));
        paused(service.respond(Request::get("/").unwrap()));
        let quota = seen.lock().unwrap().unwrap();
        assert_eq!((quota.requests, quota.interval, quota.burst), (expected.0, expected.1, 1));
        assert!(quota.share() >= Duration::from_micros(1));
    }
}

/// Requests that `decide` fails to decide about take as long as `time_max` at most, and are admitted or refused. There is one
/// report a second.
#[track_caller]
fn check_failure(
    decide: impl AsyncFn(&RateQuota) -> Result<RateDecision> + Copy + 'static,
    timeout: Option<Duration>,
    took: Duration,
    error: &str,
) {
    for (on_failure, expected) in [(OnStoreFailure::Admit, 200), (OnStoreFailure::Refuse, 503)] {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let kept = reports.clone();
        let server = Server::new().on_error(move |report| {
            assert!(report.is_fault() && matches!(report.cause, ErrorCause::Rates(_)));
            assert!(report.request.is_none() && report.status.is_none());
            kept.lock().unwrap().push(report.to_string());
        });
        let limit = SharedRateLimit::new("a", store(decide), 30, MINUTE).told().on_store_failure(on_failure);
        let limit = timeout.into_iter().fold(limit, SharedRateLimit::timeout);
        let service = server.service(wrap(limit, hello));
        paused(async {
            for _ in 0..4 {
                let asked = Instant::now();
                let response = service.respond(Request::get("/").unwrap()).await;
                let wait = (expected == 503).then_some("1");
                assert_eq!(told(&response), [None, None, wait]);
                assert_eq!(response.status.as_u16(), expected);
                assert_eq!(asked.elapsed(), took);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            service.respond(Request::get("/").unwrap()).await;
        });
        let first = format!("rates are not counted: their store failed: {error}");
        let second = format!("{first}; 3 more suppressed");
        assert_eq!(*reports.lock().unwrap(), [first, second]);
    }
}

#[test]
fn a_store_that_fails_or_stalls_is_reported_and_fails_open_or_closed() {
    let fails = async |_: &RateQuota| Err(Error::other("connection refused"));
    check_failure(fails, None, Duration::ZERO, "connection refused");
    let status = async |_: &RateQuota| Err(Status::FORBIDDEN.into());
    check_failure(status, None, Duration::ZERO, "403 Forbidden");
    let late = "it took longer than its time limit";
    let stalls = async |_: &RateQuota| pending().await;
    check_failure(stalls, None, Duration::from_millis(100), late);
    check_failure(stalls, Some(Duration::from_millis(7)), Duration::from_millis(7), late);
}
