//! Guards: which requests they refuse, and that nothing is received for these.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use corehttp::middleware::{ConcurrencyLimit, CrossOriginProtection, RateLimit};
use corehttp::middleware::{Middleware, Next, guard, wrap};
use corehttp::server::ForwardedHeader;
use corehttp::{
    BodyPlan, Context, Handler, IntoHandler, Request, Response, Router, Server, Service, Status, Timeouts,
    TrustedProxies, routes,
};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use crate::support::{ErrorReports, Peer, Served, eventually, get, paused, status, streaming};

/// The response to `post`, whose body is not there yet, from a server that protects `handler`.
#[track_caller]
fn protected<Kind, H>(handler: H, fields: &str) -> (String, Vec<(u16, String)>)
where
    H: IntoHandler<Kind>,
    H::Handler: Send + Sync,
{
    let reports = ErrorReports::default();
    let served = Served::with(|server| reports.attach(server), handler);
    let mut peer = served.connect();
    peer.send(format!("POST / HTTP/1.1\r\nhost: a\r\n{fields}content-length: 5000000\r\n\r\n"));
    let received = peer.receive();
    drop(peer);
    (received, reports.take())
}

fn untouched(_: &mut Context) {
    unreachable!("a refused request reaches no handler");
}

const CROSS: &str = "sec-fetch-site: cross-site\r\norigin: https://b\r\n";

#[test]
fn a_forged_request_is_refused_before_its_body_is_received() {
    for expect in ["", "expect: 100-continue\r\n"] {
        let guarded = wrap(CrossOriginProtection::new(), untouched);
        let (received, reports) = protected(guarded, &format!("{expect}{CROSS}"));
        assert_eq!(status(&received), 403, "{received}");
        assert_eq!(reports[0].0, 403);
        assert!(reports[0].1.contains("by its sec-fetch-site"), "{reports:?}");
    }
    let (received, reports) =
        protected(wrap(CrossOriginProtection::new(), untouched), "origin: https://b\r\n");
    assert!(status(&received) == 403 && reports[0].1.contains("by its origin"), "{received} {reports:?}");
}

/// Browsers of before 2023 send an origin without a default port, whatever stands in `host`.
#[test]
fn an_origin_is_of_the_host_that_the_client_has_used_rfc6454_4() {
    let proxies = || {
        let loopback = TrustedProxies::new(["127.0.0.0/8", "::1"]).unwrap();
        loopback.headers([ForwardedHeader::XForwardedHost])
    };
    let saved = |ctx: &mut Context| ctx.response.set_text("saved");
    let direct = Served::new(wrap(CrossOriginProtection::new(), saved));
    let behind =
        Served::with(|server| server.trusted_proxies(proxies()), wrap(CrossOriginProtection::new(), saved));
    for (host, origin, forwarded, expected) in [
        ("a", "https://a", "", [200, 200]),
        ("a:443", "https://a", "", [200, 200]),
        ("a:80", "http://a", "", [200, 200]),
        ("a:80", "https://a", "", [403, 403]),
        ("a:443", "http://a", "", [403, 403]),
        ("a:8443", "https://a:8443", "", [200, 200]),
        ("inner", "https://a", "x-forwarded-host: a\r\n", [403, 200]),
        ("inner", "https://a", "x-forwarded-host: evil, a:443\r\n", [403, 200]),
        ("inner", "https://evil", "x-forwarded-host: a\r\n", [403, 403]),
        ("inner", "https://inner", "x-forwarded-host: a\r\n", [200, 403]),
        ("inner", "https://a", "x-forwarded-host: a b\r\n", [403, 403]),
    ] {
        let post = format!(
            "POST / HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\n{forwarded}content-length: 0\r\n\r\n"
        );
        let found = [&direct, &behind].map(|served| status(&served.ask(&post)));
        assert_eq!(found, expected, "{post}");
    }
}

#[test]
fn middleware_outside_of_a_guard_sees_what_it_refuses() {
    let log = async |ctx: &mut Context, next: Next<'_>| -> corehttp::Result {
        ctx.response.headers.set("x-own", 1)?;
        let outcome = next.handle(ctx).await;
        assert_eq!(outcome.as_ref().unwrap_err().status(), Status::FORBIDDEN);
        outcome
    };
    let app = wrap(CrossOriginProtection::new(), untouched).boxed();
    let (received, _) = protected(wrap(log, app), CROSS);
    assert!(received.contains("x-own: 1\r\n") && status(&received) == 403, "{received}");
}

#[test]
fn a_guard_refuses_even_behind_a_handler_that_does_not_pass_the_head_on() {
    let guarded = wrap(CrossOriginProtection::new(), untouched);
    let holds = async move |ctx: &mut Context| guarded.handle(ctx).await;
    let served = Served::new(streaming(holds));
    let received = served.ask(format!("POST / HTTP/1.1\r\nhost: a\r\n{CROSS}content-length: 4\r\n\r\nbody"));
    assert_eq!(status(&received), 403, "{received}");
}

#[test]
fn the_body_of_an_admitted_request_is_received_as_the_handler_plans() {
    let protection = CrossOriginProtection::new();
    let echo = |ctx: &mut Context| std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
    let reads = async |ctx: &mut Context| -> corehttp::Result {
        assert!(ctx.request.body.is_empty(), "it is not received yet");
        let chunk = ctx.body_reader().chunk().await?.map(<[u8]>::to_vec);
        ctx.response.body.set_bytes(chunk.unwrap_or_default());
        Ok(())
    };
    let post = "POST / HTTP/1.1\r\nhost: a\r\nsec-fetch-site: same-origin\r\ncontent-length: 4\r\n\r\nbody";
    assert!(Served::new(wrap(protection.clone(), echo)).ask(post).ends_with("\r\n\r\nbody"));
    assert!(Served::new(wrap(protection.clone(), streaming(reads))).ask(post).ends_with("\r\n\r\nbody"));
    // One guard around another.
    let twice = wrap(protection.clone(), wrap(protection, echo));
    assert!(Served::new(twice).ask(post).ends_with("\r\n\r\nbody"));
}

const HOUR: Duration = Duration::from_secs(3600);

/// A handler that waits for a permit of `gate`.
fn gated(gate: &Arc<Semaphore>) -> impl Handler + Send + Sync + use<> {
    let gate = gate.clone();
    let waits = async move |ctx: &mut Context| {
        gate.acquire().await.unwrap().forget();
        ctx.response.set_text("served");
    };
    waits.into_handler()
}

async fn respond<H: Handler + 'static>(service: &Service<H>) -> Response {
    service.respond(Request::get("/").unwrap()).await
}

/// Whether `response` is 503, as it should be.
#[track_caller]
fn is_busy(response: &Response) -> bool {
    let is_busy = response.status == Status::SERVICE_UNAVAILABLE;
    assert_eq!(response.headers.get("retry-after"), is_busy.then_some("1"), "{response:?}");
    is_busy
}

#[test]
fn requests_beyond_the_bound_are_refused_until_others_have_ended() {
    let (gate, limit) = (Arc::new(Semaphore::new(0)), ConcurrencyLimit::new(2));
    let [service, other] = [(); 2].map(|()| Server::new().service(wrap(limit.clone(), gated(&gate))));
    let statuses = paused(async {
        let late = async {
            yield_now().await;
            // Both handlers share the bound.
            let refused = [respond(&service).await, respond(&other).await];
            gate.add_permits(1);
            yield_now().await;
            yield_now().await;
            gate.add_permits(2);
            [is_busy(&refused[0]), is_busy(&refused[1]), is_busy(&respond(&other).await)]
        };
        let (one, two, late) = tokio::join!(respond(&service), respond(&other), late);
        assert!(!is_busy(&one) && !is_busy(&two));
        late
    });
    assert_eq!(statuses, [true, true, false]);
}

#[test]
fn a_request_waits_for_others_as_long_as_it_may() {
    let (gate, limit) = (Arc::new(Semaphore::new(0)), ConcurrencyLimit::new(1).wait(HOUR));
    let service = Server::new().service(wrap(limit.clone(), gated(&gate)));
    let opens = |after| {
        let gate = &gate;
        async move {
            tokio::time::sleep(after).await;
            gate.add_permits(2);
        }
    };
    paused(async {
        let (one, two, ()) = tokio::join!(respond(&service), respond(&service), opens(HOUR / 2));
        assert!(!is_busy(&one) && !is_busy(&two));
        let (one, two, ()) = tokio::join!(respond(&service), respond(&service), opens(HOUR * 2));
        assert!(!is_busy(&one) && is_busy(&two));
    });
}

/// The handler would work for them in vain, while others wait.
#[test]
fn a_peer_that_leaves_while_it_waits_does_not_take_the_place_of_another() {
    for (half_close, leave) in [(true, Peer::reset as fn(Peer)), (false, Peer::reset), (false, drop)] {
        let (gate, limit) = (Arc::new(Semaphore::new(0)), ConcurrencyLimit::new(1).wait(HOUR));
        let (calls, called) = channel();
        let handler = gated(&gate);
        let counts = async move |ctx: &mut Context, next: Next<'_>| -> corehttp::Result {
            calls.send(ctx.request.path().to_owned()).unwrap();
            next.handle(ctx).await
        };
        let reports = ErrorReports::default();
        let served = Served::with(
            |server| reports.attach(server).half_close(half_close),
            wrap((limit, counts), handler),
        );
        let total = || served.running.counts().total;
        let mut first = served.connect();
        first.send(get("/first"));
        assert_eq!(called.recv().unwrap(), "/first");
        let waiting: Vec<_> = (0..3).map(|_| served.connect()).collect();
        let waiting = waiting.into_iter().map(|mut peer| {
            peer.send(get("/gone"));
            peer
        });
        let waiting: Vec<_> = waiting.collect();
        eventually("all wait", || total().requests == 4);
        waiting.into_iter().for_each(leave);
        eventually("they have left", || total().open == 1);
        let mut last = served.connect();
        last.send(get("/last"));
        gate.add_permits(2);
        assert!(first.receive().ends_with("served") && last.receive().ends_with("served"));
        assert_eq!(called.try_iter().collect::<Vec<_>>(), ["/last"], "{half_close}");
        let gone = (0, "the peer closed before it was answered in full".to_owned());
        assert_eq!(reports.take(), [gone.clone(), gone.clone(), gone], "{half_close}");
    }
}

#[test]
fn a_permit_comes_back_however_a_handler_ends() {
    let limit = ConcurrencyLimit::new(1);
    let ends = wrap(limit, async |ctx: &mut Context| -> corehttp::Result {
        match ctx.request.path() {
            "/panic" => panic!("this is a test"),
            "/fail" => Err(Status::NOT_FOUND.into()),
            "/late" => std::future::pending().await,
            _ => Ok(()),
        }
    });
    let timeouts = Timeouts { handler: Some(Duration::from_secs(1)), ..Timeouts::default() };
    let service = Server::new().timeouts(timeouts).service(ends);
    paused(async {
        for (path, expected) in [("/panic", 500), ("/fail", 404), ("/late", 503), ("/", 200)] {
            let response = service.respond(Request::get(path).unwrap()).await;
            assert_eq!(response.status.as_u16(), expected, "{path}");
        }
        // The peer of a request is gone.
        let _ =
            tokio::time::timeout(Duration::from_millis(1), service.respond(Request::get("/late").unwrap()))
                .await;
        assert_eq!(respond(&service).await.status, Status::OK);
    });
    let none = Server::new().service(wrap(ConcurrencyLimit::new(0), untouched));
    assert!(is_busy(&paused(respond(&none))));
}

#[test]
fn a_request_beyond_a_bound_is_refused_before_its_body_is_received() {
    let none = || wrap(ConcurrencyLimit::new(0), untouched);
    let rate = || {
        let limit = RateLimit::new(1, HOUR);
        let own = SocketAddr::from(([127, 0, 0, 1], 4711)).into();
        let service = Server::new().service(wrap(limit.clone(), |_: &mut Context| {}));
        assert_eq!(paused(service.respond_from(own, Request::get("/").unwrap())).status, Status::OK);
        wrap(limit, untouched)
    };
    for expect in ["", "expect: 100-continue\r\n"] {
        let (received, reports) = protected(none(), expect);
        assert!(status(&received) == 503 && received.contains("retry-after: 1\r\n"), "{received}");
        let (limited, _) = protected(rate(), expect);
        assert!(status(&limited) == 429 && limited.contains("retry-after: 3600\r\n"), "{limited}");
        assert_eq!(reports, [], "a refusal is a response like any other");
    }
}

/// The statuses of requests that a proxy passes on for these clients, with a bound of two an hour.
#[track_caller]
fn check_rate(is_proxy: fn(IpAddr) -> bool, expected: &[(&str, u16)]) {
    let limited = wrap(RateLimit::new(2, HOUR), |ctx: &mut Context| ctx.response.set_text("served"));
    let served = Served::with(|server| server.trusted_proxies(TrustedProxies::from_fn(is_proxy)), limited);
    for (client, expected) in expected {
        let received = served.ask(format!("GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: {client}\r\n\r\n"));
        assert_eq!(status(&received), *expected, "{client}");
        assert_eq!(received.contains("retry-after: 1800\r\n"), *expected == 429, "{received}");
    }
}

#[test]
fn each_client_has_a_bound_of_its_own() {
    let expected = [
        ("192.0.2.1", 200),
        ("192.0.2.1", 200),
        ("192.0.2.1", 429),
        ("192.0.2.66, 192.0.2.1", 429),
        ("192.0.2.1:4711", 429),
        ("::ffff:192.0.2.1", 429),
        ("192.0.2.2", 200),
        ("2001:db8::1", 200),
        ("2001:db8::2", 200),
        ("2001:db8::3", 429),
        ("2001:db8:0:1::3", 200),
        ("unknown", 200),
        ("_hidden", 200),
        ("junk", 429),
    ];
    check_rate(|ip| ip.is_loopback(), &expected);
    // A peer that is no proxy cannot claim to be another client.
    check_rate(|_| false, &[("192.0.2.1", 200), ("192.0.2.2", 200), ("192.0.2.3", 429)]);
}

/// A user that middleware finds only when it is called, as a session does.
struct User(u32);

#[test]
fn requests_may_count_for_a_user_in_place_of_a_client() {
    let find = async |ctx: &mut Context, next: Next<'_>| -> corehttp::Result {
        if let Some(user) = ctx.request.headers.get("x-user").and_then(|user| user.parse().ok()) {
            ctx.extensions.insert(User(user));
        }
        next.handle(ctx).await
    };
    let limit = RateLimit::new(1, HOUR).by(|ctx| ctx.extensions.get().map(|User(number)| *number));
    let served = Served::new(wrap((find, limit), |ctx: &mut Context| ctx.response.set_text("served")));
    let post = |user: &str| {
        let fields = format!("x-user: {user}\r\ncontent-length: 4\r\n");
        status(&served.ask(format!("POST / HTTP/1.1\r\nhost: a\r\n{fields}\r\nbody")))
    };
    // Requests without a user count for their client, which is one.
    for (user, expected) in
        [("1", 200), ("2", 200), ("1", 429), ("-", 200), ("-", 429), ("3", 200), ("2", 429)]
    {
        assert_eq!(post(user), expected, "{user}");
    }
}

/// draft-ietf-httpapi-ratelimit-headers-10
#[test]
fn clients_are_told_their_bound_and_what_is_left_of_it() {
    let fails = |_: &mut Context| Err(corehttp::Error::from(Status::NOT_FOUND));
    let limit = RateLimit::new(4, Duration::from_secs(60)).burst(2).told_as("api");
    let service = Server::new().service(wrap(limit, fails));
    paused(async {
        for (status, rest) in [(404, "r=1;t=15"), (404, "r=0;t=30"), (429, "r=0;t=30")] {
            let response = respond(&service).await;
            assert_eq!(response.status.as_u16(), status);
            assert_eq!(response.headers.get("ratelimit-policy"), Some("\"api\";q=4;w=60"));
            assert_eq!(response.headers.get("ratelimit"), Some(&*format!("\"api\";{rest}")));
            assert_eq!(response.headers.get("retry-after"), (status == 429).then_some("15"));
        }
    });
}

/// The fields are lists: the bound for a day is told beside the one for a minute, which refuses nobody.
#[test]
fn each_of_several_bounds_is_told() {
    let daily = || RateLimit::new(2, 24 * HOUR).told_as("daily");
    let limits = (daily(), RateLimit::new(60, Duration::from_secs(60)).told_as("minute"), daily());
    let service = Server::new().service(wrap(limits, |_: &mut Context| {}));
    let lines = |response: &Response, name: &str| -> Vec<String> {
        response.headers.all(name).map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    };
    paused(async {
        for left in [1, 0] {
            let response = respond(&service).await;
            let policies = ["\"minute\";q=60;w=60", "\"daily\";q=2;w=86400"];
            assert_eq!(lines(&response, "ratelimit-policy"), policies);
            let daily = format!("\"daily\";r={left};t={}", 43200 * (2 - left));
            let minute = format!("\"minute\";r={};t={}", 58 + left, 2 - left);
            assert_eq!(lines(&response, "ratelimit"), [minute, daily]);
        }
        let refused = respond(&service).await;
        assert_eq!(refused.status, Status::TOO_MANY_REQUESTS);
        assert_eq!(lines(&refused, "ratelimit"), ["\"daily\";r=0;t=86400"]);
    });
}

#[test]
fn handlers_share_a_bound_and_bounds_add_up() {
    let limit = RateLimit::new(3, HOUR);
    let service = |guarded| Server::new().service(guarded);
    let none = |_: &mut Context| {};
    let (one, other) = (service(wrap(limit.clone(), none)), service(wrap(limit.clone(), none)));
    let strict = RateLimit::new(2, HOUR);
    let within = Server::new().service(wrap(limit.clone(), wrap(strict, none)));
    let mut post = Request::post("/").unwrap();
    post.body.set_bytes("body");
    paused(async {
        assert_eq!(respond(&one).await.status, Status::OK);
        assert_eq!(respond(&other).await.status, Status::OK);
        // A request counts once, whatever on_head and handle look at.
        assert_eq!(within.respond(post.clone()).await.status, Status::OK);
        assert_eq!(within.respond(post).await.status, Status::TOO_MANY_REQUESTS);
        assert_eq!(respond(&one).await.status, Status::TOO_MANY_REQUESTS);
    });
}

/// A body that takes long is counted when it is there: its client has sent nothing for a while.
#[test]
fn a_rate_is_that_of_the_time_at_which_a_body_has_arrived() {
    let interval = Duration::from_millis(300);
    let served = Served::new(wrap(RateLimit::new(1, interval), |_: &mut Context| ()));
    let mut slow = served.connect();
    slow.send("POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n");
    assert!(slow.receive_through("\r\n\r\n").contains(" 100 "), "the head is admitted");
    assert_eq!(status(&served.ask(get("/"))), 200);
    thread::sleep(interval + Duration::from_millis(50));
    slow.send("body");
    assert_eq!(status(&slow.receive()), 200);
}

#[test]
fn of_two_guards_the_one_that_refuses_is_the_one_that_answers() {
    let none = |_: &mut Context| {};
    let limit = RateLimit::new(1, HOUR);
    let served = Served::new(wrap(limit.clone(), wrap(CrossOriginProtection::new(), none)));
    let post = |fields: &str| format!("POST / HTTP/1.1\r\nhost: a\r\n{fields}content-length: 4\r\n\r\nbody");
    // The forged request is refused by its head, and counts for the outer guard all the same.
    assert_eq!(status(&served.ask(post(CROSS))), 403);
    assert_eq!(status(&served.ask(post(""))), 429);
    let served = Served::new(wrap(CrossOriginProtection::new(), wrap(RateLimit::new(1, HOUR), none)));
    assert_eq!(status(&served.ask(post(CROSS))), 403);
    assert_eq!(status(&served.ask(post(""))), 200);
    assert_eq!(status(&served.ask(post(""))), 429);
}

#[test]
fn a_guard_serves_a_route_a_group_or_a_router() {
    let none = |_: &mut Context| {};
    let protection = CrossOriginProtection::new();
    let group = Router::new().post("/save", none).unwrap().post("/drop", none).unwrap();
    let routes = Router::new()
        .post("/hook", none)
        .and_then(|router| router.post("/limited", wrap(ConcurrencyLimit::new(0), untouched)))
        .and_then(|router| router.mount("/group", wrap(protection, group)));
    let served = Served::new(wrap(RateLimit::new(5, HOUR), routes.unwrap()));
    for (path, expected) in [
        ("/hook", 200),
        ("/limited", 503),
        ("/group/save", 403),
        ("/group/drop", 403),
        ("/none", 404),
        ("/hook", 429),
    ] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\n{CROSS}content-length: 4\r\n\r\n");
        assert_eq!(status(&served.ask(head + "body")), expected, "{path}");
    }
}

/// A handler that refuses by its head is a handler behind the guard: its refusals count, and come after the guard's.
#[test]
fn refusals_of_the_plan_behind_a_guard_count() {
    let refuses = |ctx: &mut Context| ctx.response.set_text("secret");
    let refuses = wrap(BodyPlan::Refuse(Status::UNAUTHORIZED), refuses);
    let served = Served::new(wrap(RateLimit::new(2, Duration::from_secs(3600)), refuses));
    const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\nx";
    let statuses = [GET, post, GET, post].map(|wire| status(&served.ask(wire)));
    assert_eq!(statuses, [401, 401, 429, 429]);
}

/// A slow peer holds no permit while its body arrives, whatever leaves that for later beneath.
#[test]
fn a_body_is_received_before_a_permit_is_taken() {
    let passes = || {
        guard(async |_: &mut Context| -> corehttp::Result {
            yield_now().await;
            Ok(())
        })
    };
    let hello = |ctx: &mut Context| ctx.response.set_text("hello");
    let one = || ConcurrencyLimit::new(1);
    #[cfg(feature = "fs")]
    let empty = tempfile::tempdir().unwrap();
    for app in [
        wrap(one(), hello).boxed(),
        wrap((one(), passes()), hello).boxed(),
        wrap((one(), passes(), passes()), hello).boxed(),
        wrap((passes(), one()), hello).boxed(),
        wrap((passes(), one(), passes()), hello).boxed(),
        #[cfg(feature = "fs")]
        wrap(one(), corehttp::fs::Files::new(empty.path()).unwrap().not_found(hello)).boxed(),
    ] {
        let served = Served::new(app);
        for method in ["POST", "GET"] {
            let head = format!("{method} /none HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n");
            let before = served.running.counts().total.received;
            let mut slow = served.connect();
            slow.send(format!("{head}h"));
            eventually("it is there", || served.running.counts().total.received > before + head.len() as u64);
            assert_eq!(status(&served.ask(format!("{head}hi"))), 200, "{method}");
            slow.send("i");
            assert_eq!(status(&slow.receive()), 200, "{method}");
        }
    }
}

/// Refuses by the head after what is beneath it was asked.
#[derive(Clone)]
struct RefusesLate;

impl Middleware for RefusesLate {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        let _ = next.on_head(ctx);
        ctx.refuse(Status::FORBIDDEN)
    }
}

/// The plan that was left for later takes the place of no refusal, and of no other plan.
#[test]
fn a_limit_receives_no_body_that_is_not_to_be_received() {
    let passes = || guard(async |_: &mut Context| -> corehttp::Result { Ok(()) });
    let one = || ConcurrencyLimit::new(1);
    for (app, expected) in [
        (wrap((one(), RefusesLate, passes()), untouched).boxed(), 403),
        (wrap((one(), passes(), RefusesLate), untouched).boxed(), 403),
        (wrap(one(), routes! { POST "/other" => untouched }).boxed(), 404),
        (wrap(one(), routes! { GET "/" => untouched }).boxed(), 405),
        (wrap((one(), BodyPlan::Stream, passes()), |_: &mut Context| ()).boxed(), 200),
    ] {
        let served = Served::new(app);
        let mut peer = served.connect();
        peer.send("POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n");
        let received = peer.receive();
        assert_eq!(status(&received), expected, "{received}");
    }
}

/// The key of a sign-in is in its body, which a guard beneath would leave for later.
#[test]
fn a_key_in_the_body_counts_whatever_is_beneath() {
    let passes = || guard(async |_: &mut Context| -> corehttp::Result { Ok(()) });
    let limit = || {
        let user = |ctx: &Context| Some(ctx.request.body.bytes().to_vec()).filter(|user| !user.is_empty());
        RateLimit::new(1, HOUR).by(user)
    };
    for app in [
        wrap(limit(), |_: &mut Context| ()).boxed(),
        wrap((limit(), passes()), |_: &mut Context| ()).boxed(),
        wrap((limit(), limit(), passes()), |_: &mut Context| ()).boxed(),
    ] {
        let served = Served::new(app);
        for (user, expected) in [("Ada", 200), ("Ada", 429), ("Eve", 200), ("Ada", 429)] {
            let received =
                served.ask(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n{user}"));
            assert_eq!(status(&received), expected, "{user}: {received}");
        }
    }
}
