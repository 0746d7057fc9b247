//! The counts of a client are true, however exchanges end, and responses name the connection that they came over.

use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{io, mem};

use corehttp::client::{ClientLimits, ClientPhase, ClientTimeouts, HostCounts, PhaseCounts};
use corehttp::net::Resolver;
use corehttp::{Client, ClientBuilder, Request, Response, Version, block_on};
use tokio::time::{sleep, timeout};

use crate::support::{Metered, OK, Scripted, Stage, ask, cancelled_after, get, paused, post, settle};

const SECOND: Duration = Duration::from_secs(1);

/// A server that takes a second to connect to, a second to read a request, and two for its body.
fn slow() -> Stage {
    Stage::new(|mut peer, _| async move {
        while peer.request().await?.is_some() {
            sleep(SECOND).await;
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await?;
            sleep(2 * SECOND).await;
            peer.send("ok").await?;
        }
        Ok(())
    })
}

/// How exchanges ended: answered, failed, canceled, retried.
fn ends(counts: &HostCounts) -> [u64; 4] {
    [counts.answered, counts.failed, counts.canceled, counts.retries]
}

/// Each exchange was begun on a new connection or on one that was used before, and has ended once.
#[track_caller]
pub fn check_ends(client: &Client) -> HostCounts {
    let total = check_counts(client);
    assert_eq!(total.opened + total.reused, ends(&total).iter().sum::<u64>(), "{total:?}");
    total
}

/// The same for a client whose callers may have left while it dialed: a connection may have carried nothing.
#[track_caller]
pub fn check_counts(client: &Client) -> HostCounts {
    let total = client.counts().total;
    assert!(total.opened + total.reused >= ends(&total).iter().sum::<u64>(), "{total:?}");
    let failed = [total.send, total.wait, total.receive].map(|phase| phase.failed).iter().sum::<u64>();
    assert_eq!(total.failed, failed, "{total:?}");
    assert_eq!(
        (total.idle, total.busy),
        (client.idle_connections() as u64, client.busy_connections() as u64),
        "{total:?}"
    );
    total
}

#[test]
fn phases_are_counted_with_their_times() {
    paused(async {
        let client = slow().client();
        for _ in 0..3 {
            ask(&client, &get()).await.unwrap();
        }
        let total = check_ends(&client);
        assert_eq!((total.dials, total.opened, total.reused, total.idle), (1, 1, 2, 1));
        assert_eq!((ends(&total), total.wait.ended), ([3, 0, 0, 0], 3));
        let seconds = [total.wait, total.receive].map(|phase| phase.time.as_millis() / 1000);
        assert_eq!((seconds, total.receive.ended), ([3, 6], 3));
        assert_eq!(total.queue, PhaseCounts::default());
        let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        assert_eq!((total.sent, total.received), (3 * request.len() as u64, 3 * OK.len() as u64));
    });
}

#[test]
fn a_wait_for_a_connection_is_counted_whether_it_is_in_vain_or_not() {
    paused(async {
        let timeouts = ClientTimeouts { queue: 4 * SECOND, ..ClientTimeouts::default() };
        let client = slow()
            .builder()
            .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
            .timeouts(timeouts)
            .build();
        let ask = || async { ask(&client, &get()).await.map(drop).map_err(|error| error.phase()) };
        let (one, two, three) = tokio::join!(ask(), ask(), ask());
        assert_eq!([one, two, three], [Ok(()), Ok(()), Err(ClientPhase::Queue)]);
        let total = check_ends(&client);
        assert_eq!((total.queue.ended, total.queue.time.as_secs(), total.queue.failed), (1, 3, 1));
    });
}

/// A request waits until it has a connection, its time is over, or its caller is gone.
#[test]
fn requests_show_while_they_wait_for_a_connection() {
    paused(async {
        let timeouts = ClientTimeouts { queue: 4 * SECOND, ..ClientTimeouts::default() };
        let client = slow()
            .builder()
            .limits(ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() })
            .timeouts(timeouts)
            .build();
        let ask = || async { ask(&client, &get()).await.map(drop) };
        let watch = async {
            let mut waiting = Vec::new();
            for pause in [250, 750, 2500, 1000] {
                sleep(Duration::from_millis(pause)).await;
                waiting.push(client.counts().total.waiting);
            }
            waiting
        };
        let (.., canceled, waiting) = tokio::join!(ask(), ask(), ask(), timeout(SECOND / 2, ask()), watch);
        assert!(canceled.is_err());
        assert_eq!(waiting, [3, 2, 1, 0]);
    });
}

/// Looks up nothing.
struct Lost;

impl Resolver for Lost {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// A request to `url` fails in this phase, which is counted.
async fn check_failure(builder: ClientBuilder, url: &str, phase: ClientPhase) {
    let client = builder.build();
    let error = client.get(url).await.unwrap_err();
    assert_eq!(error.phase(), phase, "{error:#}");
    settle().await;
    let total = check_ends(&client);
    let counted = [
        (ClientPhase::Resolve, total.resolve),
        (ClientPhase::Connect, total.connect),
        (ClientPhase::Tls, total.tls),
        (ClientPhase::Send, total.send),
        (ClientPhase::Wait, total.wait),
        (ClientPhase::Receive, total.receive),
    ];
    for (other, counts) in counted {
        assert_eq!(counts.failed, u64::from(other == phase), "{other:?}: {total:?}");
    }
    let was_open = matches!(phase, ClientPhase::Send | ClientPhase::Wait | ClientPhase::Receive);
    assert_eq!((total.dials, total.opened, total.failed), (1, was_open.into(), was_open.into()));
}

#[tokio::test]
async fn failures_are_counted_by_phase() {
    let cut = Scripted::always("HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\n").await;
    let closing = Scripted::new(|_, _| async { Ok(()) }).await;
    let lost = Client::builder().resolver(Lost).dns_ttl(SECOND);
    check_failure(lost, "http://a.example/", ClientPhase::Resolve).await;
    check_failure(Client::builder(), "http://127.0.0.1:1/", ClientPhase::Connect).await;
    #[cfg(feature = "tls")]
    check_failure(Client::builder(), &cut.url.replace("http:", "https:"), ClientPhase::Tls).await;
    check_failure(Client::builder(), &closing.url, ClientPhase::Wait).await;
    let brief = ClientTimeouts { receive: Duration::from_millis(10), ..ClientTimeouts::default() };
    check_failure(Client::builder().timeouts(brief), &cut.url, ClientPhase::Receive).await;
    let stuck = Stage::new(|_, _| pending());
    let brief = ClientTimeouts { send: Duration::from_millis(10), ..ClientTimeouts::default() };
    let client = stuck.builder().timeouts(brief).build();
    let mut request = post();
    request.body.set_bytes(vec![0; 1 << 20]);
    ask(&client, &request).await.unwrap_err();
    assert_eq!(check_ends(&client).send.failed, 1);
}

/// The exchange of a caller that goes away is counted once, with its bytes, at whichever moment that happens.
#[test]
fn callers_that_go_away_are_counted_once() {
    paused(async {
        for polls in 0..30 {
            let dialer = Metered::new(slow());
            let client = Client::builder().dialer(dialer.clone()).build();
            for request in [get(), post()] {
                let mut response = Response::new();
                let _ = cancelled_after(polls, client.send(&request, &mut response)).await;
                let _ = cancelled_after(polls, client.open_response(&request, &mut response)).await;
                let _ = cancelled_after(polls, async {
                    let mut call = client.open_call(&request).await.unwrap();
                    call.write_all(b"some").await.unwrap();
                    let mut reader = call.finish(&mut response).await.unwrap();
                    while reader.chunk().await.unwrap().is_some() {}
                })
                .await;
            }
            settle().await;
            let total = check_ends(&client);
            assert_eq!((total.received, total.sent), dialer.traffic(), "{polls} polls");
            assert_eq!(total.busy, 0);
        }
    });
}

#[test]
fn a_connection_that_was_closed_meanwhile_is_stale() {
    paused(async {
        // The second connection is closed without a response once it was used.
        let stage = Stage::new(|mut peer, number| async move {
            peer.request().await?;
            peer.send(OK).await?;
            match number {
                0 => Ok(()),
                1 => peer.request().await.map(drop),
                _ => peer.answer(OK).await,
            }
        });
        let client = stage.client();
        for _ in 0..3 {
            ask(&client, &get()).await.unwrap();
            settle().await;
        }
        let total = check_ends(&client);
        assert_eq!((ends(&total), total.stale, total.dials), ([3, 0, 0, 1], 2, 3));
    });
}

#[test]
fn hosts_are_counted_apart_up_to_a_bound() {
    paused(async {
        let client = Stage::always(OK).client();
        for host in 0..300 {
            client.get(&format!("http://Host-{host}/")).await.unwrap();
        }
        let stats = client.counts();
        assert_eq!((stats.hosts.len(), stats.other.answered, stats.total.answered), (256, 44, 300));
        assert_eq!((stats.hosts["http://host-0"].answered, stats.hosts["http://host-0"].idle), (1, 1));
        // The pools of hosts without connections go, and their counts stay.
        sleep(100 * SECOND).await;
        let later = client.counts();
        assert_eq!((later.total.answered, later.total.idle, later.hosts.len()), (300, 0, 256));
        client.get("http://host-0/").await.unwrap();
        assert_eq!(client.counts().hosts["http://host-0"].answered, 2);

        let other = Stage::always(OK).client();
        for host in ["host-0", "other"] {
            other.get(&format!("http://{host}/")).await.unwrap();
        }
        let mut sum = client.counts();
        sum += &other.counts();
        assert_eq!((sum.hosts.len(), sum.other.answered, sum.total.answered), (256, 45, 303));
        assert_eq!(sum.hosts["http://host-0"].answered, 3);
    });
}

#[test]
fn runtimes_that_have_ended_are_counted() {
    let client = Stage::always(OK).client();
    for runtime in 1..=3 {
        block_on(ask(&client, &get())).unwrap().unwrap();
        assert_eq!(client.counts().total.answered, runtime);
    }
}

#[test]
fn pipelined_requests_are_counted_one_by_one() {
    paused(async {
        let client = Stage::always(OK).client();
        let pipeline = Arc::new(client.pipeline("http://a").unwrap().build());
        let sent = (0..20).map(|_| {
            let pipeline = pipeline.clone();
            tokio::spawn(async move { pipeline.send(&get(), &mut Response::new()).await.unwrap() })
        });
        for sent in Vec::from_iter(sent) {
            sent.await.unwrap();
        }
        settle().await;
        let total = check_ends(&client);
        assert_eq!((ends(&total), total.dials, total.reused), ([20, 0, 0, 0], 1, 19));
        assert_eq!(total.received, 20 * OK.len() as u64);
    });
}

#[tokio::test]
async fn a_response_names_the_connection_that_it_came_over() {
    let server =
        Scripted::always("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n").await;
    let (client, mut response) = (Client::new(), Response::new());
    assert!(response.connection().is_none() && response.version() == Version::Http11);
    for is_reused in [false, true] {
        client.send(&Request::get(&server.url).unwrap(), &mut response).await.unwrap();
        let peer = response.connection().unwrap().peer_addr().unwrap();
        assert_eq!((format!("http://{peer}"), response.version()), (server.url.clone(), Version::Http10));
        assert_eq!(response.timings().reused, is_reused);
    }
    // Nothing of an earlier response passes for this one's.
    client.send(&Request::get("http://127.0.0.1:1/").unwrap(), &mut response).await.unwrap_err();
    assert!(response.connection().is_none() && response.timings().total().is_zero());
    let other = Stage::always(OK).client();
    let kept = mem::take(&mut response);
    other.send(&get(), &mut response).await.unwrap();
    assert_eq!(response.connection().unwrap().peer_addr(), None);
    assert_eq!((response.version(), kept.version()), (Version::Http11, Version::Http11));
}
