//! Which requests a policy for retries sends again, when, and how all of it shows.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{
    Balancer, ClientCause, ClientPhase, HostEvents, Retry, RetryBudget, RetryCause, RetryReport, RetryStop,
};
use corehttp::net::Dialer;
use corehttp::{Body, Client, ClientBuilder, ClientError, Method, Request, Response, Status};
use tokio::io::DuplexStream;
use tokio::time::Instant;

use crate::support::{OK, Stage, each, file_of, get, post};

const SECOND: Duration = Duration::from_secs(1);
const BUSY: &str = "HTTP/1.1 503 x\r\nretry-after: 0\r\ncontent-length: 4\r\n\r\nbusy";
const LIMITED: &str = "HTTP/1.1 429 x\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";
const BAD_GATEWAY: &str = "HTTP/1.1 502 x\r\ncontent-length: 0\r\n\r\n";
const LATE_GATEWAY: &str = "HTTP/1.1 504 x\r\ncontent-length: 0\r\n\r\n";
const BROKEN: &str = "HTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n";
const LATE: &str = "HTTP/1.1 408 x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
/// The server closes the connection instead of a response.
const CLOSES: &str = "";

/// A server that gives these responses in turn, and then the last one for ever.
fn answering(replies: &[&str]) -> Stage {
    let replies = Vec::from_iter(replies.iter().map(|reply| reply.to_string()));
    let asked = AtomicUsize::new(0);
    Stage::answering(move |_| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        replies[number.min(replies.len() - 1)].clone()
    })
}

/// A server that cannot be connected to for so many times.
#[derive(Clone)]
struct Unreachable {
    stage: Stage,
    left: Arc<AtomicUsize>,
    dials: Arc<AtomicUsize>,
}

impl Unreachable {
    fn new(stage: Stage, times: usize) -> Unreachable {
        Unreachable { stage, left: Arc::new(AtomicUsize::new(times)), dials: Arc::default() }
    }

    fn builder(&self) -> ClientBuilder {
        Client::builder().dialer(self.clone())
    }

    fn dials(&self) -> usize {
        self.dials.load(Ordering::Relaxed)
    }
}

impl Dialer for Unreachable {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        self.dials.fetch_add(1, Ordering::Relaxed);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(_) => Err(io::ErrorKind::ConnectionRefused.into()),
            Err(_) => self.stage.dial(host, port).await,
        }
    }
}

/// A policy that waits for nothing but a `retry-after`.
fn at_once() -> Retry {
    Retry::new().backoff(Duration::ZERO, Duration::ZERO)
}

fn with_key(mut request: Request) -> Request {
    request.headers.set("idempotency-key", "\"1\"").unwrap();
    request
}

/// It is safe and has content (RFC 10008 §2).
fn query() -> Request {
    let mut request = Request::new(Method::Query, "http://a/").unwrap();
    request.body.set_bytes("milk");
    request
}

fn with_body(fill: impl FnOnce(&mut Body)) -> Request {
    let mut request = Request::put("http://a/").unwrap();
    fill(&mut request.body);
    request
}

/// The status, or the phase that failed; how often the server was asked; and why not more often.
type End = (Result<u16, ClientPhase>, usize, Option<RetryStop>);

async fn end(client: &Client, stage: &Stage, request: &Request) -> End {
    let mut response = Response::new();
    let sent = client.send(request, &mut response).await;
    let asked = stage.received().len();
    let retries = asked - 1;
    match sent {
        Ok(()) => {
            assert_eq!(response.retries().len(), retries);
            (Ok(response.status.as_u16()), asked, response.retry_stop())
        }
        Err(error) => {
            assert_eq!(error.retries().len(), retries);
            (Err(error.phase()), asked, error.retry_stop())
        }
    }
}

#[track_caller]
fn check(retry: Retry, request: &Request, replies: &[&str], expected: End) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    let (stage, request) = (answering(replies), request.clone());
    async move {
        let client = stage.builder().retry(retry).build();
        assert_eq!(end(&client, &stage, &request).await, expected, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_retried_if_that_may_help_and_does_no_harm_rfc9110_9_2_2() {
    use RetryStop::{AttemptsMax, NotIdempotent};
    let key = with_key(post());
    for status in [BUSY, LIMITED, BAD_GATEWAY, LATE_GATEWAY] {
        let code: u16 = status[9..12].parse().unwrap();
        check(at_once(), &get(), &[status, OK], (Ok(200), 2, None)).await;
        check(at_once(), &get(), &[status, status, OK], (Ok(200), 3, None)).await;
        check(at_once(), &get(), &[status], (Ok(code), 3, Some(AttemptsMax))).await;
        check(at_once(), &post(), &[status, OK], (Ok(code), 1, Some(NotIdempotent))).await;
        check(at_once(), &key, &[status, OK], (Ok(200), 2, None)).await;
        check(at_once(), &query(), &[status, OK], (Ok(200), 2, None)).await;
        check(at_once().assume_idempotent(), &post(), &[status, OK], (Ok(200), 2, None)).await;
        for (most, asked) in [(0, 1), (1, 1), (2, 2), (5, 5)] {
            let retry = at_once().attempts_max(most);
            check(retry, &get(), &[status], (Ok(code), asked, Some(AttemptsMax))).await;
        }
    }
    check(at_once(), &get(), &[OK], (Ok(200), 1, None)).await;
    check(at_once(), &get(), &[BROKEN, OK], (Ok(500), 1, None)).await;
    check(at_once(), &get(), &[BUSY, BROKEN, OK], (Ok(500), 2, None)).await;
    check(at_once(), &get(), &["HTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n", OK], (Ok(503), 1, None)).await;
    let any = at_once().retry_if(|outcome| outcome.is_ok_and(|response| response.status.is_server_error()));
    check(any.clone(), &get(), &[BROKEN, OK], (Ok(200), 2, None)).await;
    check(any.clone(), &post(), &[BROKEN, OK], (Ok(500), 1, Some(NotIdempotent))).await;
    check(any, &get(), &[LIMITED, OK], (Ok(429), 1, None)).await;
}

#[tokio::test(start_paused = true)]
async fn a_408_is_retried_on_a_connection_that_was_used_before_rfc9110_15_5_9() {
    check(at_once(), &get(), &[LATE, OK], (Ok(408), 1, None)).await;
    for (request, expected) in
        [(get(), (Ok(200), 2, None)), (post(), (Ok(408), 1, Some(RetryStop::NotIdempotent)))]
    {
        let stage = answering(&[OK, LATE, OK]);
        let client = stage.builder().retry(at_once()).build();
        assert_eq!(end(&client, &stage, &get()).await, (Ok(200), 1, None));
        assert_eq!(end(&client, &stage, &request).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_may_have_been_acted_on_is_not_sent_again() {
    use ClientPhase::Wait;
    check(at_once(), &get(), &[CLOSES, OK], (Err(Wait), 1, None)).await;
    check(at_once(), &post(), &[CLOSES, OK], (Err(Wait), 1, None)).await;
    let closed = at_once()
        .retry_if(|outcome| outcome.is_err_and(|error| matches!(error.cause(), ClientCause::Closed)));
    check(closed.clone(), &get(), &[CLOSES, OK], (Ok(200), 2, None)).await;
    check(closed.clone(), &get(), &[CLOSES], (Err(Wait), 3, Some(RetryStop::AttemptsMax))).await;
    check(closed.clone(), &post(), &[CLOSES, OK], (Err(Wait), 1, Some(RetryStop::NotIdempotent))).await;
    check(closed.clone(), &with_key(post()), &[CLOSES, OK], (Ok(200), 2, None)).await;
    check(closed.assume_idempotent(), &post(), &[CLOSES, OK], (Ok(200), 2, None)).await;
}

#[tokio::test(start_paused = true)]
async fn only_a_body_that_can_be_sent_again_is() {
    let file = file_of("0123milk89");
    let source = || &b"milk"[..];
    for (name, request, is_repeated) in [
        ("bytes", with_body(|body| body.set_bytes("milk")), true),
        ("shared", with_body(|body| body.set_shared_bytes("milk")), true),
        ("file", with_body(|body| body.set_file(file, 4..8)), true),
        ("made", with_body(|body| body.set_stream_with(source, Some(4))), true),
        ("made in chunks", with_body(|body| body.set_stream_with(source, None)), true),
        ("stream", with_body(|body| body.set_stream(&b"milk"[..], Some(4))), false),
    ] {
        let stage = answering(&[BUSY, BUSY, OK]);
        let client = stage.builder().retry(at_once()).build();
        let mut response = Response::new();
        client.send(&request, &mut response).await.unwrap();
        let received = stage.received();
        assert!(received.iter().all(|request| request.contains("milk")), "{name}: {received:?}");
        let expected = match is_repeated {
            true => (3, Status::OK, "ok", None),
            false => (1, Status::SERVICE_UNAVAILABLE, "busy", Some(RetryStop::BodyConsumed)),
        };
        let text = response.text().unwrap();
        assert_eq!((received.len(), response.status, text, response.retry_stop()), expected, "{name}");
    }
    let request = with_body(|body| body.set_stream(&b"milk"[..], Some(4)));
    let retry = at_once().retry_if(|_| true);
    let client = answering(&[CLOSES]).builder().retry(retry).build();
    let error = client.send(&request, &mut Response::new()).await.unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "http://a/: waiting for the response of a:80 (no retry: its body was a stream, which can be sent only once): \
         the server closed the connection without a response"
    );
}

/// A stream that is not begun can still be sent.
#[tokio::test(start_paused = true)]
async fn a_host_that_cannot_be_reached_is_tried_again_whatever_the_method_is() {
    let streamed = with_body(|body| body.set_stream(&b"milk"[..], Some(4)));
    for request in [get(), post(), streamed] {
        let host = Unreachable::new(Stage::always(OK), 2);
        let client = host.builder().retry(Retry::new()).build();
        let mut response = Response::new();
        client.send(&request, &mut response).await.unwrap();
        let causes = Vec::from_iter(response.retries().iter().map(|retry| (retry.attempt, retry.cause)));
        let refused = RetryCause::Failed(ClientPhase::Connect, io::ErrorKind::ConnectionRefused);
        assert_eq!(causes, [(1, refused), (2, refused)]);
        assert_eq!((host.dials(), client.counts().total.retries_by_policy), (3, 2));
    }
    let host = Unreachable::new(Stage::always(OK), 3);
    let client = host.builder().retry(Retry::new()).build();
    let error = client.send(&post(), &mut Response::new()).await.unwrap_err();
    assert!(!error.is_sent());
    assert_eq!((error.retries().len(), error.retry_stop()), (2, Some(RetryStop::AttemptsMax)));
    assert_eq!(format!("{error:#}"), "http://a/: connecting to a:80 in attempt 3 failed: connection refused");
    assert_eq!(client.with_retry(None).send(&post(), &mut Response::new()).await.ok(), Some(()));
}

/// How long one retry waits for this `retry-after`, and how the request ends.
async fn waited(fields: &str, total: Option<Duration>) -> (u16, Duration, Option<RetryStop>) {
    let busy = format!("HTTP/1.1 503 x\r\n{fields}content-length: 0\r\n\r\n");
    let client = answering(&[&busy, OK]).builder().retry(at_once()).timeout(total).build();
    let (mut response, start) = (Response::new(), Instant::now());
    client.send(&get(), &mut response).await.unwrap();
    if let [retry] = response.retries() {
        assert!(start.elapsed().saturating_sub(retry.wait) <= Duration::from_millis(3));
    }
    (response.status.as_u16(), start.elapsed(), response.retry_stop())
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for_within_a_bound_rfc9110_10_2_3() {
    const DATE: &str = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    for (fields, seconds) in [
        ("retry-after: 0\r\n", 0),
        ("retry-after: 3\r\n", 3),
        ("retry-after: 30\r\n", 30),
        ("date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:42 GMT\r\n", 5),
        // Dates that are over.
        ("date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:30 GMT\r\n", 0),
        ("retry-after: Thu, 01 Jan 1970 00:00:00 GMT\r\n", 0),
        ("retry-after: Sunday, 06-Nov-94 08:49:37 GMT\r\n", 0),
    ] {
        let (status, elapsed, stop) = waited(fields, None).await;
        assert_eq!((status, stop), (200, None), "{fields}");
        let late = elapsed.checked_sub(seconds * SECOND).unwrap_or(Duration::MAX);
        assert!(late <= Duration::from_millis(3), "{fields}: {elapsed:?}");
    }
    let far = format!("{DATE}retry-after: Fri, 31 Dec 9999 23:59:59 GMT\r\n");
    for long in [
        "retry-after: 31\r\n",
        "retry-after: 99999999999\r\n",
        &format!("retry-after: {}\r\n", "9".repeat(50)),
        &far,
    ] {
        assert_eq!(waited(long, None).await, (503, Duration::ZERO, Some(RetryStop::RetryAfter)), "{long}");
    }
    for bad in ["retry-after: -1\r\n", "retry-after: 1.5\r\n", "retry-after:\r\n", "retry-after: soon\r\n"] {
        assert_eq!(waited(bad, None).await, (503, Duration::ZERO, None), "{bad}");
    }
    // The time limit counts all attempts.
    assert_eq!(waited("retry-after: 3\r\n", Some(5 * SECOND)).await.0, 200);
    let late = waited("retry-after: 5\r\n", Some(5 * SECOND)).await;
    assert_eq!(late, (503, Duration::ZERO, Some(RetryStop::Deadline)));
}

#[tokio::test(start_paused = true)]
async fn waits_are_random_and_grow() {
    let mut waits = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..50 {
        let retry = Retry::new().attempts_max(4).backoff(SECOND, 3 * SECOND);
        let stage = answering(&[BAD_GATEWAY]);
        let client = stage.builder().retry(retry).retry_budget(None).build();
        let (mut response, start) = (Response::new(), Instant::now());
        client.send(&get(), &mut response).await.unwrap();
        let total: Duration = response.retries().iter().map(|retry| retry.wait).sum();
        assert!(start.elapsed().saturating_sub(total) <= Duration::from_millis(10));
        waits.iter_mut().zip(response.retries()).for_each(|(waits, retry)| waits.push(retry.wait));
    }
    for (waits, seconds) in waits.iter().zip([1, 2, 3]) {
        let bound = seconds * SECOND;
        assert!(waits.len() == 50 && waits.iter().all(|wait| *wait <= bound), "{waits:?}");
        let (low, high) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        assert!(*low < bound / 4 && *high > bound / 4 * 3, "{low:?} {high:?}");
    }
}

/// A host that is dead gets a tenth more than it was meant to, and ten seconds' worth of one per second.
#[tokio::test(start_paused = true)]
async fn a_dead_host_gets_little_more_than_its_load() {
    let host = Unreachable::new(Stage::always(OK), usize::MAX);
    let client = host.builder().retry(Retry::new().attempts_max(10)).build();
    let start = Instant::now();
    let mut refused = 0;
    for _ in 0..1000 {
        let error = client.send(&get(), &mut Response::new()).await.unwrap_err();
        refused += u64::from(error.retry_stop() == Some(RetryStop::Budget));
    }
    let floor = 10 + start.elapsed().as_secs() as usize;
    assert!((1100..=1100 + floor).contains(&host.dials()), "{} dials", host.dials());
    assert_eq!(client.counts().total.retries_refused, refused);
    // The budget is that of the client, of all its clones and handles, and of no other host.
    let budget = RetryBudget { percent: 0, per_second: 1 };
    let host = Unreachable::new(Stage::always(OK), usize::MAX);
    let client = host.builder().retry(at_once().attempts_max(100)).retry_budget(budget).build();
    client.send(&get(), &mut Response::new()).await.unwrap_err();
    assert_eq!(host.dials(), 11);
    let handle = client.host("http://a").unwrap();
    handle.send(&get(), &mut Response::new()).await.unwrap_err();
    client.clone().get("http://a/").await.unwrap_err();
    assert_eq!(host.dials(), 13);
    client.get("http://b/").await.unwrap_err();
    assert_eq!(host.dials(), 24);
    let unbounded = host.builder().retry(at_once().attempts_max(100)).retry_budget(None).build();
    unbounded.get("http://a/").await.unwrap_err();
    assert_eq!(host.dials(), 124);
}

/// How a request is made.
#[derive(Clone, Copy, Debug)]
enum Way {
    Sends,
    Builds,
    Streams,
    Opens,
    Asks,
    Upgrades,
}

/// Makes a request, and returns the status and how often it was sent again.
async fn ask(client: &Client, way: Way, request: &Request) -> Result<(u16, usize), ClientError> {
    let mut response = Response::new();
    match way {
        Way::Sends => client.send(request, &mut response).await?,
        Way::Builds => response = client.request(request.method(), "http://a/").await?,
        Way::Streams => drop(client.open_response(request, &mut response).await?),
        Way::Opens => drop(client.open_call(request).await?.finish(&mut response).await?),
        Way::Asks => client.host("http://a").unwrap().send(request, &mut response).await?,
        Way::Upgrades => {
            let mut request = request.clone();
            request.headers.set("upgrade", "echo").unwrap();
            drop(client.upgrade(&request, &mut response).await?);
        }
    }
    Ok((response.status.as_u16(), response.retries().len()))
}

#[tokio::test(start_paused = true)]
async fn requests_are_retried_however_they_are_made() {
    const SWITCHES: &str = "HTTP/1.1 101 x\r\nupgrade: echo\r\nconnection: upgrade\r\n\r\n";
    for way in [Way::Sends, Way::Builds, Way::Streams, Way::Opens, Way::Asks, Way::Upgrades] {
        let last = if matches!(way, Way::Upgrades) { SWITCHES } else { OK };
        let status = if matches!(way, Way::Upgrades) { 101 } else { 200 };
        let stage = answering(&[BUSY, BAD_GATEWAY, last]);
        let client = stage.builder().retry(at_once()).build();
        assert_eq!(ask(&client, way, &get()).await.unwrap(), (status, 2), "{way:?}");
        // The connection was used again, and nothing of the responses before is left.
        assert_eq!((stage.dialed().len(), stage.received().len()), (1, 3), "{way:?}");
        for method in [Method::Get, Method::Post] {
            let host = Unreachable::new(answering(&[last]), 2);
            let client = host.builder().retry(at_once()).build();
            let request = Request::new(method, "http://a/").unwrap();
            assert_eq!(ask(&client, way, &request).await.unwrap(), (status, 2), "{way:?} {method}");
        }
    }
    // The caller may have begun to write a body.
    let stage = answering(&[BUSY, OK]);
    let client = stage.builder().retry(at_once()).build();
    assert_eq!(ask(&client, Way::Opens, &post()).await.unwrap(), (503, 0));
}

#[tokio::test(start_paused = true)]
async fn each_request_of_a_chain_of_redirects_has_attempts_of_its_own() {
    const MOVED: &str = "HTTP/1.1 307 x\r\nlocation: http://b/\r\ncontent-length: 0\r\n\r\n";
    let stage = answering(&[BUSY, BUSY, MOVED, BUSY, BUSY, OK]);
    let client = stage.builder().retry(at_once()).build();
    let mut request = Request::put("http://a/").unwrap();
    request.body.set_stream_with(|| &b"milk"[..], Some(4));
    let mut response = Response::new();
    client.send(&request, &mut response).await.unwrap();
    assert_eq!((response.status, response.retries().len()), (Status::OK, 2));
    assert!(stage.received().iter().all(|request| request.ends_with("milk")));
}

#[tokio::test(start_paused = true)]
async fn each_retry_is_reported() {
    let reports = Arc::<Mutex<Vec<(String, RetryReport)>>>::default();
    let seen = reports.clone();
    let observe = move |host: &mut HostEvents| {
        let (seen, origin) = (seen.clone(), host.origin().to_owned());
        host.on_retry(move |report| seen.lock().unwrap().push((origin.clone(), *report)));
    };
    let stage = answering(&[BUSY, BAD_GATEWAY, OK]);
    let client = stage.builder().retry(at_once()).observe(observe).build();
    let response = client.get("http://a/").await.unwrap();
    let reports = reports.lock().unwrap().clone();
    let said = Vec::from_iter(reports.iter().map(|(origin, report)| format!("{origin}: {report}")));
    assert_eq!(
        said,
        [
            "http://a: attempt 1: the server responded 503 Service Unavailable; the next one after 0ns",
            "http://a: attempt 2: the server responded 502 Bad Gateway; the next one after 0ns",
        ]
    );
    assert_eq!(Vec::from_iter(reports.iter().map(|(_, report)| *report)), response.retries());
    let total = client.counts().total;
    assert_eq!((total.answered, total.retries_by_policy, total.retries, total.retries_refused), (3, 2, 0, 0));
    // A response that is used again shows nothing of them.
    let mut response = response;
    client.send(&get(), &mut response).await.unwrap();
    assert!(response.retries().is_empty() && response.retry_stop().is_none());
}

/// A caller that leaves while a request waits leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_holds_no_connection_and_can_be_dropped() {
    const LONG: &str = "HTTP/1.1 503 x\r\nretry-after: 20\r\ncontent-length: 0\r\n\r\n";
    let stage = answering(&[LONG, OK]);
    let client = stage.builder().retry(Retry::new()).build();
    let mut response = Response::new();
    let request = get();
    {
        let sent = client.send(&request, &mut response);
        assert!(tokio::time::timeout(SECOND, sent).await.is_err());
        assert_eq!((client.busy_connections(), client.idle_connections()), (0, 1));
    }
    client.send(&request, &mut response).await.unwrap();
    assert_eq!(stage.received().len(), 2);
}

/// Hosts of which those in `dead` cannot be connected to.
#[derive(Clone)]
struct Partly {
    stage: Stage,
    dead: &'static [&'static str],
    dialed: Arc<Mutex<Vec<String>>>,
}

impl Partly {
    fn new(stage: Stage, dead: &'static [&'static str]) -> Partly {
        Partly { stage, dead, dialed: Arc::default() }
    }

    /// How often this host was dialed.
    fn dials(&self, host: &str) -> usize {
        self.dialed.lock().unwrap().iter().filter(|dialed| *dialed == host).count()
    }
}

impl Dialer for Partly {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        self.dialed.lock().unwrap().push(host.to_owned());
        match self.dead.contains(&host) {
            true => Err(io::ErrorKind::ConnectionRefused.into()),
            false => self.stage.dial(host, port).await,
        }
    }
}

/// Makes a request of a balancer, and returns the status and how often it was sent again.
async fn ask_balancer(
    balancer: &Balancer,
    way: Way,
    mut request: Request,
) -> Result<(u16, usize), ClientError> {
    let mut response = Response::new();
    match way {
        Way::Sends | Way::Builds | Way::Asks => balancer.send(&request, &mut response).await?,
        Way::Streams => drop(balancer.open_response(&request, &mut response).await?),
        Way::Opens => drop(balancer.open_call(&request).await?.finish(&mut response).await?),
        Way::Upgrades => {
            request.headers.set("upgrade", "echo").unwrap();
            drop(balancer.upgrade(&request, &mut response).await?);
        }
    }
    Ok((response.status.as_u16(), response.retries().len()))
}

#[tokio::test(start_paused = true)]
async fn a_balancer_retries_on_another_host() {
    const LONG: &str = "HTTP/1.1 503 x\r\nretry-after: 20\r\ncontent-length: 0\r\n\r\n";
    const SWITCHES: &str = "HTTP/1.1 101 x\r\nupgrade: echo\r\nconnection: upgrade\r\n\r\n";
    let urls = ["http://a", "http://b"];
    for way in [Way::Sends, Way::Streams, Way::Opens, Way::Upgrades] {
        let good = if matches!(way, Way::Upgrades) { SWITCHES } else { OK };
        let status = good[9..12].parse().unwrap();
        // One host is dead.
        let hosts = Partly::new(Stage::always(good), &["a"]);
        let client = Client::builder().dialer(hosts.clone()).retry(at_once()).build();
        let balancer = client.balance(urls).unwrap().build();
        let asked = ask_balancer(&balancer, way, Request::post("/").unwrap()).await.unwrap();
        assert_eq!((asked, hosts.dials("a"), hosts.dials("b")), ((status, 1), 1, 1), "{way:?}");
        let counts = Vec::from_iter(
            balancer.counts().into_iter().map(|host| (host.served, host.failed, host.pending)),
        );
        assert_eq!(counts, [(0, 1, 0), (1, 0, 0)], "{way:?}");
        let counts = client.counts();
        let retries = urls.map(|url| counts.hosts[url].retries_by_policy);
        assert_eq!(retries, [1, 0], "{way:?}");
        // One host is overloaded: the other one need not wait.
        let stage = Stage::answering(move |request| match request.contains("host: a\r\n") {
            true => LONG.into(),
            false => good.into(),
        });
        let client = stage.builder().retry(at_once()).build();
        let start = Instant::now();
        for (urls, seconds) in [(&urls[..], 0), (&urls[..1], 20)] {
            let balancer = client.balance(urls).unwrap().build();
            let asked = ask_balancer(&balancer, way, Request::get("/").unwrap()).await;
            match seconds {
                0 => {
                    assert_eq!(asked.unwrap(), (status, 1), "{way:?}");
                    let counts = balancer.counts();
                    let counts = counts.iter().map(|host| (host.served, host.failed, host.pending));
                    assert_eq!(Vec::from_iter(counts), [(0, 1, 0), (1, 0, 0)], "{way:?}");
                }
                _ if matches!(way, Way::Upgrades) => assert_eq!(asked.unwrap_err().retries().len(), 2),
                _ => assert_eq!(asked.unwrap(), (503, 2), "{way:?}"),
            }
            let late = start.elapsed().checked_sub(2 * seconds * SECOND);
            assert!(
                late.is_some_and(|late| late <= Duration::from_millis(10)),
                "{way:?}: {:?}",
                start.elapsed()
            );
        }
        let post =
            ask_balancer(&client.balance(urls).unwrap().build(), way, Request::post("/").unwrap()).await;
        assert_eq!(post.ok().map(|(_, retries)| retries).unwrap_or_default(), 0, "{way:?}");
    }
    // All are dead.
    let hosts = Partly::new(Stage::always(OK), &["a", "b"]);
    let client = Client::builder().dialer(hosts.clone()).retry(at_once()).build();
    let balancer = client.balance(urls).unwrap().build();
    let error = ask_balancer(&balancer, Way::Sends, Request::get("/").unwrap()).await.unwrap_err();
    assert_eq!((error.retries().len(), error.retry_stop()), (2, Some(RetryStop::AttemptsMax)));
    assert_eq!(hosts.dials("a") + hosts.dials("b"), 3);
    // A policy of its own, and none.
    let none = client.balance(urls).unwrap().retry(None).build();
    assert!(
        ask_balancer(&none, Way::Sends, Request::get("/").unwrap()).await.unwrap_err().retries().is_empty()
    );
}

/// A drained host is no other one: the only host with a weight may ask for patience.
#[tokio::test(start_paused = true)]
async fn a_retry_after_counts_beside_a_drained_host_rfc9110_10_2_3() {
    for (asked, expected) in [(100, (503, 0)), (20, (503, 2))] {
        let busy = format!("HTTP/1.1 503 x\r\nretry-after: {asked}\r\ncontent-length: 0\r\n\r\n");
        let client = Stage::always(busy).builder().retry(at_once()).build();
        let balancer = client.balance(["http://a", "http://b"]).unwrap().build();
        assert!(balancer.set_weight("http://b", 0));
        let start = Instant::now();
        let ended = ask_balancer(&balancer, Way::Sends, Request::get("/").unwrap()).await.unwrap();
        assert_eq!((ended, start.elapsed().as_secs()), (expected, expected.1 as u64 * asked), "{asked}");
    }
}

/// Each host of a balancer gets little more than its share, however many fail.
#[tokio::test(start_paused = true)]
async fn the_dead_hosts_of_a_balancer_get_little_more_than_their_load() {
    let budget = RetryBudget { percent: 10, per_second: 0 };
    let hosts = Partly::new(Stage::always(OK), &["a", "b", "c"]);
    let client =
        Client::builder().dialer(hosts.clone()).retry(at_once().attempts_max(9)).retry_budget(budget).build();
    let balancer = client.balance(["http://a", "http://b", "http://c"]).unwrap().penalty_max(0).build();
    for _ in 0..900 {
        balancer.send(&Request::get("/").unwrap(), &mut Response::new()).await.unwrap_err();
    }
    let dials = ["a", "b", "c"].map(|host| hosts.dials(host));
    assert!(dials.iter().sum::<usize>() <= 990, "{dials:?}");
}

#[tokio::test(start_paused = true)]
async fn the_checks_of_a_balancer_are_not_retried() {
    let stage = Stage::answering(|request| match request.starts_with("GET /health") {
        true => BUSY.into(),
        false => OK.into(),
    });
    let client = stage.builder().retry(Retry::new()).build();
    let balancer = client.balance(["http://a"]).unwrap().health_check(each("/health", SECOND)).build();
    balancer.send(&Request::get("/").unwrap(), &mut Response::new()).await.unwrap();
    tokio::time::sleep(5 * SECOND + SECOND / 2).await;
    assert_eq!(stage.received().len(), 1 + 6);
}

/// The time limit of the client is that of all attempts together.
#[tokio::test(start_paused = true)]
async fn the_attempts_of_a_balancer_have_one_deadline() {
    let stage = Stage::new(|mut peer, _| async move {
        peer.request().await?;
        tokio::time::sleep(2 * SECOND).await;
        peer.send(BAD_GATEWAY).await
    });
    let client = stage.builder().retry(at_once().attempts_max(9)).timeout(5 * SECOND).build();
    let balancer = client.balance(["http://a", "http://b"]).unwrap().build();
    let start = Instant::now();
    let error = ask_balancer(&balancer, Way::Sends, Request::get("/").unwrap()).await.unwrap_err();
    assert!(error.is_timeout() && error.retries().len() == 2, "{error}");
    assert!(start.elapsed() <= 5 * SECOND + Duration::from_millis(3), "{:?}", start.elapsed());
}

/// Without a policy, too.
#[tokio::test(start_paused = true)]
async fn files_and_made_streams_are_sent_again_as_bytes_are_rfc9110_9_2_2() {
    const MOVED: &str = "HTTP/1.1 308 x\r\nlocation: http://b/\r\ncontent-length: 0\r\n\r\n";
    let file = file_of("0123milk89");
    type Fill = Box<dyn Fn(&mut Body)>;
    let rows: [(&str, Fill, bool); 4] = [
        ("bytes", Box::new(|body| body.set_bytes("milk")), true),
        ("file", Box::new(move |body| body.set_file(file.clone(), 4..8)), true),
        ("made", Box::new(|body| body.set_stream_with(|| &b"milk"[..], None)), true),
        ("stream", Box::new(|body| body.set_stream(&b"milk"[..], None)), false),
    ];
    for (name, fill, is_repeated) in rows {
        // The connection of the first request is closed when the second one comes.
        for replies in [&[OK, CLOSES, OK][..], &[OK, MOVED, OK]] {
            let stage = answering(replies);
            let client = stage.client();
            client.send(&get(), &mut Response::new()).await.unwrap();
            let mut response = Response::new();
            let sent = client.send(&with_body(&fill), &mut response).await;
            assert_eq!(sent.is_ok(), is_repeated, "{name}: {sent:?}");
            let received = stage.received();
            assert!(received[1..].iter().all(|request| request.contains("milk")), "{name}: {received:?}");
            assert_eq!(received.len(), if is_repeated { 3 } else { 2 }, "{name}");
        }
    }
}
