//! Middleware of a client: all ways to send pass through it, it may change and repeat requests, and its faults are named.

use std::future::{IntoFuture, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use corehttp::client::{
    Attempt, ClientCause, ClientMiddleware, ClientNext, ClientPhase, Retry, RetryBudget, RetryStop,
};
use corehttp::{Body, ClientError, Request, Response, Status};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::{OK, Stage, file_of, post};

const SECOND: Duration = Duration::from_secs(1);
const BUSY: &str = "HTTP/1.1 503 x\r\nretry-after: 0\r\ncontent-length: 4\r\n\r\nbusy";
const DENIED: &str = "HTTP/1.1 401 x\r\ncontent-length: 2\r\n\r\nno";
const SWITCHED: &str = "HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";

/// A reply that never comes.
const SILENT: &str = "silent";

/// Notes what it sees of each attempt, and marks the request.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl ClientMiddleware for Notes {
    async fn call(&self, attempt: &mut Attempt<'_>, next: ClientNext<'_>) -> Result<(), ClientError> {
        let (number, origin) = (attempt.number(), attempt.origin().to_owned());
        let elsewhere = if attempt.is_cross_origin() { " elsewhere" } else { "" };
        assert!(attempt.response().is_none());
        attempt.request.headers.set("x-number", number)?;
        let sent = next.send(attempt).await;
        let status = attempt.response().map(|response| response.status.as_u16());
        let end = match &sent {
            Ok(()) => format!("{status:?}"),
            Err(error) => format!("{:?}", error.phase()),
        };
        self.0.lock().unwrap().push(format!("{number} {origin}{}{elsewhere} {end}", attempt.request.path()));
        sent
    }
}

fn get(url: &str) -> Request {
    Request::get(url).unwrap()
}

fn upgrading() -> Request {
    let mut request = get("http://a/");
    request.headers.set("upgrade", "x").unwrap();
    request
}

#[tokio::test(start_paused = true)]
async fn all_ways_to_send_pass_through_it() {
    let stage =
        Stage::answering(|request| if request.contains("upgrade: x") { SWITCHED } else { OK }.to_owned());
    let notes = Notes::default();
    let client = stage.builder().wrap(notes.clone()).build();
    let (request, path, mut response) = (get("http://a/"), get("/"), Response::new());
    let expect = |status: &str, way: &str| {
        assert_eq!(notes.take(), [format!("1 http://a/ {status}")], "{way}");
        assert!(stage.received().concat().contains("x-number: 1\r\n"), "{way}");
    };

    client.get("http://a/").await.unwrap();
    expect("Some(200)", "a builder");
    client.send(&request, &mut response).await.unwrap();
    expect("Some(200)", "a client");
    drop(client.open_response(&request, &mut response).await.unwrap());
    expect("Some(200)", "a streamed response");
    client.open_call(&request).await.unwrap().finish(&mut response).await.unwrap();
    expect("Some(200)", "a call without a body");
    let mut call = client.open_call(&post()).await.unwrap();
    call.write_all(b"text").await.unwrap();
    call.finish(&mut response).await.unwrap();
    expect("None", "a call with a body");
    client.upgrade(&upgrading(), &mut response).await.unwrap();
    expect("Some(101)", "an upgrade");
    let host = client.host("http://a").unwrap();
    host.send(&path, &mut response).await.unwrap();
    expect("Some(200)", "a host");
    let balancer = client.balance(["http://a"]).unwrap().build();
    balancer.send(&path, &mut response).await.unwrap();
    expect("Some(200)", "a balancer");
    let pipeline = client.pipeline("http://a").unwrap().build();
    pipeline.send(&path, &mut response).await.unwrap();
    expect("Some(200)", "a pipeline");
    assert_eq!(response.body.bytes(), b"ok");
}

#[tokio::test(start_paused = true)]
async fn requests_pass_in_the_order_in_which_middleware_was_added() {
    let stage = Stage::always(OK);
    let add = |letter: &'static str| {
        move |attempt: &mut Attempt<'_>| {
            let so_far = attempt.request.headers.get("x-way").unwrap_or_default().to_owned();
            Ok(attempt.request.headers.set("x-way", format!("{so_far}{letter}"))?)
        }
    };
    let client = stage.builder().wrap(add("a")).wrap(Arc::new(add("b"))).wrap(add("c")).build();
    client.get("http://a/").await.unwrap();
    assert!(stage.received()[0].contains("x-way: abc\r\n"));
}

#[tokio::test(start_paused = true)]
async fn each_retry_and_each_redirect_is_an_attempt_rfc9110_15_4() {
    let asked = Arc::new(AtomicUsize::new(0));
    let stage = Stage::answering(move |request| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => BUSY.to_owned(),
        1 => "HTTP/1.1 302 x\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n".to_owned(),
        2 => "HTTP/1.1 302 x\r\nlocation: http://c/d\r\ncontent-length: 0\r\n\r\n".to_owned(),
        _ if request.contains("x-number: 5") => OK.to_owned(),
        _ => BUSY.to_owned(),
    });
    let notes = Notes::default();
    let retry = Retry::new().backoff(Duration::ZERO, Duration::ZERO);
    let client = stage.builder().retry(retry).wrap(notes.clone()).build();
    let response = client.get("http://a/").await.unwrap();
    assert_eq!((response.status, response.url.as_deref()), (Status::OK, Some("http://c/d")));
    let expected = [
        "1 http://a/ Some(503)",
        "2 http://a/ Some(302)",
        "3 http://a/b Some(302)",
        "4 http://c/d elsewhere Some(503)",
        "5 http://c/d elsewhere Some(200)",
    ];
    assert_eq!(notes.take(), expected);
}

/// The hedge has no note of its own, because it is canceled.
#[tokio::test(start_paused = true)]
async fn a_hedge_that_has_lost_counts_before_a_redirect() {
    let stage = Stage::new(|mut peer, _| async move {
        while let Some(request) = peer.request().await? {
            let is_slow = request.starts_with("GET /slow");
            tokio::time::sleep(if is_slow { SECOND } else { SECOND / 100 }).await;
            let moved = "HTTP/1.1 302 x\r\nlocation: /end\r\ncontent-length: 0\r\n\r\n";
            peer.send(if is_slow { moved } else { OK }).await?;
        }
        Ok(())
    });
    let notes = Notes::default();
    let client = stage.builder().retry(Retry::new().hedge_after_percentile(95)).wrap(notes.clone()).build();
    for _ in 0..32 {
        client.get("http://a/").await.unwrap();
    }
    notes.take();
    client.get("http://a/slow").await.unwrap();
    assert_eq!(notes.take(), ["1 http://a/slow Some(302)", "3 http://a/end Some(200)"]);
}

/// Asks for another token once the server refuses the one it has.
struct Token {
    token: tokio::sync::Mutex<u32>,
    renewals: Arc<AtomicUsize>,
}

impl ClientMiddleware for Token {
    async fn call(&self, attempt: &mut Attempt<'_>, next: ClientNext<'_>) -> Result<(), ClientError> {
        let refused = *self.token.lock().await;
        attempt.request.set_bearer_auth(&refused.to_string())?;
        next.send(attempt).await?;
        if attempt.response().is_some_and(|response| response.status == Status::UNAUTHORIZED) {
            let mut token = self.token.lock().await;
            if *token == refused {
                tokio::time::sleep(SECOND).await;
                self.renewals.fetch_add(1, Ordering::Relaxed);
                *token += 1;
            }
            attempt.request.set_bearer_auth(&token.to_string())?;
            drop(token);
            next.send(attempt).await?;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_once_for_all_requests_that_wait() {
    let stage = Stage::answering(|request| {
        if request.contains("authorization: Bearer 1") { OK } else { DENIED }.to_owned()
    });
    let renewals = Arc::new(AtomicUsize::new(0));
    let token = Token { token: tokio::sync::Mutex::new(0), renewals: renewals.clone() };
    let client = stage.builder().wrap(token).build();
    let mut asked = JoinSet::new();
    for _ in 0..32 {
        let client = client.clone();
        asked.spawn(async move { client.post("http://a/").text("milk").await.unwrap().status });
    }
    assert!(asked.join_all().await.iter().all(|status| *status == Status::OK));
    assert_eq!(renewals.load(Ordering::Relaxed), 1);
    let received = stage.received();
    assert_eq!(received.len(), 64);
    assert!(received.iter().all(|request| request.ends_with("milk")));
    // A response that is not wanted leaves its connection to the next request.
    assert_eq!((stage.dialed().len(), client.idle_connections(), client.busy_connections()), (32, 32, 0));
}

/// A fault of middleware.
#[derive(Clone, Copy, Debug)]
enum Fault {
    NeverSends,
    Panics,
    PanicsAfterwards,
    DropsTheFuture,
    /// Drops it when the request was sent.
    DropsTheFutureLater,
    SendsTwice,
    HidesTheError,
    Fails,
    FailsAfterwards,
    Stalls,
    StallsAfterwards,
    GoesElsewhere,
    /// Sets a value that ends its line.
    BreaksALine,
}

impl ClientMiddleware for Fault {
    async fn call(&self, attempt: &mut Attempt<'_>, next: ClientNext<'_>) -> Result<(), ClientError> {
        match self {
            Fault::NeverSends => {}
            Fault::Panics => panic!("before"),
            Fault::PanicsAfterwards => {
                next.send(attempt).await?;
                panic!("after");
            }
            Fault::DropsTheFuture => {
                let mut sending = pin!(next.send(attempt));
                let polled = poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await;
                assert!(polled.is_pending());
            }
            Fault::DropsTheFutureLater => {
                assert!(tokio::time::timeout(SECOND, next.send(attempt)).await.is_err());
            }
            Fault::SendsTwice => {
                next.send(attempt).await?;
                next.send(attempt).await?;
            }
            Fault::HidesTheError => {
                let _ = next.send(attempt).await;
            }
            Fault::Fails => return Err(ClientError::other("no token")),
            Fault::FailsAfterwards => {
                next.send(attempt).await?;
                return Err(ClientError::other("a wrong signature"));
            }
            Fault::Stalls => pending().await,
            Fault::StallsAfterwards => {
                next.send(attempt).await?;
                pending().await
            }
            Fault::GoesElsewhere => {
                attempt.request = get("http://b/");
                next.send(attempt).await?;
            }
            Fault::BreaksALine => {
                attempt.request.headers.set("x-a", "b\r\nc: d")?;
                next.send(attempt).await?;
            }
        }
        Ok(())
    }
}

/// The end of a request: its status, or the text of its error and whether it says that the request was sent; and how often
/// the server was asked.
type End = (Result<u16, (String, bool)>, usize);

#[tokio::test(start_paused = true)]
async fn middleware_at_fault_is_named_and_leaks_nothing() {
    let failed = |error: &str, is_sent| Err((format!("http://a/x: {error}"), is_sent));
    let rows: [(Fault, &str, End); 11] = [
        (Fault::NeverSends, OK, (failed("preparing the request: middleware has not sent it", false), 0)),
        (Fault::DropsTheFuture, OK, (failed("preparing the request: middleware has not sent it", true), 0)),
        (
            Fault::DropsTheFutureLater,
            SILENT,
            (failed("preparing the request: middleware has not sent it", true), 1),
        ),
        (Fault::SendsTwice, OK, (Ok(200), 2)),
        (Fault::HidesTheError, "", (failed("preparing the request: middleware has not sent it", true), 1)),
        (Fault::Fails, OK, (failed("preparing the request failed: no token", false), 0)),
        (Fault::FailsAfterwards, OK, (failed("preparing the request failed: a wrong signature", true), 1)),
        (
            Fault::Stalls,
            OK,
            (failed("preparing the request: the whole exchange took longer than 5 s", false), 0),
        ),
        (
            Fault::StallsAfterwards,
            OK,
            (failed("preparing the request: the whole exchange took longer than 5 s", true), 1),
        ),
        (
            Fault::GoesElsewhere,
            OK,
            (
                Err((
                    "http://b/: preparing the request: the target is not one that can be sent here".into(),
                    false,
                )),
                0,
            ),
        ),
        (
            Fault::BreaksALine,
            OK,
            (failed("preparing the request failed: the value of the field x-a", false), 0),
        ),
    ];
    for (fault, reply, expected) in rows {
        let stage = Stage::new(move |mut peer, _| async move {
            while peer.request().await?.is_some() {
                match reply {
                    "" => return Ok(()),
                    SILENT => pending().await,
                    reply => peer.send(reply).await?,
                }
            }
            Ok(())
        });
        let client = stage.builder().timeout(5 * SECOND).wrap(fault).build();
        let ended = match client.get("http://a/x").await {
            Ok(response) => Ok(response.status.as_u16()),
            Err(error) => Err((format!("{error:#}"), error.is_sent())),
        };
        let asked = stage.received().len();
        println!("{fault:?}: {ended:?}, {asked}");
        match (&ended, &expected.0) {
            (Err((text, sent)), Err((begin, is_sent))) => {
                assert!(text.starts_with(begin.as_str()), "{fault:?}: {text}, expected {begin}");
                assert_eq!(sent, is_sent, "{fault:?}");
            }
            (ended, expected) => assert_eq!(ended, expected, "{fault:?}"),
        }
        assert_eq!(asked, expected.1, "{fault:?}");
        tokio::time::sleep(SECOND).await;
        assert_eq!(client.busy_connections(), 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_the_callers_and_leaks_nothing() {
    for fault in [Fault::Panics, Fault::PanicsAfterwards] {
        let stage = Stage::always(OK);
        let client = stage.builder().wrap(fault).build();
        let asked = tokio::spawn(client.get("http://a/").into_future());
        assert!(asked.await.unwrap_err().is_panic(), "{fault:?}");
        assert_eq!(client.busy_connections(), 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn content_that_can_be_made_again_is_sent_as_often_as_middleware_sends() {
    type Fill = Box<dyn Fn(&mut Body)>;
    let file = file_of("0123milk89");
    let rows: [(&str, Fill, bool); 5] = [
        ("bytes", Box::new(|body| body.set_bytes("milk")), true),
        ("shared", Box::new(|body| body.set_shared_bytes("milk")), true),
        ("file", Box::new(move |body| body.set_file(file.clone(), 4..8)), true),
        ("made", Box::new(|body| body.set_stream_with(|| &b"milk"[..], None)), true),
        ("stream", Box::new(|body| body.set_stream(&b"milk"[..], None)), false),
    ];
    for (name, fill, is_repeated) in rows {
        let stage = Stage::always(OK);
        let client = stage.builder().wrap(Fault::SendsTwice).build();
        let mut request = post();
        fill(&mut request.body);
        let sent = client.send(&request, &mut Response::new()).await;
        let received = stage.received();
        assert!(received.iter().all(|request| request.contains("milk")), "{name}: {received:?}");
        assert_eq!(received.len(), if is_repeated { 2 } else { 1 }, "{name}");
        assert_eq!(request.body.is_consumed(), !is_repeated, "{name}");
        match sent {
            Ok(()) => assert!(is_repeated, "{name}"),
            Err(error) => {
                assert!(
                    !is_repeated && matches!(error.cause(), ClientCause::BodyConsumed),
                    "{name}: {error:#}"
                );
                assert!(error.is_sent(), "{name}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_of_middleware_is_not_retried() {
    let stage = Stage::always(OK);
    let client = stage.builder().retry(Retry::new()).retry_budget(RetryBudget::default());
    let error = client.wrap(Fault::Fails).build().get("http://a/").await.unwrap_err();
    assert_eq!(error.phase(), ClientPhase::Prepare);
    assert!(matches!(error.cause(), ClientCause::Other(_)));
    assert_eq!((error.retries().len(), error.retry_stop()), (0, None::<RetryStop>));
}

/// The time of middleware counts for the whole exchange alone.
#[tokio::test(start_paused = true)]
async fn middleware_may_take_its_time() {
    struct Slow;
    impl ClientMiddleware for Slow {
        async fn call(&self, attempt: &mut Attempt<'_>, next: ClientNext<'_>) -> Result<(), ClientError> {
            tokio::time::sleep(3600 * SECOND).await;
            next.send(attempt).await
        }
    }
    let stage = Stage::always(OK);
    let began = Instant::now();
    stage.builder().wrap(Slow).build().get("http://a/").await.unwrap();
    assert_eq!(began.elapsed(), 3600 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_body_that_middleware_sets_is_sent() {
    let stage = Stage::always(OK);
    let client = stage.builder().wrap(|attempt: &mut Attempt<'_>| {
        let shouted = attempt.request.body.bytes().to_ascii_uppercase();
        attempt.request.body.set_bytes(shouted);
        Ok(())
    });
    let mut request = post();
    request.body.set_bytes("milk");
    client.build().send(&request, &mut Response::new()).await.unwrap();
    assert!(stage.received()[0].ends_with("\r\n\r\nMILK"));
    assert_eq!(request.body.bytes(), b"milk");
}

/// The error of a pipeline's request says whether that was sent, as the errors of all others do.
#[tokio::test(start_paused = true)]
async fn a_pipeline_tells_whether_a_request_was_sent() {
    for (fault, is_sent) in [
        (Fault::NeverSends, false),
        (Fault::Fails, false),
        (Fault::FailsAfterwards, true),
        (Fault::HidesTheError, true),
    ] {
        let reply = if matches!(fault, Fault::HidesTheError) { "" } else { OK };
        let stage = Stage::answering(move |_| reply.to_owned());
        let pipeline = stage.builder().wrap(fault).build().pipeline("http://a").unwrap().build();
        let error = pipeline.send(&get("/"), &mut Response::new()).await.unwrap_err();
        assert_eq!(
            (error.is_sent(), stage.received().is_empty()),
            (is_sent, !is_sent),
            "{fault:?}: {error:#}"
        );
    }
}
