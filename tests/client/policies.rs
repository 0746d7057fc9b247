//! Servers, names, redirects, middleware and sources at their worst, with all policies on: each request ends in time, its
//! error says which attempt it was and whether the request was sent, and nothing is left.

use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use corehttp::client::{
    Attempt, Balancer, ClientCause, ClientMiddleware, ClientNext, ClientPhase, RedirectAction, Retry,
    RetryStop,
};
use corehttp::net::{Resolver, is_public};
use corehttp::{Client, ClientError, Request, Response};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use crate::counts::check_counts;
use crate::support::{OK, Scripted, Stage, get};

const SECOND: Duration = Duration::from_secs(1);
const BUSY: &str = "HTTP/1.1 503 x\r\nretry-after: 0\r\ncontent-length: 4\r\n\r\nbusy";

fn at_once() -> Retry {
    Retry::new().backoff(Duration::ZERO, Duration::ZERO).hedge_after_percentile(95)
}

/// Checks that nothing of the requests of a client is left.
#[track_caller]
fn check_left(client: &Client, balancer: &Balancer) {
    assert_eq!((client.busy_connections(), check_counts(client).waiting), (0, 0));
    assert!(balancer.counts().iter().all(|host| host.pending == 0), "{:?}", balancer.counts());
}

/// The end of a request: how often the server was asked, and why not more often.
type End = (usize, Option<RetryStop>);

/// A server says the same for ever. How a client and a balancer of two hosts end, and within how many seconds.
async fn busy_for_ever(fields: &str, expected: [End; 2], seconds: u64) {
    let stage = Stage::always(format!("HTTP/1.1 503 x\r\n{fields}content-length: 0\r\n\r\n"));
    let client = stage.builder().retry(at_once()).build();
    let balancer = client.balance(["http://a", "http://b"]).unwrap().build();
    for (at, expected) in expected.into_iter().enumerate() {
        let (mut response, start) = (Response::new(), Instant::now());
        match at {
            0 => client.send(&get(), &mut response).await.unwrap(),
            _ => balancer.send(&Request::get("/").unwrap(), &mut response).await.unwrap(),
        }
        let asked = stage.received().len();
        assert_eq!((asked, response.retry_stop()), expected, "{fields}, {at}");
        assert_eq!(response.retries().len(), asked - 1, "{fields}, {at}");
        assert!(start.elapsed().as_secs() <= seconds, "{fields}, {at}: {:?}", start.elapsed());
    }
    check_left(&client, &balancer);
}

/// Another host need not wait for the time that the first one asks for.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_for_ever_is_waited_for_within_a_bound_rfc9110_10_2_3() {
    use RetryStop::{AttemptsMax, RetryAfter};
    let attempts = (3, Some(AttemptsMax));
    let date = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: ";
    busy_for_ever("retry-after: 99999999999\r\n", [(1, Some(RetryAfter)), attempts], 0).await;
    busy_for_ever(&format!("retry-after: {}\r\n", "9".repeat(99)), [(1, Some(RetryAfter)), attempts], 0)
        .await;
    busy_for_ever(&format!("{date}Fri, 31 Dec 9999 23:59:59 GMT\r\n"), [(1, Some(RetryAfter)), attempts], 0)
        .await;
    // Dates that are over, and none.
    busy_for_ever(&format!("{date}Thu, 01 Jan 1970 00:00:00 GMT\r\n"), [attempts; 2], 0).await;
    busy_for_ever("retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n", [attempts; 2], 0).await;
    for none in ["-1", "-99999999999", "+1", "1e9", "0x1", "NaN", "Sun, 31 Feb 2094 08:49:37 GMT", "\u{661}"]
    {
        busy_for_ever(&format!("retry-after: {none}\r\n"), [(1, None); 2], 0).await;
    }
    busy_for_ever("retry-after: 30\r\n", [attempts; 2], 61).await;
}

/// Answers each look-up with the next of these addresses.
#[derive(Clone)]
struct Rebinding {
    addresses: Arc<[&'static str]>,
    asked: Arc<AtomicUsize>,
}

impl Resolver for Rebinding {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(vec![self.addresses[number % self.addresses.len()].parse().unwrap()])
    }
}

/// Each attempt, each member of a balancer and each of its checks has addresses of its own.
#[tokio::test]
async fn a_name_with_other_addresses_at_each_look_up_leads_nowhere() {
    let server = Scripted::always(OK).await;
    let port = server.url.rsplit_once(':').unwrap().1;
    let addresses = ["127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "::1", "fd00::1", "0.0.0.0"];
    let resolver = Rebinding { addresses: Arc::from(addresses), asked: Arc::default() };
    let client = Client::builder()
        .resolver(resolver.clone())
        .dns_ttl(Duration::ZERO)
        .allow_addresses(is_public)
        .retry(Retry::new().retry_if(|outcome| outcome.is_err()).backoff(Duration::ZERO, Duration::ZERO))
        .retry_budget(None)
        .build();
    let url = format!("http://evil.example:{port}/");
    let request = Request::get(&url).unwrap();
    let error = client.send(&request, &mut Response::new()).await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::AddressRefused(_)), "{error:#}");
    assert_eq!((error.retries().len(), error.is_sent()), (2, false));
    let said = "in attempt 3: its address ::ffff:10.0.0.1 is not one that the client may connect to";
    assert!(format!("{error:#}").ends_with(said), "{error:#}");
    let named = client.balance([&url]).unwrap().build();
    let each = client.balance::<&str>([]).unwrap().each_address_of(&url).unwrap().build();
    for balancer in [&named, &each] {
        for _ in 0..addresses.len() {
            let error = balancer.send(&Request::get("/").unwrap(), &mut Response::new()).await.unwrap_err();
            assert!(matches!(error.cause(), ClientCause::AddressRefused(_)), "{error:#}");
            assert!(!error.is_sent() && error.retries().len() == 2, "{error:#}");
        }
        check_left(&client, balancer);
    }
    assert!(resolver.asked.load(Ordering::Relaxed) > 2 * addresses.len());
    assert_eq!((server.connections(), client.counts().total.opened), (0, 0));
}

/// A loop through a function, each redirect of which comes after two retries.
#[tokio::test(start_paused = true)]
async fn a_loop_of_redirects_ends_though_each_is_retried_rfc9110_15_4() {
    let asked = AtomicUsize::new(0);
    let stage = Stage::answering(move |_| match asked.fetch_add(1, Ordering::Relaxed) % 3 {
        2 => "HTTP/1.1 307 x\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n".to_owned(),
        _ => BUSY.to_owned(),
    });
    let followed = Arc::new(AtomicUsize::new(0));
    let count = followed.clone();
    let client = stage
        .builder()
        .retry(at_once())
        .retry_budget(None)
        .check_redirects(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(RedirectAction::Follow)
        })
        .build();
    let error = client.get("http://a/").await.unwrap_err();
    assert!(matches!(error.cause(), ClientCause::TooManyRedirects));
    assert_eq!((error.phase(), error.is_sent()), (ClientPhase::Redirect, true));
    assert_eq!((stage.received().len(), followed.load(Ordering::Relaxed)), (33, 10));
    tokio::time::sleep(SECOND).await;
    assert_eq!(client.busy_connections(), 0);
    // One that panics is its caller's.
    let client = stage.builder().check_redirects(|_| panic!("no")).build();
    let panicked = tokio::spawn({
        let client = client.clone();
        async move { client.get("http://a/").retry(at_once()).await.map(drop) }
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(client.busy_connections(), 0);
}

/// A fault of middleware.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Panics,
    PanicsAfterwards,
    /// It drops the future of a request that was sent.
    Drops,
    SendsTwice,
    /// It holds the request for ever, once it has the response.
    Stalls,
}

impl ClientMiddleware for Fault {
    async fn call(&self, attempt: &mut Attempt<'_>, next: ClientNext<'_>) -> Result<(), ClientError> {
        match self {
            Fault::Panics => panic!("before"),
            Fault::Drops => {
                let sent = tokio::time::timeout(SECOND, next.send(attempt)).await;
                assert!(sent.is_err(), "the server is silent");
                return Ok(());
            }
            Fault::SendsTwice => next.send(attempt).await?,
            Fault::PanicsAfterwards | Fault::Stalls => {}
        }
        next.send(attempt).await?;
        match self {
            Fault::PanicsAfterwards => panic!("after"),
            Fault::Stalls => pending().await,
            Fault::Panics | Fault::Drops | Fault::SendsTwice => Ok(()),
        }
    }
}

/// Of a client, a host and a balancer: none is left with a place, a permit or a pending request.
#[tokio::test(start_paused = true)]
async fn middleware_at_fault_leaves_nothing_behind() {
    let unsent = "preparing the request: middleware has not sent it";
    let late = "preparing the request: the whole exchange took longer than 9 s";
    for (fault, expected, asked) in [
        (Fault::Panics, None, 0),
        (Fault::PanicsAfterwards, None, 1),
        (Fault::Drops, Some(unsent), 1),
        // Three attempts, each of them twice.
        (Fault::SendsTwice, Some("503"), 6),
        (Fault::Stalls, Some(late), 1),
    ] {
        let stage = Stage::new(move |mut peer, _| async move {
            while peer.request().await?.is_some() {
                match fault {
                    Fault::Drops => pending().await,
                    _ => peer.send(BUSY).await?,
                }
            }
            Ok(())
        });
        let client = stage.builder().retry(at_once()).timeout(9 * SECOND).wrap(fault).build();
        let balancer = client.balance(["http://a", "http://b"]).unwrap().build();
        for is_balanced in [false, true] {
            let (client, balancer) = (client.clone(), balancer.clone());
            let sending = tokio::spawn(async move {
                let mut response = Response::new();
                match is_balanced {
                    false => client.send(&get(), &mut response).await?,
                    true => balancer.send(&Request::get("/").unwrap(), &mut response).await?,
                }
                Ok(response.status.as_u16().to_string())
            });
            let ended = sending.await.ok().map(|ended: Result<String, ClientError>| match ended {
                Ok(status) => status,
                Err(error) => {
                    assert!(error.is_sent() && error.retries().is_empty(), "{fault:?}: {error:?}");
                    format!("{error:#}")
                }
            });
            let has_text = match (&ended, expected) {
                (Some(ended), Some(expected)) => ended.ends_with(expected),
                (ended, expected) => ended.is_none() && expected.is_none(),
            };
            assert!(has_text, "{fault:?}, {is_balanced}: {ended:?}");
            assert_eq!(stage.received().len(), asked, "{fault:?}, {is_balanced}");
        }
        tokio::time::sleep(2 * SECOND).await;
        check_left(&client, &balancer);
    }
}

/// A source that has these bytes. If they are not four, it fails then.
struct Failing(&'static [u8], bool);

impl Failing {
    fn after(len: usize) -> Failing {
        Failing(&b"milk"[..len], len < 4)
    }
}

impl AsyncRead for Failing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match std::mem::take(&mut self.0) {
            [] if self.1 => return Poll::Ready(Err(io::Error::other("the disk is gone"))),
            bytes => out.put_slice(bytes),
        }
        Poll::Ready(Ok(()))
    }
}

/// The failure of a source is the caller's: the host is not blamed, and nothing is sent again.
#[tokio::test(start_paused = true)]
async fn a_source_that_fails_in_the_second_attempt_is_named() {
    for second in [0, 2] {
        let made = Arc::new(AtomicUsize::new(0));
        let mut request = Request::put("/").unwrap();
        let count = made.clone();
        let make = move || match count.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Failing::after(4),
            _ => Failing::after(second),
        };
        request.body.set_stream_with(make, Some(4));
        let stage = Stage::new(|mut peer, _| async move {
            while let Some(mut request) = peer.head().await? {
                peer.content(&mut request).await?;
                peer.send(BUSY).await?;
            }
            Ok(())
        });
        let client = stage.builder().retry(at_once()).build();
        let balancer = client.balance(["http://a", "http://b"]).unwrap().build();
        let host = client.host("http://a").unwrap();
        for is_balanced in [false, true] {
            let (mut response, start) = (Response::new(), Instant::now());
            let sent = match is_balanced {
                false => host.send(&request, &mut response).await,
                true => balancer.send(&request, &mut response).await,
            };
            let (error, at) = (sent.unwrap_err(), if is_balanced { "b" } else { "a" });
            let expected = format!(
                "http://{at}/: sending the request to {at}:80 in attempt 2 failed: the source of the content failed: \
                 the disk is gone"
            );
            assert_eq!(format!("{error:#}"), expected, "{second}");
            assert_eq!((error.phase(), error.is_sent()), (ClientPhase::Send, true));
            assert!(error.retries().len() == 1 && start.elapsed() < SECOND, "{:?}", start.elapsed());
        }
        assert_eq!(made.load(Ordering::Relaxed), 4);
        let failed = Vec::from_iter(balancer.counts().iter().map(|host| host.failed));
        assert_eq!(failed, [1, 0]);
        check_left(&client, &balancer);
    }
}
