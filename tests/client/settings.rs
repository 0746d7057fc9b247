//! Settings of any value: each works, or fails as documented, and none allocates its maximum at once.

use std::time::Duration;

use corehttp::client::{BalancerChoice, ClientLimits, ClientTimeouts};
use corehttp::{Client, ClientBuilder, Request, Response};
use tokio::time::Instant;

use crate::support::{OK, Stage, ask, each, get, paused};

const SIZES: [usize; 3] = [0, 1, usize::MAX];
const TIMES: [Duration; 3] = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];

const SECOND: Duration = Duration::from_secs(1);

/// Three exchanges with these settings all end as `expected`, and at once.
#[track_caller]
fn check(what: &str, set: impl Fn(ClientBuilder) -> ClientBuilder, expected: Result<(), &str>) {
    paused(async {
        let (client, start) = (set(Stage::always(OK).builder()).build(), Instant::now());
        for _ in 0..3 {
            let response = ask(&client, &get()).await.map_err(|error| format!("{error:#}"));
            match (&response, expected) {
                (Ok(response), Ok(())) => assert_eq!(*response, (200, "ok".to_owned()), "{what}"),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{what}: {error}"),
                _ => panic!("{what}: {response:?} where {expected:?} was expected"),
            }
        }
        // Timers of tokio's count milliseconds.
        assert!(start.elapsed() < SECOND, "{what}");
    });
}

#[test]
fn a_client_takes_sizes_of_any_value() {
    for size in SIZES {
        let fits = |least: usize, error: &'static str| if size < least { Err(error) } else { Ok(()) };
        check(
            "connections",
            |it| it.limits(ClientLimits { connections_per_host_max: size, ..ClientLimits::default() }),
            Ok(()),
        );
        check(
            "idle connections",
            |it| it.limits(ClientLimits { idle_connections_max: size, ..ClientLimits::default() }),
            Ok(()),
        );
        check("decode", |it| it.decode_up_to(size), Ok(()));
        check(
            "body",
            |it| it.limits(ClientLimits { body_max: size, ..ClientLimits::default() }),
            fits(2, "too large"),
        );
        check(
            "head",
            |it| it.limits(ClientLimits { head_max: size, ..ClientLimits::default() }),
            fits(2, "too large"),
        );
        check(
            "fields",
            |it| it.limits(ClientLimits { fields_max: size, ..ClientLimits::default() }),
            fits(1, "too many fields"),
        );
    }
}

#[test]
fn a_client_takes_times_of_any_value() {
    for time in TIMES {
        let is_some = |phase: &'static str| if time < SECOND { Err(phase) } else { Ok(()) };
        check("names", |it| it.dns_ttl(time), Ok(()));
        check("all", |it| it.timeout(time), is_some("longer than"));
        let timeouts = |set: fn(&mut ClientTimeouts, Duration)| {
            move |it: ClientBuilder| {
                let mut timeouts = ClientTimeouts::default();
                set(&mut timeouts, time);
                it.timeouts(timeouts)
            }
        };
        // A connection that is there is never waited for.
        check("queue", timeouts(|it, time| it.queue = time), Ok(()));
        check("resolve", timeouts(|it, time| it.resolve = time), Ok(()));
        check("connect", timeouts(|it, time| it.connect = time), Ok(()));
        check("tls", timeouts(|it, time| it.tls = time), Ok(()));
        check("send", timeouts(|it, time| it.send = time), Ok(()));
        check("go ahead", timeouts(|it, time| it.expect_continue = time), Ok(()));
        check("wait", timeouts(|it, time| it.wait = time), is_some("longer than"));
        check("receive", timeouts(|it, time| it.receive = time), Ok(()));
        check("idle", timeouts(|it, time| it.idle = time), Ok(()));
        check("age", timeouts(|it, time| it.connection_age = Some(time)), Ok(()));
    }
    for receive_rate_min in [0, 1, u64::MAX] {
        let timeouts = ClientTimeouts { receive_rate_min, ..ClientTimeouts::default() };
        check("rate", |it| it.timeouts(timeouts), Ok(()));
    }
}

/// Three requests at once are answered by a pipeline with these bounds.
async fn check_pipeline(connections: usize, in_flight_max: usize) {
    let client = Stage::always(OK).client();
    let pipeline = client.pipeline("http://a").unwrap().connections(connections).in_flight_max(in_flight_max);
    let pipeline = pipeline.build();
    let ask = async || {
        let mut response = Response::new();
        pipeline.send(&Request::get("/").unwrap(), &mut response).await.unwrap();
        assert_eq!(response.body.bytes(), b"ok");
    };
    tokio::join!(ask(), ask(), ask());
    assert_eq!(pipeline.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_takes_sizes_of_any_value() {
    for connections in SIZES {
        for in_flight_max in SIZES {
            check_pipeline(connections, in_flight_max).await;
        }
    }
    let most = Client::new().pipeline("http://a").unwrap().connections(usize::MAX);
    assert!(format!("{most:?}").contains("connections: 1024"), "{most:?}");
}

#[tokio::test(start_paused = true)]
async fn a_balancer_takes_sizes_and_times_of_any_value() {
    for size in SIZES {
        for time in TIMES {
            let client = Stage::always(OK).client();
            let balancer =
                client.balance(["http://a", "http://b"]).unwrap().choice(BalancerChoice::LeastPending);
            let balancer = balancer.penalty(time).penalty_max(size).healthy_if(|_| false);
            let balancer = balancer.health_check(each("/health", time)).build();
            for _ in 0..8 {
                let mut response = Response::new();
                balancer.send(&Request::get("/").unwrap(), &mut response).await.unwrap();
                assert_eq!(response.body.bytes(), b"ok");
            }
            let counts = balancer.counts();
            assert_eq!(counts.iter().map(|host| host.failed).sum::<u64>(), 8);
            // Only penalties that have not ended count, up to the bound.
            let most = if time == Duration::MAX { size.min(4) } else { 0 };
            tokio::time::advance(Duration::from_millis(1)).await;
            let counts = balancer.counts();
            assert!(counts.iter().map(|host| host.penalties).eq([most; 2]), "{counts:?}");
        }
    }
}
