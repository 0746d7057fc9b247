//! Which requests are sent once more beside an attempt that takes long, and the end of the attempt that loses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use corehttp::client::{Retry, RetryBudget, RetryCause};
use corehttp::{Body, Client, Method, Request, Response};
use tokio::time::Instant;

use crate::support::{OK, Stage, get};

const SECOND: Duration = Duration::from_secs(1);

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

/// A server that answers within ten milliseconds, but for the requests with these numbers, which it never answers.
fn sometimes_silent(silent: &'static [usize]) -> Stage {
    let asked = Arc::<AtomicUsize>::default();
    Stage::new(move |mut peer, _| {
        let asked = asked.clone();
        async move {
            while peer.request().await?.is_some() {
                let number = asked.fetch_add(1, Ordering::Relaxed);
                if silent.contains(&number) {
                    return peer.receive_all().await;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
                peer.send(OK).await?;
            }
            Ok(())
        }
    })
}

/// How long a request takes after 32 others, and the causes of its attempts.
async fn hedged(client: &Client, request: &Request, before: usize) -> (Option<Duration>, Vec<RetryCause>) {
    let mut response = Response::new();
    for _ in 0..before {
        client.send(&get(), &mut response).await.unwrap();
        assert!(response.retries().is_empty());
    }
    let start = Instant::now();
    let sent = client.send(request, &mut response).await;
    let retries = match &sent {
        Ok(()) => response.retries(),
        Err(error) => error.retries(),
    };
    let causes = Vec::from_iter(retries.iter().map(|retry| retry.cause));
    assert_eq!(client.busy_connections(), 0);
    (sent.is_ok().then(|| start.elapsed()), causes)
}

#[tokio::test(start_paused = true)]
async fn a_safe_request_that_takes_long_is_hedged_once() {
    let hedge = || Retry::new().hedge_after_percentile(95);
    let put = with_body(|body| body.set_bytes("milk"));
    let budget = RetryBudget { percent: 0, per_second: 0 };
    let builder = |silent| sometimes_silent(silent).builder().timeout(5 * SECOND);
    for (name, client, request, before, is_hedged) in [
        ("the first request is slow", builder(&[32]).retry(hedge()).build(), get(), 32, true),
        ("both are", builder(&[32, 33]).retry(hedge()).build(), get(), 32, false),
        ("too few responses", builder(&[31]).retry(hedge()).build(), get(), 31, false),
        ("a query", builder(&[32]).retry(hedge()).build(), query(), 32, true),
        ("not safe", builder(&[32]).retry(hedge()).build(), put, 32, false),
        ("one attempt", builder(&[32]).retry(hedge().attempts_max(1)).build(), get(), 32, false),
        ("no budget", builder(&[32]).retry(hedge()).retry_budget(budget).build(), get(), 32, false),
        ("no hedge", builder(&[32]).retry(Retry::new()).build(), get(), 32, false),
    ] {
        let (took, causes) = hedged(&client, &request, before).await;
        assert_eq!(took.is_some(), is_hedged, "{name}");
        let counted = client.counts().total.retries_by_policy;
        assert_eq!(
            (causes.len() as u64, counted),
            if took.is_some() || name == "both are" { (1, 1) } else { (0, 0) },
            "{name}"
        );
        assert!(causes.iter().all(|cause| *cause == RetryCause::Slow), "{name}: {causes:?}");
        let is_quick = took.is_none_or(|took| took <= Duration::from_millis(40));
        assert!(is_quick, "{name}: {took:?}");
    }
}

/// The response of the second attempt is whole, and its connection is used again; that of the first one is closed.
#[tokio::test(start_paused = true)]
async fn the_loser_of_a_hedge_is_canceled() {
    let stage = sometimes_silent(&[32]);
    let client = stage.builder().retry(Retry::new().hedge_after_percentile(95)).build();
    hedged(&client, &get(), 32).await;
    assert_eq!((client.busy_connections(), client.idle_connections(), stage.dialed().len()), (0, 1, 2));
    let mut response = Response::new();
    client.with_retry(None).send(&get(), &mut response).await.unwrap();
    assert_eq!((response.text().unwrap(), response.timings().reused, stage.dialed().len()), ("ok", true, 2));
    let total = client.counts().total;
    assert_eq!((total.answered, total.canceled), (34, 1));
}
