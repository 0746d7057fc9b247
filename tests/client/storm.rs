//! Many requests at once, and peers at their worst: every caller gets the right response or an error in time, and
//! nothing is left behind.

use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use corehttp::client::{ClientLimits, ClientPhase};
use corehttp::net::Resolver;
use corehttp::{Client, ClientError, Request, Response};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Peer, Scripted, Stage, eventually, paused, settle};

const SECOND: Duration = Duration::from_secs(1);

/// The path that was asked for, as a response.
fn echo(request: &str) -> String {
    let path = request.split(' ').nth(1).unwrap();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len())
}

/// Asks for a path of this number, and makes sure that the response is not another one's.
pub async fn ask(client: &Client, url: &str, number: usize) -> Result<(), ClientError> {
    let (request, mut response) = (Request::get(&format!("{url}/{number}")).unwrap(), Response::new());
    client.send(&request, &mut response).await?;
    assert_eq!(response.body.text().unwrap(), format!("/{number}"));
    Ok(())
}

/// Asks from 16 callers, 60 times each. Each fifth request is given up after up to 1.5 ms.
pub async fn ask_impatiently(client: &Client, url: &str) {
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let (client, url) = (client.clone(), url.to_owned());
        callers.spawn(async move {
            for number in 0..60 {
                let asked = ask(&client, &url, caller * 1000 + number);
                match number % 5 {
                    0 => drop(timeout(Duration::from_micros(number as u64 * 7919 % 1500), asked).await),
                    _ => drop(asked.await),
                }
            }
        });
    }
    callers.join_all().await;
    eventually("the end of a dial that goes on without its caller", || client.busy_connections() == 0).await;
}

/// 512 connections, a server that takes 0.1 seconds, and one second for all: half of 10,000 callers cannot be answered.
/// A third goes away before that, whenever it likes.
#[test]
fn ten_thousand_callers_share_512_connections_and_a_second() {
    paused(async {
        let stage = Stage::new(|mut peer, _| async move {
            while let Some(request) = peer.request().await? {
                sleep(SECOND / 10).await;
                peer.send(echo(&request)).await?;
            }
            Ok(())
        });
        let client = stage.builder().timeout(SECOND).build();
        let (start, mut callers) = (Instant::now(), JoinSet::new());
        for number in 0..10_000 {
            let client = client.clone();
            let limit = match number % 3 {
                0 => Duration::from_millis(number as u64 * 7919 % 1000),
                _ => Duration::MAX,
            };
            callers.spawn(async move { timeout(limit, ask(&client, "http://a", number)).await });
        }
        let (mut answered, mut late, mut gone) = (0, 0, 0);
        for end in callers.join_all().await {
            match end {
                Ok(Ok(())) => answered += 1,
                Ok(Err(error)) => {
                    assert!(error.is_timeout(), "{error:#}");
                    assert!(matches!(error.phase(), ClientPhase::Queue | ClientPhase::Wait), "{error:#}");
                    late += 1;
                }
                Err(_) => gone += 1,
            }
        }
        let took = start.elapsed().as_millis();
        assert!((1000..1010).contains(&took), "{took} ms");
        assert!(answered > 4_000 && late > 1_000 && gone > 1_000, "{answered}, {late}, {gone}");
        assert_eq!(client.busy_connections(), 0);
        assert!(client.idle_connections() <= 512, "{} rest", client.idle_connections());
        for number in 0..1_000 {
            ask(&client, "http://a", number).await.unwrap();
        }
    });
}

/// A server whose every connection ends in another bad way, at another moment.
pub async fn spoil(mut peer: Peer<tokio::net::TcpStream>, number: usize) -> io::Result<()> {
    for _ in 0..number * 7919 % 5 {
        let Some(request) = peer.request().await? else { return Ok(()) };
        peer.send(echo(&request)).await?;
    }
    match number % 7 {
        // A reset instead of a response, or of a request.
        0 => peer.reset(),
        1 => {
            peer.head().await?;
            peer.reset();
        }
        // A reset, or an end, in the middle of a response.
        2 | 3 => {
            let Some(request) = peer.request().await? else { return Ok(()) };
            let response = echo(&request);
            peer.send(&response[..response.len() - 1 - number % 40]).await?;
            if number % 7 == 2 {
                peer.reset();
            }
        }
        // Half an end: it would still read.
        4 => {
            peer.stream.shutdown().await?;
            peer.receive_all().await?;
        }
        // Something that is no response, and the end.
        5 => peer.send("HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\n").await?,
        // Behind a response another one, to nobody.
        _ => {
            let Some(request) = peer.request().await? else { return Ok(()) };
            peer.send(echo(&request) + &echo("GET /nobody ")).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_fails_in_every_way_causes_no_wrong_response() {
    let server = Scripted::new(spoil).await;
    let client = Client::builder()
        .limits(ClientLimits { connections_per_host_max: 16, ..ClientLimits::default() })
        .timeout(20 * SECOND)
        .build();
    let mut callers = JoinSet::new();
    for caller in 0..32 {
        let (client, url) = (client.clone(), server.url.clone());
        callers.spawn(async move {
            let (mut right, mut failed) = (0, 0);
            for number in 0..60 {
                // Some go away in the middle of it.
                let asked = ask(&client, &url, caller * 1000 + number);
                let asked = match number % 5 {
                    0 => timeout(Duration::from_micros(number as u64 * 7919 % 1500), asked).await.ok(),
                    _ => Some(asked.await),
                };
                match asked {
                    Some(Ok(())) => right += 1,
                    Some(Err(error)) => {
                        assert!(!error.is_timeout(), "{error:#}");
                        failed += 1;
                    }
                    None => {}
                }
            }
            (right, failed)
        });
    }
    let ends = callers.join_all().await;
    let (right, failed): (Vec<usize>, Vec<usize>) = ends.into_iter().unzip();
    let (right, failed) = (right.iter().sum::<usize>(), failed.iter().sum::<usize>());
    assert!(right > 500 && failed > 50, "{right} right, {failed} failed");
    assert_eq!(client.busy_connections(), 0);
}

/// Never answers.
struct Silent;

impl Resolver for Silent {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_hangs_times_out_for_every_caller() {
    let client = Client::builder()
        .resolver(Silent)
        .dns_ttl(SECOND)
        .limits(ClientLimits { connections_per_host_max: 8, ..ClientLimits::default() })
        .build();
    let start = Instant::now();
    let mut callers = JoinSet::new();
    for number in 0..24 {
        let client = client.clone();
        callers.spawn(async move {
            // The one that began the look-up goes first, and the others have to go on with it.
            let limit = if number == 0 { SECOND } else { Duration::MAX };
            match timeout(limit, ask(&client, "http://a.example", number)).await {
                Ok(end) => Some((end.unwrap_err().phase(), start.elapsed().as_secs())),
                Err(_) => None,
            }
        });
        settle().await;
    }
    let ends = callers.join_all().await;
    let count = |end| ends.iter().filter(|found| **found == end).count();
    assert_eq!(count(None), 1);
    // Eight at a time have a place, each for as long as a look-up may take; the ninth came when the first went.
    assert_eq!(count(Some((ClientPhase::Resolve, 5))), 7);
    assert_eq!(count(Some((ClientPhase::Resolve, 6))), 1);
    assert_eq!(ends.iter().flatten().filter(|(phase, _)| *phase == ClientPhase::Resolve).count(), 23);
    assert_eq!(client.busy_connections(), 0);
}

/// Takes six seconds to connect.
#[cfg(feature = "tls")]
struct Late(Stage);

#[cfg(feature = "tls")]
impl corehttp::net::Dialer for Late {
    type Stream = tokio::io::DuplexStream;

    async fn dial(&self, host: &str, port: u16) -> io::Result<Self::Stream> {
        sleep(6 * SECOND).await;
        self.0.dial(host, port).await
    }
}

/// The way to the proxy and the way through it have one timeout.
#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn a_proxy_that_drips_times_out_while_connecting() {
    let http: &[u8] = b"HTTP/1.1 200 OK\r\nx: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n";
    let interim: &[u8] = b"HTTP/1.1 103 x\r\n\r\n";
    let socks: &[u8] = &[5, 0, 5, 0, 0, 3, 200, b'x'];
    for (proxy, drops) in [("http://p", http), ("http://p", interim), ("socks5h://p", socks)] {
        let stage = Stage::new(move |mut peer, _| async move {
            for drop in drops.iter().cycle() {
                peer.send([*drop]).await?;
                sleep(SECOND * 9 / 10).await;
            }
            Ok(())
        });
        let late = Client::builder().dialer(Late(stage.clone()));
        for builder in [stage.builder(), late] {
            let proxies = corehttp::client::Proxies::all(corehttp::client::Proxy::new(proxy).unwrap());
            let (client, start) = (builder.proxies(proxies).build(), Instant::now());
            let error = ask(&client, "https://a.example", 1).await.unwrap_err();
            assert_eq!(
                (error.phase(), error.is_timeout()),
                (ClientPhase::Connect, true),
                "{proxy}: {error:#}"
            );
            assert_eq!(start.elapsed().as_secs(), 10, "{proxy}");
            assert_eq!((client.idle_connections(), client.busy_connections()), (0, 0));
        }
    }
}
