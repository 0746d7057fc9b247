//! CORS as pages see it: the cases of the web platform tests (`cors/` and `fetch/api/cors/`) in words of their own, with a
//! model of a browser's algorithms in place of one.

use std::time::Duration;

use corehttp::middleware::{Cors, guard, wrap};
use corehttp::{BoxHandler, Context, Handler, Limits, Status};
use cpu_time::ThreadTime;

use crate::support::browser::{Blocked, Browser, PageRequest};
use crate::support::wired::Wired;

const PAGE: &str = "https://app.example";
const API: &str = "https://api.example";
const OTHER: &str = "https://other.example";

fn any() -> Cors {
    Cors::new().allow_any_origin()
}

fn allows() -> Cors {
    Cors::new().allow_origin(PAGE).unwrap()
}

fn trusts() -> Cors {
    Cors::new().trust_origin(PAGE).unwrap()
}

fn allows_null() -> Cors {
    Cors::new().allow_origin_if(|origin, _| origin == "null")
}

fn hello(ctx: &mut Context) {
    ctx.response.set_text("hello");
}

/// A server with `cors` around a handler.
fn server(cors: Cors, handler: BoxHandler) -> Wired<BoxHandler> {
    Wired::new(wrap(cors, handler).boxed())
}

/// A browser with a page, and an API that says hello to all requests.
fn browser(page: &'static str, cors: Cors) -> Browser {
    Browser::new(page).with_server(API, server(cors, BoxHandler::new(hello)))
}

fn request(method: &str) -> PageRequest {
    PageRequest::new(method, "https://api.example/")
}

/// How many preflights `request` of the page at `page` takes, and how it ends.
#[track_caller]
fn check(
    page: &'static str,
    cors: Cors,
    request: &PageRequest,
    preflights: usize,
    end: Result<u16, Blocked>,
) {
    let outcome = browser(page, cors).fetch(request);
    let found = (outcome.preflights, outcome.end.map(|received| received.status));
    assert_eq!(found, (preflights, end), "{page}: {request:?}");
}

#[test]
fn a_page_reads_what_its_origin_may_fetch_cors_check() {
    let several = || allows().allow_origin("https://*.wiki.example").unwrap().allow_origin(OTHER).unwrap();
    let local = || Cors::new().allow_origin("http://localhost:*").unwrap();
    for (page, cors, end) in [
        (PAGE, any(), Ok(200)),
        (PAGE, allows(), Ok(200)),
        (PAGE, trusts(), Ok(200)),
        (PAGE, Cors::new(), Err(Blocked::Origin)),
        ("http://app.example", allows(), Err(Blocked::Origin)),
        ("https://app.example:8443", allows(), Err(Blocked::Origin)),
        ("https://www.app.example", allows(), Err(Blocked::Origin)),
        ("https://example", allows(), Err(Blocked::Origin)),
        ("null", allows(), Err(Blocked::Origin)),
        ("null", any(), Ok(200)),
        ("null", allows_null(), Ok(200)),
        (PAGE, allows_null(), Err(Blocked::Origin)),
        (PAGE, several(), Ok(200)),
        (OTHER, several(), Ok(200)),
        ("https://a.wiki.example", several(), Ok(200)),
        ("https://wiki.example", several(), Err(Blocked::Origin)),
        ("http://localhost", local(), Ok(200)),
        ("http://localhost:5173", local(), Ok(200)),
        ("https://localhost", local(), Err(Blocked::Origin)),
        ("tauri://localhost", Cors::new().allow_origin("tauri://localhost").unwrap(), Ok(200)),
    ] {
        for method in ["GET", "HEAD", "POST"] {
            check(page, cors.clone(), &request(method), 0, end);
        }
        // The preflight of an origin without access is where it ends.
        check(page, cors, &request("PUT"), 1, end);
    }
}

#[test]
fn a_page_with_credentials_is_trusted_or_reads_nothing_fetch_cors_protocol_and_credentials() {
    let null = || Cors::new().trust_origin_if(|origin, _| origin == "null");
    for (page, cors, end) in [
        (PAGE, trusts(), Ok(200)),
        (PAGE, trusts().allow_any_origin(), Ok(200)),
        (PAGE, allows(), Err(Blocked::Credentials)),
        (PAGE, any(), Err(Blocked::Origin)),
        (PAGE, Cors::new(), Err(Blocked::Origin)),
        (OTHER, trusts(), Err(Blocked::Origin)),
        (OTHER, trusts().allow_any_origin(), Err(Blocked::Origin)),
        ("null", null(), Ok(200)),
    ] {
        check(page, cors.clone(), &request("GET").with_credentials(), 0, end);
        check(page, cors, &request("DELETE").with_credentials(), 1, end);
    }
}

#[test]
fn a_method_is_compared_in_its_case_fetch_cors_preflight_fetch() {
    let listed = || trusts().allow_only_methods(["PUT", "PATCH", "x-own"]).unwrap();
    for (cors, method, preflights, end) in [
        (trusts(), "DELETE", 1, Ok(200)),
        (trusts(), "patch", 1, Ok(200)),
        (trusts(), "patcH", 1, Ok(200)),
        (trusts(), "QUERY", 1, Ok(200)),
        (trusts(), "chicken", 1, Ok(200)),
        (trusts(), "*", 1, Ok(200)),
        (listed(), "PUT", 1, Ok(200)),
        (listed(), "put", 1, Ok(200)),
        (listed(), "PATCH", 1, Ok(200)),
        (listed(), "patch", 1, Err(Blocked::Method)),
        (listed(), "x-own", 1, Ok(200)),
        (listed(), "X-OWN", 1, Err(Blocked::Method)),
        (listed(), "DELETE", 1, Err(Blocked::Method)),
        (listed(), "*", 1, Err(Blocked::Method)),
        (listed(), "get", 0, Ok(200)),
        (listed(), "Post", 0, Ok(200)),
    ] {
        check(PAGE, cors.clone(), &request(method), preflights, end);
        check(PAGE, cors, &request(method).with_credentials(), preflights, end);
    }
    // Safelisted methods need not be listed, be it with fields that need a preflight.
    check(PAGE, listed(), &request("GET").with("x-print", "a"), 1, Ok(200));
    check(
        PAGE,
        trusts().allow_only_methods::<&str>([]).unwrap(),
        &request("HEAD").with("x-print", "a"),
        1,
        Ok(200),
    );
}

#[test]
fn a_field_is_compared_in_any_case_fetch_cors_preflight_fetch() {
    let listed = || trusts().allow_only_fields(["y-lol", "x-PriNT", "Y-PRINT"]).unwrap();
    let both = || request("GET").with("X-Print", "unicorn").with("y-print", "narwhal");
    let safe = |request: PageRequest| {
        let request =
            request.with("accept", "a").with("accept-language", "nn").with("content-language", "nn");
        request.with("content-type", "text/plain; charset=utf-8")
    };
    for (cors, request, preflights, end) in [
        (listed(), both(), 1, Ok(200)),
        (listed(), safe(both()), 1, Ok(200)),
        (listed(), both().with("z-print", "dodo"), 1, Err(Blocked::Fields)),
        (listed(), request("GET").with("content-type", "application/json"), 1, Err(Blocked::Fields)),
        (listed(), request("GET").with("*", "a"), 1, Err(Blocked::Fields)),
        (listed(), request("GET").with("authorization", "Bearer a"), 1, Err(Blocked::Fields)),
        (trusts(), request("GET").with("authorization", "Bearer a"), 1, Ok(200)),
        (trusts(), request("PUT").with("content-type", "application/json"), 1, Ok(200)),
        (trusts(), safe(request("GET")), 0, Ok(200)),
        (trusts(), safe(request("PUT")), 1, Ok(200)),
        (trusts(), request("*").with("*", "1"), 1, Ok(200)),
        (trusts(), (0..20).fold(request("PUT"), |it, at| it.with(&format!("x-{at}"), "a")), 1, Ok(200)),
    ] {
        check(PAGE, cors.clone(), &request, preflights, end);
        check(PAGE, cors, &request.with_credentials(), preflights, end);
    }
    check(PAGE, any(), &both().with("authorization", "Basic YTpi"), 1, Ok(200));
    check(PAGE, any(), &both().with_credentials(), 1, Err(Blocked::Origin));
}

/// A preflight is asked for exactly as the standard says, and answered.
#[test]
fn fields_that_need_no_preflight_fetch_cors_safelisted_request_header() {
    let (fits, long) = ("a".repeat(128), "a".repeat(129));
    for (name, value, needs) in [
        ("accept", "*/*", false),
        ("accept", "\"", true),
        ("accept", "a{b}", true),
        ("accept", &fits, false),
        ("accept", &long, true),
        ("accept-language", "de;q=0.5, *", false),
        ("accept-language", "@", true),
        ("content-language", "nn_NO", true),
        ("content-language", "nn-NO", false),
        ("Content-Type", "application/x-www-form-urlencoded", false),
        ("content-type", "multipart/form-data", false),
        ("content-type", "Text/Plain;charset=utf-8", false),
        ("content-type", "text/plain;", false),
        ("content-type", "text/plain;garbage", false),
        ("content-type", "text /plain", true),
        ("content-type", "text/plain,text/plain", true),
        ("content-type", ",text/plain", true),
        ("content-type", "text/plain; a=\"b\"", true),
        ("content-type", "text/html", true),
        ("content-type", "application/json", true),
        ("range", "bytes=0-9", false),
        ("range", "bytes=9-", false),
        ("range", "bytes=-9", true),
        ("range", "bytes=9-0", true),
        ("range", "bytes= 0-9", true),
        ("range", "bytes=0-9,20-29", true),
        ("range", "MB=0-9", true),
        ("x-print", "a", true),
        ("authorization", "basics", true),
        ("if-none-match", "a", true),
    ] {
        check(PAGE, any(), &request("POST").with(name, value), usize::from(needs), Ok(200));
        check(
            PAGE,
            trusts(),
            &request("GET").with(name, value).with_credentials(),
            usize::from(needs),
            Ok(200),
        );
    }
    // Many that are safe alone are not together.
    let many = |count| (0..count).fold(request("GET"), |it, _| it.with("accept", &fits));
    check(PAGE, any(), &many(8), 0, Ok(200));
    check(PAGE, any(), &many(9), 1, Ok(200));
}

#[test]
fn a_script_reads_the_fields_that_are_exposed_fetch_cors_filtered_response() {
    let fields = [
        ("age", "27"),
        ("bb-8", "hey"),
        ("cache-control", "no-cache"),
        ("content-language", "nn"),
        ("expires", "Thu, 01 Dec 1994 16:00:00 GMT"),
        ("last-modified", "Thu, 01 Dec 1994 10:00:00 GMT"),
        ("link", "</a>"),
        ("pragma", "no-cache"),
        ("set-cookie", "a=b"),
        ("x-nonexposed", "a"),
    ];
    let sets = move |ctx: &mut Context| {
        fields.iter().for_each(|(name, value)| ctx.response.headers.set(name, *value).unwrap());
        if let Some(own) = ctx.request.headers.get("x-expose").map(str::to_owned) {
            ctx.response.headers.set("access-control-expose-headers", own).unwrap();
        }
        ctx.response.set_text("hello");
    };
    let safe = [
        "cache-control",
        "content-language",
        "content-length",
        "content-type",
        "expires",
        "last-modified",
        "pragma",
    ];
    let rest = ["age", "bb-8", "link", "x-nonexposed"];
    let exposing = || trusts().expose_fields(["Link", "BB-8", "set-cookie"]).unwrap();
    for (cors, own, has_credentials, more) in [
        (trusts(), "", false, &[][..]),
        (exposing(), "", false, &["bb-8", "link"]),
        (exposing(), "", true, &["bb-8", "link"]),
        (exposing(), "Age, x-none,, bb-8 ,", true, &["age", "bb-8"]),
        (exposing(), "a b, link", false, &[]),
        (trusts(), "*", false, &rest),
        (trusts(), "*, set-cookie", false, &rest),
        (trusts(), "*", true, &[]),
    ] {
        let mut browser = Browser::new(PAGE).with_server(API, server(cors, BoxHandler::new(sets)));
        let mut asked = request("GET");
        if !own.is_empty() {
            asked = asked.with("x-expose", own);
        }
        if has_credentials {
            asked = asked.with_credentials();
        }
        let received = browser.fetch(&asked).end.unwrap();
        let names = received.readable(has_credentials);
        let read: Vec<_> =
            fields.iter().map(|(name, _)| *name).chain(safe).filter(|it| names.contains(it)).collect();
        for name in safe.iter().chain(more) {
            assert!(read.contains(name), "{name} of {names:?}, {own}");
        }
        for name in rest.iter().filter(|name| !more.contains(name)).chain(&["set-cookie"]) {
            assert!(!names.contains(name), "{name} of {names:?}, {own}");
        }
    }
}

#[test]
fn a_preflight_counts_for_a_while_fetch_cors_preflight_cache() {
    let kept = |seconds| trusts().max_age(Duration::from_secs(seconds));
    let [print, other] = ["x-print", "x-other"].map(|name| request("PUT").with(name, "a"));
    // Seconds that pass, what is requested then, and whether that takes a preflight.
    for (cors, steps) in [
        (trusts(), &[(0, &print, true), (4, &print, false), (1, &print, true)][..]),
        (kept(0), &[(0, &print, true), (0, &print, true)]),
        (kept(1), &[(0, &print, true), (0, &print, false), (2, &print, true), (0, &print, false)]),
        (
            kept(12_000),
            &[
                (0, &print, true),
                (11_999, &print, false),
                (0, &request("PUT"), false),
                (0, &request("GET").with("X-Print", "b"), false),
                (0, &other, true),
                (0, &print, false),
                (0, &request("DELETE").with("x-print", "a"), true),
                (0, &PageRequest::new("PUT", "https://api.example/else"), true),
                (0, &request("PUT").with_credentials(), true),
                (0, &request("PUT"), false),
            ],
        ),
    ] {
        let mut browser = browser(PAGE, cors);
        for (at, (seconds, request, needs)) in steps.iter().enumerate() {
            browser.wait(Duration::from_secs(*seconds));
            let outcome = browser.fetch(request);
            assert_eq!(outcome.end.map(|received| received.status).ok(), Some(200), "{at}: {request:?}");
            assert_eq!(outcome.preflights, usize::from(*needs), "{at}: {request:?}");
        }
    }
}

/// A handler that redirects to the URL in the query.
fn moves(status: Status) -> BoxHandler {
    BoxHandler::new(move |ctx: &mut Context| match ctx.request.query().as_str().strip_prefix("to=") {
        Some(to) => ctx.response.set_redirect(status, to).unwrap(),
        None => hello(ctx),
    })
}

#[test]
fn a_redirect_is_checked_and_may_hide_the_origin_fetch_http_redirect_fetch() {
    let allows_api = || Cors::new().allow_origin(API).unwrap();
    let (same, null, blocked) = (Some(PAGE), Some("null"), None);
    for (first, first_cors, second, second_cors, expected) in [
        // From the page's own origin, whose redirect is not checked.
        (PAGE, any(), API, any(), same),
        (PAGE, any(), API, allows(), same),
        (PAGE, any(), API, allows_null(), blocked),
        (PAGE, any(), API, Cors::new(), blocked),
        (PAGE, Cors::new(), API, allows(), same),
        // Back to the page's own origin, which is another one by then.
        (API, any(), PAGE, any(), null),
        (API, any(), PAGE, allows(), blocked),
        (API, any(), PAGE, allows_null(), null),
        (API, any(), PAGE, Cors::new(), blocked),
        (API, allows(), PAGE, any(), null),
        (API, allows(), PAGE, allows_null(), null),
        (API, allows_null(), PAGE, any(), blocked),
        (API, Cors::new(), PAGE, any(), blocked),
        // Within one origin.
        (API, any(), API, any(), same),
        (API, allows(), API, allows(), same),
        (API, allows_null(), API, allows_null(), blocked),
        (API, allows_api(), API, allows_api(), blocked),
        // To a third one.
        (API, any(), OTHER, any(), null),
        (API, any(), OTHER, allows(), blocked),
        (API, any(), OTHER, allows_null(), null),
        (API, any(), OTHER, allows_api(), blocked),
        (API, any(), OTHER, Cors::new(), blocked),
        (API, allows(), OTHER, any(), null),
        (API, allows(), OTHER, allows_null(), null),
        (API, Cors::new(), OTHER, any(), blocked),
    ] {
        for status in [301, 302, 303, 307, 308] {
            let site = |cors: &Cors| server(cors.clone(), moves(Status::new(status).unwrap()));
            let mut browser = Browser::new(PAGE).with_server(first, site(&first_cors));
            browser = browser.with_server(second, site(&second_cors));
            for (method, field) in
                [("GET", "accept"), ("POST", "accept"), ("GET", "x-print"), ("PUT", "accept")]
            {
                let url = format!("{first}/moved?to={second}/");
                let asked = PageRequest::new(method, &url).with(field, "a");
                let outcome = browser.fetch(&asked);
                let last = outcome.end.is_ok().then(|| outcome.origins.last().unwrap().as_str());
                assert_eq!(last, expected, "{status} {first} {second} {asked:?} {outcome:?}");
            }
        }
    }
}

#[test]
fn each_request_of_a_redirect_has_a_preflight_of_its_own_fetch_http_redirect_fetch() {
    let moving = |status| {
        let site = |cors: Cors| server(cors.max_age(Duration::ZERO), moves(Status::new(status).unwrap()));
        let browser =
            Browser::new(PAGE).with_server(PAGE, site(Cors::new())).with_server(API, site(trusts()));
        browser.with_server(OTHER, site(any()))
    };
    for status in [301, 302, 303, 307, 308] {
        let keeps = status != 303;
        for (method, url, field, expected) in [
            ("GET", "https://app.example/?to=https://api.example/", "x-print", 1),
            ("GET", "https://api.example/?to=/else", "x-print", 2),
            ("GET", "https://api.example/?to=https://other.example/", "x-print", 2),
            // A PUT that has become a GET needs none, and credentials of a field do not leave their origin.
            ("PUT", "https://api.example/?to=/else", "accept", 1 + usize::from(keeps)),
            ("GET", "https://api.example/?to=https://other.example/", "authorization", 1),
        ] {
            let outcome = moving(status).fetch(&PageRequest::new(method, url).with(field, "a"));
            assert!(outcome.end.is_ok(), "{status} {method} {url}: {outcome:?}");
            assert_eq!(outcome.preflights, expected, "{status} {method} {url}");
        }
        for to in ["https://user@api.example/", "https://user:password@other.example/"] {
            let url = format!("https://api.example/?to={to}");
            let outcome = moving(status).fetch(&PageRequest::new("GET", &url));
            assert_eq!(outcome.end.map(|received| received.status), Err(Blocked::Redirect), "{to}");
        }
    }
}

/// A preflight is answered whatever is beneath: a redirect or a refusal of a preflight would be an error of its own.
#[test]
fn no_preflight_is_redirected_or_refused_fetch_cors_preflight_fetch() {
    let refuses = guard(|ctx: &mut Context| match ctx.request.headers.contains("authorization") {
        true => Ok(()),
        false => Err(Status::UNAUTHORIZED.into()),
    });
    let guarded = BoxHandler::new(wrap(refuses, hello));
    let mut browser = Browser::new(PAGE)
        .with_server(API, server(trusts(), guarded))
        .with_server(OTHER, server(trusts(), moves(Status::TEMPORARY_REDIRECT)));
    let asked = request("PUT").with("authorization", "Bearer a");
    assert_eq!(browser.fetch(&asked).end.unwrap().status, 200);
    assert_eq!(browser.fetch(&request("PUT")).end.unwrap().status, 401, "and its status can be read");
    let url = "https://other.example/?to=https://other.example/";
    let outcome = browser.fetch(&PageRequest::new("PUT", url));
    assert_eq!((outcome.end.unwrap().status, outcome.preflights), (200, 2));
}

#[test]
fn a_script_reads_each_status_after_a_preflight_fetch_cors_check() {
    let answers = |ctx: &mut Context| {
        let status = ctx.request.query().as_str().parse().ok().and_then(Status::new);
        ctx.response.status = status.unwrap_or(Status::OK);
    };
    let mut browser = Browser::new(PAGE)
        .with_server(API, server(trusts().max_age(Duration::ZERO), BoxHandler::new(answers)));
    for method in ["GET", "HEAD", "POST", "PUT", "CHICKEN"] {
        for status in [200, 204, 304, 400, 401, 404, 501, 599] {
            let url = format!("https://api.example/?{status}");
            let outcome =
                browser.fetch(&PageRequest::new(method, &url).with("x-nonsimple", "a").with_credentials());
            assert_eq!(outcome.end.map(|received| received.status), Ok(status), "{method}");
            assert_eq!(outcome.preflights, 1, "{method}");
        }
    }
}

#[test]
fn a_private_network_needs_its_own_permission_private_network_access() {
    for (cors, end) in [
        (trusts(), Err(Blocked::PrivateNetwork)),
        (any(), Err(Blocked::PrivateNetwork)),
        (trusts().allow_private_network(), Ok(200)),
        (any().allow_private_network(), Ok(200)),
        (Cors::new().allow_private_network(), Err(Blocked::Origin)),
    ] {
        // Also for requests that need no preflight otherwise.
        for method in ["GET", "POST", "PUT"] {
            check(PAGE, cors.clone(), &request(method).into_private_network(), 1, end);
        }
    }
    check(PAGE, trusts(), &request("PUT"), 1, Ok(200));
}

/// Ten thousand fields are answered, or refused by the bound on heads, at once.
#[test]
fn many_fields_take_no_time_fetch_cors_preflight_fetch() {
    let many = |count| (0..count).fold(request("PUT"), |it, at| it.with(&format!("x-{at}"), "a"));
    let begun = ThreadTime::now();
    // A browser asks by one line, and then sends as many lines. Heads beyond a bound are refused before any middleware.
    check(PAGE, trusts(), &many(100), 1, Ok(200));
    check(PAGE, trusts(), &many(200), 1, Err(Blocked::Origin));
    check(PAGE, trusts(), &many(10_000), 1, Err(Blocked::Origin));
    for (count, end) in [(1_000, Ok(200)), (10_000, Err(Blocked::Origin))] {
        let limits = Limits { head_max: 1 << 20, fields_max: 1_024, ..Limits::default() };
        let service = wrap(trusts(), BoxHandler::new(hello)).boxed();
        let server = Wired::with(|server| server.limits(limits), service);
        let outcome = Browser::new(PAGE).with_server(API, server).fetch(&many(count));
        let found = outcome.end.map(|received| received.status);
        assert_eq!((outcome.preflights, outcome.origins.len(), found), (1, 1, end), "{count}");
    }
    let listed = trusts().allow_only_fields(["x-print"]).unwrap();
    check(PAGE, listed, &many(1_000), 1, Err(Blocked::Fields));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
