//! Requests with an `idempotency-key` are handled once, whatever becomes of them.

use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use corehttp::idempotency::{Claim, Idempotency, IdempotencyStore, MemoryStore, StoredResponse};
use corehttp::middleware::{
    ConcurrencyLimit, Next, OnStoreFailure, RateDecision, RateQuota, RateStore, SharedRateLimit, guard,
    uncancelled, wrap,
};
use corehttp::{
    Context, Error, Handler, Limits, Request, Response, Result, Server, Service, Status, Timeouts, routes,
};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::support::{ErrorReports, Peer, Served, eventually, paused};

const SECOND: Duration = Duration::from_secs(1);

/// Answers as the query says, after a second, with the number of its call.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Handler for Counted {
    async fn handle(&self, ctx: &mut Context) -> Result {
        let number = self.0.fetch_add(1, Relaxed) + 1;
        sleep(SECOND).await;
        ctx.response.set_text(format!("call {number}"));
        ctx.response.headers.append("set-cookie", format!("a={number}"))?;
        ctx.response.headers.append("set-cookie", "b=2")?;
        match ctx.request.query().as_str() {
            "created" => ctx.response.status = Status::CREATED,
            "broken" => ctx.response.status = Status::INTERNAL_SERVER_ERROR,
            "fails" => return Err(Status::BAD_GATEWAY.into()),
            "denied" => return Err(Status::FORBIDDEN.into()),
            "panics" => panic!("the handler panics"),
            "late" => sleep(60 * SECOND).await,
            "large" => ctx.response.set_text("x".repeat(100 << 10)),
            "streams" => {
                let mut out = ctx.body_writer().await?;
                out.write_all(b"piece").await?;
                out.finish().await?;
            }
            _ => {}
        }
        Ok(())
    }
}

fn service<S: IdempotencyStore + Clone + Send + Sync>(
    idempotency: Idempotency<S>,
) -> (Service<impl Handler>, Counted) {
    let counted = Counted::default();
    let timeouts = Timeouts { handler: Some(10 * SECOND), ..Timeouts::default() };
    (Server::new().timeouts(timeouts).service(wrap(idempotency, counted.clone())), counted)
}

fn post(query: &str, key: &str) -> Request {
    let mut request = Request::post(&format!("/?{query}")).unwrap();
    request.headers.set("idempotency-key", key).unwrap();
    request.body.set_bytes("content");
    request
}

/// Status, text, and whether the response is that of an earlier request.
fn shown(response: &Response) -> String {
    let replayed = if response.headers.contains("idempotency-replayed") { ", again" } else { "" };
    let text = response.text().unwrap_or_default();
    let text = if text.starts_with("call") { text } else { "" };
    format!("{} {text}{replayed}", response.status.as_u16())
}

/// The same request three times, and how often it was handled.
#[track_caller]
fn check(query: &str, expected: [&str; 3], calls: usize) {
    paused(async {
        let (service, counted) = service(Idempotency::new(MemoryStore::new()));
        for expected in expected {
            assert_eq!(shown(&service.respond(post(query, "k")).await), expected, "{query}");
        }
        assert_eq!(counted.0.load(Relaxed), calls, "{query}");
    });
}

#[test]
fn a_request_that_succeeds_is_handled_once() {
    check("", ["200 call 1", "200 call 1, again", "200 call 1, again"], 1);
    check("created", ["201 call 1", "201 call 1, again", "201 call 1, again"], 1);
}

#[test]
fn a_request_that_fails_may_be_sent_again() {
    check("broken", ["500 call 1", "500 call 2", "500 call 3"], 3);
    check("fails", ["502 ", "502 ", "502 "], 3);
    check("denied", ["403 ", "403 ", "403 "], 3);
    check("panics", ["500 ", "500 ", "500 "], 3);
    check("late", ["503 ", "503 ", "503 "], 3);
}

/// Middleware beneath may end a request as well, and a time limit around.
#[test]
fn a_request_that_is_ended_elsewhere_may_be_sent_again() {
    async fn panics(_: &mut Context, _: Next<'_>) -> Result {
        resume_unwind(Box::new("without a trace"))
    }
    async fn waits(_: &mut Context, _: Next<'_>) -> Result {
        pending().await
    }
    async fn gives_up(ctx: &mut Context, next: Next<'_>) -> Result {
        timeout(SECOND / 2, next.handle(ctx)).await.unwrap_or(Err(Status::GATEWAY_TIMEOUT.into()))
    }
    fn check(app: impl Handler + 'static, expected: &str) {
        let timeouts = Timeouts { handler: Some(10 * SECOND), ..Timeouts::default() };
        let service = Server::new().timeouts(timeouts).service(app);
        paused(async {
            for _ in 0..3 {
                assert_eq!(shown(&service.respond(post("", "k")).await), expected);
            }
        });
    }
    let once = || Idempotency::new(MemoryStore::new());
    check(wrap((once(), panics), Counted::default()), "500 ");
    let check_panics = |_: &mut Context| -> Result { resume_unwind(Box::new("without a trace")) };
    check(wrap((once(), guard(check_panics)), Counted::default()), "500 ");
    check(wrap((once(), waits), Counted::default()), "503 ");
    check(wrap((gives_up, once()), Counted::default()), "504 ");
    let served = Served::new(wrap((gives_up, once()), Counted::default()));
    let request = "POST / HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ncontent-length: 0\r\n\r\n";
    for _ in 0..2 {
        assert!(served.ask(request).starts_with("HTTP/1.1 504 "));
    }
}

/// Its content is not here, so it must not pass for another request with the key.
#[test]
fn a_request_that_is_refused_is_answered_with_its_refusal() {
    let saves = |ctx: &mut Context| ctx.response.set_text("saved");
    let bounded = |server: Server| server.limits(Limits { body_max: 8, ..Limits::default() });
    let served = Served::with(bounded, wrap(Idempotency::new(MemoryStore::new()), saves));
    let post = |fields: &str| format!("POST / HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\n{fields}");
    let saved = post("content-length: 5\r\n\r\nhello");
    assert!(served.ask(&saved).starts_with("HTTP/1.1 200 "));
    for (fields, expected) in [
        ("content-length: 9\r\n\r\n", "HTTP/1.1 413 "),
        ("transfer-encoding: chunked\r\n\r\n9\r\n123456789\r\n0\r\n\r\n", "HTTP/1.1 413 "),
        ("transfer-encoding: chunked\r\n\r\n+1\r\nx\r\n0\r\n\r\n", "HTTP/1.1 400 "),
    ] {
        let received = served.ask(post(fields));
        assert!(received.starts_with(expected), "{received}");
    }
    assert!(served.ask(&saved).contains("idempotency-replayed: true"));
}

/// Nothing beneath leaves the content for later, or the key would pass for that of any other request.
#[test]
fn content_that_is_left_for_later_belongs_to_the_key() {
    let limit = SharedRateLimit::new("all", Uncounted, 1, SECOND).on_store_failure(OnStoreFailure::Admit);
    let passes = || guard(async |_: &mut Context| -> Result { Ok(()) });
    let tells = |ctx: &mut Context| {
        let content = ctx.request.body.bytes().to_vec();
        ctx.response.body.set_bytes(content);
    };
    let once = || Idempotency::new(MemoryStore::new());
    for app in [
        wrap(once(), tells).boxed(),
        wrap((once(), passes()), tells).boxed(),
        wrap((once(), passes(), passes()), tells).boxed(),
        wrap((passes(), once(), passes()), tells).boxed(),
        wrap((once(), limit), tells).boxed(),
        routes! { wrap (once(), passes()) => { any "/" => tells } }.boxed(),
    ] {
        let served = Served::new(app);
        let ask = |content: &str| {
            let length = content.len();
            let head =
                format!("POST / HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ncontent-length: {length}");
            served.ask(format!("{head}\r\n\r\n{content}"))
        };
        assert!(ask("pay 1").ends_with("\r\n\r\npay 1"));
        let other = ask("pay 1000");
        assert!(other.starts_with("HTTP/1.1 422 "), "{other}");
        let again = ask("pay 1");
        assert!(again.contains("idempotency-replayed") && again.ends_with("\r\n\r\npay 1"), "{again}");
    }
}

/// Counts nothing.
struct Uncounted;

impl RateStore for Uncounted {
    async fn count(&self, _: &str, _: &RateQuota) -> Result<RateDecision> {
        sleep(SECOND / 1000).await;
        Err(Status::BAD_GATEWAY.into())
    }
}

/// A store that frees a key at once, and answers late.
#[derive(Clone, Default)]
struct LateRelease(MemoryStore, Arc<AtomicUsize>);

impl IdempotencyStore for LateRelease {
    fn claim(&self, key: &str, fingerprint: u64) -> impl Future<Output = Result<Claim>> {
        self.0.claim(key, fingerprint)
    }

    async fn complete(&self, key: &str, response: Option<StoredResponse>) -> Result {
        sleep(SECOND / 20).await;
        self.0.complete(key, response).await
    }

    async fn release(&self, key: &str) -> Result {
        self.1.fetch_add(1, Relaxed);
        self.0.release(key).await?;
        sleep(SECOND / 20).await;
        Ok(())
    }
}

/// A second release would free the claim of the request that was sent again.
#[test]
fn a_key_is_released_once_whenever_its_request_is_dropped() {
    async fn gives_up(ctx: &mut Context, next: Next<'_>) -> Result {
        timeout(SECOND / 50, next.handle(ctx)).await.unwrap_or(Err(Status::GATEWAY_TIMEOUT.into()))
    }
    let store = LateRelease::default();
    let served = Served::new(wrap((gives_up, Idempotency::new(store.clone())), async |ctx: &mut Context| {
        ctx.response.set_text("saved");
        match ctx.request.query().as_str() {
            "fails" => Err(Error::from(Status::BAD_GATEWAY)),
            _ => Ok(()),
        }
    }));
    let ask = |query: &str| {
        let fields = "host: a\r\nidempotency-key: k\r\ncontent-length: 0";
        served.ask(format!("POST /?{query} HTTP/1.1\r\n{fields}\r\n\r\n"))
    };
    assert!(ask("fails").starts_with("HTTP/1.1 504 "));
    std::thread::sleep(SECOND / 10);
    assert_eq!(store.1.load(Relaxed), 1);
    // A success is noted as well, although nobody waits for that.
    assert!(ask("").starts_with("HTTP/1.1 504 "));
    eventually("the response is kept", || ask("").contains("idempotency-replayed"));
}

/// The head alone does not tell who the client is.
#[test]
fn a_scope_is_that_of_the_user_whom_a_guard_has_found() {
    let signs_in = guard(async |ctx: &mut Context| -> Result {
        ctx.extensions.insert(String::from("Ada"));
        Ok(())
    });
    let user = |ctx: &Context| ctx.extensions.get::<String>().expect("the guard has found the user").clone();
    let once = Idempotency::new(MemoryStore::new()).scope(user);
    let served = Served::new(wrap((signs_in, once), |_: &mut Context| ()));
    let post = "POST / HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ncontent-length: 2\r\n\r\nhi";
    for _ in 0..2 {
        let received = served.ask(post);
        assert!(received.starts_with("HTTP/1.1 200 "), "{received}");
    }
}

/// A server that ends drops its tasks.
#[test]
fn a_key_is_released_by_a_server_that_ends() {
    let store = MemoryStore::new();
    let once = || Idempotency::new(store.clone());
    let served = Served::new(wrap(once(), async |_: &mut Context| pending::<()>().await));
    let post = "POST / HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ncontent-length: 0\r\n\r\n";
    let mut peer = served.connect();
    peer.send(post);
    eventually("it is handled", || served.running.counts().total.requests == 1);
    std::thread::sleep(SECOND / 20);
    drop(served);
    let next = Served::new(wrap(once(), |_: &mut Context| ()));
    assert!(next.ask(post).starts_with("HTTP/1.1 200 "));
}

/// A store whose first answer comes late.
#[derive(Clone, Default)]
struct LateOnce(MemoryStore, Arc<AtomicUsize>);

impl IdempotencyStore for LateOnce {
    async fn claim(&self, key: &str, fingerprint: u64) -> Result<Claim> {
        let claimed = self.0.claim(key, fingerprint).await;
        if self.1.fetch_add(1, Relaxed) == 0 {
            sleep(SECOND / 10).await;
        }
        claimed
    }

    fn complete(&self, key: &str, response: Option<StoredResponse>) -> impl Future<Output = Result> {
        self.0.complete(key, response)
    }

    fn release(&self, key: &str) -> impl Future<Output = Result> {
        self.0.release(key)
    }
}

#[test]
fn a_request_that_is_dropped_while_its_key_is_claimed_may_be_sent_again() {
    async fn gives_up(ctx: &mut Context, next: Next<'_>) -> Result {
        timeout(SECOND / 50, next.handle(ctx)).await.unwrap_or(Err(Status::GATEWAY_TIMEOUT.into()))
    }
    let saves = |ctx: &mut Context| ctx.response.set_text("saved");
    let request = "POST / HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ncontent-length: 0\r\n\r\n";
    let served = Served::new(wrap((gives_up, Idempotency::new(LateOnce::default())), saves));
    assert!(served.ask(request).starts_with("HTTP/1.1 504 "));
    eventually("the key is free", || served.ask(request).ends_with("saved"));
}

/// The key is kept although the response is not.
#[test]
fn a_response_that_is_not_kept_is_no_reason_to_handle_a_request_twice() {
    check("large", ["200 ", "409 ", "409 "], 1);
    check("streams", ["200 ", "409 ", "409 "], 1);
}

#[test]
fn a_key_belongs_to_one_request_and_one_client() {
    paused(async {
        let (service, counted) = service(Idempotency::new(MemoryStore::new()));
        let respond = async |request| shown(&service.respond(request).await);
        assert_eq!(respond(post("", "k")).await, "200 call 1");
        assert_eq!(respond(post("x", "k")).await, "422 ");
        let mut other = post("", "k");
        other.body.set_bytes("other");
        assert_eq!(respond(other).await, "422 ");
        let mut other = post("", "k");
        other.set_method(corehttp::Method::Patch);
        assert_eq!(respond(other).await, "422 ");
        assert_eq!(respond(post("", "\"k\"")).await, "200 call 1, again");
        let mut ada = post("", "k");
        ada.set_bearer_auth("ada").unwrap();
        assert_eq!(respond(ada.clone()).await, "200 call 2");
        assert_eq!(respond(ada).await, "200 call 2, again");
        assert_eq!(counted.0.load(Relaxed), 2);
    });
}

/// Tenants of one process, each at a host of its own, whose clients number their keys.
#[test]
fn a_key_belongs_to_one_host_rfc9110_4_2_2() {
    let by_scope = Idempotency::new(MemoryStore::new()).scope(|_| "user 1".to_owned());
    for idempotency in [Idempotency::new(MemoryStore::new()), by_scope] {
        paused(async {
            let (service, counted) = service(idempotency);
            for (host, expected) in [
                ("a.example", "200 call 1"),
                ("b.example", "200 call 2"),
                ("A.example", "200 call 1, again"),
                ("a.example:80", "200 call 1, again"),
                ("a.example.:080", "200 call 1, again"),
                ("a.example:", "200 call 1, again"),
                ("a.example:81", "200 call 3"),
                ("b.example", "200 call 2, again"),
            ] {
                let mut request = post("", "k");
                request.headers.set("host", host).unwrap();
                assert_eq!(shown(&service.respond(request).await), expected, "{host}");
            }
            let mut absolute = Request::post("http://a.example/?").unwrap();
            absolute.headers.set("idempotency-key", "k").unwrap();
            absolute.body.set_bytes("content");
            assert_eq!(shown(&service.respond(absolute).await), "200 call 1, again");
            assert_eq!(counted.0.load(Relaxed), 3);
        });
    }
}

/// Two users with a session in a cookie, and one whose other cookies change, see no response of another and pay once.
#[test]
fn a_key_whose_cookies_have_changed_is_refused_unless_the_client_is_named() {
    let named = |ctx: &Context| ctx.request.cookies().get("user").unwrap_or_default().to_owned();
    let default = ["200 call 1", "200 call 1, again", "422 ", "422 "];
    let by_user = ["200 call 1", "200 call 1, again", "200 call 1, again", "200 call 2"];
    for (idempotency, expected) in [
        (Idempotency::new(MemoryStore::new()), default),
        (Idempotency::new(MemoryStore::new()).scope(named), by_user),
    ] {
        paused(async {
            let (service, _) = service(idempotency);
            let cookies = ["user=ada", "user=ada", "user=ada; seen=1", "user=bob"];
            for (cookie, expected) in cookies.iter().zip(expected) {
                let mut request = post("", "k");
                request.headers.set("cookie", *cookie).unwrap();
                assert_eq!(shown(&service.respond(request).await), expected, "{cookie}");
            }
        });
    }
}

/// A scope with the end of a key, and a key with the end of a scope.
#[test]
fn a_key_is_not_confused_with_that_of_another_scope() {
    paused(async {
        let named = |ctx: &Context| ctx.request.headers.get("x-user").unwrap_or_default().to_owned();
        let (service, counted) = service(Idempotency::new(MemoryStore::new()).scope(named));
        for (user, key) in [("a b", "\"c\""), ("a", "\"b c\""), ("a b c", "\"d\""), ("a b", "\"c d\"")] {
            let mut request = post("", key);
            request.headers.set("x-user", user).unwrap();
            service.respond(request).await;
        }
        assert_eq!(counted.0.load(Relaxed), 4);
    });
}

/// Clients who send many cheap requests push out none of another client.
#[test]
fn a_flood_of_keys_pushes_out_no_outcome_of_another_client() {
    let counted = Arc::new(AtomicUsize::new(0));
    let count = counted.clone();
    let handler =
        move |ctx: &mut Context| ctx.response.set_text(format!("call {}", count.fetch_add(1, Relaxed)));
    let store = MemoryStore::new().keys_max(100);
    let service = Server::new().service(wrap(Idempotency::new(store), handler));
    paused(async {
        let mut payment = post("", "victim");
        payment.set_bearer_auth("ada").unwrap();
        assert_eq!(shown(&service.respond(payment.clone()).await), "200 call 0");
        for number in 0..1000 {
            service.respond(post("", &number.to_string())).await;
        }
        assert_eq!(shown(&service.respond(payment).await), "200 call 0, again");
    });
    assert_eq!(counted.load(Relaxed), 1001);
}

#[test]
fn other_requests_pass_and_bad_keys_do_not() {
    paused(async {
        let (service, counted) = service(Idempotency::new(MemoryStore::new()));
        for _ in 0..2 {
            let mut get = Request::get("/").unwrap();
            get.headers.set("idempotency-key", "k").unwrap();
            assert!(shown(&service.respond(get).await).starts_with("200 call"));
            assert!(shown(&service.respond(Request::post("/").unwrap()).await).starts_with("200 call"));
        }
        for key in ["", "\"", "a b", &"x".repeat(4 << 10)] {
            assert_eq!(shown(&service.respond(post("", key)).await), "400 ", "{key}");
        }
        assert_eq!(counted.0.load(Relaxed), 4);
        let (required, counted) = self::service(Idempotency::new(MemoryStore::new()).required());
        assert_eq!(shown(&required.respond(Request::post("/").unwrap()).await), "400 ");
        assert_eq!(shown(&required.respond(Request::get("/").unwrap()).await), "200 call 1");
        assert_eq!(counted.0.load(Relaxed), 1);
    });
}

#[test]
fn a_request_that_is_being_handled_is_not_handled_beside() {
    paused(async {
        let (service, counted) = service(Idempotency::new(MemoryStore::new()));
        let (first, second) = tokio::join!(service.respond(post("", "k")), service.respond(post("", "k")));
        assert_eq!([shown(&first), shown(&second)], ["200 call 1", "409 "]);
        assert_eq!(shown(&service.respond(post("", "k")).await), "200 call 1, again");
        assert_eq!(counted.0.load(Relaxed), 1);
    });
}

/// All lines of a field come back, and those of the middleware around it once.
#[test]
fn fields_come_back_as_they_were() {
    async fn mark(ctx: &mut Context, next: corehttp::middleware::Next<'_>) -> Result {
        ctx.response.headers.set("x-request-id", ctx.request.query().as_str())?;
        next.handle(ctx).await
    }
    paused(async {
        let handler = wrap((mark, Idempotency::new(MemoryStore::new())), Counted::default());
        let service = Server::new().service(handler);
        service.respond(post("", "k")).await;
        let again = service.respond(post("", "k")).await;
        assert!(again.headers.all("set-cookie").eq(["a=1", "b=2"].map(str::as_bytes)));
        assert_eq!(again.headers.all("x-request-id").count(), 1);
        assert_eq!(again.headers.content_type(), Some("text/plain; charset=utf-8"));
    });
}

/// The handler adds lines to fields that middleware around has set as well: cookies, links, `vary`.
#[test]
fn lines_of_the_handler_come_back_beside_those_of_others() {
    async fn visit(ctx: &mut Context, next: corehttp::middleware::Next<'_>) -> Result {
        let number = ctx.request.headers.get("x-visit").unwrap_or_default().to_owned();
        ctx.response.headers.append("set-cookie", format!("visit={number}"))?;
        ctx.response.headers.append("link", "</a.css>; rel=preload")?;
        ctx.response.headers.append("x-policy", "around")?;
        next.handle(ctx).await?;
        ctx.response.headers.append("vary", "origin")?;
        Ok(())
    }
    let order = |ctx: &mut Context| -> Result {
        for (name, value) in [
            ("set-cookie", "order=7"),
            ("Link", "</next>; rel=next"),
            ("link", "</a.css>; rel=preload"),
            ("vary", "cookie"),
        ] {
            ctx.response.headers.append(name, value)?;
        }
        Ok(ctx.response.headers.set("x-policy", "own")?)
    };
    paused(async {
        let service = Server::new().service(wrap((visit, Idempotency::new(MemoryStore::new())), order));
        let first = "set-cookie: visit=1, link: </a.css>; rel=preload, x-policy: own, set-cookie: order=7, \
                     Link: </next>; rel=next, link: </a.css>; rel=preload, vary: cookie, vary: origin";
        let again = "set-cookie: visit=2, link: </a.css>; rel=preload, x-policy: own, set-cookie: order=7, \
                     Link: </next>; rel=next, vary: cookie, idempotency-replayed: true, vary: origin";
        for (visit, expected) in [("1", first), ("2", again)] {
            let mut request = post("", "k");
            request.headers.set("x-visit", visit).unwrap();
            let response = service.respond(request).await;
            let lines = response.headers.iter();
            let lines: Vec<_> =
                lines.map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect();
            assert_eq!(lines.join(", "), expected);
        }
    });
}

/// The buyer has gone, and the payment was made.
#[test]
fn a_handler_whose_peer_is_gone_runs_to_its_end() {
    let counted = Counted::default();
    let store = MemoryStore::new();
    let served = Served::with(
        |server| server.half_close(false),
        wrap(Idempotency::new(store.clone()), counted.clone()),
    );
    let wire = "POST / HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ncontent-length: 0\r\n\r\n";
    let mut peer = served.connect();
    peer.send(wire);
    eventually("it is handled", || counted.0.load(Relaxed) == 1);
    peer.reset();
    let again = || {
        let mut peer = served.connect();
        peer.send(wire);
        peer.receive()
    };
    assert!(again().starts_with("HTTP/1.1 409 "));
    eventually("it is done", || again().starts_with("HTTP/1.1 200 "));
    assert!(again().contains("idempotency-replayed: true") && counted.0.load(Relaxed) == 1);
}

/// Peers that leave a queue make room, also beneath a middleware that lets handlers run to their end. Their keys are free.
#[test]
fn a_request_that_waits_for_a_limit_beneath_ends_with_its_peer() {
    let limit = || ConcurrencyLimit::new(1).wait(3600 * SECOND);
    let (gate, calls) = (Arc::new(Semaphore::new(0)), Counted::default().0);
    let (opened, counted) = (gate.clone(), calls.clone());
    let handler = async move |ctx: &mut Context| -> Result {
        counted.fetch_add(1, Relaxed);
        opened.acquire().await.unwrap().forget();
        ctx.response.set_text("done");
        Ok(())
    };
    let beneath = || (Idempotency::new(MemoryStore::new()), limit());
    for served in [
        Served::with(|server| server.half_close(false), wrap(beneath(), handler.clone())),
        Served::with(|server| server.half_close(false), wrap((uncancelled(), limit()), handler)),
    ] {
        let ask = |key: &str| {
            let mut peer = served.connect();
            peer.send(format!(
                "POST / HTTP/1.1\r\nhost: a\r\nidempotency-key: {key}\r\ncontent-length: 0\r\n\r\n"
            ));
            peer
        };
        let total = || served.running.counts().total;
        calls.store(0, Relaxed);
        let first = ask("first");
        eventually("it is handled", || calls.load(Relaxed) == 1);
        let waiting = ["a", "b", "c", "d"].map(ask);
        eventually("all are there", || total().requests == 5);
        drop(waiting);
        eventually("those that waited have left", || total().open == 1);
        first.reset();
        let mut last = ask("d");
        eventually("it is there", || total().requests == 6);
        assert_eq!(calls.load(Relaxed), 1, "the first one runs to its end");
        gate.add_permits(2);
        assert!(last.receive().ends_with("done"));
        assert_eq!(calls.load(Relaxed), 2, "no other was called");
    }
}

/// A claim may take a while in a database. A peer that leaves meanwhile has no handler, and its key is free again.
#[test]
fn a_request_whose_peer_leaves_while_its_key_is_claimed_is_not_handled() {
    let (counted, store) = (Counted::default(), Slow::default());
    let served = Served::with(
        |server| server.half_close(false),
        wrap(Idempotency::new(store.clone()), counted.clone()),
    );
    let wire = "POST / HTTP/1.1\r\nhost: a\r\nidempotency-key: k\r\ncontent-length: 0\r\n\r\n";
    for (claims, leave) in (1..).zip([drop, Peer::reset]) {
        let mut peer = served.connect();
        peer.send(wire);
        eventually("its key is claimed", || store.claims.load(Relaxed) == claims);
        leave(peer);
        // The core sees that the peer has left before it sees another one.
        assert!(served.ask("none\r\n\r\n").contains(" 400 "));
        store.gate.add_permits(1);
        eventually("it is free again", || store.releases.load(Relaxed) == claims);
    }
    store.gate.add_permits(1);
    // A peer that ends its stream after its request would have left as well.
    let mut last = served.connect();
    last.send(wire);
    assert!(last.receive().ends_with("call 1"));
}

/// A store whose claims wait, and which counts what is asked of it.
#[derive(Clone)]
struct Slow {
    store: MemoryStore,
    gate: Arc<Semaphore>,
    claims: Arc<AtomicUsize>,
    releases: Arc<AtomicUsize>,
}

impl Default for Slow {
    fn default() -> Slow {
        let gate = Arc::new(Semaphore::new(0));
        Slow { store: MemoryStore::new(), gate, claims: Arc::default(), releases: Arc::default() }
    }
}

impl IdempotencyStore for Slow {
    async fn claim(&self, key: &str, fingerprint: u64) -> Result<Claim> {
        self.claims.fetch_add(1, Relaxed);
        self.gate.acquire().await.unwrap().forget();
        self.store.claim(key, fingerprint).await
    }

    fn complete(&self, key: &str, response: Option<StoredResponse>) -> impl Future<Output = Result> {
        self.store.complete(key, response)
    }

    async fn release(&self, key: &str) -> Result {
        self.store.release(key).await?;
        self.releases.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// A store that fails in one of its steps.
#[derive(Clone)]
struct Failing {
    store: MemoryStore,
    claims: bool,
}

impl IdempotencyStore for Failing {
    async fn claim(&self, key: &str, fingerprint: u64) -> Result<Claim> {
        if self.claims {
            self.store.claim(key, fingerprint).await
        } else {
            Err(Status::SERVICE_UNAVAILABLE.into())
        }
    }

    async fn complete(&self, _: &str, _: Option<StoredResponse>) -> Result {
        Err(Status::SERVICE_UNAVAILABLE.into())
    }

    fn release(&self, _: &str) -> impl Future<Output = Result> {
        std::future::ready(Err(Status::SERVICE_UNAVAILABLE.into()))
    }
}

#[test]
fn a_store_that_fails_lets_no_request_be_handled_twice() {
    const UNSTORED: &str =
        "the handler failed: the outcome of its idempotency-key was not stored: 503 Service Unavailable";
    for (claims, expected, calls, report) in [
        (false, ["503 ", "503 "], 0, None),
        (true, ["200 call 1", "409 "], 1, Some((200, UNSTORED.to_owned()))),
    ] {
        paused(async move {
            let (counted, reports) = (Counted::default(), ErrorReports::default());
            let store = Failing { store: MemoryStore::new(), claims };
            let server = reports.attach(Server::new());
            let service = server.service(wrap(Idempotency::new(store), counted.clone()));
            for expected in expected {
                assert_eq!(shown(&service.respond(post("", "k")).await), expected);
            }
            assert_eq!(counted.0.load(Relaxed), calls);
            assert_eq!(reports.take(), Vec::from_iter(report));
        });
    }
}
