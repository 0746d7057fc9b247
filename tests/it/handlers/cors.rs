//! CORS: the rules of the Fetch standard's protocol, most of which have their counterpart in the web platform tests
//! (`cors/` and `fetch/api/cors/`).

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use corehttp::middleware::{Cors, CrossOriginProtection, Next, guard, limits, timeouts, wrap};
use corehttp::{BodyPlan, BoxHandler, Client, Context, Handler, IntoHandler, Method, Status, routes};
use cpu_time::ThreadTime;
use tokio::time::timeout;

use crate::support::wired::{Then, Wired};
use crate::support::{Served, status};

const APP: &str = "origin: https://app.example";
const WIKI: &str = "origin: https://a.wiki.example";
const EVIL: &str = "origin: https://evil.example";
const ASKS: &str = "access-control-request-method: PUT";

// The fields of the protocol, and the members of `vary`.
const OF_APP: &str = "allow-origin: https://app.example, allow-credentials: true | origin";
const OF_WIKI: &str = "allow-origin: https://a.wiki.example | origin";
const OF_NONE: &str = " | origin";

/// Trusts one origin, and allows those below another.
fn cors() -> Cors {
    Cors::new().trust_origin("https://app.example").unwrap().allow_origin("https://*.wiki.example").unwrap()
}

fn hello(ctx: &mut Context) {
    ctx.response.set_text("hello");
}

fn wired<Kind, H>(cors: &Cors, handler: H) -> Wired<BoxHandler>
where
    H: IntoHandler<Kind>,
    H::Handler: Send + Sync,
{
    Wired::new(wrap(cors.clone(), BoxHandler::new(handler)).boxed())
}

/// The response to a request without a body, and the fields of the protocol in it, without the prefix of their names.
fn ask(wired: &Wired<BoxHandler>, line: &str, fields: &[&str]) -> (u16, String) {
    ask_with(wired, line, fields, "")
}

fn ask_with(wired: &Wired<BoxHandler>, line: &str, fields: &[&str], body: &str) -> (u16, String) {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let wire = format!("{line} HTTP/1.1\r\nhost: a\r\n{fields}\r\n{body}");
    let received = wired.ask(&[wire.as_bytes()], Then::Ends);
    let head = received.split("\r\n\r\n").next().unwrap_or_default();
    let values = |name: &'static str| head.lines().filter_map(move |line| line.strip_prefix(name));
    let protocol: Vec<_> = values("access-control-").collect();
    let vary: Vec<_> = values("vary: ").collect();
    (status(&received), format!("{} | {}", protocol.join(", "), vary.join(", ")))
}

/// The fields of a response of `hello`.
#[track_caller]
fn check(cors: &Cors, line: &str, fields: &[&str], expected: &str) {
    let expected_status = if fields.contains(&ASKS) && line.starts_with("OPTIONS") { 204 } else { 200 };
    let found = ask(&wired(cors, hello), line, fields);
    assert_eq!(found, (expected_status, expected.to_owned()), "{line} {fields:?}");
}

#[test]
fn an_allowed_origin_is_named_alone_fetch_cors_check() {
    check(&cors(), "GET /", &[APP], OF_APP);
    check(&cors(), "GET /", &[WIKI], OF_WIKI);
    check(&cors(), "GET /", &["Origin: https://app.example"], OF_APP);
    for origin in [
        "origin: null",
        "origin: *",
        "origin:",
        "origin: https://app.example/",
        "origin: https://app.example:443",
        "origin: https://wiki.example",
        "origin: https://app.example, https://a.wiki.example",
        "origin: https://app.example\r\norigin: https://app.example",
        "origin: https://a\u{e9}.wiki.example",
        EVIL,
    ] {
        check(&cors(), "GET /", &[origin], OF_NONE);
    }
}

#[test]
fn any_origin_has_no_credentials_fetch_cors_protocol_and_credentials() {
    let any = Cors::new().allow_any_origin();
    for origin in [APP, EVIL, "origin: null", "origin: x\r\norigin: y", "x-a: b"] {
        check(&any, "GET /", &[origin], "allow-origin: * | ");
    }
    let both = cors().allow_any_origin();
    check(&both, "GET /", &[EVIL], "allow-origin: * | origin");
    check(&both, "GET /", &[APP], OF_APP);
    check(&both, "GET /", &[WIKI], OF_WIKI);
}

#[test]
fn a_trusted_origin_that_is_also_allowed_is_trusted() {
    let both = cors().allow_origin("https://app.example").unwrap();
    check(&both, "GET /", &[APP], OF_APP);
}

/// A cache may give a response that it got without an origin to a page that has one.
#[test]
fn what_depends_on_the_origin_varies_by_it_for_all_fetch_cors_and_caches() {
    check(&cors(), "GET /", &[], OF_NONE);
    check(&cors(), "OPTIONS /", &[], OF_NONE);
    check(&Cors::new(), "GET /", &[APP], " | ");
    check(&Cors::new().allow_any_origin(), "GET /", &[], "allow-origin: * | ");
    for (own, expected) in [
        ("accept-encoding", " | accept-encoding, origin"),
        ("Origin", " | Origin"),
        ("accept, ORIGIN", " | accept, ORIGIN"),
        ("*", " | *"),
        ("origin-agent", " | origin-agent, origin"),
    ] {
        let handler = move |ctx: &mut Context| ctx.response.headers.set("vary", own).unwrap();
        assert_eq!(ask(&wired(&cors(), handler), "GET /", &[]), (200, expected.to_owned()));
    }
}

#[test]
fn functions_decide_about_origins_and_see_the_request() {
    let called = Arc::new(AtomicUsize::new(0));
    let count = called.clone();
    let functions = Cors::new()
        .trust_origin_if(move |origin, request| {
            count.fetch_add(1, Ordering::Relaxed);
            origin == "https://app.example" && request.path() == "/app"
        })
        .allow_origin_if(|origin, _| origin == "null");
    check(&functions, "GET /app", &[APP], OF_APP);
    check(&functions, "GET /", &[APP], OF_NONE);
    check(&functions, "GET /", &["origin: null"], "allow-origin: null | origin");
    check(&functions, "GET /", &[], OF_NONE);
    assert_eq!(called.load(Ordering::Relaxed), 3, "once for each request that has an origin");
}

#[test]
fn a_preflight_is_an_options_with_an_origin_and_a_method_fetch_cors_preflight_request() {
    let handler = |ctx: &mut Context| ctx.response.headers.set("access-control-x", "own").unwrap();
    let wired = wired(&cors(), handler);
    let passed = |fields: &[&str], line: &str| ask(&wired, line, fields).1.contains("x: own");
    assert!(!passed(&[APP, ASKS], "OPTIONS /"));
    assert!(!passed(&[EVIL, ASKS], "OPTIONS /"));
    assert!(!passed(&[APP, ASKS], "OPTIONS *"));
    assert!(!passed(&[APP, ASKS, "access-control-request-headers: x-a"], "OPTIONS /"));
    assert!(passed(&[APP], "OPTIONS /"));
    assert!(passed(&[ASKS], "OPTIONS /"));
    assert!(passed(&[APP, "access-control-request-headers: x-a"], "OPTIONS /"));
    for method in ["GET", "HEAD", "POST", "QUERY", "options"] {
        assert!(passed(&[APP, ASKS], &format!("{method} /")), "{method}");
    }
}

/// The fields of the answer to a preflight of the trusted origin, behind those that all responses have.
#[track_caller]
fn check_preflight(cors: &Cors, fields: &[&str], expected: &str) {
    let fields = [&[APP, ASKS], fields].concat();
    let (status, found) = ask(&wired(cors, hello), "OPTIONS /", &fields);
    let found = found.strip_prefix("allow-origin: https://app.example, allow-credentials: true, ");
    assert_eq!((status, found), (204, Some(expected)), "{fields:?}");
}

#[test]
fn a_preflight_allows_what_is_asked_for_fetch_cors_preflight_fetch() {
    let vary = "origin, access-control-request-method, access-control-request-headers";
    for method in ["PUT", "DELETE", "QUERY", "PROPFIND", "x-custom", "patch", "GET"] {
        let asked = format!("access-control-request-method: {method}");
        let expected = format!("allow-origin: https://a.wiki.example, allow-methods: {method} | {vary}");
        assert_eq!(ask(&wired(&cors(), hello), "OPTIONS /", &[WIKI, &asked]), (204, expected));
    }
    check_preflight(&cors(), &[], &format!("allow-methods: PUT | {vary}"));
    for names in ["authorization,content-type,x-a", "X-A", "*", ", a, ,b"] {
        check_preflight(
            &cors(),
            &[&format!("access-control-request-headers: {names}")],
            &format!("allow-methods: PUT, allow-headers: {names} | {vary}"),
        );
    }
    // A text that no browser sends is not sent back.
    for names in ["a b", "a;b", "\"a\"", "<script>", "\u{e9}", "a, b c"] {
        let asked = format!("access-control-request-headers: {names}");
        check_preflight(&cors(), &[&asked], &format!("allow-methods: PUT | {vary}"));
    }
    let asked = "access-control-request-method: a b";
    assert_eq!(
        ask(&wired(&cors(), hello), "OPTIONS /", &[WIKI, asked]).1,
        format!("{OF_WIKI}{}", &vary[6..])
    );
}

#[test]
fn a_preflight_allows_what_is_listed_fetch_cors_preflight_fetch() {
    let listed = cors().allow_only_methods([Method::Put, Method::Delete]).unwrap();
    let listed = listed.allow_only_fields(["content-type", "X-A"]).unwrap();
    let expected = "allow-methods: PUT, DELETE, allow-headers: content-type, X-A | origin";
    check_preflight(&listed, &[], expected);
    check_preflight(&listed, &["access-control-request-headers: x-other"], expected);
    let none = cors().allow_only_methods::<Method>([]).unwrap().allow_only_fields([]).unwrap();
    let (status, found) = ask(&wired(&none, hello), "OPTIONS /", &[APP, ASKS]);
    assert_eq!((status, &*found), (204, OF_APP));
    assert!(cors().allow_only_methods(["QUERY", "x-own"]).is_ok());
    for name in ["*", "", "a b", "a,b", "a\r\nb"] {
        assert!(cors().allow_only_methods([name]).is_err(), "{name:?}");
        assert!(cors().allow_only_fields(["a", name]).is_err(), "{name:?}");
        assert!(cors().expose_fields([name]).is_err(), "{name:?}");
    }
}

#[test]
fn a_preflight_of_an_origin_without_access_allows_nothing_fetch_cors_preflight_fetch() {
    let all = cors().max_age(Duration::from_secs(9)).allow_private_network().expose_fields(["link"]).unwrap();
    let asked =
        [EVIL, ASKS, "access-control-request-headers: a", "access-control-request-private-network: true"];
    let vary = "origin, access-control-request-method, access-control-request-headers, \
                access-control-request-private-network";
    assert_eq!(ask(&wired(&all, hello), "OPTIONS /", &asked), (204, format!(" | {vary}")));
    let listed = all.allow_only_methods(["PUT"]).unwrap().allow_only_fields(["a"]).unwrap();
    let vary = "origin, access-control-request-private-network";
    assert_eq!(ask(&wired(&listed, hello), "OPTIONS /", &asked), (204, format!(" | {vary}")));
}

#[test]
fn a_preflight_may_be_kept_for_a_while_fetch_cors_preflight_cache() {
    let vary = "origin, access-control-request-method, access-control-request-headers";
    for (age, expected) in
        [(Duration::ZERO, 0), (Duration::from_millis(1999), 2), (Duration::from_secs(86_400), 86_400)]
    {
        let expected = format!("allow-methods: PUT, max-age: {expected} | {vary}");
        check_preflight(&cors().max_age(age), &[], &expected);
    }
}

#[test]
fn a_private_network_is_reached_if_that_is_asked_for_and_allowed() {
    let vary = "origin, access-control-request-method, access-control-request-headers";
    let asked = "access-control-request-private-network: true";
    check_preflight(&cors(), &[asked], &format!("allow-methods: PUT | {vary}"));
    let (own, vary) =
        (cors().allow_private_network(), format!("{vary}, access-control-request-private-network"));
    check_preflight(&own, &[], &format!("allow-methods: PUT | {vary}"));
    check_preflight(&own, &[&asked.replace("true", "1")], &format!("allow-methods: PUT | {vary}"));
    check_preflight(&own, &[asked], &format!("allow-methods: PUT, allow-private-network: true | {vary}"));
}

#[test]
fn fields_are_exposed_to_origins_with_access_and_by_no_preflight_fetch_cors_exposed_header_names() {
    let exposed = cors().expose_fields(["link", "X-A"]).unwrap();
    let of_wiki = "allow-origin: https://a.wiki.example, expose-headers: link, X-A | origin";
    check(&exposed, "GET /", &[WIKI], of_wiki);
    check(&exposed, "GET /", &[EVIL], OF_NONE);
    check(&exposed, "GET /", &[], OF_NONE);
    let vary = "origin, access-control-request-method, access-control-request-headers";
    check_preflight(&exposed, &[], &format!("allow-methods: PUT | {vary}"));
    let any = Cors::new().allow_any_origin().expose_fields(["link"]).unwrap();
    check(&any, "GET /", &[], "allow-origin: *, expose-headers: link | ");
    let own = |ctx: &mut Context| ctx.response.headers.set("access-control-expose-headers", "x-own").unwrap();
    let (_, found) = ask(&wired(&exposed, own), "GET /", &[WIKI]);
    assert_eq!(found, "expose-headers: x-own, allow-origin: https://a.wiki.example | origin");
}

#[test]
fn the_fields_of_a_handler_do_not_count() {
    let handler = |ctx: &mut Context| {
        for (name, value) in [("origin", "*"), ("origin", "https://evil.example"), ("credentials", "true")] {
            ctx.response.headers.append(&format!("access-control-allow-{name}"), value).unwrap();
        }
    };
    let wired = wired(&cors(), handler);
    assert_eq!(ask(&wired, "GET /", &[EVIL]), (200, OF_NONE.to_owned()));
    assert_eq!(ask(&wired, "GET /", &[]), (200, OF_NONE.to_owned()));
    assert_eq!(ask(&wired, "GET /", &[WIKI]), (200, OF_WIKI.to_owned()));
    assert_eq!(ask(&wired, "GET /", &[APP]), (200, OF_APP.to_owned()));
}

/// Of two, the outer one alone counts.
#[test]
fn nested_ones_are_one() {
    let inner = Cors::new().allow_any_origin();
    for nested in [wired(&cors(), wrap(inner.clone(), hello)), wired(&cors(), wrap(inner, streams))] {
        for (fields, expected) in [(&[APP][..], OF_APP), (&[EVIL], OF_NONE), (&[], OF_NONE)] {
            assert_eq!(ask(&nested, "GET /", fields), (200, expected.to_owned()));
        }
    }
}

async fn streams(ctx: &mut Context) -> corehttp::Result {
    // A handler that has its own list, and keeps nothing of the request.
    ctx.response.headers.set("vary", "accept")?;
    ctx.response.headers.remove("vary");
    ctx.request = corehttp::Request::default();
    let mut out = ctx.body_writer().await?;
    out.write_all(b"hello").await?;
    Ok(out.finish().await?)
}

async fn waits(ctx: &mut Context) -> corehttp::Result {
    tokio::time::sleep(Duration::from_millis(1)).await;
    hello(ctx);
    Ok(())
}

async fn upgrades(ctx: &mut Context) -> corehttp::Result {
    ctx.upgrade("x").await?;
    Ok(())
}

/// However a request is answered, the response has the fields once.
#[test]
fn all_responses_have_the_fields_fetch_cors_check() {
    let refuses = guard(|_: &mut Context| Err(Status::UNAUTHORIZED.into()));
    let short = timeouts(|timeouts| timeouts.handler = Some(Duration::from_millis(1)));
    let handler = routes! {
        GET "/" => hello,
        GET "/waits" => waits,
        GET "/streams" => streams,
        GET "/upgrades" => upgrades,
        GET "/new" => |ctx: &mut Context| ctx.response = corehttp::Response::new(),
        GET "/moved" => |ctx: &mut Context| {
            ctx.response.set_redirect(Status::FOUND, "/").unwrap();
            ctx.request = corehttp::Request::default();
        },
        GET "/fails" => |_: &mut Context| -> corehttp::Result { Err(Status::CONFLICT.into()) },
        GET "/panics" => |_: &mut Context| -> () { resume_unwind(Box::new("as told")) },
        GET "/hangs" => wrap(short, async |_: &mut Context| std::future::pending::<()>().await),
        POST "/" => wrap(limits(|limits| limits.body_max = 1), hello),
        POST "/planned" => wrap(BodyPlan::Refuse(Status::GONE), hello),
        wrap refuses => { POST "/guarded" => hello, GET "/guarded" => hello },
        POST "/forged" => wrap(CrossOriginProtection::new(), hello),
    };
    let wired = wired(&cors(), handler);
    let upgrade = ["connection: upgrade", "upgrade: x"];
    for (line, further, body, status) in [
        ("GET /", &[][..], "", 200),
        ("HEAD /", &[], "", 200),
        ("GET /waits", &[], "", 200),
        ("GET /streams", &[], "", 200),
        ("HEAD /streams", &[], "", 200),
        ("GET /upgrades", &upgrade, "", 101),
        ("GET /new", &[], "", 200),
        ("GET /moved", &[], "", 302),
        ("GET /fails", &[], "", 409),
        ("GET /panics", &[], "", 500),
        ("GET /hangs", &[], "", 503),
        ("GET /none", &[], "", 404),
        ("DELETE /", &[], "", 405),
        ("OPTIONS /", &[], "", 204),
        ("QUERY /", &[], "", 405),
        ("POST /", &["content-length: 2"], "ab", 413),
        ("POST /", &["transfer-encoding: chunked"], "2\r\nab\r\n0\r\n\r\n", 413),
        ("POST /", &["transfer-encoding: chunked"], "x", 400),
        ("POST /planned", &["content-length: 2"], "ab", 410),
        ("POST /guarded", &["content-length: 2"], "ab", 401),
        ("GET /guarded", &[], "", 401),
        ("POST /forged", &[], "", 403),
    ] {
        for (origin, expected) in [(APP, OF_APP), (WIKI, OF_WIKI), (EVIL, OF_NONE), ("x-a: b", OF_NONE)] {
            // The guard against forged requests has its own list of origins.
            let status = if (line, origin) == ("POST /forged", "x-a: b") { 200 } else { status };
            let fields = [&[origin], further].concat();
            let found = ask_with(&wired, line, &fields, body);
            assert_eq!(found, (status, expected.to_owned()), "{line} {fields:?}");
        }
    }
}

/// The preflight of a request that is guarded has no credentials, and one with a body is discarded.
#[test]
fn a_preflight_passes_no_guard_and_reads_no_body() {
    let refuses = guard(|_: &mut Context| Err(Status::UNAUTHORIZED.into()));
    let wired = wired(&cors(), wrap(refuses, hello));
    for (fields, body) in [
        (&[APP, ASKS][..], ""),
        (&[APP, ASKS, "content-length: 2"], "ab"),
        (&[APP, ASKS, "transfer-encoding: chunked"], "2\r\nab\r\n0\r\n\r\n"),
        (&[APP, ASKS, "content-length: 100000000"], "ab"),
    ] {
        assert_eq!(ask_with(&wired, "OPTIONS /", fields, body).0, 204, "{fields:?}");
    }
}

/// The fields are those of the gateway, and `vary` has its members once.
#[test]
fn a_forwarded_response_has_the_fields_of_the_gateway() {
    let behind = Served::new(wrap(Cors::new().trust_origin("https://evil.example").unwrap(), streams));
    let url = format!("http://{}", behind.addr());
    let client = Client::new();
    let front = Served::new(wrap(cors(), async move |ctx: &mut Context| -> corehttp::Result {
        let onward = ctx.request.forwarded_to(&url)?;
        ctx.forward(client.open_call(&onward)).await
    }));
    for (origin, own) in [(APP, "app"), (EVIL, "none")] {
        let received =
            front.ask(format!("GET / HTTP/1.1\r\nhost: a\r\n{origin}\r\n\r\n")).to_ascii_lowercase();
        let count = |text: &str| received.matches(text).count();
        let fields =
            ["vary: origin", "allow-origin: https://app.example", "allow-origin:", "allow-credentials:"];
        let expected = if own == "app" { [1, 1, 1, 1] } else { [1, 0, 0, 0] };
        assert_eq!(fields.map(count), expected, "{received}");
    }
}

/// A list of all the fields that a head may have is looked at once.
#[test]
fn a_long_list_of_fields_takes_no_longer_than_its_length() {
    let wired = wired(&cors(), hello);
    let long = format!("access-control-request-headers: {}a", ",".repeat(12_000));
    let spaces = format!("access-control-request-headers: a{}b", " ".repeat(12_000));
    let begun = ThreadTime::now();
    for _ in 0..20 {
        assert_eq!(ask(&wired, "OPTIONS /", &[APP, ASKS, &long]).0, 204);
        assert_eq!(ask(&wired, "OPTIONS /", &[APP, ASKS, &spaces]).0, 204);
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// Calls what is beneath it once more if that takes too long.
async fn tries_again(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
    match timeout(Duration::from_millis(50), next.handle(ctx)).await {
        Ok(outcome) => outcome,
        Err(_) => next.handle(ctx).await,
    }
}

/// Answers in place of what takes too long, by itself or by a stream.
async fn gives_up(ctx: &mut Context, next: Next<'_>) -> corehttp::Result {
    if timeout(Duration::from_millis(50), next.handle(ctx)).await.is_ok() {
        return Ok(());
    }
    if ctx.request.path() == "/stream" {
        let mut out = ctx.body_writer().await?;
        out.write_all(b"later").await?;
        return Ok(out.finish().await?);
    }
    ctx.response.set_text("later");
    Ok(())
}

/// A call that was dropped leaves nothing to the next one, nor to middleware around it.
#[test]
fn the_fields_are_those_of_one_call() {
    let calls = Arc::new(AtomicUsize::new(0));
    let late_once = {
        let calls = calls.clone();
        async move |ctx: &mut Context| {
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                pending::<()>().await;
            }
            ctx.response.set_text("x".repeat(2000));
        }
    };
    let any = || Cors::new().allow_any_origin();
    let outcomes = |app: BoxHandler| {
        let served = Served::new(app);
        ["/", "/stream", "/"].map(|path| {
            calls.store(0, Ordering::SeqCst);
            let received = served
                .ask(format!("GET {path} HTTP/1.1\r\nhost: a\r\n{APP}\r\naccept-encoding: gzip\r\n\r\n"));
            (received.contains("access-control-allow-origin: *"), received.contains("content-encoding: gzip"))
        })
    };
    assert_eq!(outcomes(wrap((tries_again, any()), late_once.clone()).boxed()), [(true, false); 3]);
    assert_eq!(outcomes(wrap((gives_up, any()), late_once.clone()).boxed()), [(false, false); 3]);
    #[cfg(feature = "compress")]
    {
        let compress = corehttp::middleware::Compress::new;
        let app = wrap((tries_again, compress()), late_once.clone()).boxed();
        assert_eq!(outcomes(app), [(false, true); 3]);
        let app = wrap((gives_up, compress()), late_once.clone()).boxed();
        assert_eq!(outcomes(app), [(false, false); 3]);
    }
    #[cfg(all(feature = "compress", feature = "tower"))]
    {
        let compress = corehttp::middleware::Compress::new;
        let layers = || corehttp::tower::layer(tower::layer::util::Identity::new());
        let app = wrap((compress(), tries_again, layers()), late_once).boxed();
        assert_eq!(outcomes(app), [(false, true); 3]);
    }
}
