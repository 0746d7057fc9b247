//! A balancer whose hosts and callers are at their worst: hosts that answer nothing, half or too much, or flap, and keys
//! that are forged, huge, or name hosts which are gone.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corehttp::client::{Balancer, BalancerBuilder, ClientLimits, ClientTimeouts, HealthCheck};
use corehttp::net::Dialer;
use corehttp::{Client, ClientBuilder, ClientError, Request, Response};
use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::{Peer, Received, paused, settle};

const HOSTS: [&str; 4] = ["http://a", "http://b", "http://c", "http://d"];

/// How the host `a` behaves; the others do well.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behavior {
    Well,
    /// It accepts connections, and answers nothing.
    Silent,
    /// It closes in the middle of a head, or of a body.
    HalfHead,
    HalfBody,
    /// It announces more than it sends, and waits.
    TooLittle,
    /// It sends more than it announces.
    TooMuch,
    /// It announces two lengths.
    TwoLengths,
    Refuses,
    /// It and the others cannot be dialed, since this process has too many open files.
    NoDescriptors,
}

#[derive(Clone)]
struct Hosts {
    behavior: Arc<Mutex<Behavior>>,
    /// How long hosts take that do well.
    takes: Duration,
}

impl Hosts {
    fn new(behavior: Behavior) -> Hosts {
        Hosts { behavior: Arc::new(Mutex::new(behavior)), takes: Duration::ZERO }
    }

    fn balance(&self) -> BalancerBuilder {
        self.balance_by(|client| client)
    }

    fn balance_by(&self, set: impl FnOnce(ClientBuilder) -> ClientBuilder) -> BalancerBuilder {
        let second = Duration::from_secs(1);
        let timeouts = ClientTimeouts { wait: second, receive: second, ..ClientTimeouts::default() };
        let client = Client::builder().dialer(self.clone()).timeouts(timeouts);
        set(client).build().balance(HOSTS).unwrap()
    }

    async fn serve(self, mut peer: Peer<DuplexStream>, host: String) -> io::Result<()> {
        while let Some(head) = peer.head().await? {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut content = vec![0; length.map_or(0, |length| length.parse().unwrap())];
            peer.stream.read_exact(&mut content).await?;
            let behavior = if host == "a" { *self.behavior.lock().unwrap() } else { Behavior::Well };
            sleep(self.takes).await;
            let head = "HTTP/1.1 200 OK\r\ncontent-length: ";
            match behavior {
                Behavior::Well => peer.send(format!("{head}1\r\n\r\n{host}")).await?,
                Behavior::Refuses | Behavior::NoDescriptors => return Ok(()),
                Behavior::HalfHead => return peer.send(head).await,
                Behavior::HalfBody => return peer.send(format!("{head}2\r\n\r\n{host}")).await,
                Behavior::TwoLengths => {
                    peer.send(format!("{head}1\r\ncontent-length: 2\r\n\r\n{host}{host}")).await?;
                }
                Behavior::TooMuch => peer.send(format!("{head}1\r\n\r\n{host}{host}{host}")).await?,
                Behavior::TooLittle => {
                    peer.send(format!("{head}2\r\n\r\n{host}")).await?;
                    return peer.receive_all().await;
                }
                Behavior::Silent => return peer.receive_all().await,
            }
        }
        Ok(())
    }
}

impl Dialer for Hosts {
    type Stream = DuplexStream;

    async fn dial(&self, host: &str, _port: u16) -> io::Result<DuplexStream> {
        match *self.behavior.lock().unwrap() {
            Behavior::Refuses if host == "a" => return Err(io::ErrorKind::ConnectionRefused.into()),
            Behavior::NoDescriptors => return Err(io::Error::from_raw_os_error(24)),
            _ => {}
        }
        let (near, far) = duplex(1 << 12);
        tokio::spawn(self.clone().serve(Peer::new(far, Received::default()), host.to_owned()));
        Ok(near)
    }
}

/// Who answers a request with this content, if anybody does.
async fn ask(balancer: &Balancer, content: &[u8]) -> Option<String> {
    let (mut request, mut response) = (Request::post("/").unwrap(), Response::new());
    request.body.set_bytes(content);
    balancer.send(&request, &mut response).await.ok()?;
    let host = response.text().unwrap().to_owned();
    assert!(HOSTS.iter().any(|url| url.strip_prefix("http://") == Some(&host)), "{host:?}");
    Some(host)
}

/// How many of so many requests fail, one each 100 ms.
async fn failed(balancer: &Balancer, count: usize) -> usize {
    let mut asking = JoinSet::new();
    for _ in 0..count {
        let balancer = balancer.clone();
        asking.spawn(async move { ask(&balancer, b"").await.is_none() });
        sleep(Duration::from_millis(100)).await;
    }
    asking.join_all().await.into_iter().filter(|failed| *failed).count()
}

#[test]
fn a_host_that_answers_badly_costs_five_requests_and_trials() {
    use Behavior::{HalfBody, HalfHead, Refuses, Silent, TooLittle, TooMuch, TwoLengths};
    for behavior in [Silent, HalfHead, HalfBody, TooLittle, TwoLengths, Refuses, TooMuch] {
        paused(async move {
            let hosts = Hosts::new(behavior);
            let balancer = hosts.balance().build();
            // 40 seconds, in which one trial is due.
            let failed = failed(&balancer, 400).await;
            let expected = if behavior == TooMuch { 0..=0 } else { 5..=7 };
            assert!(expected.contains(&failed), "{behavior:?}: {failed} of 400");
            let counts = balancer.counts();
            assert!(counts.iter().all(|host| host.pending == 0), "{behavior:?}: {counts:?}");
            assert_eq!(counts[0].failed, failed as u64, "{behavior:?}");
        });
    }
}

/// A stream's head comes, and the end of its body does not.
#[test]
fn a_host_whose_bodies_break_off_costs_as_few_streams() {
    for (behavior, is_call) in
        [Behavior::HalfBody, Behavior::TooLittle].into_iter().flat_map(|it| [(it, false), (it, true)])
    {
        paused(async move {
            let balancer = Hosts::new(behavior).balance().build();
            let mut failed = 0;
            for _ in 0..400 {
                failed += u64::from(stream(&balancer, is_call).await.is_err());
                sleep(Duration::from_millis(100)).await;
            }
            assert!((5..=7).contains(&failed), "{behavior:?}, {is_call}: {failed} of 400");
            let counts = balancer.counts();
            assert_eq!((counts[0].failed, counts[0].pending), (failed, 0), "{behavior:?}, {is_call}");
        });
    }
}

/// A caller that reads too late, or has too little room, has a healthy host.
#[test]
fn a_host_is_not_blamed_for_the_bounds_of_its_caller() {
    paused(async {
        let balancer = Hosts::new(Behavior::Well).balance_by(|client| client.timeout(Duration::from_secs(1)));
        let balancer = balancer.build();
        for _ in 0..40 {
            let (request, mut response) = (Request::get("/").unwrap(), Response::new());
            let mut reader = balancer.open_response(&request, &mut response).await.unwrap();
            sleep(Duration::from_secs(2)).await;
            assert!(reader.chunk().await.is_err_and(|error| error.is_timeout()));
        }
        let counts = balancer.counts();
        assert!(counts.iter().all(|host| host.failed == 0 && host.ejections == 0), "{counts:?}");
    });
}

/// A body that the caller cuts off, and a line in which all wait for one connection, show nothing of a host either.
#[test]
fn a_host_is_not_blamed_for_bounds_of_a_body_or_of_the_line() {
    let second = Duration::from_secs(1);
    let cut = |client: ClientBuilder| {
        client.limits(ClientLimits { body_max: 0, connections_per_host_max: 1, ..ClientLimits::default() })
    };
    let in_line = |client: ClientBuilder| {
        let limits = ClientLimits { connections_per_host_max: 1, ..ClientLimits::default() };
        client.limits(limits).timeouts(ClientTimeouts { queue: second / 2, ..ClientTimeouts::default() })
    };
    let late = |client: ClientBuilder| client.timeout(second / 2);
    let [well, slow] = [(Behavior::Well, 0), (Behavior::Well, 1)];
    for (what, (behavior, takes), set) in [
        ("body_max", well, &cut as &dyn Fn(ClientBuilder) -> ClientBuilder),
        ("the line", slow, &in_line),
        ("the total time", (Behavior::TooLittle, 0), &late),
    ] {
        let hosts = Hosts { takes: second * takes, ..Hosts::new(behavior) };
        let balancer = hosts.balance_by(set).retry_other_hosts(true).build();
        paused(async move {
            assert!(failed(&balancer, 100).await >= 10, "{what}");
            for host in balancer.counts() {
                assert!(
                    host.failed == 0 && host.penalties == 0 && host.ejections == 0 && host.pending == 0,
                    "{what}: {host:?}"
                );
            }
        });
    }
}

/// A want of this process must not eject all hosts, nor take them for down.
#[cfg(unix)]
#[test]
fn a_host_is_not_blamed_for_a_want_of_descriptors() {
    paused(async {
        let hosts = Hosts::new(Behavior::NoDescriptors);
        let check = HealthCheck::connect().interval(Duration::from_millis(50));
        let balancer = hosts.balance().health_check(check).build();
        assert_eq!(failed(&balancer, 40).await, 40);
        *hosts.behavior.lock().unwrap() = Behavior::Well;
        assert_eq!(failed(&balancer, 40).await, 0);
        for host in balancer.counts() {
            assert!(host.failed == 0 && host.ejections == 0 && host.down.is_none(), "{host:?}");
            assert_eq!(host.served, 10, "{host:?}");
        }
    });
}

/// Reads the body of a response as a stream.
async fn stream(balancer: &Balancer, is_call: bool) -> Result<(), ClientError> {
    let (request, mut response) = (Request::get("/").unwrap(), Response::new());
    let mut reader = match is_call {
        false => balancer.open_response(&request, &mut response).await?,
        true => balancer.open_call(&request).await?.finish(&mut response).await?,
    };
    while reader.chunk().await?.is_some() {}
    Ok(())
}

/// It is never ejected, since it answers in between; each failure keeps requests from it for three seconds.
#[test]
fn a_host_that_flaps_each_second_costs_a_request_each_three_seconds() {
    paused(async {
        let hosts = Hosts::new(Behavior::Well);
        let balancer = hosts.balance().build();
        let is_over = Arc::new(AtomicBool::new(false));
        let (flapping, flaps) = (hosts.clone(), is_over.clone());
        tokio::spawn(async move {
            for behavior in [Behavior::Refuses, Behavior::Well].into_iter().cycle() {
                *flapping.behavior.lock().unwrap() = behavior;
                sleep(Duration::from_secs(1)).await;
                if flaps.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let failed = failed(&balancer, 1_200).await;
        is_over.store(true, Ordering::Relaxed);
        assert!((1..=120 / 3).contains(&failed), "{failed} of 1200");
        assert!(balancer.counts().iter().all(|host| host.pending == 0));
    });
}

/// A key is no more than octets that are hashed: none of them leads to a host of the caller's choice, or to none.
#[test]
fn a_forged_key_leads_to_a_host_that_is_there() {
    paused(async {
        let balancer =
            Hosts::new(Behavior::Well).balance().key_by(|request| Some(request.body.bytes())).build();
        balancer.remove("http://d");
        let huge = vec![b'x'; 1 << 20];
        let keys: [&[u8]; 10] = [
            b"",
            b"d",
            b"http://d",
            b"http://d at 10.0.0.1",
            b"http://evil",
            b"\0",
            b"\xff\xfe",
            b"\r\n",
            &huge,
            &huge[1..],
        ];
        for key in keys {
            let host = ask(&balancer, key).await.expect("a host answers");
            assert_ne!(host, "d");
            assert_eq!(ask(&balancer, key).await, Some(host), "{:?} of {}", key.first(), key.len());
        }
    });
}

/// A peer that has found keys for one host brings it no more than a quarter above its share of what is pending.
#[test]
fn forged_keys_for_one_host_are_bounded_by_its_load() {
    paused(async {
        let mut hosts = Hosts::new(Behavior::Well);
        hosts.takes = Duration::from_millis(1);
        let balancer = hosts.balance().key_by(|request| Some(request.body.bytes())).build();
        let mut forged = Vec::new();
        for number in 0..400_u32 {
            let key = number.to_le_bytes();
            if ask(&balancer, &key).await.as_deref() == Some("a") {
                forged.push(key);
            }
        }
        assert!(forged.len() > 60, "{} keys", forged.len());
        let mut asking = JoinSet::new();
        for key in &forged {
            let (balancer, key) = (balancer.clone(), *key);
            asking.spawn(async move { ask(&balancer, &key).await });
        }
        settle().await;
        let pending: Vec<usize> = balancer.counts().iter().map(|host| host.pending).collect();
        let bound = (forged.len() as f64 / 4.0 * 1.25).ceil() as usize;
        assert_eq!(pending.iter().sum::<usize>(), forged.len());
        assert!(pending[0] <= bound && pending[0] + 2 >= bound, "{pending:?}");
        assert!(asking.join_all().await.iter().all(Option::is_some));
    });
}
